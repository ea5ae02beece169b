#include "tools/framebench/stages/cuda_stages.h"

#include "tools/framebench/common/cuda_try.h"

/* Larger than the second-level cache of any device. */
#define WORKING_SET ((size_t)512 << 20)
enum { MOST_SETS = 128, LAUNCHES = 32, REPLAYS = 5, ALIGNMENT = 256, QUICK_SHARE = 64 };

/* A stage and its memory: `sets` inputs and outputs used in turn, one scratch and one state. */
struct track {
  const struct stage_plan *plan; /* NULL: a copy of `input_bytes` */
  const void *frame;             /* on the host; NULL: the default content */
  size_t input_bytes, output_bytes;
  unsigned sets;
  unsigned char *memory;
  void *scratch, *state;
  cudaStream_t stream;
  cudaEvent_t start, stop;
  cudaGraphExec_t graph;
};

static size_t align(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static size_t set_bytes(const struct track *track) { return align(track->input_bytes) + align(track->output_bytes); }

static bool enqueue(const struct track *track, unsigned number, struct problem *problem) {
  unsigned char *input = track->memory + number % track->sets * set_bytes(track);
  unsigned char *output = input + align(track->input_bytes);
  if (!track->plan) {
    return CUDA_TRY(problem, cudaMemcpyAsync, output, input, track->input_bytes, cudaMemcpyDeviceToDevice, track->stream);
  }
  const struct stage_call call = {
      .input = input, .output = output, .scratch = track->scratch, .state = track->state, .sequence = number, .restart = false};
  return cuda_try((cudaError_t)track->plan->stage->enqueue(track->plan, &call, track->stream), track->plan->stage->about->name,
                  problem);
}

static bool capture(struct track *track, struct problem *problem) {
  cudaGraph_t graph = NULL;
  if (!CUDA_TRY(problem, cudaStreamBeginCapture, track->stream, cudaStreamCaptureModeThreadLocal)) {
    return false;
  }
  for (unsigned i = 0; i < LAUNCHES; i++) {
    if (!enqueue(track, i, problem)) {
      return false;
    }
  }
  if (!CUDA_TRY(problem, cudaStreamEndCapture, track->stream, &graph)) {
    return false;
  }
  bool done = CUDA_TRY(problem, cudaGraphInstantiate, &track->graph, graph, 0);
  return CUDA_TRY(problem, cudaGraphDestroy, graph) && done;
}

static bool take_memory(struct track *track, struct problem *problem) {
  size_t bytes = track->sets * set_bytes(track);
  return CUDA_TRY(problem, cudaMalloc, (void **)&track->memory, bytes) &&
         CUDA_TRY(problem, cudaMemsetAsync, track->memory, 0x3c, bytes, track->stream) &&
         (!track->plan || track->plan->scratch_bytes == 0 ||
          CUDA_TRY(problem, cudaMalloc, &track->scratch, track->plan->scratch_bytes)) &&
         (!track->plan || track->plan->state_bytes == 0 ||
          (CUDA_TRY(problem, cudaMalloc, &track->state, track->plan->state_bytes) &&
           CUDA_TRY(problem, cudaMemsetAsync, track->state, 0, track->plan->state_bytes, track->stream)));
}

static bool fill_inputs(struct track *track, struct problem *problem) {
  bool done = true;
  for (unsigned i = 0; i < track->sets && track->frame && done; i++) {
    done = CUDA_TRY(problem, cudaMemcpyAsync, track->memory + i * set_bytes(track), track->frame, track->input_bytes,
                    cudaMemcpyHostToDevice, track->stream);
  }
  return done;
}

static bool open_track(struct track *track, bool quick, struct problem *problem) {
  size_t wanted = (quick ? WORKING_SET / QUICK_SHARE : WORKING_SET) / set_bytes(track) + 1;
  track->sets = wanted > MOST_SETS ? MOST_SETS : (unsigned)wanted;
  return CUDA_TRY(problem, cudaStreamCreateWithFlags, &track->stream, cudaStreamNonBlocking) &&
         CUDA_TRY(problem, cudaEventCreate, &track->start) && CUDA_TRY(problem, cudaEventCreate, &track->stop) &&
         take_memory(track, problem) && fill_inputs(track, problem) && enqueue(track, 0, problem) &&
         CUDA_TRY(problem, cudaStreamSynchronize, track->stream) && capture(track, problem);
}

static void close_track(struct track *track) {
  if (track->stream) {
    (void)cudaStreamSynchronize(track->stream);
    (void)cudaStreamDestroy(track->stream);
  }
  if (track->graph) {
    (void)cudaGraphExecDestroy(track->graph);
  }
  if (track->start) {
    (void)cudaEventDestroy(track->start);
  }
  if (track->stop) {
    (void)cudaEventDestroy(track->stop);
  }
  (void)cudaFree(track->memory);
  (void)cudaFree(track->scratch);
  (void)cudaFree(track->state);
}

/* The shortest of some replays, after a warm-up. */
static bool replay(struct track *track, double *each, struct problem *problem) {
  for (int i = 0; i <= REPLAYS; i++) {
    float milliseconds = 0;
    if (!CUDA_TRY(problem, cudaEventRecord, track->start, track->stream) ||
        !CUDA_TRY(problem, cudaGraphLaunch, track->graph, track->stream) ||
        !CUDA_TRY(problem, cudaEventRecord, track->stop, track->stream) ||
        !CUDA_TRY(problem, cudaEventSynchronize, track->stop) ||
        !CUDA_TRY(problem, cudaEventElapsedTime, &milliseconds, track->start, track->stop)) {
      return false;
    }
    double now = (double)milliseconds * 1e3 / LAUNCHES;
    *each = i <= 1 || now < *each ? now : *each;
  }
  return true;
}

static bool run(struct track *track, bool quick, double *each, struct problem *problem) {
  bool done = open_track(track, quick, problem) && replay(track, each, problem);
  close_track(track);
  return done;
}

bool stages_cuda_time(const struct stage_plan *plan, const void *frame, bool quick, double *each, struct problem *problem) {
  struct track track = {.plan = plan, .frame = frame, .input_bytes = plan->input_bytes, .output_bytes = plan->output_bytes};
  return run(&track, quick, each, problem);
}

bool stages_cuda_copy_rate(bool quick, double *rate, struct problem *problem) {
  const size_t bytes = quick ? 1 << 20 : 64 << 20;
  struct track track = {.input_bytes = bytes, .output_bytes = bytes};
  double each = 0;
  bool done = run(&track, quick, &each, problem);
  *rate = done && each > 0 ? 2.0 * (double)bytes / each : 0;
  return done;
}
