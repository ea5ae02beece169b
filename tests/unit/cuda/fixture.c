#include "tests/unit/cuda/fixture.h"

#include <string.h>

/* -- stages --------------------------------------------------------------------------------------------------------- */

struct work {
  struct stage_call call;
  size_t bytes;
};

static struct work works[GPU_MAX_SLOTS];
cudaStream_t streams[GPU_MAX_SLOTS];

static bool keep(struct stage_plan *plan, const struct stage_value *values, char unused[STAGE_TEXT]) {
  (void)unused;
  plan->output = plan->input;
  plan->state_bytes = (size_t)values[0].numbers[0];
  return true;
}

/* out = in + 1; with state, byte 0 becomes byte 1 of the frame before. */
static void increment(void *argument) {
  const struct work *work = argument;
  const unsigned char *input = work->call.input;
  unsigned char *output = work->call.output;
  for (size_t i = 0; i < work->bytes; i++) {
    output[i] = (unsigned char)(input[i] + 1);
  }
  if (work->call.state) {
    output[0] = *(unsigned char *)work->call.state;
    *(unsigned char *)work->call.state = input[1];
  }
}

static int enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  unsigned slot = 0; /* they are met in order */
  while (streams[slot] && streams[slot] != stream) {
    slot++;
  }
  streams[slot] = stream;
  works[slot] = (struct work){.call = *call, .bytes = plan->input_bytes};
  fake_launch(stream, increment, &works[slot], KERNEL_NS);
  return cudaSuccess;
}

static int enqueue_badly(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  (void)plan;
  (void)stream;
  return call->sequence == STAGE_WARM_UP ? cudaSuccess : cudaErrorInvalidConfiguration;
}

/* Every fifth frame is captured by nobody. */
static bool differs(const struct stage_plan *plan, uint64_t sequence) {
  (void)plan;
  return sequence != STAGE_WARM_UP && sequence % 5 == 4;
}

unsigned attachments;
bool attaching_fails;

static void *attach_within(struct gpu_device *unused, const struct stage_plan *plan, const struct stage_buffers *slots,
                           unsigned count, bool *beside_graph, struct gpu_error *error) {
  (void)unused;
  (void)plan;
  ck_assert(slots[0].input && slots[count - 1].output && slots[0].input != slots[count - 1].output && !*beside_graph);
  if (attaching_fails) {
    gpu_error_set(error, 0, NULL, "it cannot be attached");
    return NULL;
  }
  attachments++;
  return &attachments;
}

static void *attach_beside(struct gpu_device *unused, const struct stage_plan *plan, const struct stage_buffers *slots,
                           unsigned count, bool *beside_graph, struct gpu_error *error) {
  void *attached = attach_within(unused, plan, slots, count, beside_graph, error);
  *beside_graph = true;
  return attached;
}

static void detach(void *attached) {
  ck_assert_ptr_eq(attached, &attachments);
  attachments--;
}

static int enqueue_attached(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  ck_assert_ptr_eq(call->attached, &attachments);
  return enqueue(plan, call, stream);
}

bool keeps;
struct stage_call *kept[GPU_MAX_SLOTS];
unsigned kept_count;

static bool joins(const struct stage_plan *plan) {
  (void)plan;
  return true;
}

/* On a device that has died it fails. */
static void record(cudaEvent_t event, cudaStream_t stream) {
  if (event && cudaEventRecord(event, stream) != cudaSuccess) {
    (void)cudaGetLastError();
  }
}

static void compute(struct stage_call *call) {
  ck_assert_ptr_eq(call->attached, &attachments);
  struct work *work = &works[call->slot];
  *work = (struct work){.call = *call, .bytes = WIDTH};
  streams[call->slot] = call->stream;
  call->run->instance = 2;
  call->run->batch = 3;
  record(call->run->began, call->stream);
  fake_launch(call->stream, increment, work, KERNEL_NS);
  record(call->run->ended, call->stream);
  call->resume(call);
}

static void hand(struct stage_call *call) {
  if (keeps) {
    kept[kept_count++] = call;
  } else {
    compute(call);
  }
}

void give_back(void) {
  struct stage_call *first = kept[0];
  memmove(kept, kept + 1, --kept_count * sizeof kept[0]);
  compute(first);
}

/* The stages of these tests come with their requests; those of the build are not linked. */
const struct stage_descriptor *stage_of(const struct stage_about *about) {
  (void)about;
  return NULL;
}

