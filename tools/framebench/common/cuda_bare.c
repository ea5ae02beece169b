#include "tools/framebench/common/cuda_bare.h"

#include "gpu/cuda/copy.h"
#include "tools/framebench/common/cuda_try.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct bare_slot {
  struct bare *bare;
  unsigned char *in, *out;               /* on the host */
  unsigned char *device_in, *device_out; /* on the device */
  cudaStream_t stream;
  cudaEvent_t done;
  cudaGraphExec_t graph;
  atomic_bool told;
};

struct bare {
  struct bare_setup setup;
  const struct stage_plan *plan;
  size_t bytes;
  int event, epoll;
  struct bare_slot slots[GPU_MAX_SLOTS];
};

/* -- one frame ------------------------------------------------------------------------------------------------------ */

static void CUDART_CB on_done(void *argument) {
  struct bare_slot *slot = argument;
  const uint64_t one = 1;
  atomic_store(&slot->told, true);
  while (write(slot->bare->event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

static bool compute(struct bare_slot *slot, struct problem *problem) {
  const struct stage_plan *plan = slot->bare->plan;
  const struct stage_call call = {.input = slot->device_in, .output = slot->device_out};
  return cuda_try((cudaError_t)plan->stage->enqueue(plan, &call, slot->stream), "a stage's kernel", problem);
}

static bool copy(const struct bare_slot *slot, void *to, const void *from, enum cudaMemcpyKind kind, struct problem *problem) {
  size_t bytes = slot->bare->bytes;
  if (slot->bare->setup.copied) {
    return cuda_try((cudaError_t)cuda_copy(to, from, bytes, slot->stream), "a kernel's copy", problem);
  }
  return CUDA_TRY(problem, cudaMemcpyAsync, to, from, bytes, kind, slot->stream);
}

static bool enqueue(struct bare_slot *slot, struct problem *problem) {
  return copy(slot, slot->device_in, slot->in, cudaMemcpyHostToDevice, problem) && compute(slot, problem) &&
         copy(slot, slot->out, slot->device_out, cudaMemcpyDeviceToHost, problem);
}

static bool submit(struct bare_slot *slot, struct problem *problem) {
  if (slot->graph ? !CUDA_TRY(problem, cudaGraphLaunch, slot->graph, slot->stream) : !enqueue(slot, problem)) {
    return false;
  }
  if (!slot->bare->setup.callback) {
    return CUDA_TRY(problem, cudaEventRecord, slot->done, slot->stream);
  }
  atomic_store(&slot->told, false);
  return CUDA_TRY(problem, cudaLaunchHostFunc, slot->stream, on_done, slot);
}

static bool poll_done(const struct bare_slot *slot, struct problem *problem) {
  cudaError_t status;
  while ((status = cudaEventQuery(slot->done)) == cudaErrorNotReady) {
  }
  return cuda_try(status, "cudaEventQuery", problem);
}

static bool await(struct bare_slot *slot, struct problem *problem) {
  if (!slot->bare->setup.callback) {
    return poll_done(slot, problem);
  }
  while (!atomic_load(&slot->told)) {
    struct epoll_event event;
    uint64_t count;
    int ready = epoll_wait(slot->bare->epoll, &event, 1, 10000);
    if (ready == 0) {
      return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "a frame of the bare loop did not finish within 10 s");
    }
    if (ready == 1 && read(slot->bare->event, &count, sizeof count) < 0 && errno != EAGAIN) {
      return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "reading an eventfd: %s", strerror(errno));
    }
  }
  return true;
}

/* -- making --------------------------------------------------------------------------------------------------------- */

static bool capture(struct bare_slot *slot, struct problem *problem) {
  cudaGraph_t graph = NULL;
  if (!CUDA_TRY(problem, cudaStreamBeginCapture, slot->stream, cudaStreamCaptureModeThreadLocal) || !enqueue(slot, problem) ||
      !CUDA_TRY(problem, cudaStreamEndCapture, slot->stream, &graph)) {
    return false;
  }
  bool done = CUDA_TRY(problem, cudaGraphInstantiate, &slot->graph, graph, 0);
  return CUDA_TRY(problem, cudaGraphDestroy, graph) && done;
}

static bool take_host_memory(struct bare_slot *slot, struct problem *problem) {
  size_t bytes = slot->bare->bytes;
  if (slot->bare->setup.pageable) {
    slot->in = malloc(bytes);
    slot->out = malloc(bytes);
    if (!slot->in || !slot->out) {
      return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "no memory for a frame of %zu bytes", bytes);
    }
  } else if (!CUDA_TRY(problem, cudaMallocHost, (void **)&slot->in, bytes) ||
             !CUDA_TRY(problem, cudaMallocHost, (void **)&slot->out, bytes)) {
    return false;
  }
  memset(slot->in, 0x3c, bytes);
  memset(slot->out, 0, bytes);
  return true;
}

static bool open_slot(struct bare *bare, struct bare_slot *slot, struct problem *problem) {
  slot->bare = bare;
  return take_host_memory(slot, problem) && CUDA_TRY(problem, cudaMalloc, (void **)&slot->device_in, bare->bytes) &&
         CUDA_TRY(problem, cudaMalloc, (void **)&slot->device_out, bare->bytes) &&
         CUDA_TRY(problem, cudaStreamCreateWithFlags, &slot->stream, cudaStreamNonBlocking) &&
         CUDA_TRY(problem, cudaEventCreateWithFlags, &slot->done, cudaEventDisableTiming) &&
         (!bare->setup.graph || capture(slot, problem));
}

static void free_host(const struct bare *bare, void *memory) {
  if (bare->setup.pageable) {
    free(memory);
  } else if (memory) {
    (void)cudaFreeHost(memory);
  }
}

