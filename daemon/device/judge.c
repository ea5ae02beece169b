/*
 * The worker that judges configurations: it opens their models and negotiates their formats before any device has to. It has no
 * device, so that what goes wrong in it costs no frame. The first device that is opened gets this worker, with the models that
 * are open there; a later configuration is judged by a new one.
 *
 * After an upgrade a worker of the image before judges, since it has the models open already. Each device then takes its own.
 */
#include "daemon/device/private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process *judge;                /* NULL: there is none */
static struct process *adopted[DEVICE_MOST]; /* by devices' numbers, until they are opened */
static struct process *standbys[DEVICE_MOST];

static struct process *hold_any_adopted(void) {
  for (unsigned i = 0; i < DEVICE_MOST; i++) {
    if (adopted[i] && !process_is_lost(adopted[i], NULL)) {
      return process_hold(adopted[i]);
    }
  }
  return NULL;
}

static bool is_adopted(const struct process *process) {
  bool is = false;
  for (unsigned i = 0; i < DEVICE_MOST; i++) {
    is = is || adopted[i] == process;
  }
  return is;
}

struct process *judge_hold(struct gpu_error *error) {
  pthread_mutex_lock(&lock);
  if (judge && process_is_lost(judge, NULL)) {
    judge = process_release(judge);
  }
  judge = judge ? judge : hold_any_adopted();
  judge = judge ? judge : process_start(error);
  struct process *held = judge ? process_hold(judge) : NULL;
  pthread_mutex_unlock(&lock);
  return held;
}

struct process *judge_take(struct gpu_error *error) {
  pthread_mutex_lock(&lock);
  struct process *taken = judge && !is_adopted(judge) && !process_is_lost(judge, NULL) ? process_hold(judge) : NULL;
  pthread_mutex_unlock(&lock);
  device_judge_end();
  return taken ? taken : process_start(error);
}

void adopted_take(unsigned index, struct process **process, struct process **standby) {
  pthread_mutex_lock(&lock);
  *process = adopted[index];
  *standby = standbys[index];
  adopted[index] = standbys[index] = NULL;
  struct process *ended = judge && judge == *process ? judge : NULL;
  judge = ended ? NULL : judge;
  pthread_mutex_unlock(&lock);
  process_release(ended);
}

void device_adopt(unsigned index, bool stands_by, const struct process_left *left, int control, int counts) {
  struct process *process = process_adopt(left, control, counts);
  pthread_mutex_lock(&lock);
  *(stands_by ? &standbys[index] : &adopted[index]) = process;
  pthread_mutex_unlock(&lock);
}

void device_adopt_end(void) {
  for (unsigned i = 0; i < DEVICE_MOST; i++) {
    pthread_mutex_lock(&lock);
    struct process *const left[] = {adopted[i], standbys[i]};
    adopted[i] = standbys[i] = NULL;
    pthread_mutex_unlock(&lock);
    process_release(left[0]);
    process_release(left[1]);
  }
}

void device_judge_end(void) {
  pthread_mutex_lock(&lock);
  struct process *ended = judge;
  judge = NULL;
  pthread_mutex_unlock(&lock);
  process_release(ended);
}
