/* Measures launches, the notification of their end, and one frame alone. It uses only CUDA, on its own streams. */
#include "tools/framebench/common/cuda_bare.h"
#include "tools/framebench/common/cuda_kernels.h"
#include "tools/framebench/common/cuda_try.h"
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/limits/limits.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* -- launches and their end ----------------------------------------------------------------------------------------- */

static const struct section calls_section = {
    "calls", "Calls, and launch of an empty kernel to its end seen",
    (const struct column[]){
        {"what", "WHAT", COLUMN_TEXT}, {"p50_us", "P50", COLUMN_TIME}, {"p99_us", "P99", COLUMN_TIME}, {0}}};

struct caller {
  cudaStream_t stream;
  cudaEvent_t polled, blocking;
  cudaGraphExec_t graph;   /* of one empty kernel */
  volatile uint32_t *flag; /* mapped host memory */
  uint32_t value;
  atomic_bool called;
  int event, epoll;
};

static void CUDART_CB set_called(void *argument) { atomic_store(&((struct caller *)argument)->called, true); }

static void CUDART_CB write_event(void *argument) {
  const uint64_t one = 1;
  while (write(((struct caller *)argument)->event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

static bool launch(struct caller *caller, struct problem *problem) {
  return cuda_try((cudaError_t)kernels_empty(caller->stream), "launching a kernel", problem);
}

/* Each returns the time at which the measured step is over, or -1 on a problem. */

static int64_t after_call(struct caller *caller, struct problem *problem) {
  bool done = launch(caller, problem);
  int64_t now = samples_now();
  return done && CUDA_TRY(problem, cudaStreamSynchronize, caller->stream) ? now : -1;
}

static int64_t after_graph_call(struct caller *caller, struct problem *problem) {
  bool done = CUDA_TRY(problem, cudaGraphLaunch, caller->graph, caller->stream);
  int64_t now = samples_now();
  return done && CUDA_TRY(problem, cudaStreamSynchronize, caller->stream) ? now : -1;
}

/* Polls until the stream's work is done. */
static int64_t spin(struct caller *caller, struct problem *problem) {
  if (!CUDA_TRY(problem, cudaEventRecord, caller->polled, caller->stream)) {
    return -1;
  }
  cudaError_t status;
  while ((status = cudaEventQuery(caller->polled)) == cudaErrorNotReady) {
  }
  return cuda_try(status, "cudaEventQuery", problem) ? samples_now() : -1;
}

static int64_t after_graph_spin(struct caller *caller, struct problem *problem) {
  return CUDA_TRY(problem, cudaGraphLaunch, caller->graph, caller->stream) ? spin(caller, problem) : -1;
}

static int64_t after_spin(struct caller *caller, struct problem *problem) {
  return launch(caller, problem) ? spin(caller, problem) : -1;
}

static int64_t after_flag(struct caller *caller, struct problem *problem) {
  uint32_t value = ++caller->value;
  if (!cuda_try((cudaError_t)kernels_raise(caller->flag, value, caller->stream), "launching a kernel", problem)) {
    return -1;
  }
  int64_t limit = samples_now() + INT64_C(1000000000);
  while (*caller->flag != value && samples_now() < limit) {
  }
  int64_t now = samples_now();
  if (now >= limit) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "a kernel's flag was not seen within 1 s");
    return -1;
  }
  return CUDA_TRY(problem, cudaStreamSynchronize, caller->stream) ? now : -1;
}

static int64_t after_callback(struct caller *caller, struct problem *problem) {
  atomic_store(&caller->called, false);
  if (!launch(caller, problem) || !CUDA_TRY(problem, cudaLaunchHostFunc, caller->stream, set_called, caller)) {
    return -1;
  }
  int64_t limit = samples_now() + INT64_C(1000000000);
  while (!atomic_load(&caller->called) && samples_now() < limit) {
  }
  int64_t now = samples_now();
  if (now >= limit) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "a stream's callback did not come within 1 s");
    return -1;
  }
  return now;
}

static int64_t after_wake(struct caller *caller, struct problem *problem) {
  struct epoll_event event;
  uint64_t count;
  if (!launch(caller, problem) || !CUDA_TRY(problem, cudaLaunchHostFunc, caller->stream, write_event, caller)) {
    return -1;
  }
  if (epoll_wait(caller->epoll, &event, 1, 1000) != 1 || read(caller->event, &count, sizeof count) < 0) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "a stream's callback did not come within 1 s");
    return -1;
  }
  return samples_now();
}

static int64_t after_blocking(struct caller *caller, struct problem *problem) {
  return launch(caller, problem) && CUDA_TRY(problem, cudaEventRecord, caller->blocking, caller->stream) &&
                 CUDA_TRY(problem, cudaEventSynchronize, caller->blocking)
             ? samples_now()
             : -1;
}

static const struct call {
  const char *what;
  int64_t (*run)(struct caller *caller, struct problem *problem);
} calls[] = {{"launch, the call alone", after_call},
             {"seen by spin (event polled)", after_spin},
             {"seen by mapped flag", after_flag},
             {"seen by callback and flag", after_callback},
             {"callback, eventfd, epoll", after_wake},
             {"blocking event", after_blocking},
             {"graph launch, the call alone", after_graph_call},
             {"graph seen by spin", after_graph_spin}};