static void close_slot(const struct bare *bare, struct bare_slot *slot) {
  if (slot->stream) {
    (void)cudaStreamSynchronize(slot->stream);
    (void)cudaStreamDestroy(slot->stream);
  }
  if (slot->graph) {
    (void)cudaGraphExecDestroy(slot->graph);
  }
  if (slot->done) {
    (void)cudaEventDestroy(slot->done);
  }
  (void)cudaFree(slot->device_in);
  (void)cudaFree(slot->device_out);
  free_host(bare, slot->in);
  free_host(bare, slot->out);
}

static bool open_event(struct bare *bare, struct problem *problem) {
  struct epoll_event interest = {.events = EPOLLIN};
  bare->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bare->epoll = epoll_create1(EPOLL_CLOEXEC);
  return (bare->event >= 0 && bare->epoll >= 0 && epoll_ctl(bare->epoll, EPOLL_CTL_ADD, bare->event, &interest) == 0) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "an eventfd: %s", strerror(errno));
}

static bool open_slots(struct bare *bare, struct problem *problem) {
  for (unsigned i = 0; i < bare->setup.slots; i++) {
    if (!open_slot(bare, &bare->slots[i], problem)) {
      return false;
    }
  }
  return true;
}

struct bare *bare_new(const struct bare_setup *setup, struct problem *problem) {
  struct bare *bare = calloc(1, sizeof *bare);
  if (!bare) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the bare loop");
    return NULL;
  }
  bare->setup = *setup;
  bare->plan = gpu_chain_stage(setup->chain, 0);
  bare->bytes = bare->plan->input_bytes;
  bare->event = bare->epoll = -1;
  bool done = CUDA_TRY(problem, cudaSetDevice, (int)setup->device) && open_event(bare, problem) && open_slots(bare, problem);
  return done ? bare : bare_free(bare);
}

struct bare *bare_free(struct bare *bare) {
  if (!bare) {
    return NULL;
  }
  for (unsigned i = 0; i < bare->setup.slots; i++) {
    close_slot(bare, &bare->slots[i]);
  }
  if (bare->epoll >= 0) {
    close(bare->epoll);
  }
  if (bare->event >= 0) {
    close(bare->event);
  }
  free(bare);
  return NULL;
}

/* -- measuring ------------------------------------------------------------------------------------------------------ */

/* Counts the time from the first result of each slot to the start of the last frame, like the engine. */
static bool run(struct bare *bare, uint64_t frames, double *each, struct problem *problem) {
  unsigned slots = bare->setup.slots, index = 0;
  int64_t full = 0, over = 0;
  for (uint64_t i = 0; i < frames + slots; i++) {
    struct bare_slot *slot = &bare->slots[index];
    index = index + 1 < slots ? index + 1 : 0;
    if (i >= slots && !await(slot, problem)) {
      return false;
    }
    full = i == 2 * slots - 1 ? samples_now() : full;
    over = i == frames ? samples_now() : over;
    if (i < frames && !submit(slot, problem)) {
      return false;
    }
  }
  *each = (double)(over - full) / 1e3 / (double)(frames + 1 - 2 * slots);
  return true;
}

/* The number of frames that take `seconds`, estimated from a shorter run. */
static uint64_t frames_for(double seconds, double each) {
  double frames = seconds * 1e6 / each;
  return frames > 8.0 * GPU_MAX_SLOTS ? (uint64_t)frames : 8 * (uint64_t)GPU_MAX_SLOTS;
}

bool bare_run_for(struct bare *bare, double seconds, double *each, struct problem *problem) {
  return run(bare, 4 * (uint64_t)bare->setup.slots, each, problem) &&
         run(bare, frames_for(seconds * 0.1, *each), each, problem) && run(bare, frames_for(seconds, *each), each, problem);
}

bool bare_round_trips(struct bare *bare, unsigned count, struct samples *samples, struct problem *problem) {
  enum { WARM_UP = 20 };
  struct bare_slot *slot = &bare->slots[0];
  for (unsigned i = 0; i < count + WARM_UP; i++) {
    int64_t start = samples_now();
    if (!submit(slot, problem) || !await(slot, problem)) {
      return false;
    }
    if (i >= WARM_UP && !samples_add(samples, (double)(samples_now() - start) / 1e3)) {
      return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
    }
  }
  return true;
}

static bool serial_frame(struct bare_slot *slot, struct problem *problem) {
  size_t bytes = slot->bare->bytes;
  return CUDA_TRY(problem, cudaMemcpyAsync, slot->device_in, slot->in, bytes, cudaMemcpyHostToDevice, slot->stream) &&
         CUDA_TRY(problem, cudaStreamSynchronize, slot->stream) && compute(slot, problem) &&
         CUDA_TRY(problem, cudaStreamSynchronize, slot->stream) &&
         CUDA_TRY(problem, cudaMemcpyAsync, slot->out, slot->device_out, bytes, cudaMemcpyDeviceToHost, slot->stream) &&
         CUDA_TRY(problem, cudaStreamSynchronize, slot->stream);
}

bool bare_serial(struct bare *bare, double seconds, double *each, struct problem *problem) {
  for (int i = 0; i < 3; i++) { /* warm-up */
    if (!serial_frame(&bare->slots[0], problem)) {
      return false;
    }
  }
  uint64_t frames = 0;
  int64_t start = samples_now(), now;
  do {
    if (!serial_frame(&bare->slots[0], problem)) {
      return false;
    }
    frames++;
    now = samples_now();
  } while (now - start < (int64_t)(seconds * 1e9) || frames < 5);
  *each = (double)(now - start) / 1e3 / (double)frames;
  return true;
}
