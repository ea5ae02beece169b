/*
 * What comes before a device is opened: what the driver reads of the environment, and beginning with it early.
 *
 * A process that follows another one begins with the devices of that at once, on threads of their own, since it takes as long
 * as reading the configuration and opening models does. Whoever opens a device waits for them first, and finds out by itself
 * what went wrong. The environment is as the process before left it.
 */
#include "gpu/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the environment ---------------------------------------------------------------------------------------------- */

/* Besides those of the slots: the clock's and the canary's. Streams take the queues in turn, and the two streams that a
 * calibration makes and gives back must not have moved on to the clock's. */
enum { MOST_QUEUES = 32, OWN_QUEUES = 2, CALIBRATION_QUEUES = 2 };
#define QUEUES       "CUDA_DEVICE_MAX_CONNECTIONS"
#define QUEUES_OURS  "FRAMED_DEVICE_MAX_CONNECTIONS" /* what we set and may change: a process that executes itself keeps it */
#define LOADING      "CUDA_MODULE_LOADING"
#define LOADING_OURS "FRAMED_MODULE_LOADING"

static unsigned expected_slots;

void cuda_expect(unsigned slots) { expected_slots = slots; }

/* What the user has set stays. */
static bool set_variable(const char *name, const char *ours_name, const char *value) {
  const char *set = getenv(name), *ours = getenv(ours_name);
  bool is_users = set && (!ours || strcmp(set, ours) != 0);
  return is_users || (setenv(name, value, 1) == 0 && setenv(ours_name, value, 1) == 0);
}

/* Streams beyond the number of queues wait for each other; but each queue costs time when the process begins and ends. */
static bool set_queues(bool calibrates) {
  unsigned queues = expected_slots + OWN_QUEUES + (calibrates ? CALIBRATION_QUEUES : 0);
  char text[16];
  snprintf(text, sizeof text, "%u", queues < MOST_QUEUES ? queues : MOST_QUEUES);
  return expected_slots == 0 || set_variable(QUEUES, QUEUES_OURS, text);
}

/* No kernel of ours is loaded at its first launch, on a lane; where there are libraries with kernels of which most are never
 * used, the frames of the warm-up load what is used. */
static bool set_environment(bool calibrates) {
  return set_queues(calibrates) && set_variable(LOADING, LOADING_OURS, gpu_expects_library() ? "LAZY" : "EAGER");
}

static bool has_environment(void) { return getenv(QUEUES_OURS) && getenv(LOADING_OURS); }

/* The next image knows what a calibration tells. */
void cuda_leave_environment(void) {
  if (has_environment()) {
    (void)set_environment(false);
  }
}

/* -- beginning ---------------------------------------------------------------------------------------------------- */

enum { MOST_BEGUN = 64 };

static struct beginning {
  pthread_t thread;
  char address[GPU_ADDRESS];
} beginnings[MOST_BEGUN];
static unsigned begun_count;

static void *begin_device(void *context) {
  const struct beginning *beginning = context;
  int index;
  bool found = cudaDeviceGetByPCIBusId(&index, beginning->address) == cudaSuccess;
  gpu_await_left();
  if (!found || cudaSetDevice(index) != cudaSuccess) {
    (void)cudaGetLastError();
  }
  return NULL;
}

bool cuda_begin(const char *address) {
  struct beginning *beginning = &beginnings[begun_count];
  if (begun_count == MOST_BEGUN || !has_environment()) {
    return false;
  }
  snprintf(beginning->address, sizeof beginning->address, "%s", address);
  bool begun = gpu_thread_new(&beginning->thread, "framed-begin", begin_device, beginning) == 0;
  begun_count += begun;
  return begun;
}

bool cuda_prepare_driver(bool calibrates) {
  while (begun_count > 0) {
    pthread_join(beginnings[--begun_count].thread, NULL);
  }
  return set_environment(calibrates);
}
