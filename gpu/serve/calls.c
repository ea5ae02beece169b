#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/model/private.h"
#include "gpu/nvml.h"
#include "gpu/serve/serve.h"

struct served_chain {
  struct gpu_chain *chain;
  struct model *models[GPU_MAX_STAGES]; /* whose counts it holds */
  void *warm[GPU_MAX_STAGES];           /* what stages opened before there is a program */
};

static struct gpu_device *device; /* NULL until it is opened */
static enum gpu_backend_choice choice;
static unsigned place; /* the number of the device */

static bool refuse(struct gpu_error *error, const char *what) {
  return gpu_error_set(error, EBADMSG, "restart the daemon", "the worker got a request that it does not understand (%s)", what);
}

static bool no_memory(struct gpu_error *error) { return gpu_error_set(error, ENOMEM, NULL, "the worker has no memory left"); }

/* Takes a descriptor out of the message, or gives -1. */
static int take(struct worker_message *request, unsigned index) {
  int descriptor = index < request->count ? request->descriptors[index] : -1;
  if (descriptor >= 0) {
    request->descriptors[index] = -1;
  }
  return descriptor;
}

/* -- the device ----------------------------------------------------------------------------------------------------- */

/* What a thread gets besides, it was asked for when the daemon was started: a refusal is no matter of one frame. */
static void on_thread(void *context, pthread_t thread) {
  const struct worker_realtime *realtime = context;
  const struct sched_param parameter = {.sched_priority = realtime->priority};
  (void)pthread_setschedparam(thread, realtime->policy, &parameter);
}

static bool open_device(struct worker_message *request, struct pack *answer, struct gpu_error *error) {
  static struct worker_realtime realtime;
  struct worker_open open;
  struct worker_device is = {.node = 0};
  unpack_bytes(&request->unpack, &open, sizeof open);
  const bool is_open = device && open.choice == choice && open.index == place; /* for the image of the daemon before */
  if (request->unpack.failed || (device && !is_open) || open.choice > GPU_BACKEND_CPU) {
    return refuse(error, "open");
  }
  gpu_hurry(open.hurries != 0);
  if (!is_open) {
    realtime = open.realtime;
    if (realtime.policy != 0) {
      gpu_on_thread(on_thread, &realtime);
    }
    choice = (enum gpu_backend_choice)open.choice;
    place = open.index;
    gpu_expect(open.slots);
    device = gpu_open_calibrated(choice, place, open.workers, open.is_known ? &open.known : NULL, error);
    if (!device || !counts_open(device, take(request, 0), error)) {
      return false;
    }
  }
  memcpy(is.name, gpu_device_name(device), strlen(gpu_device_name(device)) + 1);
  memcpy(is.backend, gpu_backend_name(device), strlen(gpu_backend_name(device)) + 1);
  memcpy(is.address, gpu_device_address(device), strlen(gpu_device_address(device)) + 1);
  is.node = gpu_node(device);
  is.kernels_at_once = gpu_kernels_at_once(device);
  gpu_calibration(device, &is.calibration);
  gpu_find_lacks(choice, &is.lacks);
  pack_bytes(answer, &is, sizeof is);
  return true;
}

static bool look(struct worker_message *request, struct pack *answer, struct gpu_error *error) {
  struct worker_look look;
  struct worker_seen seen = {.count = 0};
  unpack_bytes(&request->unpack, &look, sizeof look);
  if (request->unpack.failed || look.choice > GPU_BACKEND_CPU) {
    return refuse(error, "look");
  }
  look.address[sizeof look.address - 1] = '\0';
  if (*look.address) {
    nvml_add_trouble(look.address, seen.trouble, sizeof seen.trouble);
    pack_bytes(answer, &seen, sizeof seen);
    return true;
  }
  seen.count = gpu_count((enum gpu_backend_choice)look.choice, look.cpus);
  seen.is_usable = gpu_usable((enum gpu_backend_choice)look.choice, look.index, &seen.error);
  gpu_find_lacks((enum gpu_backend_choice)look.choice, &seen.lacks);
  pack_bytes(answer, &seen, sizeof seen);
  return true;
}

static bool add(enum object_kind kind, void *object, struct pack *answer, struct gpu_error *error) {
  uint64_t id = objects_add(kind, object);
  pack_number(answer, (int64_t)id);
  return id != 0 || no_memory(error);
}

static bool take_arena(struct worker_message *request, struct pack *answer, struct gpu_error *error) {
  const size_t bytes = (size_t)unpack_within(&request->unpack, 1, INT64_MAX);
  if (request->unpack.failed || !device) {
    return refuse(error, "arena");
  }
  struct arena *arena = arenas_take(device, take(request, 0), bytes, error);
  return arena && add(OBJECT_ARENA, arena, answer, error);
}

