/* What the driver reads of the environment when it is called for the first time. */
#include "gpu/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Besides those of the slots: the clock's. Streams take the queues in turn, and the two streams that a calibration makes and
 * gives back must not have moved on to the clock's.
 *
 * The driver allows 32. But frames wait for a killed worker to be gone, which takes 83 to 136 ms with 8 queues and 324 to
 * 414 ms with 32 (H200, driver 580). */
enum { MOST_QUEUES = 8, OWN_QUEUES = 1, CALIBRATION_QUEUES = 2 };
#define QUEUES       "CUDA_DEVICE_MAX_CONNECTIONS"
#define QUEUES_OURS  "FRAMED_DEVICE_MAX_CONNECTIONS" /* what we set, and may change */
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
bool cuda_prepare_driver(bool calibrates) {
  return set_queues(calibrates) && set_variable(LOADING, LOADING_OURS, gpu_expects_library() ? "LAZY" : "EAGER");
}