const struct stage_descriptor keeper = {.about = &(const struct stage_about){.name = "keeper", .runs_model = true},
                                        .prepare = keep,
                                        .enqueue = enqueue_attached,
                                        .attach = attach_beside,
                                        .detach = detach,
                                        .joins = joins,
                                        .hand = hand};
const struct stage_descriptor within = {STAGE_UNLISTED("within"), .prepare = keep, .enqueue = enqueue_attached,
                                        .attach = attach_within, .detach = detach};
const struct stage_descriptor apart = {STAGE_UNLISTED("apart"), .prepare = keep, .enqueue = enqueue_attached,
                                       .attach = attach_beside, .detach = detach};
const struct stage_descriptor plus_one = {STAGE_UNLISTED("plus_one"), .prepare = keep, .enqueue = enqueue};
const struct stage_descriptor fickle = {STAGE_UNLISTED("fickle"), .prepare = keep, .enqueue = enqueue, .differs = differs};
const struct stage_descriptor broken = {STAGE_UNLISTED("broken"), .prepare = keep, .enqueue = enqueue_badly};
const struct stage_descriptor cpu_only = {STAGE_UNLISTED("cpu_only"), .prepare = keep};

/* -- a device and a program of it ----------------------------------------------------------------------------------- */

struct gpu_device *device;
struct gpu_chain *chain;
struct gpu_program *program;
struct gpu_error problem;
_Alignas(256) unsigned char inputs[GPU_MAX_SLOTS][256], outputs[GPU_MAX_SLOTS][256];
struct gpu_buffers buffers[GPU_MAX_SLOTS];
unsigned wakes;

static void wake(void *context) { ++*(unsigned *)context; }

struct gpu_options options;

void open_device(const struct gpu_calibration *known) {
  fake_reset();
  wakes = 0;
  options = (struct gpu_options){.wake = wake, .context = &wakes, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  device = cuda_open(0, known, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  for (int i = 0; i < GPU_MAX_SLOTS; i++) {
    buffers[i] = (struct gpu_buffers){.input = inputs[i], .output = outputs[i]};
  }
}

void set_up(void) { open_device(NULL); }

void make_chain(const struct stage_descriptor *stage, unsigned state_bytes) {
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){WIDTH}, 1);
  struct gpu_stage_request request = {.own = stage, .values[0].numbers[0] = state_bytes};
  chain = gpu_chain_new(&format, &request, stage ? 1 : 0, &problem);
  ck_assert_ptr_nonnull(chain);
}

void make_program(unsigned slots, const struct stage_descriptor *stage, unsigned state_bytes) {
  make_chain(stage, state_bytes);
  memset(streams, 0, sizeof streams);
  program = gpu_program_new(device, chain, buffers, slots, &options, &problem);
  ck_assert_msg(program != NULL, "%s", problem.text);
}

void tear_down(void) {
  program = gpu_program_free(program);
  chain = gpu_chain_free(chain);
  device = gpu_close(device);
  fake_reset();
}

void let_begin(void) { fake_run_stream(((struct cuda_device *)device)->clock, 100); }

bool submit(unsigned slot, uint64_t sequence, bool notify) {
  struct gpu_frame frame = {.sequence = sequence, .restart = sequence == 0, .notify = notify};
  bool submitted = gpu_submit(program, slot, &frame, &problem);
  let_begin();
  return submitted;
}

void finish(unsigned slot) {
  enum gpu_progress progress;
  do {
    progress = gpu_ask(program, slot, &problem);
  } while (progress == GPU_PENDING);
  ck_assert_msg(progress == GPU_DONE, "%s", problem.text);
}

void make_replaying(unsigned slots, const struct stage_descriptor *stage, unsigned state_bytes, bool notify) {
  options.graph = GPU_GRAPH_ON;
  options.notify = notify;
  make_program(slots, stage, state_bytes);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  ck_assert(gpu_program_graph(program));
  ck_assert_uint_eq(wakes, 0);
}

struct gpu_times times_of(unsigned slot) {
  struct gpu_times times = {0};
  ck_assert_int_eq(gpu_ask(program, slot, &problem), GPU_DONE);
  ck_assert(gpu_times(program, slot, &times));
  ck_assert_int_eq(times.h2d + times.kernel + times.d2h + times.wait, times.copied_out - times.begin);
  return times;
}