static bool capture_empty(struct caller *caller, struct problem *problem) {
  cudaGraph_t graph = NULL;
  if (!CUDA_TRY(problem, cudaStreamBeginCapture, caller->stream, cudaStreamCaptureModeThreadLocal) ||
      !launch(caller, problem) || !CUDA_TRY(problem, cudaStreamEndCapture, caller->stream, &graph)) {
    return false;
  }
  bool done = CUDA_TRY(problem, cudaGraphInstantiate, &caller->graph, graph, 0);
  return CUDA_TRY(problem, cudaGraphDestroy, graph) && done;
}

static bool open_caller(struct caller *caller, struct problem *problem) {
  struct epoll_event interest = {.events = EPOLLIN};
  caller->event = eventfd(0, EFD_CLOEXEC);
  caller->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (caller->event < 0 || caller->epoll < 0 || epoll_ctl(caller->epoll, EPOLL_CTL_ADD, caller->event, &interest) != 0) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "an eventfd: %s", strerror(errno));
  }
  return CUDA_TRY(problem, cudaStreamCreateWithFlags, &caller->stream, cudaStreamNonBlocking) &&
         CUDA_TRY(problem, cudaEventCreateWithFlags, &caller->polled, cudaEventDisableTiming) &&
         CUDA_TRY(problem, cudaEventCreateWithFlags, &caller->blocking, cudaEventDisableTiming | cudaEventBlockingSync) &&
         CUDA_TRY(problem, cudaHostAlloc, (void **)&caller->flag, sizeof *caller->flag, cudaHostAllocMapped) &&
         capture_empty(caller, problem);
}

static void close_caller(struct caller *caller) {
  if (caller->stream) {
    (void)cudaStreamSynchronize(caller->stream);
    (void)cudaStreamDestroy(caller->stream);
  }
  if (caller->graph) {
    (void)cudaGraphExecDestroy(caller->graph);
  }
  if (caller->polled) {
    (void)cudaEventDestroy(caller->polled);
  }
  if (caller->blocking) {
    (void)cudaEventDestroy(caller->blocking);
  }
  (void)cudaFreeHost((void *)caller->flag);
  close(caller->event);
  close(caller->epoll);
}

static void times_row(struct results *results, const char *what, struct samples *samples) {
  results_row(results, json_pack("{s:s, s:f, s:f}", "what", what, "p50_us", samples_percentile(samples, 0.5), "p99_us",
                                 samples_percentile(samples, 0.99)));
}

static bool call_row(struct results *results, struct caller *caller, const struct call *call, unsigned count,
                     struct problem *problem) {
  struct samples samples = {0};
  bool done = true;
  for (unsigned i = 0; i < count && done; i++) {
    int64_t start = samples_now();
    int64_t end = call->run(caller, problem);
    done = end >= 0 && (i < count / 10 || samples_add(&samples, (double)(end - start) / 1e3));
  }
  if (done) {
    times_row(results, call->what, &samples);
  }
  samples_free(&samples);
  return done;
}

bool limits_calls(struct results *results, const struct options *options, struct problem *problem) {
  struct caller caller = {.event = -1, .epoll = -1};
  bool done = open_caller(&caller, problem);
  results_section(results, &calls_section);
  for (size_t i = 0; i < sizeof calls / sizeof calls[0] && done; i++) {
    done = call_row(results, &caller, &calls[i], options->quick ? 50 : 3000, problem);
  }
  close_caller(&caller);
  return done;
}

/* -- one frame alone ------------------------------------------------------------------------------------------------ */

static const struct section round_trip_section = {"round_trip", "One frame alone: copy in, affine, copy out, seen by spin",
                                                  (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                                                                          {"graph", "GRAPH", COLUMN_TEXT},
                                                                          {"p50_us", "P50", COLUMN_TIME},
                                                                          {"p99_us", "P99", COLUMN_TIME},
                                                                          {0}}};

static bool round_trip_row(struct results *results, const struct bare_setup *setup, size_t bytes, bool quick,
                           struct problem *problem) {
  struct samples samples = {0};
  struct bare *bare = bare_new(setup, problem);
  bool done = bare && bare_round_trips(bare, quick ? 20 : 1000, &samples, problem);
  if (done) {
    results_row(results, json_pack("{s:I, s:s, s:f, s:f}", "bytes", (json_int_t)bytes, "graph", setup->graph ? "yes" : "no",
                                   "p50_us", samples_percentile(&samples, 0.5), "p99_us", samples_percentile(&samples, 0.99)));
  }
  bare_free(bare);
  samples_free(&samples);
  return done;
}

bool limits_round_trips(struct results *results, const struct options *options, struct problem *problem) {
  static const size_t sizes[] = {4096, 65536, 1 << 20, 4 << 20};
  bool done = true;
  results_section(results, &round_trip_section);
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0] && done; i++) {
    struct gpu_chain *chain = engine_chain(sizes[i / 2], "affine", "scale", 2, problem);
    struct bare_setup setup = {.chain = chain, .device = options->device, .slots = 1, .graph = i % 2 == 1};
    done = chain && round_trip_row(results, &setup, sizes[i / 2], options->quick, problem);
    gpu_chain_free(chain);
  }
  return done;
}
