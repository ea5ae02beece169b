/*
 * CUPTI as a witness: a run of the engine whose copies and kernels CUPTI also records.
 *
 * CUPTI is loaded only on request, since framebench must work on machines that lack the library. Its callbacks carry no
 * context, so the records of the only run go to a variable of this file.
 *
 * Recording slows the device's steps down. The device measures such delays when it is opened, and subtracts them from its
 * times. So it is opened again for this run, while recording is active. Records from before the run are dropped.
 */
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/overlap/cuda_overlap.h"
#include "tools/framebench/overlap/intervals.h"
#include "tools/framebench/overlap/workload.h"
#include "tools/framectl/common/forecast.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* Records as this CUPTI's header declares them, so the library must belong to the same CUDA version. */
#if CUPTI_API_VERSION >= 130000
#define CUPTI_NAME "libcupti.so.13"
typedef CUpti_ActivityMemcpy6 copy_record;
typedef CUpti_ActivityKernel10 kernel_record;
#else
#if __has_include(<cupti_activity_deprecated.h>)
#include <cupti_activity_deprecated.h>
#endif
#define CUPTI_NAME "libcupti.so.12"
typedef CUpti_ActivityMemcpy5 copy_record;
typedef CUpti_ActivityKernel9 kernel_record;
#endif

enum { BUFFER_BYTES = 4 << 20, BUFFER_ALIGNMENT = 64, RUN_SLOTS = 3 };
#define RUN_TOTAL (UINT64_C(2) << 30) /* bytes */
/* A longer pause between two records of an engine has other reasons than the hand-over to the next frame. */
#define LONGEST_GAP_NS UINT64_C(20000)

/*
 * `sum`: of the records' lengths; the busy time counts overlapping parts once. `gaps`: short pauses between two records, while
 * the engine changes to the next frame.
 */
static const struct section witness_section = {
    "witness", "Busy time of each engine in one run a size: the engine's own times, and CUPTI's",
    (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                            {"engine", "ENGINE", COLUMN_TEXT},
                            {"own_us", "OWN", COLUMN_TIME},
                            {"cupti_us", "CUPTI", COLUMN_TIME},
                            {"records", "RECORDS", COLUMN_COUNT},
                            {"ratio", "OWN/CUPTI", COLUMN_RATIO},
                            {"sum_us", "SUM", COLUMN_TIME},
                            {"overlapping", "OVERLAPPING", COLUMN_COUNT},
                            {"gaps_us", "SHORT GAPS", COLUMN_TIME},
                            {"wall_us", "WALL", COLUMN_TIME},
                            {0}}};

struct testimony {
  struct intervals of[OVERLAP_ENGINES];
  bool failed;
};

struct cupti {
  void *library;
  __typeof__(cuptiActivityRegisterCallbacks) *register_callbacks;
  __typeof__(cuptiActivityEnable) *enable;
  __typeof__(cuptiActivityDisable) *disable;
  __typeof__(cuptiActivityFlushAll) *flush;
  __typeof__(cuptiActivityGetNextRecord) *next_record;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following: callbacks run on CUPTI's threads */
static struct testimony testimony;
static struct cupti cupti;

/* -- records -------------------------------------------------------------------------------------------------------- */

static void add(enum overlap_engine engine, uint64_t begin, uint64_t end) {
  testimony.failed = !intervals_add(&testimony.of[engine], begin, end) || testimony.failed;
}

static void take_record(const CUpti_Activity *record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const copy_record *copy = (const copy_record *)record;
    if (copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD || copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) {
      add(copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? OVERLAP_H2D : OVERLAP_D2H, copy->start, copy->end);
    }
  } else if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const kernel_record *kernel = (const kernel_record *)record;
    add(OVERLAP_KERNEL, kernel->start, kernel->end);
  }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *max_records) {
  *buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
  *size = *buffer ? BUFFER_BYTES : 0;
  *max_records = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  CUpti_Activity *record = NULL;
  (void)context;
  (void)stream;
  (void)size;
  pthread_mutex_lock(&lock);
  while (valid > 0 && cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    take_record(record);
  }
  pthread_mutex_unlock(&lock);
  free(buffer);
}

/* -- the library ---------------------------------------------------------------------------------------------------- */

static bool load(struct problem *problem) {
  static const char *const names[] = {CUPTI_NAME, "libcupti.so", "/usr/local/cuda/lib64/" CUPTI_NAME,
                                      "/usr/local/cuda/extras/CUPTI/lib64/" CUPTI_NAME};
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !cupti.library; i++) {
    cupti.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  }
  if (!cupti.library) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "it comes with the CUDA toolkit; set LD_LIBRARY_PATH to its folder",
                       "CUPTI cannot be loaded: %s", dlerror());
  }
  *(void **)&cupti.register_callbacks = dlsym(cupti.library, "cuptiActivityRegisterCallbacks");
  *(void **)&cupti.enable = dlsym(cupti.library, "cuptiActivityEnable");
  *(void **)&cupti.disable = dlsym(cupti.library, "cuptiActivityDisable");
  *(void **)&cupti.flush = dlsym(cupti.library, "cuptiActivityFlushAll");
  *(void **)&cupti.next_record = dlsym(cupti.library, "cuptiActivityGetNextRecord");
  return (cupti.register_callbacks && cupti.enable && cupti.disable && cupti.flush && cupti.next_record) ||
         problem_set(problem, EXIT_STATUS_REFUSED, NULL, "this CUPTI lacks a function of its activity records");
}

