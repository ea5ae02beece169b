/*
 * CUPTI as a witness: a run of the engine whose copies and kernels CUPTI records too.
 *
 * CUPTI is loaded when it is asked for, so that framebench needs it neither to be linked nor to run. Its callbacks carry
 * no context, so the records of the one run there can be at a time go to a variable of this file.
 */
#include "tools/framebench/cuda_overlap.h"
#include "tools/framebench/engine.h"
#include "tools/framebench/workload.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 4 << 20, BUFFER_ALIGNMENT = 64, RUN_FRAMES = 500, RUN_BYTES = 4 << 20, RUN_SLOTS = 3 };

static const struct section witness_section = {"witness",
                                               "Busy time of each engine in one run: the engine's own times, and CUPTI's",
                                               (const struct column[]){{"engine", "ENGINE", COLUMN_TEXT},
                                                                       {"own_us", "OWN", COLUMN_TIME},
                                                                       {"cupti_us", "CUPTI", COLUMN_TIME},
                                                                       {"records", "RECORDS", COLUMN_COUNT},
                                                                       {"ratio", "OWN/CUPTI", COLUMN_RATIO},
                                                                       {0}}};

struct interval {
  uint64_t begin, end; /* ns */
};

struct intervals {
  struct interval *items;
  size_t count, room;
};

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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows: callbacks come on CUPTI's threads */
static struct testimony testimony;
static struct cupti cupti;

/* -- records -------------------------------------------------------------------------------------------------------- */

static void add(struct intervals *intervals, uint64_t begin, uint64_t end) {
  if (intervals->count == intervals->room) {
    size_t room = intervals->room ? 2 * intervals->room : 1024;
    struct interval *items = realloc(intervals->items, room * sizeof *items);
    if (!items) {
      testimony.failed = true;
      return;
    }
    intervals->items = items;
    intervals->room = room;
  }
  intervals->items[intervals->count++] = (struct interval){begin, end};
}

static void take_record(const CUpti_Activity *record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const CUpti_ActivityMemcpy6 *copy = (const CUpti_ActivityMemcpy6 *)record;
    if (copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD || copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) {
      add(&testimony.of[copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? OVERLAP_H2D : OVERLAP_D2H], copy->start, copy->end);
    }
  } else if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)record;
    add(&testimony.of[OVERLAP_KERNEL], kernel->start, kernel->end);
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

static int compare(const void *a, const void *b) {
  uint64_t x = ((const struct interval *)a)->begin, y = ((const struct interval *)b)->begin;
  return (x > y) - (x < y);
}

/* Microseconds in which at least one of them lasted. Sorts them. */
static double busy(struct intervals *intervals) {
  uint64_t end = 0, sum = 0;
  if (intervals->count > 0) {
    qsort(intervals->items, intervals->count, sizeof *intervals->items, compare);
  }
  for (size_t i = 0; i < intervals->count; i++) {
    const struct interval *item = &intervals->items[i];
    uint64_t begin = item->begin > end ? item->begin : end;
    sum += item->end > begin ? item->end - begin : 0;
    end = item->end > end ? item->end : end;
  }
  return (double)sum / 1e3;
}

/* -- the library ---------------------------------------------------------------------------------------------------- */

static bool load(struct problem *problem) {
  static const char *const names[] = {"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so.13",
                                      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"};
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !cupti.library; i++) {
    cupti.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  }
  if (!cupti.library) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "it comes with the CUDA toolkit; set LD_LIBRARY_PATH to where it lies",
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

static bool stop(struct problem *problem) {
  bool flushed = check(cupti.flush(1), "flushing records", problem);
  (void)cupti.disable(CUPTI_ACTIVITY_KIND_MEMCPY);
  (void)cupti.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return flushed;
}

/* -- the run -------------------------------------------------------------------------------------------------------- */

static bool run(struct gpu_device *device, struct engine_figures *figures, struct problem *problem) {
  struct workload_costs costs;
  unsigned rounds;
  struct gpu_chain *chain = workload_measure(device, RUN_BYTES, &costs, problem)
                                ? workload_chain(WORKLOAD_EQUAL, RUN_BYTES, &costs, &rounds, problem)
                                : NULL;
  const struct engine_setup setup = {
      .chain = chain, .slots = RUN_SLOTS, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct engine *engine = chain ? engine_new(device, &setup, problem) : NULL;
  bool done = engine && start(problem) && engine_run(engine, RUN_FRAMES, NULL, 0, figures, problem) && stop(problem);
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

static bool report(struct results *results, const struct engine_figures *figures, struct problem *problem) {
  bool failed = testimony.failed;
  results_section(results, &witness_section);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    double own = figures->service[engine], seen = busy(&testimony.of[engine]);
    results_row(results,
                json_pack("{s:s, s:f, s:f, s:I, s:f}", "engine", overlap_engine_keys[engine], "own_us", own, "cupti_us", seen,
                          "records", (json_int_t)testimony.of[engine].count, "ratio", seen > 0 ? own / seen : 0.0));
    failed |= testimony.of[engine].count == 0;
    free(testimony.of[engine].items);
  }
  testimony = (struct testimony){0};
  return !failed || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "CUPTI gave no records, or there was no memory for them");
}

bool overlap_cuda_witness(struct results *results, struct gpu_device *device, struct problem *problem) {
  struct engine_figures figures;
  if (!load(problem) || !run(device, &figures, problem)) {
    return false;
  }
  pthread_mutex_lock(&lock);
  bool done = report(results, &figures, problem);
  pthread_mutex_unlock(&lock);
  return done;
}
#else
bool overlap_cuda_witness(struct results *results, struct gpu_device *device, struct problem *problem) {
  (void)results;
  (void)device;
  return problem_set(problem, EXIT_STATUS_REFUSED, "build it again where cupti.h lies beside the headers of CUDA",
                     "this framebench was built without CUPTI");
}
#endif
