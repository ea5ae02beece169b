/*
 * What the events around a step add to it.
 *
 * An event takes its time where the stream has come to it. From there to the start of a copy or a kernel, and from its end to
 * the next event, some microseconds pass in which the engines hand the stream on: a tenth of a copy of 4 MiB, and more than all
 * of a small one. So when a device is opened for the first time, a program whose steps do next to nothing is timed in every way
 * that frames go. What it took as a rule is how much later every frame's steps begin than the events before them say. A step
 * that follows that of another slot on the same engine begins later than that other step's event by what such a step takes when
 * both have nothing to do.
 *
 * The program's frames are held back on their streams until they are enqueued as a whole; otherwise the intervals would tell
 * how fast this thread enqueues. The first interval shall tell just that, as it begins on another stream: it is taken from
 * frames that are not held.
 */
#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { EMPTY_FRAMES = 15, SLOTS = 2, FRAME_BYTES = 8, PAGE = 4096, OUTPUT_AT = PAGE / 2 };
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

static const struct stage_descriptor nothing = {STAGE_UNLISTED("nothing"), .prepare = keep_format, .enqueue = enqueue_nothing};

static void CUDART_CB hold(void *argument) {
  const struct cuda_device *device = argument;
  int64_t limit = gpu_now() + HOLD_NS;
  while (atomic_load(&device->held) && gpu_now() < limit) {
  }
}

static bool submit_empty(struct gpu_program *program, unsigned slots, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP};
  for (unsigned slot = 0; slot < slots; slot++) {
    if (!gpu_submit(program, slot, &frame, error)) {
      return false;
    }
  }
  return true;
}

/* All slots' streams go on at one moment: the second one waits for an event behind the first one's hold. */
static bool submit_held(struct cuda_device *device, struct cuda_program *program, unsigned slots, struct gpu_error *error) {
  struct gpu_device *base = &device->base;
  const struct cuda_slot *first = &program->slots[0], *second = &program->slots[1];
  atomic_store(&device->held, true);
  bool submitted = CUDA_CALL(base, error, cudaLaunchHostFunc, first->stream, hold, device) &&
                   (slots < SLOTS || (CUDA_CALL(base, error, cudaEventRecord, second->finished, first->stream) &&
                                      CUDA_CALL(base, error, cudaStreamWaitEvent, second->stream, second->finished, 0))) &&
                   submit_empty(&program->base, slots, error);
  atomic_store(&device->held, false);
  return submitted;
}

static bool await_empty(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  int64_t limit = gpu_now() + EMPTY_PATIENCE_NS;
  enum gpu_progress progress;
  while ((progress = gpu_ask(program, slot, error)) == GPU_PENDING) {
    if (gpu_now() > limit) { /* so that freeing the program does not wait for it either */
      gpu_abandon(program->device, "an empty frame did not finish within 5 s: see with nvidia-smi what else runs there");
    }
  }
  return progress == GPU_DONE;
}

/* Gives the times of the last slot's frame. The event of its begin, on another stream, may come after all the others. */
static bool finish_empty(struct gpu_program *program, unsigned slots, struct gpu_times *times, struct gpu_error *error) {
  struct cuda_device *device = (struct cuda_device *)program->device;
  for (unsigned slot = 0; slot < slots; slot++) {
    cudaEvent_t begin = ((struct cuda_program *)program)->slots[slot].begin;
    if (!await_empty(program, slot, error) ||
        cuda_clock_poll(device, begin, gpu_now() + EMPTY_PATIENCE_NS, error) == GPU_DEAD) {
      return false;
    }
    struct gpu_error why = {0};
    if (!cuda_clock_read(program, slot, times, &why)) {
      return gpu_error_set(error, why.code, why.remedy, "the events of an empty frame on %s have no times%s%s",
                           program->device->name, why.text[0] ? ": " : "", why.text);
    }
  }
  return true;
}

/* 0 is none: the other frame's step was the second one. */
static void take_less(int64_t *least, int64_t ns) { *least = ns > 0 && (*least == 0 || ns < *least) ? ns : *least; }

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t median(int64_t values[EMPTY_FRAMES]) {
  qsort(values, EMPTY_FRAMES, sizeof values[0], compare);
  return values[EMPTY_FRAMES / 2];
}

