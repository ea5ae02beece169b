#include "gpu/blame.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/nvml.h"

enum { LISTEN_MS = 100 }; /* as long the end may take */
#define LOOK_NS     INT64_C(500000)
#define PATIENCE_NS INT64_C(50000000)   /* the error may be noted after the first call that fails, */
#define FRESH_NS    INT64_C(2000000000) /* or long before, but then it is that of another process */

struct blame {
  pthread_t thread;
  atomic_bool ending, deaf; /* deaf: nothing comes any more */
  _Atomic uint64_t error;   /* the Xid, and above it the device; */
  _Atomic int64_t noted;    /* when it came; 0: none has */
  unsigned count;
  const char *addresses[NVML_MOST];
};

static bool is_fresh(struct blame *blame, int64_t now) {
  int64_t noted = atomic_load(&blame->noted);
  return noted > 0 && now - noted < FRESH_NS;
}

static void *run(void *context) {
  struct blame *blame = context;
  struct nvml *nvml = nvml_open();
  struct nvml_error error;
  bool hears = nvml && nvml_listen(nvml, blame->addresses, blame->count);
  while (hears && !atomic_load(&blame->ending)) {
    hears = nvml_wait(nvml, LISTEN_MS, &error);
    int64_t now = gpu_now();
    if (error.device != NVML_NOBODY && !is_fresh(blame, now)) { /* of several the first is the cause */
      atomic_store(&blame->error, (uint64_t)error.device << 32 | error.xid);
      atomic_store(&blame->noted, now);
    }
  }
  atomic_store(&blame->deaf, true);
  nvml_close(nvml);
  return NULL;
}

struct blame *blame_new(const char *const addresses[], unsigned count) {
  struct blame *blame = count <= NVML_MOST ? calloc(1, sizeof *blame) : NULL;
  if (blame) {
    blame->count = count;
    memcpy(blame->addresses, addresses, count * sizeof addresses[0]);
  }
  if (blame && gpu_thread_new(&blame->thread, "framed-blame", run, blame) != 0) {
    free(blame);
    return NULL;
  }
  return blame;
}

struct blame *blame_free(struct blame *blame) {
  if (blame) {
    atomic_store(&blame->ending, true);
    pthread_join(blame->thread, NULL);
  }
  free(blame);
  return NULL;
}

bool blame_ask(struct blame *blame, unsigned *device, unsigned *xid) {
  const int64_t began = gpu_now();
  while (!is_fresh(blame, began) && !atomic_load(&blame->deaf) && gpu_now() - began < PATIENCE_NS) {
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
  }
  uint64_t error = atomic_load(&blame->error);
  *device = (unsigned)(error >> 32);
  *xid = (unsigned)error;
  return is_fresh(blame, began);
}
