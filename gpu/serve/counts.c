#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/nvml.h"
#include "gpu/serve/serve.h"

enum { NAPS_A_PERIOD = 2, MEMORY_NAPS = 2 };
#define LONGEST_NAP INT64_C(200000000)
#define PERIOD      INT64_C(1000000000) /* between two questions to the device */
#define BUSY_NAP    INT64_C(2000000)

static struct {
  pthread_mutex_t lock;
  struct gpu_device *device;
  struct worker_counts *page;
  struct {
    struct model *model; /* NULL: the place is free */
    unsigned holders;
  } models[WORKER_MODELS];
} counts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void write_users(void) {
  for (unsigned i = 0; i < WORKER_MODELS; i++) {
    struct model_summary summary;
    if (counts.models[i].model) {
      model_summary(counts.models[i].model, &summary);
      atomic_store_explicit(&counts.page->models[i].users, summary.users, memory_order_relaxed);
    }
  }
}

static void write_memory(void) {
  struct gpu_usage usage;
  size_t available = 0, total = 0;
  if (!gpu_memory(counts.device, &available, &total)) {
    available = total = 0;
  }
  gpu_usage(counts.device, &usage);
  atomic_store_explicit(&counts.page->available, available, memory_order_relaxed);
  atomic_store_explicit(&counts.page->total, total, memory_order_relaxed);
  atomic_store_explicit(&counts.page->allocated, usage.allocated, memory_order_relaxed);
}

void counts_write(void) {
  pthread_mutex_lock(&counts.lock);
  if (counts.page) {
    write_users();
    write_memory();
  }
  pthread_mutex_unlock(&counts.lock);
}

/* On a thread of its own, since a driver may take its time, or all of it. */
static void *read_figures(void *context) {
  struct nvml *nvml = NULL;
  (void)context;
  for (;;) {
    double figures[NVML_FIGURES];
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    if (!atomic_load(&counts.page->wants_figures) || (!nvml && !(nvml = nvml_open()))) {
      continue;
    }
    nvml_read(nvml, gpu_device_address(counts.device), figures);
    for (int i = 0; i < NVML_FIGURES; i++) {
      atomic_store_explicit(&counts.page->figures[i], figures[i], memory_order_relaxed);
    }
    atomic_store(&counts.page->has_figures, 1);
  }
  return NULL;
}

static void nap(int64_t ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* Where the device does not answer, or a call to it does not return, the daemon sees that the last answer gets old. */
static void ask_device(void) {
  struct gpu_error error;
  const int64_t begun = gpu_now();
  enum gpu_progress progress;
  while ((progress = gpu_anchor(counts.device, &error)) == GPU_PENDING) {
    nap(BUSY_NAP);
  }
  if (progress == GPU_DONE) {
    const int64_t now = gpu_now();
    atomic_store(&counts.page->answer_took, now - begun);
    atomic_store(&counts.page->answered, now);
  }
}

static void *work(void *context) {
  int64_t asked = 0;
  (void)context;
  for (unsigned naps = 1;; naps++) {
    const int64_t wanted = atomic_load(&counts.page->canary_period);
    const int64_t period = wanted > 0 && wanted < PERIOD ? wanted : PERIOD;
    nap(period / NAPS_A_PERIOD < LONGEST_NAP ? period / NAPS_A_PERIOD : LONGEST_NAP);
    pthread_mutex_lock(&counts.lock);
    write_users();
    if (naps % MEMORY_NAPS == 0) {
      write_memory();
    }
    pthread_mutex_unlock(&counts.lock);
    if (gpu_now() - asked >= period) {
      asked = gpu_now();
      ask_device();
    }
    serve_end_if_lost(counts.device);
  }
  return NULL;
}

bool counts_open(struct gpu_device *device, int page, struct gpu_error *error) {
  pthread_t thread;
  counts.device = device;
  pthread_mutex_lock(&counts.lock);
  counts.page = serve_map(page, sizeof *counts.page);
  for (unsigned i = 0; i < WORKER_MODELS && counts.page; i++) {
    if (counts.models[i].model) { /* of chains that were there before the device */
      model_count_in(counts.models[i].model, counts.page->models[i].served, counts.page->models[i].batches);
    }
  }
  pthread_mutex_unlock(&counts.lock);
  if (!counts.page) {
    return gpu_error_set(error, errno, NULL, "the worker cannot map its counts: %s", strerror(errno));
  }
  counts_write();
  int code = gpu_thread_new(&thread, "framed-counts", work, NULL);
  if (code == 0 && *gpu_device_address(device)) {
    code = gpu_thread_new(&thread, "framed-figures", read_figures, NULL);
  }
  return code == 0 ||
         gpu_error_set(error, code, "raise the limit of threads (TasksMax)", "the worker gets no thread: %s", strerror(code));
}

unsigned counts_hold(struct model *model) {
  unsigned place = WORKER_MODELS, free_place = WORKER_MODELS;
  pthread_mutex_lock(&counts.lock);
  for (unsigned i = 0; i < WORKER_MODELS; i++) {
    place = counts.models[i].model == model ? i : place;
    free_place = !counts.models[i].model && free_place == WORKER_MODELS ? i : free_place;
  }
  place = place < WORKER_MODELS ? place : free_place;
  if (place < WORKER_MODELS) {
    struct model_counts *own = counts.page ? &counts.page->models[place] : NULL;
    if (own && counts.models[place].holders == 0) {
      model_count_in(model, own->served, own->batches);
    }
    counts.models[place].model = model;
    counts.models[place].holders++;
  }
  pthread_mutex_unlock(&counts.lock);
  return place;
}

void counts_let_go(struct model *model) {
  pthread_mutex_lock(&counts.lock);
  for (unsigned i = 0; i < WORKER_MODELS; i++) {
    if (counts.models[i].model == model && --counts.models[i].holders == 0) {
      model_count_in(model, NULL, NULL);
      counts.models[i].model = NULL;
    }
  }
  pthread_mutex_unlock(&counts.lock);
}
