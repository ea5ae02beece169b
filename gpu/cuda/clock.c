/*
 * When things happened on a CUDA device.
 *
 * CUDA gives only the time between two events, as a float of milliseconds, so every few seconds an event is recorded
 * on a stream of its own and the host's clock read around it: an anchor. A frame uses the anchor that was in force
 * when it was submitted, so the elapsed times stay short and exact. Anchors are made by one thread, in turn; a lane
 * only reads the one whose index is published, which is not written again before CUDA_ANCHORS - 1 others were.
 */
#include "gpu/cuda/cuda.h"

#include <math.h>

/* An event is seen some microseconds after it is recorded; when it took longer, a better moment is looked for. */
#define GOOD_NS INT64_C(30000)
enum { ANCHOR_TRIES = 8 };
/* How long a busy device may keep the caller waiting. The first anchor is worth more. */
#define PATIENCE_NS       INT64_C(2000000)
#define FIRST_PATIENCE_NS INT64_C(5000000000)

static int64_t from_ms(float ms) { return llround((double)ms * 1e6); }

const struct cuda_anchor *cuda_clock_current(const struct cuda_device *device) {
  return &device->anchors[atomic_load_explicit(&device->anchor, memory_order_acquire)];
}

/* -- anchors ------------------------------------------------------------------------------------------------------ */

enum gpu_progress cuda_clock_poll(struct cuda_device *device, cudaEvent_t event, int64_t limit, struct gpu_error *error) {
  enum gpu_progress progress;
  do {
    progress = cuda_progress(&device->base, cudaEventQuery(event), "cudaEventQuery", error);
  } while (progress == GPU_PENDING && gpu_now() < limit);
  return progress;
}

/* Records the anchor's event, and gives the host's time of it in `host`. */
static enum gpu_progress measure(struct cuda_device *device, struct cuda_anchor *anchor, int64_t patience, int64_t *host,
                                 struct gpu_error *error) {
  int64_t limit = gpu_now() + patience;
  enum gpu_progress progress = GPU_PENDING;
  for (int i = 0; i < ANCHOR_TRIES; i++) {
    int64_t before = gpu_now();
    if (!CUDA_CALL(&device->base, error, cudaEventRecord, anchor->event, device->clock)) {
      return GPU_DEAD;
    }
    progress = cuda_clock_poll(device, anchor->event, limit, error);
    int64_t after = gpu_now();
    *host = before + (after - before) / 2;
    if (progress != GPU_DONE || after - before < GOOD_NS) {
      break;
    }
  }
  return progress;
}

enum gpu_progress cuda_clock_anchor(struct gpu_device *base, struct gpu_error *error) {
  struct cuda_device *device = (struct cuda_device *)base;
  if (!cuda_enter(base, error)) {
    return GPU_DEAD;
  }
  const struct cuda_anchor *current = cuda_clock_current(device);
  unsigned index = (unsigned)(current - device->anchors + 1) % CUDA_ANCHORS;
  struct cuda_anchor *next = &device->anchors[index];
  int64_t host;
  float ms;
  if (device->is_awaited) { /* to record it anew would put the answer of a busy device off, again and again */
    enum gpu_progress late = cuda_clock_poll(device, next->event, gpu_now() + PATIENCE_NS, error);
    device->is_awaited = late == GPU_PENDING;
    return late; /* too late to measure by */
  }
  enum gpu_progress progress = measure(device, next, PATIENCE_NS, &host, error);
  device->is_awaited = progress == GPU_PENDING;
  if (progress != GPU_DONE) {
    return progress; /* PENDING: the anchor in force stays */
  }
  if (!CUDA_CALL(base, error, cudaEventElapsedTime, &ms, current->event, next->event)) {
    return GPU_DEAD;
  }
  next->device_ns = current->device_ns + from_ms(ms);
  next->offset = host - next->device_ns;
  atomic_store_explicit(&device->anchor, index, memory_order_release);
  return GPU_DONE;
}

bool cuda_clock_open(struct cuda_device *device, struct gpu_error *error) {
  struct gpu_device *base = &device->base;
  if (!CUDA_CALL(base, error, cudaStreamCreateWithFlags, &device->clock, cudaStreamNonBlocking)) {
    return false;
  }
  for (unsigned i = 0; i < CUDA_ANCHORS; i++) {
    if (!CUDA_CALL(base, error, cudaEventCreate, &device->anchors[i].event)) {
      return false;
    }
  }
  int64_t host;
  enum gpu_progress progress = measure(device, &device->anchors[0], FIRST_PATIENCE_NS, &host, error);
  if (progress == GPU_PENDING) {
    gpu_error_set(error, 0, "see with nvidia-smi what else runs on it", "%s does not answer", base->name);
  }
  device->anchors[0].offset = host;
  return progress == GPU_DONE;
}