/* -- models --------------------------------------------------------------------------------------------------------- */

static void describe_model(const struct model *model, struct model_record *record) {
  *record = (struct model_record){.input = *model_input(model), .output_count = model_output_count(model)};
  model_summary(model, &record->summary);
  record->counts = WORKER_MODELS;
  for (unsigned i = 0; i < record->output_count; i++) {
    record->outputs[i] = *model_output(model, i);
  }
}

/* The names of files, whose descriptors go with the answer. */
static void pack_files(const struct kept_file *files, unsigned count, struct serve_answer *answer) {
  pack_number(&answer->pack, count);
  for (unsigned i = 0; i < count; i++) {
    pack_text(&answer->pack, files[i].path);
    answer->descriptors[answer->count++] = files[i].descriptor;
  }
}

/* The files that the request brings are opened in place of those of their names. Paths stay the message's. */
static unsigned read_offers(struct worker_message *request, struct kept_file *files) {
  unsigned count = (unsigned)unpack_within(&request->unpack, 0, request->count);
  for (unsigned i = 0; i < count; i++) {
    files[i] =
        (struct kept_file){.path = (char *)(uintptr_t)unpack_text(&request->unpack), .descriptor = request->descriptors[i]};
    request->unpack.failed |= files[i].path == NULL;
  }
  return request->unpack.failed ? 0 : count;
}

static bool open_model(struct worker_message *request, struct serve_answer *answer, struct gpu_error *error) {
  struct kept_file files[WORKER_MOST_FILES], offers[WORKER_MOST_FILES];
  const unsigned offer_count = read_offers(request, offers);
  struct model_request asked;
  struct model_record record;
  if (!unpack_model(&request->unpack, &asked)) {
    return refuse(error, "model");
  }
  kept_offer(offers, offer_count);
  struct model *model = model_open(&asked.settings, error);
  kept_offer(NULL, 0);
  if (!model || !add(OBJECT_MODEL, model, &answer->pack, error)) {
    model_release(model);
    return false;
  }
  describe_model(model, &record);
  pack_model_record(&answer->pack, &record);
  pack_files(files, model_files(model, files, 0, WORKER_MOST_FILES), answer);
  return true;
}

/* -- chains --------------------------------------------------------------------------------------------------------- */

/* Says what it is once its models are open: as those of the pipelines that share them. */
static bool read_stage(struct unpack *unpack, struct gpu_stage_request *stage, struct model **opened, struct gpu_error *error) {
  const char *name = unpack_text(unpack);
  const struct stage_about *found = name ? stage_about_find(name) : NULL;
  *stage = (struct gpu_stage_request){.stage = found, .users = (unsigned)unpack_within(unpack, 0, UINT32_MAX)};
  if (!found || !unpack_stage(unpack, stage->values, found->parameter_count)) {
    return refuse(error, "stage");
  }
  if (unpack_within(unpack, 0, 1) != 0) {
    struct model_request model;
    if (!unpack_model(unpack, &model)) {
      return refuse(error, "model of a stage");
    }
    stage->resource = *opened = model_open(&model.settings, error);
    return *opened != NULL;
  }
  return true;
}

static void judge(const struct gpu_chain *chain, enum gpu_backend_choice backend, struct chain_record *record) {
  record->runs.holds = gpu_chain_runs(chain, backend, &record->runs.error);
  record->resides.holds = gpu_chain_resides(chain, &record->resides.error);
  record->spreads.holds = gpu_chain_spreads(chain, &record->spreads.error);
  record->is_foreign = gpu_chain_is_foreign(chain);
}

static void describe_chain(struct served_chain *served, enum gpu_backend_choice backend, struct pack *answer) {
  const struct gpu_chain *chain = served->chain;
  const struct stage_plan *plan;
  struct chain_record record = {.input = *gpu_chain_input(chain), .output = *gpu_chain_output(chain)};
  struct chain_layout layout;
  chain_layout(chain, true, 1, &layout);
  record.slot_bytes = layout.slot_bytes;
  record.state_bytes = layout.state_bytes;
  record.parts = record.output.parts ? *record.output.parts : record.parts;
  judge(chain, backend, &record);
  for (unsigned i = 0; (plan = gpu_chain_stage(chain, i)); i++) {
    if (plan->stage->about->runs_model) {
      served->models[i] = plan->object;
      describe_model(plan->object, &record.model);
      record.model.counts = counts_hold(plan->object);
      record.has_model = true;
    }
  }
  record.labels = (char **)(uintptr_t)gpu_chain_labels(chain, &record.label_count);
  record.label_count = record.labels ? record.label_count : 0;
  pack_chain_record(answer, &record);
}