static bool measure_overhead(struct cuda_device *device, struct gpu_program *program, struct gpu_overhead *overhead,
                             struct gpu_error *error) {
  int64_t h2d[EMPTY_FRAMES], kernel[EMPTY_FRAMES], d2h[EMPTY_FRAMES];
  struct gpu_times times;
  for (int round = 0; round < EMPTY_FRAMES; round++) {
    if (!submit_empty(program, 1, error) || !finish_empty(program, 1, &times, error)) {
      return false;
    }
    h2d[round] = times.h2d;
    if (!submit_held(device, (struct cuda_program *)program, 1, error) || !finish_empty(program, 1, &times, error)) {
      return false;
    }
    kernel[round] = times.kernel;
    d2h[round] = times.d2h;
  }
  *overhead = (struct gpu_overhead){median(h2d), median(kernel), median(d2h)};
  return true;
}

/* Of two frames the second one counts, in each step where it was the second one: the least, as not all of the step need have
 * been behind the first one's. */
static bool measure_next(struct cuda_device *device, struct gpu_program *program, struct gpu_overhead *next,
                         struct gpu_error *error) {
  struct gpu_times times;
  for (int round = 0; round < EMPTY_FRAMES; round++) {
    if (!submit_held(device, (struct cuda_program *)program, SLOTS, error) || !finish_empty(program, SLOTS, &times, error)) {
      return false;
    }
    take_less(&next->h2d, times.h2d);
    take_less(&next->kernel, times.kernel);
    take_less(&next->d2h, times.d2h);
  }
  return true;
}

static bool measure_way(struct cuda_device *device, struct gpu_program *program, enum cuda_way way,
                        struct gpu_overhead *overhead, struct gpu_overhead *next, struct gpu_error *error) {
  cuda_choose((struct cuda_program *)program, way);
  return measure_overhead(device, program, overhead, error) && measure_next(device, program, next, error);
}

/* A program has the graphs of one way. */
static bool measure_program(struct cuda_device *device, const struct gpu_chain *chain, unsigned char *page,
                            enum gpu_copy_choice copy, struct gpu_calibration *measured, struct gpu_error *error) {
  const struct gpu_buffers buffers[SLOTS] = {{page, page + OUTPUT_AT},
                                             {page + GPU_ALIGNMENT, page + OUTPUT_AT + GPU_ALIGNMENT}};
  const struct gpu_options options = {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .copy = copy};
  struct gpu_program *program = gpu_program_new(&device->base, chain, buffers, SLOTS, &options, error);
  bool done = program && gpu_program_warm_up(program, error);
  if (copy == GPU_COPY_KERNEL) {
    done = done && measure_way(device, program, CUDA_REPLAY_COPIED, &measured->copied, &measured->copied_next, error);
  } else {
    done = done && measure_way(device, program, CUDA_REPLAY, &measured->replayed, &measured->replayed_next, error) &&
           measure_way(device, program, CUDA_STEPS, &measured->plain, &measured->plain_next, error);
  }
  gpu_program_free(program);
  return done;
}

/* Nothing is subtracted from what is measured here, since it is put in force at the end. */
static bool measure_ways(struct cuda_device *device, const struct gpu_chain *chain, unsigned char *page,
                         struct gpu_error *error) {
  struct gpu_calibration measured = {0};
  if (!gpu_pin(&device->base, page, PAGE, error)) {
    return false;
  }
  bool done = (!device->reads_host || measure_program(device, chain, page, GPU_COPY_KERNEL, &measured, error)) &&
              measure_program(device, chain, page, GPU_COPY_ENGINE, &measured, error);
  gpu_unpin(&device->base, page, PAGE);
  device->base.calibration = measured;
  return done;
}

bool cuda_overhead_measure(struct cuda_device *device, struct gpu_error *error) {
  const struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){FRAME_BYTES}, 1);
  const struct gpu_stage_request request = {.own = &nothing};
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, error);
  /* Mapped, so that a device that dies meanwhile writes to nobody else's memory. */
  void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool done = page != MAP_FAILED || gpu_error_set(error, errno, "", "no memory for a page");
  done = done && chain && measure_ways(device, chain, page, error);
  gpu_chain_free(chain);
  if (page != MAP_FAILED) {
    munmap(page, PAGE);
  }
  return done;
}
