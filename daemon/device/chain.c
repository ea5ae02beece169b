/*
 * A chain of stages as the daemon knows it: what was asked, and what a worker made of it. Each worker that is to run it
 * prepares it for itself, from the same request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/device/private.h"

enum { MOST_PLACES = 65 };

struct chain_place {
  struct process *process;
  uint64_t id;
  unsigned counts;
  bool is_warm;
};

struct device_chain {
  struct pack request;                        /* but for the files */
  struct kept_file offers[WORKER_MOST_FILES]; /* before there is a record: of its models, and those that are remembered */
  unsigned offer_count;
  unsigned length;
  const char *names[GPU_MAX_STAGES];
  struct chain_record record;
  struct kept_file files[WORKER_MOST_FILES];
  unsigned file_count;
  bool has_record;
  pthread_mutex_t lock;
  struct chain_place places[MOST_PLACES]; /* the workers that have prepared it */
  unsigned place_count;
  uint64_t served[WORKER_INSTANCES], batches[WORKER_BATCHES]; /* by workers that are lost */
};

/* -- asking --------------------------------------------------------------------------------------------------------- */

static void pack_request(struct device_chain *chain, enum gpu_backend_choice choice, const struct frame_format *input,
                         const struct gpu_stage_request *requests) {
  pack_number(&chain->request, (int64_t)choice);
  pack_bytes(&chain->request, input, sizeof *input);
  pack_number(&chain->request, chain->length);
  for (unsigned i = 0; i < chain->length; i++) {
    const struct gpu_stage_request *request = &requests[i];
    chain->names[i] = request->stage->name;
    pack_text(&chain->request, request->stage->name);
    pack_number(&chain->request, request->users);
    pack_stage(&chain->request, request->values, request->stage->parameter_count);
    pack_number(&chain->request, request->resource != NULL);
    if (request->resource) {
      chain->offer_count = device_model_files(request->resource, chain->offers, chain->offer_count, WORKER_MOST_FILES);
      pack_model(&chain->request, device_model_settings(request->resource));
    }
  }
}

/* The first answer is what the daemon goes by. */
static bool read_record(struct device_chain *chain, struct worker_message *answer, struct chain_place *place,
                        struct gpu_error *error) {
  struct chain_record record;
  place->id = (uint64_t)unpack_number(&answer->unpack);
  bool sound = unpack_chain_record(&answer->unpack, &record);
  place->counts = sound && record.has_model ? record.model.counts : WORKER_MODELS;
  if (!sound || chain->has_record) {
    chain_record_free(&record);
    return sound || device_no_memory(error);
  }
  chain->record = record;
  chain->record.output.parts = record.output.parts ? &chain->record.parts : NULL;
  chain->has_record = true;
  return files_take(answer, chain->files, &chain->file_count) || device_no_memory(error);
}

static bool prepare_on(struct device_chain *chain, struct process *process, struct chain_place *place,
                       struct gpu_error *error) {
  *place = (struct chain_place){.id = 0};
  struct worker_message answer;
  struct pack request = {.bytes = NULL, .failed = chain->request.failed};
  const struct kept_file *files = chain->has_record ? chain->files : chain->offers;
  const unsigned count = chain->has_record ? chain->file_count : chain->offer_count;
  int descriptors[WORKER_MOST_FILES];
  files_pack(&request, files, count, descriptors);
  pack_bytes(&request, chain->request.bytes, chain->request.length);
  bool prepared = process_call(process, WORKER_CHAIN, &request, descriptors, count, &answer, error) &&
                  read_record(chain, &answer, place, error);
  worker_message_free(&answer);
  free(request.bytes);
  place->process = prepared ? process_hold(process) : NULL;
  place->id = prepared ? place->id : 0;
  return prepared;
}

static void add(uint64_t *sums, const _Atomic uint64_t *counts, unsigned count) {
  for (unsigned k = 0; k < count; k++) {
    sums[k] += atomic_load_explicit(&counts[k], memory_order_relaxed);
  }
}

/* What a worker that is lost has counted stays counted. */
static void forget_lost(struct device_chain *chain) {
  unsigned left = 0;
  for (unsigned i = 0; i < chain->place_count; i++) {
    const struct chain_place *place = &chain->places[i];
    if (!process_is_lost(place->process, NULL)) {
      chain->places[left++] = *place;
      continue;
    }
    if (place->counts < WORKER_MODELS) {
      const struct model_counts *counts = &process_counts(place->process)->models[place->counts];
      add(chain->served, counts->served, WORKER_INSTANCES);
      add(chain->batches, counts->batches, WORKER_BATCHES);
    }
    process_release(place->process);
  }
  chain->place_count = left;
}

static struct chain_place find_place(struct device_chain *chain, const struct process *process) {
  struct chain_place found = {.id = 0};
  pthread_mutex_lock(&chain->lock);
  forget_lost(chain);
  for (unsigned i = 0; i < chain->place_count; i++) {
    found = chain->places[i].process == process ? chain->places[i] : found;
  }
  pthread_mutex_unlock(&chain->lock);
  return found;
}

