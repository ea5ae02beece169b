/*
 * What a program's copies and kernels take while engines never rest, which no single frame tells.
 *
 * Copies take longer while the other direction of the link is busy. Kernels of several slots take less time each than one
 * after the other: the next one begins on parts of the device that the one before has left. So copies of both directions,
 * and then kernels of all slots, are enqueued without waiting for any. As in the warm-up, the best of some rounds counts,
 * since other work on the device comes and goes.
 *
 * A host function behind a copy keeps that copy's engine from the next copy, on whichever stream, for some microseconds. Where
 * frames are told of by such functions, so are the copies out here: on streams of their own, enough that the engine never waits
 * for a function to return.
 */
#include "gpu/cuda/cuda.h"

/* What a round should take at least, unless that is more than MOST of each; and after how long there is no further one. */
#define SHIFT_NS  INT64_C(1000000)
#define SHIFTS_NS INT64_C(4000000)
/* Of kernels that are as long as that, where one ends and the next begins matters no more. */
#define LONG_NS INT64_C(20000000)
enum { SHIFTS = 3, FEWEST = 4, MOST = 64, LOOKS = 64, TELLERS = 4 };

struct shift { /* what is enqueued in a round */
  unsigned in, out;
  unsigned frames;             /* of which all stages run */
  const cudaStream_t *tellers; /* so many for the copies out, which are told of but for the last on each; or NULL */
};

static bool enqueue_in(const struct cuda_slot *slot, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  return CUDA_CALL(program->base.device, error, cudaMemcpyAsync, slot->memory + program->layout.input, slot->buffers.input,
                   program->base.chain->input_bytes, cudaMemcpyHostToDevice, slot->stream);
}

static bool enqueue_out(const struct cuda_slot *slot, cudaStream_t stream, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  const struct gpu_chain *chain = program->base.chain;
  const unsigned char *result = slot->memory + program->layout.buffer[chain->length % 2];
  return CUDA_CALL(program->base.device, error, cudaMemcpyAsync, slot->buffers.output, result, chain->output_bytes,
                   cudaMemcpyDeviceToHost, stream);
}

static void CUDART_CB tell_nobody(void *unused) { (void)unused; }

/* Copies in are on the first slot's stream, copies out on the second one's or on those of the tellers. */
static bool enqueue_nth_out(const struct cuda_program *program, const struct shift *shift, unsigned nth,
                            struct gpu_error *error) {
  const struct cuda_slot *slot = &program->slots[1];
  cudaStream_t stream = shift->tellers ? shift->tellers[nth % TELLERS] : slot->stream;
  return enqueue_out(slot, stream, error) &&
         (!shift->tellers || nth + TELLERS >= shift->out ||
          CUDA_CALL(program->base.device, error, cudaLaunchHostFunc, stream, tell_nobody, NULL));
}

/* As evenly as their numbers allow. */
static bool enqueue_shift(struct cuda_program *program, const struct shift *shift, struct gpu_error *error) {
  const struct cuda_pass pass = {.sequence = STAGE_WARM_UP};
  unsigned in = 0, out = 0;
  while (in < shift->in || out < shift->out) {
    bool goes_out = out * shift->in < in * shift->out;
    if (goes_out ? !enqueue_nth_out(program, shift, out, error) : !enqueue_in(&program->slots[0], error)) {
      return false;
    }
    in += !goes_out;
    out += goes_out;
  }
  for (unsigned i = 0; i < shift->frames; i++) {
    if (!cuda_sequence_stages(&program->slots[i % program->base.slot_count], &pass, error)) {
      return false;
    }
  }
  return true;
}

/* Waits until a stream is empty. */
static bool finish_stream(struct gpu_device *device, cudaStream_t stream, struct gpu_error *error) {
  int64_t limit = gpu_now() + GPU_WARM_UP_LIMIT_NS;
  for (unsigned i = 1;; i++) {
    enum gpu_progress progress = cuda_progress(device, cudaStreamQuery(stream), "cudaStreamQuery", error);
    if (progress != GPU_PENDING) {
      return progress == GPU_DONE;
    }
    if (i % LOOKS == 0 && gpu_now() > limit) {
      gpu_abandon(device, GPU_WARM_UP_HANGS);
      return gpu_error_set(error, 0, "", "%s", GPU_WARM_UP_HANGS);
    }
  }
}