/* A program holds what it needs itself. */
static void cool_chain(struct served_chain *served) {
  for (unsigned i = 0; i < GPU_MAX_STAGES; i++) {
    if (served->warm[i]) {
      gpu_chain_stage(served->chain, i)->stage->detach(served->warm[i]);
      served->warm[i] = NULL;
    }
  }
}

/* The first session on a device loads the libraries for it, which takes most of a second. */
static bool warm_chain(struct worker_message *request, struct gpu_error *error) {
  struct served_chain *served = objects_find(OBJECT_CHAIN, (uint64_t)unpack_number(&request->unpack));
  const struct stage_plan *plan;
  bool beside, warm = true;
  if (!served || request->unpack.failed || !device) {
    return refuse(error, "warm");
  }
  const bool attaches = strcmp(gpu_backend_name(device), "cuda") == 0;
  for (unsigned i = 0; attaches && warm && (plan = gpu_chain_stage(served->chain, i)); i++) {
    if (plan->stage->about->runs_model && !served->warm[i]) {
      served->warm[i] = plan->stage->attach(device, plan, NULL, 0, &beside, error);
      warm = served->warm[i] != NULL;
    }
  }
  return warm;
}

static struct served_chain *drop_chain(struct served_chain *served) {
  cool_chain(served);
  for (unsigned i = 0; i < GPU_MAX_STAGES; i++) {
    if (served->models[i]) {
      counts_let_go(served->models[i]);
    }
  }
  gpu_chain_free(served->chain);
  free(served);
  return NULL;
}

static struct gpu_chain *read_chain(struct unpack *unpack, struct gpu_error *error) {
  struct gpu_stage_request stages[GPU_MAX_STAGES] = {{.stage = NULL}};
  struct model *models[GPU_MAX_STAGES] = {NULL};
  struct frame_format input;
  struct gpu_chain *chain = NULL;
  unpack_bytes(unpack, &input, sizeof input);
  unsigned count = (unsigned)unpack_within(unpack, 0, GPU_MAX_STAGES);
  input.parts = NULL;
  bool good = !unpack->failed || refuse(error, "chain");
  for (unsigned i = 0; i < count && good; i++) {
    good = read_stage(unpack, &stages[i], &models[i], error);
    error->stage = good ? error->stage : (int)i;
  }
  if (good) {
    chain = gpu_chain_new(&input, stages, count, error);
  }
  for (unsigned i = 0; i < count; i++) { /* the chain holds its models itself */
    stage_values_free(stages[i].values, STAGE_MAX_PARAMETERS);
    model_release(models[i]);
  }
  return chain;
}

static bool make_chain(struct worker_message *request, struct serve_answer *answer, struct gpu_error *error) {
  struct kept_file files[WORKER_MOST_FILES], offers[WORKER_MOST_FILES];
  const unsigned offer_count = read_offers(request, offers);
  enum gpu_backend_choice backend = (enum gpu_backend_choice)unpack_within(&request->unpack, 0, GPU_BACKEND_CPU);
  kept_offer(offers, offer_count);
  struct gpu_chain *chain = read_chain(&request->unpack, error);
  kept_offer(NULL, 0);
  struct served_chain *served = chain ? calloc(1, sizeof *served) : NULL;
  if (!served) {
    gpu_chain_free(chain);
    return chain ? no_memory(error) : false;
  }
  served->chain = chain;
  if (!add(OBJECT_CHAIN, served, &answer->pack, error)) {
    drop_chain(served);
    return false;
  }
  describe_chain(served, backend, &answer->pack);
  unsigned count = gpu_chain_files(chain, files, 0, WORKER_MOST_FILES);
  for (unsigned i = 0; i < GPU_MAX_STAGES; i++) {
    count = served->models[i] ? model_files(served->models[i], files, count, WORKER_MOST_FILES) : count;
  }
  pack_files(files, count, answer);
  return true;
}

static bool count_users(struct worker_message *request, struct gpu_error *error) {
  struct served_chain *served = objects_find(OBJECT_CHAIN, (uint64_t)unpack_number(&request->unpack));
  unsigned users = (unsigned)unpack_within(&request->unpack, 0, UINT32_MAX);
  if (!served || request->unpack.failed) {
    return refuse(error, "users");
  }
  gpu_chain_count_users(served->chain, users);
  return true;
}

/* -- programs ------------------------------------------------------------------------------------------------------- */

