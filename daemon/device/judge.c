/*
 * The worker that judges configurations: it opens their models and negotiates their formats before any device has to. It has no
 * device, so that what goes wrong in it costs no frame. The first device that is opened gets this worker, with the models that
 * are open there; a later configuration is judged by a new one.
 */
#include "daemon/device/private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process *judge; /* NULL: there is none */

struct process *judge_hold(struct gpu_error *error) {
  pthread_mutex_lock(&lock);
  if (judge && process_is_lost(judge, NULL)) {
    judge = process_release(judge);
  }
  judge = judge ? judge : process_start(error);
  struct process *held = judge ? process_hold(judge) : NULL;
  pthread_mutex_unlock(&lock);
  return held;
}

struct process *judge_take(struct gpu_error *error) {
  struct process *taken = judge_hold(error);
  device_judge_end();
  return taken;
}

void device_judge_end(void) {
  pthread_mutex_lock(&lock);
  struct process *ended = judge;
  judge = NULL;
  pthread_mutex_unlock(&lock);
  process_release(ended);
}