static bool run_shift(struct cuda_program *program, const struct shift *shift, int64_t *ns, struct gpu_error *error) {
  int64_t begin = gpu_now();
  bool good = enqueue_shift(program, shift, error);
  for (unsigned i = 0; i < program->base.slot_count && good; i++) {
    good = finish_stream(program->base.device, program->slots[i].stream, error);
  }
  for (unsigned i = 0; i < TELLERS && shift->tellers && good; i++) {
    good = finish_stream(program->base.device, shift->tellers[i], error);
  }
  *ns = gpu_now() - begin;
  return good;
}

/* Gives what so much takes. The first round says how many times as much the others are; one that is no less than they counts
 * as well. */
static bool measure_shift(struct cuda_program *program, const struct shift *shift, int64_t *best, struct gpu_error *error) {
  int64_t ns;
  if (!run_shift(program, shift, &ns, error)) {
    return false;
  }
  int64_t wanted = ns > 0 ? SHIFT_NS / ns : MOST, begin = gpu_now();
  unsigned times = wanted < 1 ? 1 : wanted < MOST / FEWEST ? (unsigned)wanted : MOST / FEWEST;
  const struct shift longer = {shift->in * times, shift->out * times, shift->frames * times, shift->tellers};
  *best = times == 1 ? ns : INT64_MAX;
  for (int i = times == 1 ? 1 : 0; i < SHIFTS && (*best == INT64_MAX || gpu_now() - begin < SHIFTS_NS); i++) {
    if (!run_shift(program, &longer, &ns, error)) {
      return false;
    }
    *best = ns / times < *best ? ns / times : *best;
  }
  return true;
}

/* How many smaller copies one larger stands for: no more than are as long as it, so that the larger ones set the time. */
static unsigned times_of(size_t larger, size_t smaller) {
  size_t times = larger > smaller ? larger / smaller : 1;
  return times < MOST / FEWEST ? (unsigned)times : MOST / FEWEST;
}

static bool measure_copies(struct cuda_program *program, const cudaStream_t *tellers, struct gpu_error *error) {
  const struct gpu_chain *chain = program->base.chain;
  const unsigned fewest = tellers ? FEWEST * TELLERS : FEWEST;
  const struct shift shift = {.in = fewest * times_of(chain->output_bytes, chain->input_bytes),
                              .out = fewest * times_of(chain->input_bytes, chain->output_bytes),
                              .tellers = tellers};
  int64_t ns;
  if (!measure_shift(program, &shift, &ns, error)) {
    return false;
  }
  program->base.costs.shared_h2d = ns / shift.in;
  program->base.costs.shared_d2h = ns / shift.out;
  return true;
}

static bool measure_told_copies(struct cuda_program *program, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  cudaStream_t tellers[TELLERS] = {NULL};
  bool good = true;
  for (unsigned i = 0; i < TELLERS && good; i++) {
    good = CUDA_CALL(device, error, cudaStreamCreateWithFlags, &tellers[i], cudaStreamNonBlocking);
  }
  good = good && measure_copies(program, tellers, error);
  for (unsigned i = 0; i < TELLERS && tellers[i]; i++) {
    struct gpu_error unused;
    bool ended = CUDA_CALL(device, good ? error : &unused, cudaStreamDestroy, tellers[i]);
    good = good && ended;
  }
  return good;
}

static bool measure_kernels(struct cuda_program *program, struct gpu_error *error) {
  const unsigned slots = program->base.slot_count;
  const struct shift shift = {.frames = 2 * slots};
  int64_t ns;
  if (slots < 2 || program->base.costs.alone > LONG_NS) {
    return true;
  }
  if (!measure_shift(program, &shift, &ns, error)) {
    return false;
  }
  program->base.costs.kernels = ns / 2 / slots;
  return true;
}

/* One slot has no other beside it. Stages with state never run side by side; and where kernels make the copies, all do. */
bool cuda_costs(struct gpu_program *base, struct gpu_error *error) {
  struct cuda_program *program = (struct cuda_program *)base;
  return base->slot_count < 2 || base->copies_by_kernel ||
         ((base->options.notify ? measure_told_copies(program, error) : measure_copies(program, NULL, error)) &&
          (base->chain->first_stateful >= 0 || base->chain->length == 0 || program->hands_any ||
           measure_kernels(program, error)));
}