void cuda_clock_close(struct cuda_device *device) {
  struct gpu_error error;
  for (unsigned i = 0; i < CUDA_ANCHORS; i++) {
    if (device->anchors[i].event) {
      (void)CUDA_CALL(&device->base, &error, cudaEventDestroy, device->anchors[i].event);
      device->anchors[i].event = NULL;
    }
  }
  if (device->clock) {
    (void)CUDA_CALL(&device->base, &error, cudaStreamDestroy, device->clock);
    device->clock = NULL;
  }
}

/* -- which frames are timed ---------------------------------------------------------------------------------------- */

/*
 * Where one frame in N is timed, it is all frames for a while and then none, at the same time for all programs of the
 * device: what a copy waited for is known only from the end of the copy before it, whosever that was. In the first part
 * of the while, frames may have waited for some that were not timed. It is a prime number of microseconds, so that
 * hardly a producer keeps step with it; with powers of two for N, where a program is timed those with lower N are too.
 */
#define LEAD_IN_NS INT64_C(2000000)

enum cuda_timing cuda_clock_timing(const struct gpu_program *program, bool demanded, bool alone, int64_t now) {
  unsigned one_in = program->timed_one_in;
  if (one_in <= 1 || demanded) {
    return one_in == 0 ? CUDA_UNTIMED : CUDA_TIMED;
  }
  int64_t at = now % (GPU_TIMED_WINDOW_NS * one_in);
  if (at >= GPU_TIMED_WINDOW_NS) {
    return CUDA_UNTIMED;
  }
  return at >= LEAD_IN_NS || alone ? CUDA_TIMED : CUDA_REFERENCE;
}

/* -- times of a frame: how it begins -------------------------------------------------------------------------------- */

/*
 * The event is on the clock's stream. On the slot's own, right before a copy in, it keeps that copy from running beside the
 * copies out of other slots: frames of 24 MiB then take half as long again, those of 4 MiB a third. So nothing but time says
 * that it happens before the frame is done; a frame for which it does not has no times.
 */
bool cuda_clock_begin(const struct cuda_slot *slot, struct gpu_error *error) {
  struct cuda_device *device = (struct cuda_device *)slot->program->base.device;
  return CUDA_CALL(&device->base, error, cudaEventRecord, slot->begin, device->clock);
}

/* -- times of a frame --------------------------------------------------------------------------------------------- */

/* A step that was over before what the events add to it: too short to be seen, and yet no step that took nothing. */
enum { SHORTEST_NS = 1 };

/* How long an engine served [from + overhead, end] after what it did before, of which it was free `next` after its end. Where
 * lanes read their frames in another order than the engine had them, the earlier frame's service counts as waiting: too little,
 * never too much. */
static int64_t serve(_Atomic int64_t *last_end, int64_t next, int64_t from, int64_t overhead, int64_t end) {
  int64_t last = atomic_load(last_end), begin = from + overhead;
  while (last < end && !atomic_compare_exchange_weak(last_end, &last, end)) {
  }
  int64_t start = begin > last + next ? begin : last + next;
  return end > start ? end - start : end > from && begin >= end ? SHORTEST_NS : 0;
}

/* Device times of the four events relative to the anchor, in ns. */
static bool read_events(struct gpu_device *device, const struct cuda_slot *slot, int64_t ns[4], struct gpu_error *error) {
  const cudaEvent_t events[] = {slot->begin, slot->copied_in, slot->computed, slot->copied_out};
  float ms;
  if (cuda_progress(device, cudaEventQuery(slot->begin), "cudaEventQuery", error) != GPU_DONE ||
      !CUDA_CALL(device, error, cudaEventElapsedTime, &ms, slot->anchor->event, slot->begin)) {
    return false;
  }
  ns[0] = from_ms(ms);
  for (int i = 1; i < 4; i++) {
    if (!CUDA_CALL(device, error, cudaEventElapsedTime, &ms, events[i - 1], events[i])) {
      return false;
    }
    ns[i] = ns[i - 1] + from_ms(ms);
  }
  return true;
}

/* The begin is on another stream, which may come to it when the frame's copy in is over: then nobody saw that begin. */
static void bound_begin(int64_t ns[4]) { ns[0] = ns[0] < ns[1] ? ns[0] : ns[1]; }

/* What events add to the steps, of which a copy that is in an order is not replayed with the rest. */
static struct gpu_overhead choose(const struct cuda_slot *slot, const struct gpu_overhead *of[CUDA_WAYS]) {
  const struct gpu_program *program = &slot->program->base;
  return (struct gpu_overhead){
      .h2d = of[cuda_order_in(program) ? CUDA_STEPS : slot->way]->h2d,
      .kernel = of[slot->way]->kernel,
      .d2h = of[cuda_order_out(program) ? CUDA_STEPS : slot->way]->d2h,
  };
}

