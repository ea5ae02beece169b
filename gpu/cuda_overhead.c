/*
 * What the events around a step add to it.
 *
 * An event takes its time where the stream has come to it. From there to the start of a copy or a kernel, and from its end
 * to the next event, some microseconds pass in which the engines hand the stream on: a tenth of a copy of 4 MiB, and more
 * than all of a small one. So when a device is opened for the first time, a program whose steps do next to nothing is timed,
 * step by step and replayed, and the least that it ever took is what every frame's steps begin later than the events before
 * them say.
 *
 * The program's frame is held back on its stream until all of it is there. Otherwise the intervals would tell how fast this
 * thread enqueues. But that is what they shall tell of the first one, which begins on another stream: so every other frame is
 * not held.
 */
#include "gpu/cuda.h"

#include <errno.h>
#include <sys/mman.h>

enum { EMPTY_FRAMES = 12, FRAME_BYTES = 8, PAGE = 4096, OUTPUT_AT = PAGE / 2 };
#define EMPTY_PATIENCE_NS INT64_C(5000000000)
#define HOLD_NS           INT64_C(2000000)

static bool keep_format(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = plan->input;
  return true;
}

static int enqueue_nothing(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  (void)plan;
  (void)call;
  return cuda_nothing(stream);
}

static const struct stage_descriptor nothing = {.name = "nothing", .prepare = keep_format, .enqueue = enqueue_nothing};

static void CUDART_CB hold(void *argument) {
  const struct cuda_device *device = argument;
  int64_t limit = gpu_now() + HOLD_NS;
  while (atomic_load(&device->held) && gpu_now() < limit) {
  }
}

static bool submit_held(struct cuda_device *device, struct cuda_program *program, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP};
  atomic_store(&device->held, true);
  bool submitted = CUDA_CALL(&device->base, error, cudaLaunchHostFunc, program->slots[0].stream, hold, device) &&
                   gpu_submit(&program->base, 0, &frame, error);
  atomic_store(&device->held, false);
  return submitted;
}

static bool await_empty(struct gpu_program *program, struct gpu_error *error) {
  int64_t limit = gpu_now() + EMPTY_PATIENCE_NS;
  enum gpu_progress progress;
  while ((progress = gpu_ask(program, 0, error)) == GPU_PENDING) {
    if (gpu_now() > limit) { /* so that freeing the program does not wait for it either */
      gpu_abandon(program->device, "an empty frame did not finish within 5 s: see with nvidia-smi what else runs there");
    }
  }
  return progress == GPU_DONE;
}

static void take_least(int64_t *least, int64_t ns, bool first) { *least = first || ns < *least ? ns : *least; }

/* One empty frame, held or not. */
static bool run_empty(struct cuda_device *device, struct gpu_program *program, bool held, struct gpu_times *times,
                      struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP};
  bool submitted = held ? submit_held(device, (struct cuda_program *)program, error) : gpu_submit(program, 0, &frame, error);
  if (!submitted || !await_empty(program, error)) {
    return false;
  }
  return gpu_times(program, 0, times) ||
         gpu_error_set(error, 0, "", "the events of an empty frame on %s have no times", device->base.name);
}

static bool measure_rounds(struct cuda_device *device, struct gpu_program *program, struct gpu_overhead *overhead,
                           struct gpu_error *error) {
  for (int round = 0; round < EMPTY_FRAMES; round++) {
    struct gpu_times held, free;
    if (!run_empty(device, program, true, &held, error) || !run_empty(device, program, false, &free, error)) {
      return false;
    }
    take_least(&overhead->h2d, free.h2d, round == 0);
    take_least(&overhead->kernel, held.kernel, round == 0);
    take_least(&overhead->d2h, held.d2h, round == 0);
  }
  return true;
}

static bool measure_with(struct cuda_device *device, const struct gpu_chain *chain, const struct gpu_buffers *buffers,
                         bool replays, struct gpu_overhead *overhead, struct gpu_error *error) {
  const struct gpu_options options = {.graph = replays ? GPU_GRAPH_ON : GPU_GRAPH_OFF, .timed_one_in = 1};
  struct gpu_program *program = gpu_program_new(&device->base, chain, buffers, 1, &options, error);
  bool done = program && gpu_program_warm_up(program, error) && measure_rounds(device, program, overhead, error);
  gpu_program_free(program);
  return done;
}

/* Nothing is subtracted from what is measured here, since it is put in force at the end. */
static bool measure_both(struct cuda_device *device, const struct gpu_chain *chain, unsigned char *page,
                         struct gpu_error *error) {
  const struct gpu_buffers buffers = {.input = page, .output = page + OUTPUT_AT};
  struct gpu_calibration measured = {0};
  if (!gpu_pin(&device->base, page, PAGE, error)) {
    return false;
  }
  bool done = measure_with(device, chain, &buffers, false, &measured.plain, error) &&
              measure_with(device, chain, &buffers, true, &measured.replayed, error);
  gpu_unpin(&device->base, page, PAGE);
  device->base.calibration = measured;
  return done;
}

bool cuda_overhead_measure(struct cuda_device *device, struct gpu_error *error) {
  const struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){FRAME_BYTES}, 1);
  const struct gpu_stage_request request = {.stage = &nothing};
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, error);
  /* Mapped, so that a device that dies meanwhile writes to nobody else's memory. */
  void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool done = page != MAP_FAILED || gpu_error_set(error, errno, "", "no memory for a page");
  done = done && chain && measure_both(device, chain, page, error);
  gpu_chain_free(chain);
  if (page != MAP_FAILED) {
    munmap(page, PAGE);
  }
  return done;
}