/* Workers are asked without the lock, which the control loop takes for counts. Of one device, one thread asks at a time. */
uint64_t chain_on(struct device_chain *chain, struct process *process, struct gpu_error *error) {
  struct chain_place place = find_place(chain, process);
  if (place.id != 0 || !prepare_on(chain, process, &place, error)) {
    return place.id;
  }
  pthread_mutex_lock(&chain->lock);
  const bool fits = chain->place_count < MOST_PLACES;
  if (fits) {
    chain->places[chain->place_count++] = place;
  }
  pthread_mutex_unlock(&chain->lock);
  if (!fits) {
    process_let_go(process, place.id);
    process_release(process);
  }
  return fits ? place.id : 0;
}

static void set_warm(struct device_chain *chain, const struct process *process) {
  pthread_mutex_lock(&chain->lock);
  for (unsigned i = 0; i < chain->place_count; i++) {
    chain->places[i].is_warm = chain->places[i].is_warm || chain->places[i].process == process;
  }
  pthread_mutex_unlock(&chain->lock);
}

bool chain_warm_on(struct device_chain *chain, struct process *process, struct gpu_error *error) {
  if (chain_on(chain, process, error) == 0) {
    return false;
  }
  const struct chain_place place = find_place(chain, process);
  bool is_warm = place.is_warm;
  if (!is_warm) {
    struct pack request = {.bytes = NULL};
    pack_number(&request, (int64_t)place.id);
    is_warm = process_tell(process, WORKER_WARM, &request, error);
    free(request.bytes);
  }
  if (is_warm && !place.is_warm) {
    set_warm(chain, process);
  }
  return is_warm;
}

struct device_chain *device_chain_new(struct device *device, enum gpu_backend_choice choice, const struct frame_format *input,
                                      const struct gpu_stage_request *requests, unsigned count, struct gpu_error *error) {
  struct device_chain *chain = calloc(1, sizeof *chain);
  if (!chain) {
    device_no_memory(error);
    return NULL;
  }
  pthread_mutex_init(&chain->lock, NULL);
  chain->length = count;
  pack_request(chain, choice, input, requests);
  chain->offer_count = kept_remembered(chain->offers, chain->offer_count, WORKER_MOST_FILES);
  struct process *process = device ? process_hold(device->process) : judge_hold(error);
  bool made = process && chain_on(chain, process, error) != 0;
  process_release(process);
  return made ? chain : device_chain_free(chain);
}

struct device_chain *device_chain_free(struct device_chain *chain) {
  if (!chain) {
    return NULL;
  }
  for (unsigned i = 0; i < chain->place_count; i++) {
    process_let_go(chain->places[i].process, chain->places[i].id);
    process_release(chain->places[i].process);
  }
  for (unsigned i = 0; i < chain->file_count; i++) {
    kept_close(&chain->files[i]);
  }
  if (chain->has_record) {
    chain_record_free(&chain->record);
  }
  pthread_mutex_destroy(&chain->lock);
  free(chain->request.bytes);
  free(chain);
  return NULL;
}

/* -- questions ------------------------------------------------------------------------------------------------------ */

const struct chain_record *device_chain_record(const struct device_chain *chain) { return &chain->record; }

const char *device_chain_stage(const struct device_chain *chain, unsigned index) {
  return index < chain->length ? chain->names[index] : NULL;
}

void device_chain_count_users(struct device_chain *chain, unsigned users) {
  pthread_mutex_lock(&chain->lock);
  for (unsigned i = 0; i < chain->place_count; i++) {
    struct pack request = {.bytes = NULL};
    struct gpu_error error;
    pack_number(&request, (int64_t)chain->places[i].id);
    pack_number(&request, users);
    (void)process_tell(chain->places[i].process, WORKER_USERS, &request, &error); /* a lost one has no users */
    free(request.bytes);
  }
  pthread_mutex_unlock(&chain->lock);
}

unsigned device_chain_files(const struct device_chain *chain, struct kept_file *list, unsigned count, unsigned most) {
  for (unsigned i = 0; i < chain->file_count; i++) {
    count = kept_list(&chain->files[i], list, count, most);
  }
  return count;
}

size_t device_chain_bytes(const struct device_chain *chain, unsigned slots) {
  return (size_t)(slots * chain->record.slot_bytes + chain->record.state_bytes);
}

unsigned device_chain_users(const struct device_chain *chain) {
  struct device_chain *own = (struct device_chain *)(uintptr_t)chain;
  uint64_t users = 0;
  pthread_mutex_lock(&own->lock);
  for (unsigned i = 0; i < chain->place_count; i++) {
    const struct chain_place *place = &chain->places[i];
    users += place->counts < WORKER_MODELS
                 ? atomic_load_explicit(&process_counts(place->process)->models[place->counts].users, memory_order_relaxed)
                 : 0;
  }
  pthread_mutex_unlock(&own->lock);
  return (unsigned)users;
}

void device_chain_counts(const struct device_chain *chain, uint64_t served[WORKER_INSTANCES],
                         uint64_t batches[WORKER_BATCHES]) {
  struct device_chain *own = (struct device_chain *)(uintptr_t)chain;
  pthread_mutex_lock(&own->lock);
  memcpy(served, chain->served, sizeof chain->served);
  memcpy(batches, chain->batches, sizeof chain->batches);
  for (unsigned i = 0; i < chain->place_count; i++) {
    const struct chain_place *place = &chain->places[i];
    if (place->counts < WORKER_MODELS) {
      const struct model_counts *counts = &process_counts(place->process)->models[place->counts];
      add(served, counts->served, WORKER_INSTANCES);
      add(batches, counts->batches, WORKER_BATCHES);
    }
  }
  pthread_mutex_unlock(&own->lock);
}