/* What models took, each between two events of its own unless it is all there is. `host`: of the anchor. */
static bool read_model(struct gpu_device *device, const struct cuda_slot *slot, int64_t host, struct gpu_times *times,
                       struct gpu_error *error) {
  cudaEvent_t last = NULL;
  float ms;
  times->instance = slot->instance;
  times->batch = slot->batch;
  for (unsigned i = 0; i < slot->program->base.chain->length; i++) {
    if (slot->model_ended[i]) {
      last = slot->model_ended[i];
      if (!CUDA_CALL(device, error, cudaEventElapsedTime, &ms, slot->model_began[i], last)) {
        return false;
      }
      times->model += from_ms(ms);
    }
  }
  if (!last) {
    times->model = times->kernel;
    times->modelled = times->computed;
    return true;
  }
  if (!CUDA_CALL(device, error, cudaEventElapsedTime, &ms, slot->anchor->event, last)) {
    return false;
  }
  times->modelled = host + from_ms(ms);
  return true;
}

/* From when until when a frame was in the hands of a stage that took it over, and nothing of it on the device. */
static bool read_hold(struct gpu_device *device, const struct cuda_slot *slot, int64_t hold[2], struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  cudaEvent_t began = program->hands_any ? slot->model_began[program->parts[slot->part].from] : NULL;
  const cudaEvent_t events[2] = {slot->ready, began};
  float ms;
  hold[0] = hold[1] = 0;
  for (int i = 0; i < 2 && began && slot->batch > 0; i++) {
    if (!CUDA_CALL(device, error, cudaEventElapsedTime, &ms, slot->anchor->event, events[i])) {
      return false;
    }
    hold[i] = from_ms(ms);
  }
  return true;
}

/* What kernels took from `from` until `end`, but for the time between. */
static int64_t serve_kernels(struct cuda_device *device, const struct gpu_overhead *overhead, const struct gpu_overhead *next,
                             int64_t from, const int64_t hold[2], int64_t end) {
  int64_t before = 0;
  if (hold[1] > hold[0]) {
    before = serve(&device->kernel_end, next->kernel, from, overhead->kernel, hold[0]);
    from = hold[1];
  }
  return before + serve(&device->kernel_end, next->kernel, from, overhead->kernel, end);
}

static bool read_times(struct cuda_device *device, const struct cuda_slot *slot, struct gpu_times *times,
                       struct gpu_error *error) {
  int64_t ns[4], hold[2];
  if (!cuda_enter(&device->base, error) || !read_events(&device->base, slot, ns, error) ||
      !read_hold(&device->base, slot, hold, error)) {
    return false;
  }
  bound_begin(ns);
  int64_t axis = slot->anchor->device_ns;
  const int64_t held[2] = {axis + hold[0], axis + hold[1]};
  int64_t host = axis + slot->anchor->offset;
  const struct gpu_calibration *known = &device->base.calibration;
  const struct gpu_overhead *alone[CUDA_WAYS] = {&known->plain, &known->replayed, &known->copied};
  const struct gpu_overhead *behind[CUDA_WAYS] = {&known->plain_next, &known->replayed_next, &known->copied_next};
  const struct gpu_overhead overhead = choose(slot, alone), next = choose(slot, behind);
  bool copied = slot->way == CUDA_REPLAY_COPIED;
  *times = (struct gpu_times){
      .begin = host + ns[0],
      .copied_in = host + ns[1],
      .computed = host + ns[2],
      .copied_out = host + ns[3],
      .h2d = serve(copied ? &device->copied_in_end : &device->h2d_end, next.h2d, axis + ns[0], overhead.h2d, axis + ns[1]),
      .kernel = serve_kernels(device, &overhead, &next, axis + ns[1], held, axis + ns[2]),
      .d2h = serve(copied ? &device->copied_out_end : &device->d2h_end, next.d2h, axis + ns[2], overhead.d2h, axis + ns[3]),
  };
  times->wait = ns[3] - ns[0] - times->h2d - times->kernel - times->d2h;
  return slot->instance == 0 || read_model(&device->base, slot, host, times, error);
}

bool cuda_clock_read(struct gpu_program *base, unsigned index, struct gpu_times *times, struct gpu_error *error) {
  struct cuda_program *program = (struct cuda_program *)base;
  struct cuda_slot *slot = &program->slots[index];
  if (slot->timing == CUDA_UNTIMED) {
    return false;
  }
  if (!slot->read) { /* once: reading moves the ends of the engines */
    if (gpu_device_is_dead(base->device, error) || !read_times((struct cuda_device *)base->device, slot, &slot->times, error)) {
      return false;
    }
    slot->read = true;
  }
  if (slot->timing == CUDA_REFERENCE) {
    return false;
  }
  *times = slot->times;
  times->told = cuda_told(base, index) == GPU_DONE ? atomic_load(&slot->told) : 0;
  return true;
}

bool cuda_clock_times(struct gpu_program *base, unsigned index, struct gpu_times *times) {
  struct gpu_error unsaid; /* what is wrong with a device is found by asking it for its frames */
  return cuda_clock_read(base, index, times, &unsaid);
}
