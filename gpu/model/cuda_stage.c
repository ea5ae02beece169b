/*
 * The stage `model` on a GPU: which instances there are, and which one a frame takes.
 *
 * Where a model may have as many instances as slots use it, each slot gets one of its own, which is part of the slot's graph.
 * Otherwise there are as many as it may have, and a frame takes one that is free or whose turn it is. Nothing on the host
 * waits: a frame that finds all of them busy waits on the device.
 */
#include "gpu/cuda/cuda.h"
#include "gpu/model/batches.h"
#include "gpu/model/cuda_trial.h"
#include "gpu/model/stage.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { MOST_SHARED = 64 };

/* The shared instances of one model on one device. */
struct cuda_instances {
  struct cuda_instances *next;
  struct gpu_device *device;
  struct model *model;
  unsigned holders; /* programs */
  unsigned bound;   /* instances that belong to slots */
  unsigned count;
  struct cuda_instance *instances[MOST_SHARED];
  bool decided;
  struct model_choice choice; /* how they are opened */
  _Atomic unsigned turn;
};

/* What a program has of them. */
struct attached {
  struct gpu_device *device;
  struct model *model;
  struct batch_member *member;   /* of a model that computes batches: it has no others */
  struct cuda_instances *shared; /* else NULL */
  unsigned bound;
  struct cuda_instance *instances[GPU_MAX_SLOTS]; /* of its slots, if they are bound */
  struct cuda_instance *spare;                    /* without slots: in place of them */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and while instances are made */
static struct cuda_instances *all;

/* -- sets of instances -------------------------------------------------------------------------------------------------- */

static struct cuda_instances *hold(struct gpu_device *device, struct model *model, struct gpu_error *error) {
  struct cuda_instances *set = all;
  while (set && (set->device != device || set->model != model)) {
    set = set->next;
  }
  if (!set && (set = calloc(1, sizeof *set))) {
    *set = (struct cuda_instances){.next = all, .device = device, .model = model_hold(model)};
    all = set;
  }
  if (!set) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the instances of a model");
    return NULL;
  }
  set->holders++;
  return set;
}

static void let_go(struct cuda_instances *set) {
  if (--set->holders > 0) {
    return;
  }
  for (struct cuda_instances **link = &all; *link; link = &(*link)->next) {
    if (*link == set) {
      *link = set->next;
      break;
    }
  }
  for (unsigned i = 0; i < set->count; i++) {
    cuda_instance_close(set->instances[i]);
  }
  model_release(set->model);
  free(set);
}

/* -- attaching ---------------------------------------------------------------------------------------------------------- */

static struct cuda_opening opening_of(const struct cuda_instances *set, const struct model_bytes *bytes,
                                      const struct onnx_file *file) {
  return (struct cuda_opening){.device = set->device,
                               .model = set->model,
                               .bytes = bytes,
                               .file = file,
                               .choice = &set->choice,
                               .chosen = MODEL_ALL,
                               .rows = 1};
}

static bool bind_slots(struct attached *attached, const struct stage_plan *plan, const struct stage_buffers *slots,
                       unsigned count, const struct model_bytes *bytes, const struct onnx_file *file, struct gpu_error *error) {
  struct cuda_opening openings[GPU_MAX_SLOTS];
  for (unsigned i = 0; i < count; i++) {
    openings[i] = opening_of(attached->shared, bytes, file);
    openings[i].slot = &slots[i];
    openings[i].chosen = model_stage_chosen(plan);
  }
  if (!cuda_instance_open(openings, count, error)) {
    return false;
  }
  for (; attached->bound < count; attached->bound++) {
    attached->instances[attached->bound] = openings[attached->bound].instance;
    attached->instances[attached->bound]->number = ++attached->shared->bound;
  }
  return true;
}

static bool open_shared(struct cuda_instances *set, const struct model_bytes *bytes, const struct onnx_file *file,
                        struct gpu_error *error) {
  struct cuda_opening openings[MOST_SHARED];
  unsigned allowed = set->model->instances > set->bound ? set->model->instances - set->bound : 1;
  allowed = allowed < MOST_SHARED ? allowed : MOST_SHARED;
  for (unsigned i = 0; i < allowed; i++) {
    openings[i] = opening_of(set, bytes, file);
  }
  if (!cuda_instance_open(openings, allowed, error)) {
    return false;
  }
  for (; set->count < allowed; set->count++) {
    set->instances[set->count] = openings[set->count].instance;
    set->instances[set->count]->number = set->bound + set->count + 1;
  }
  return true;
}