static bool find_buffers(const struct worker_program *setup, const struct gpu_chain *chain,
                         struct gpu_buffers buffers[GPU_MAX_SLOTS]) {
  bool found = true;
  for (unsigned i = 0; i < setup->count; i++) {
    const struct worker_buffers *own = &setup->buffers[i];
    buffers[i] = (struct gpu_buffers){.input = arenas_place(own->input_arena, own->input, chain->input_bytes),
                                      .output = arenas_place(own->output_arena, own->output, chain->output_bytes)};
    found = found && buffers[i].input && buffers[i].output;
  }
  return found;
}

static bool make_program(struct worker_message *request, struct pack *answer, struct gpu_error *error) {
  struct worker_program setup;
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  unpack_bytes(&request->unpack, &setup, sizeof setup);
  setup.owner[sizeof setup.owner - 1] = '\0';
  struct served_chain *served = objects_find(OBJECT_CHAIN, setup.chain);
  if (request->unpack.failed || !device || !served || setup.count > GPU_MAX_SLOTS || setup.bit >= PAGES_PROGRAMS ||
      !find_buffers(&setup, served->chain, buffers)) {
    return refuse(error, "program");
  }
  const int descriptors[] = {take(request, 0), take(request, 1)};
  struct served *program = lines_add(&setup, device, served->chain, buffers, descriptors, error);
  if (!program || !add(OBJECT_PROGRAM, program, answer, error)) {
    return false;
  }
  cool_chain(served);
  const struct gpu_program *made = lines_program(program);
  struct gpu_usage usage;
  struct worker_ready ready = {.graph = gpu_program_graph(made),
                               .copies_by_kernel = gpu_program_copies_by_kernel(made),
                               .timed_one_in = gpu_program_timed_one_in(made),
                               .is_rung = gpu_program_is_rung(made)};
  gpu_program_measured(made, &ready.measured);
  gpu_program_costs(made, &ready.costs);
  gpu_program_share(made, &ready.share);
  gpu_usage(device, &usage);
  ready.allocated = usage.allocated;
  pack_bytes(answer, &ready, sizeof ready);
  return true;
}

/* -- all ------------------------------------------------------------------------------------------------------------ */

static void drop(enum object_kind kind, void *object) {
  switch (kind) {
  case OBJECT_MODEL:
    model_release(object);
    break;
  case OBJECT_CHAIN:
    drop_chain(object);
    break;
  case OBJECT_ARENA:
    arenas_drop(object);
    break;
  case OBJECT_PROGRAM:
    lines_remove(object);
    break;
  case OBJECT_NONE:
    break;
  }
}

static bool let_go(struct worker_message *request, struct gpu_error *error) {
  enum object_kind kind;
  void *object = objects_take((uint64_t)unpack_number(&request->unpack), &kind);
  drop(kind, object);
  return kind != OBJECT_NONE || refuse(error, "let go");
}

static bool open_line(struct worker_message *request, struct gpu_error *error) {
  unsigned number = (unsigned)unpack_within(&request->unpack, 0, UINT32_MAX);
  const int descriptors[] = {take(request, 0), take(request, 1), take(request, 2)};
  return request->unpack.failed ? refuse(error, "line") : lines_open(number, descriptors, error);
}

static bool answer_call(enum worker_call call, struct worker_message *request, struct serve_answer *answer,
                        struct gpu_error *error) {
  switch (call) {
  case WORKER_OPEN:
    return open_device(request, &answer->pack, error);
  case WORKER_LOOK:
    return look(request, &answer->pack, error);
  case WORKER_MODEL:
    return open_model(request, answer, error);
  case WORKER_CHAIN:
    return make_chain(request, answer, error);
  case WORKER_WARM:
    return warm_chain(request, error);
  case WORKER_USERS:
    return count_users(request, error);
  case WORKER_ARENA:
    return take_arena(request, &answer->pack, error);
  case WORKER_LINE:
    return open_line(request, error);
  case WORKER_PROGRAM:
    return make_program(request, &answer->pack, error);
  case WORKER_CALM:
    gpu_hurry(false);
    serve_end_reset();
    return true;
  case WORKER_RESET:
    serve_reset(drop);
    return true;
  case WORKER_LET_GO:
    return let_go(request, error);
  case WORKER_CALLS:
    break;
  }
  return refuse(error, "call");
}

void serve_call(enum worker_call call, struct worker_message *request, struct serve_answer *answer) {
  struct gpu_error error = {.stage = -1};
  pack_number(&answer->pack, true);
  if (!answer_call(call, request, answer, &error)) {
    if (device) {
      serve_end_if_lost(device); /* which the daemon is to know of a call that fails for it */
    }
    answer->pack.length = 0;
    answer->count = 0;
    pack_number(&answer->pack, false);
    pack_bytes(&answer->pack, &error, sizeof error);
  }
  counts_write();
}
