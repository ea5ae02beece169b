/*
 * Batches and their threads; see batches.h.
 *
 * The thread whose turn it is sleeps at a semaphore until the batcher has something for it: condition variables of glibc before
 * 2.41 can lose a wake-up (its bug 25847), and here a lost one is a frame that hangs.
 */
#include "gpu/model/batches.h"
#include "gpu/cpu/pool.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct batches;

struct batch_thread {
  struct batches *set;
  void *instance;
  pthread_t thread;
};

struct batches {
  struct batches *next;
  struct gpu_device *device;
  struct model *model;
  const struct batch_engine *engine;
  unsigned members;
  pthread_mutex_t turn; /* of the thread that asks */
  pthread_mutex_t lock; /* guards what follows */
  sem_t woken;
  int64_t sleeps_until; /* the thread whose turn it is; 0: it does not sleep, or was woken */
  bool stopping;
  struct batcher batcher;
  unsigned count;
  struct batch_thread threads[MODEL_MOST_INSTANCES];
};

struct batch_member {
  struct batches *set;
  const struct stage_plan *plan;
  struct batch_queue queue;
  struct batch_place places[GPU_MAX_SLOTS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and while sets are made and freed */
static struct batches *all;

/* -- asking for a batch ------------------------------------------------------------------------------------------------- */

/* Called and left with the lock held. */
static void sleep_until(struct batches *set, int64_t due) {
  const struct timespec until = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)};
  set->sleeps_until = due;
  pthread_mutex_unlock(&set->lock);
  int result;
  do {
    result = due == BATCHER_NEVER ? sem_wait(&set->woken) : sem_clockwait(&set->woken, CLOCK_MONOTONIC, &until);
  } while (result != 0 && errno == EINTR);
  pool_take_lock(&set->lock);
  bool was_woken = set->sleeps_until == 0;
  set->sleeps_until = 0;
  if (was_woken && result != 0) { /* at the same moment: the next sleep is not for this one */
    while (sem_wait(&set->woken) != 0) {
    }
  }
}

static void wake(struct batches *set) {
  if (set->sleeps_until != 0) {
    set->sleeps_until = 0;
    sem_post(&set->woken);
  }
}

/* Waits for frames that may go; false: no more will. */
static bool await_batch(struct batches *set, struct batch *batch) {
  struct batch_frame *frames[BATCHER_MOST];
  pool_take_lock(&set->lock);
  while ((batch->count = batcher_take(&set->batcher, gpu_now(), frames)) == 0 && !set->stopping) {
    sleep_until(set, batcher_due(&set->batcher));
  }
  pthread_mutex_unlock(&set->lock);
  for (unsigned i = 0; i < batch->count; i++) {
    batch->places[i] = (struct batch_place *)frames[i];
  }
  return batch->count > 0;
}

/* -- computing it ------------------------------------------------------------------------------------------------------- */

/* Before any of its frames may be seen to be done. */
static void tell(const struct batch_thread *thread, const struct batch *batch) {
  struct model *model = thread->set->model;
  const unsigned number = (unsigned)(thread - thread->set->threads);
  for (unsigned i = 0; i < batch->count; i++) {
    struct stage_run *run = batch->places[i]->call->run;
    run->instance = number + 1;
    run->served = &model->served[number];
    run->batch = batch->count;
  }
  if (batch->places[0]->call->sequence != STAGE_WARM_UP) {
    atomic_fetch_add_explicit(&model->batches[batch->count - 1], 1, memory_order_relaxed);
  }
}

void batch_resume(struct batch *batch) {
  for (unsigned i = 0; i < batch->count; i++) {
    struct stage_call *call = batch->places[i]->call;
    call->resume(call);
  }
}

static void learn(struct batches *set, int64_t began) {
  pool_take_lock(&set->lock);
  batcher_learn(&set->batcher, gpu_now() - began);
  pthread_mutex_unlock(&set->lock);
}

static void *compute(void *argument) {
  const struct batch_thread *thread = argument;
  struct batches *set = thread->set;
  struct batch batch;
  for (;;) {
    pthread_mutex_lock(&set->turn);
    bool good = await_batch(set, &batch);
    int64_t began = gpu_now();
    if (good) {
      tell(thread, &batch);
    }
    if (good && set->engine->start) {
      set->engine->start(thread->instance, &batch);
    }
    pthread_mutex_unlock(&set->turn);
    if (!good) {
      return NULL;
    }
    set->engine->run(thread->instance, &batch);
    learn(set, began);
  }
}