/* Without slots, for a program that comes later: the first session loads the libraries and finds what is fastest, and those of
 * the slots are opened quickly then. */
static bool open_spare(struct attached *attached, const struct model_bytes *bytes, const struct onnx_file *file,
                       struct gpu_error *error) {
  struct cuda_opening opening = opening_of(attached->shared, bytes, file);
  bool opened = cuda_instance_open(&opening, 1, error);
  attached->spare = opening.instance;
  return opened;
}

static bool fill(struct attached *attached, const struct stage_plan *plan, const struct stage_buffers *slots, unsigned count,
                 bool *beside, struct gpu_error *error) {
  struct cuda_instances *set = attached->shared;
  struct model *model = attached->model;
  struct model_bytes bytes;
  struct onnx_file file;
  unsigned users = atomic_load(&attached->model->users);
  unsigned slots_in_all = users > 0 ? users : set->bound + count; /* those of programs that leave do not count */
  bool binds = set->count == 0 && slots_in_all <= model->instances;
  if (!binds && set->count > 0) {
    *beside = true;
    return true; /* they are there already */
  }
  if (!cuda_instance_read_file(model, &bytes, &file, error)) {
    return false;
  }
  if (!set->decided) {
    set->choice = cuda_trial_choose(set->device, model, &bytes, &file);
    set->decided = true;
  }
  bool good = !binds       ? open_shared(set, &bytes, &file, error)
              : count == 0 ? open_spare(attached, &bytes, &file, error)
                           : bind_slots(attached, plan, slots, count, &bytes, &file, error);
  model_bytes_free(&bytes);
  *beside = !binds;
  for (unsigned i = 0; i < attached->bound; i++) {
    *beside = *beside || !cuda_instance_is_child(attached->instances[i]);
  }
  return good;
}

static bool join(struct attached *attached, const struct stage_plan *plan, bool *beside, struct gpu_error *error) {
  *beside = true;
  attached->member = batches_join(&batch_cuda, attached->device, plan, error);
  return attached->member != NULL;
}

/* -- attaching and detaching ------------------------------------------------------------------------------------------------
 */

static void free_attached(struct attached *attached) {
  for (unsigned i = 0; i < attached->bound; i++) {
    cuda_instance_close(attached->instances[i]);
  }
  cuda_instance_close(attached->spare);
  if (attached->shared) {
    attached->shared->bound -= attached->bound;
    let_go(attached->shared);
  }
  if (attached->member) {
    batches_leave(attached->member);
  }
  free(attached);
}

void *model_attach(struct gpu_device *device, const struct stage_plan *plan, const struct stage_buffers *slots, unsigned count,
                   bool *beside, struct gpu_error *error) {
  struct attached *attached = calloc(1, sizeof *attached);
  if (!attached) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the instances of a model");
    return NULL;
  }
  attached->device = device;
  attached->model = plan->object;
  pthread_mutex_lock(&lock);
  bool good = cuda_enter(device, error) &&
              (attached->model->batch.most > 0 ? join(attached, plan, beside, error)
                                               : (attached->shared = hold(device, attached->model, error)) &&
                                                     fill(attached, plan, slots, count, beside, error));
  if (!good) {
    free_attached(attached);
  }
  pthread_mutex_unlock(&lock);
  return good ? attached : NULL;
}

void model_detach(void *attached) {
  pthread_mutex_lock(&lock);
  free_attached(attached);
  pthread_mutex_unlock(&lock);
}

/* -- frames ------------------------------------------------------------------------------------------------------------- */

/* There is always at least one instance. */
static struct cuda_instance *choose(struct cuda_instances *set) {
  const unsigned count = set->count > 0 ? set->count : 1;
  unsigned turn = atomic_fetch_add_explicit(&set->turn, 1, memory_order_relaxed) % count;
  for (unsigned i = 0; i < count; i++) {
    struct cuda_instance *instance = set->instances[(turn + i) % count];
    if (cuda_instance_is_free(instance)) {
      return instance;
    }
  }
  return set->instances[turn];
}

/* Of a model that computes batches frames are handed over. */
int model_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  struct attached *attached = call->attached;
  return (int)(attached->bound > 0
                   ? cuda_instance_run_bound(attached->instances[call->slot], call->run, stream)
                   : cuda_instance_run_shared(choose(attached->shared), call, model_stage_chosen(plan), stream));
}

void model_hand(struct stage_call *call) { batches_hand(((struct attached *)call->attached)->member, call); }