static bool check(CUptiResult status, const char *what, struct problem *problem) {
  return status == CUPTI_SUCCESS || problem_set(problem, EXIT_STATUS_REFUSED,
                                                "the driver may keep profiling for root (NVreg_RestrictProfilingToAdminUsers)",
                                                "CUPTI: %s: error %d", what, (int)status);
}

static bool start(struct problem *problem) {
  return check(cupti.register_callbacks(give_buffer, take_buffer), "registering callbacks", problem) &&
         check(cupti.enable(CUPTI_ACTIVITY_KIND_MEMCPY), "recording copies", problem) &&
         check(cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "recording kernels", problem);
}

static bool flush(struct problem *problem) { return check(cupti.flush(1), "flushing records", problem); }

static bool stop(struct problem *problem) {
  bool flushed = flush(problem);
  (void)cupti.disable(CUPTI_ACTIVITY_KIND_MEMCPY);
  (void)cupti.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return flushed;
}

static void forget(void) {
  pthread_mutex_lock(&lock);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    intervals_forget(&testimony.of[engine]);
  }
  testimony.failed = false;
  pthread_mutex_unlock(&lock);
}

/* -- the run -------------------------------------------------------------------------------------------------------- */

/* Records from before the run are dropped. */
static bool run(struct gpu_device *device, size_t bytes, struct engine_figures *figures, struct problem *problem) {
  struct workload_costs costs;
  unsigned rounds;
  struct gpu_chain *chain =
      workload_measure(device, bytes, &costs, problem) ? workload_chain(WORKLOAD_EQUAL, bytes, &costs, &rounds, problem) : NULL;
  const struct engine_setup setup = {
      .chain = chain, .slots = RUN_SLOTS, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct engine *engine = chain ? engine_new(device, &setup, problem) : NULL;
  bool done = engine && flush(problem);
  forget();
  done = done && engine_run(engine, RUN_TOTAL / bytes, NULL, 0, figures, problem) && flush(problem);
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

static void report_engine(struct results *results, size_t bytes, enum overlap_engine engine,
                          const struct engine_figures *figures) {
  struct intervals *intervals = &testimony.of[engine];
  const struct intervals_summary seen = intervals_summarise(intervals, LONGEST_GAP_NS);
  double own = figures->service[engine];
  results_row(results,
              json_pack("{s:I, s:s, s:f, s:f, s:I, s:f, s:f, s:I, s:f, s:f}", "bytes", (json_int_t)bytes, "engine",
                        overlap_engine_keys[engine], "own_us", own, "cupti_us", seen.busy, "records",
                        (json_int_t)intervals->count, "ratio", seen.busy > 0 ? own / seen.busy : 0.0, "sum_us", seen.sum,
                        "overlapping", (json_int_t)seen.overlapping, "gaps_us", seen.gaps, "wall_us", figures->wall));
}

static bool report(struct results *results, size_t bytes, const struct engine_figures *figures, struct problem *problem) {
  pthread_mutex_lock(&lock);
  bool failed = testimony.failed;
  for (enum overlap_engine engine = 0; engine < OVERLAP_ENGINES; engine++) {
    report_engine(results, bytes, engine, figures);
    failed |= testimony.of[engine].count == 0;
  }
  pthread_mutex_unlock(&lock);
  return !failed || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "CUPTI gave no records, or there was no memory for them");
}

static bool run_all(struct results *results, unsigned index, struct problem *problem) {
  static const size_t sizes[] = {4 << 20, 24 << 20};
  struct gpu_error error = {0};
  struct gpu_device *device = gpu_open(GPU_BACKEND_CUDA, index, 0, &error);
  bool done = device || options_gpu_problem(&error, problem);
  results_section(results, &witness_section);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && done; i++) {
    struct engine_figures figures;
    done = run(device, sizes[i], &figures, problem) && report(results, sizes[i], &figures, problem);
  }
  gpu_close(device);
  return done;
}

/* Recording ends after a problem, too. The first problem is reported. */
bool overlap_cuda_witness(struct results *results, unsigned device, struct problem *problem) {
  struct problem other = {0};
  if (!load(problem) || !start(problem)) {
    return false;
  }
  bool done = run_all(results, device, problem);
  bool stopped = stop(done ? problem : &other);
  problem_clear(&other);
  forget();
  return done && stopped;
}
#else
bool overlap_cuda_witness(struct results *results, unsigned device, struct problem *problem) {
  (void)results;
  (void)device;
  return problem_set(problem, EXIT_STATUS_REFUSED, "build it again where cupti.h lies beside the headers of CUDA",
                     "this framebench was built without CUPTI");
}
#endif