/* -- sets ---------------------------------------------------------------------------------------------------------------- */

static bool start_thread(struct batches *set, struct gpu_error *error) {
  struct batch_thread *thread = &set->threads[set->count];
  thread->set = set;
  thread->instance = set->engine->open(set->device, set->model, set->count + 1, error);
  if (!thread->instance) {
    return false;
  }
  int code = gpu_thread_new(&thread->thread, "framed-batch", compute, thread);
  if (code != 0) {
    char reason[64];
    thread->instance = set->engine->close(thread->instance);
    return gpu_error_set(error, code, "raise the limit on threads (ulimit -u, TasksMax=)",
                         "cannot start a thread for a model's batches: %s", strerror_r(code, reason, sizeof reason));
  }
  gpu_tell_of_thread(thread->thread);
  set->count++;
  return true;
}

static void free_set(struct batches *set) {
  pool_take_lock(&set->lock);
  set->stopping = true;
  wake(set);
  pthread_mutex_unlock(&set->lock);
  for (unsigned i = 0; i < set->count; i++) {
    pthread_join(set->threads[i].thread, NULL);
    set->engine->close(set->threads[i].instance);
  }
  sem_destroy(&set->woken);
  pthread_mutex_destroy(&set->lock);
  pthread_mutex_destroy(&set->turn);
  model_release(set->model);
  free(set);
}

static struct batches *make_set(const struct batch_engine *engine, struct gpu_device *device, struct model *model,
                                struct gpu_error *error) {
  struct batches *set = calloc(1, sizeof *set);
  if (!set) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the batches of a model");
    return NULL;
  }
  set->device = device;
  set->model = model_hold(model);
  set->engine = engine;
  set->batcher = (struct batcher){.most = model->batch.most, .wait_ns = model->batch.wait_ns};
  pthread_mutex_init(&set->turn, NULL);
  pthread_mutex_init(&set->lock, NULL);
  sem_init(&set->woken, 0, 0);
  while (set->count < model->instances) {
    if (!start_thread(set, error)) {
      free_set(set);
      return NULL;
    }
  }
  set->next = all;
  all = set;
  return set;
}

static void let_go(struct batches *set) {
  if (--set->members > 0) {
    return;
  }
  for (struct batches **link = &all; *link; link = &(*link)->next) {
    if (*link == set) {
      *link = set->next;
      break;
    }
  }
  free_set(set);
}

struct batch_member *batches_join(const struct batch_engine *engine, struct gpu_device *device, const struct stage_plan *plan,
                                  struct gpu_error *error) {
  struct batch_member *member = calloc(1, sizeof *member);
  if (!member) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the batches of a model");
    return NULL;
  }
  pthread_mutex_lock(&lock);
  struct batches *set = all;
  while (set && (set->device != device || set->model != plan->object)) {
    set = set->next;
  }
  member->plan = plan;
  member->set = set ? set : make_set(engine, device, plan->object, error);
  if (member->set) {
    member->set->members++;
  }
  pthread_mutex_unlock(&lock);
  if (!member->set) {
    free(member);
    return NULL;
  }
  return member;
}

void batches_leave(struct batch_member *member) {
  pthread_mutex_lock(&lock);
  let_go(member->set);
  pthread_mutex_unlock(&lock);
  free(member);
}

/* -- frames --------------------------------------------------------------------------------------------------------------- */

/* Nobody waits for the frame of a warm-up, which may be any bytes; and one that was on a device that failed may be to blame. */
void batches_hand(struct batch_member *member, struct stage_call *call) {
  struct batches *set = member->set;
  struct batch_place *place = &member->places[call->slot];
  *place = (struct batch_place){
      .frame = {.came = gpu_now(), .deadline = call->deadline, .alone = call->sequence == STAGE_WARM_UP || call->again},
      .plan = member->plan,
      .call = call,
  };
  pool_take_lock(&set->lock);
  member->queue.priority = call->priority;
  batcher_add(&set->batcher, &member->queue, &place->frame);
  if (batcher_due(&set->batcher) < set->sleeps_until) {
    wake(set);
  }
  pthread_mutex_unlock(&set->lock);
}
