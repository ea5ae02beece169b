#include "daemon/base/lane.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/measure/clock.h"

enum { TICK_MS = 100 };
enum { NAME_ROOM = 16, MAX_NAMED = 1000 }; /* Linux's limit for the name of a thread */

/* The runners of one priority. */
struct lane_queue {
  unsigned joined;    /* runners on this lane */
  unsigned scheduled; /* of these, the scheduled ones */
  struct runner *first, **last;
};

struct lane {
  unsigned index;
  uv_thread_t thread;
  bool stopped; /* the thread has ended */
  uv_loop_t loop;
  struct mailbox mailbox;
  uv_async_t wake;  /* from other threads */
  struct bell bell; /* from workers */
  uv_prepare_t prepare;
  uv_timer_t tick;
  uv_check_t check; /* turns run after the poll */
  uv_idle_t idle;   /* active while turns are due, so that the poll does not block */
  struct runner *runners;
  struct lane_queue queues[PRIORITIES];
  unsigned scheduled; /* sum over all queues */
  struct priority_turns turns;
  atomic_bool all_woken; /* set by lane_wake_all() */
  _Atomic int64_t heartbeat;
  _Atomic int64_t work; /* ns; written by the lane only */
  /* parking */
  atomic_bool park_wanted;
  atomic_uint parks;      /* counts the requests to park */
  atomic_uint stands_for; /* the last request for which the lane stopped */
  /* Lane only: iterations without a request under way, and the park request they count for. */
  unsigned quiet, quiet_for;
  atomic_bool awaits_file;  /* only a file request keeps the lane from stopping */
  atomic_bool leaves_files; /* stop although that request is under way */
  uv_sem_t goes_on;         /* the lane waits for this while it is parked */
};

struct stop_message {
  struct message message;
  struct lane *lane;
};

static void beat(struct lane *lane, int64_t now) { atomic_store_explicit(&lane->heartbeat, now, memory_order_relaxed); }

/* The idle handle only has to be active; turns run in on_check(). */
static void on_idle(uv_idle_t *idle) { (void)idle; }

/* A bit for each priority with a scheduled runner. */
static unsigned scheduled_ranks(const struct lane *lane) {
  unsigned ranks = 0;
  for (unsigned rank = 0; rank < PRIORITIES; rank++) {
    ranks |= lane->queues[rank].first ? 1U << rank : 0;
  }
  return ranks;
}

static void run_first(struct lane *lane, struct lane_queue *queue) {
  struct runner *runner = queue->first;
  queue->first = runner->next_scheduled;
  queue->last = queue->first ? queue->last : &queue->first;
  queue->scheduled--;
  lane->scheduled--;
  runner->scheduled = false;
  if (runner->turn(runner)) {
    lane_schedule(runner);
  }
}

/* A runner that is scheduled from here on gets its turn in the next iteration, after descriptors were polled. */
static void run_turns(struct lane *lane) {
  unsigned highest = 0;
  while (highest < PRIORITIES - 1 && lane->queues[highest].joined == 0) {
    highest++;
  }
  struct lane_queue *queue = &lane->queues[highest];
  for (unsigned due = queue->scheduled; due > 0 && queue->first; due--) {
    run_first(lane, queue);
  }
  if (lane->scheduled > queue->scheduled) {
    unsigned lower = scheduled_ranks(lane) & ~(1U << highest);
    run_first(lane, &lane->queues[priority_next(&lane->turns, lower)]);
  }
}

static bool awaits_file(const struct lane *lane) {
  bool awaits = false;
  for (struct runner *runner = lane->runners; runner; runner = runner->next) {
    awaits = awaits || atomic_load_explicit(&runner->asked, memory_order_relaxed) != 0;
  }
  return awaits;
}

/* Handles are closed at the end of an iteration, so the lane stops one iteration after the first quiet one. */
static void stand_still(struct lane *lane) {
  const unsigned park = atomic_load(&lane->parks);
  bool awaits = awaits_file(lane);
  atomic_store(&lane->awaits_file, awaits);
  bool is_quiet = !awaits || atomic_load(&lane->leaves_files);
  lane->quiet = !is_quiet ? 0 : lane->quiet_for != park ? 1 : lane->quiet + 1;
  lane->quiet_for = park;
  if (lane->quiet > 1) {
    atomic_store(&lane->stands_for, park);
    while (atomic_load(&lane->park_wanted) && atomic_load(&lane->parks) == park) { /* until unparked, or asked to park again */
      uv_sem_wait(&lane->goes_on);
    }
  } else if (lane->quiet > 0) {
    uv_idle_start(&lane->idle, on_idle);
  }
}

static void on_bell(struct runner *runner) {
  if (runner->lane) { /* otherwise it joins later and checks then */
    lane_schedule(runner);
  }
}

static void on_prepare(uv_prepare_t *prepare) {
  struct lane *lane = prepare->data;
  if (lane->scheduled == 0 && !bell_may_sleep(&lane->bell)) {
    uv_idle_start(&lane->idle, on_idle);
  }
}

static void on_check(uv_check_t *check) {
  struct lane *lane = check->data;
  bell_poll(&lane->bell, on_bell);
  if (atomic_load(&lane->park_wanted)) {
    stand_still(lane);
    return;
  }
  run_turns(lane);
  if (lane->scheduled == 0) {
    uv_idle_stop(&lane->idle);
  }
  beat(lane, clock_now());
}

static void on_wake(uv_async_t *wake) {
  struct lane *lane = wake->data;
  bool all = atomic_exchange(&lane->all_woken, false);
  for (struct runner *runner = lane->runners; runner; runner = runner->next) {
    if (atomic_exchange_explicit(&runner->woken, false, memory_order_acquire) || all) {
      lane_schedule(runner);
    }
  }
}

static void on_tick(uv_timer_t *timer) {
  struct lane *lane = timer->data;
  int64_t now = clock_now();
  if (lane_is_parking(lane)) {
    return;
  }
  struct runner *next = NULL;
  for (struct runner *runner = lane->runners; runner; runner = next) {
    next = runner->next;
    if (runner->tick) {
      runner->tick(runner, now);
    }
  }
  beat(lane, now);
}

static void run(void *argument) {
  struct lane *lane = argument;
  uv_run(&lane->loop, UV_RUN_DEFAULT);
}

static bool set_up_loop(struct lane *lane) {
  for (unsigned rank = 0; rank < PRIORITIES; rank++) {
    lane->queues[rank].last = &lane->queues[rank].first;
  }
  if (uv_sem_init(&lane->goes_on, 0) != 0 || loop_init(&lane->loop) != 0) {
    return false;
  }
  if (mailbox_open(&lane->mailbox, &lane->loop) != 0) {
    uv_loop_close(&lane->loop);
    return false;
  }
  if (bell_open(&lane->bell, &lane->loop) != 0) {
    mailbox_close(&lane->mailbox);
    uv_run(&lane->loop, UV_RUN_DEFAULT);
    uv_loop_close(&lane->loop);
    return false;
  }
  if (uv_async_init(&lane->loop, &lane->wake, on_wake) != 0) {
    bell_close(&lane->bell);
    mailbox_close(&lane->mailbox);
    uv_run(&lane->loop, UV_RUN_DEFAULT);
    uv_loop_close(&lane->loop);
    return false;
  }
  uv_timer_init(&lane->loop, &lane->tick);
  uv_prepare_init(&lane->loop, &lane->prepare);
  uv_check_init(&lane->loop, &lane->check);
  uv_idle_init(&lane->loop, &lane->idle);
  lane->wake.data = lane->tick.data = lane->prepare.data = lane->check.data = lane->idle.data = lane;
  uv_timer_start(&lane->tick, on_tick, TICK_MS, TICK_MS);
  uv_prepare_start(&lane->prepare, on_prepare);
  uv_check_start(&lane->check, on_check);
  beat(lane, clock_now());
  return true;
}

static void lane_close_handles(struct lane *lane) {
  uv_close((uv_handle_t *)&lane->wake, NULL);
  uv_close((uv_handle_t *)&lane->tick, NULL);
  uv_close((uv_handle_t *)&lane->prepare, NULL);
  uv_close((uv_handle_t *)&lane->check, NULL);
  bell_close(&lane->bell);
  uv_close((uv_handle_t *)&lane->idle, NULL);
  mailbox_close(&lane->mailbox);
}

static void on_stop(struct message *message) {
  struct stop_message *stop = (struct stop_message *)message;
  assert(!stop->lane->runners);
  uv_stop(&stop->lane->loop);
}

struct lane *lane_new(unsigned index, struct failure *failure) {
  struct lane *lane = calloc(1, sizeof *lane);
  if (!lane || !set_up_loop(lane)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, "raise the limit of open files (LimitNOFILE)",
                "cannot set up the loop of lane %u", index);
    free(lane);
    return NULL;
  }
  lane->index = index;
  int status = uv_thread_create(&lane->thread, run, lane);
  if (status != 0) {
    failure_set(failure, EXIT_STATUS_INTERNAL, "raise the limit of threads (TasksMax)", "cannot start lane %u: %s", index,
                uv_strerror(status));
    lane_close_handles(lane);
    uv_run(&lane->loop, UV_RUN_DEFAULT);
    uv_loop_close(&lane->loop);
    bell_free(&lane->bell);
    free(lane);
    return NULL;
  }
  char name[NAME_ROOM];
  snprintf(name, sizeof name, "framed-lane-%u", index % MAX_NAMED);
  pthread_setname_np(lane->thread, name); /* for `top -H`, and for setting affinity or priority */
  return lane;
}

void lane_stop(struct lane *lane) {
  struct stop_message stop = {.message.run = on_stop, .lane = lane};
  lane_post(lane, &stop.message);
  uv_thread_join(&lane->thread);
  lane->stopped = true;
}

struct lane *lane_free(struct lane *lane) {
  if (!lane) {
    return NULL;
  }
  if (!lane->stopped) {
    lane_stop(lane);
  }
  lane_close_handles(lane);
  uv_run(&lane->loop, UV_RUN_DEFAULT);
  int status = uv_loop_close(&lane->loop);
  assert(status == 0);
  (void)status;
  bell_free(&lane->bell);
  uv_sem_destroy(&lane->goes_on);
  free(lane);
  return NULL;
}

struct bell *lane_bell(struct lane *lane) {
  return &lane->bell;
}

unsigned lane_index(const struct lane *lane) { return lane->index; }

uv_thread_t lane_thread(const struct lane *lane) { return lane->thread; }

void lane_post(struct lane *lane, struct message *message) { mailbox_post(&lane->mailbox, message); }

int64_t lane_heartbeat(const struct lane *lane) { return atomic_load_explicit(&lane->heartbeat, memory_order_relaxed); }

int64_t lane_processor_time(const struct lane *lane) {
  clockid_t clock;
  struct timespec used;
  if (pthread_getcpuclockid(lane->thread, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return 0;
  }
  return (int64_t)used.tv_sec * NS_PER_S + used.tv_nsec;
}

int64_t lane_work(const struct lane *lane) { return atomic_load_explicit(&lane->work, memory_order_relaxed); }

void lane_count_work(struct lane *lane, int64_t ns) {
  atomic_store_explicit(&lane->work, lane_work(lane) + ns, memory_order_relaxed);
}

/* -- parking --------------------------------------------------------------------------------------------------- */

void lane_park(struct lane *lane) {
  atomic_store(&lane->awaits_file, false);
  atomic_store(&lane->leaves_files, false);
  atomic_fetch_add(&lane->parks, 1); /* the lane may still be waiting in the last park */
  atomic_store(&lane->park_wanted, true);
  lane_wake_all(lane);
}

static void lane_nap(void) { nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); }

/* Returns false if the lane cannot park without its file request. */
static bool leave_files(struct lane *lane, const struct lane_patience *patience) {
  if (!atomic_load(&lane->awaits_file) || atomic_load(&lane->leaves_files)) {
    return true;
  }
  if (patience->leaves_files) {
    atomic_store(&lane->leaves_files, true);
    lane_wake_all(lane);
  }
  return patience->leaves_files;
}

static bool stands(const struct lane *lane) { return atomic_load(&lane->stands_for) == atomic_load(&lane->parks); }

bool lane_is_parked(struct lane *lane, const struct lane_patience *patience) {
  while (!stands(lane)) {
    int64_t now = clock_now();
    if (now > patience->limit || (now > patience->file && !leave_files(lane, patience))) {
      return false;
    }
    lane_nap();
  }
  return true;
}

bool lane_run_messages(struct lane *lane) { return stands(lane) && mailbox_run(&lane->mailbox); }

void lane_unpark(struct lane *lane) {
  atomic_store(&lane->park_wanted, false);
  uv_sem_post(&lane->goes_on);
  lane_wake_all(lane); /* starts what was put off while the lane was parking */
}

bool lane_is_parking(const struct lane *lane) { return atomic_load_explicit(&lane->park_wanted, memory_order_relaxed); }

uv_loop_t *lane_loop(struct lane *lane) { return &lane->loop; }

void lane_join(struct lane *lane, struct runner *runner) {
  runner->lane = lane;
  runner->queue = &lane->queues[priority_rank(runner->priority)];
  runner->queue->joined++;
  runner->next = lane->runners;
  runner->link = &lane->runners;
  if (runner->next) {
    runner->next->link = &runner->next;
  }
  lane->runners = runner;
}

bool lane_is_own(const struct runner *runner) { return runner->lane->runners == runner && !runner->next; }

bool lane_is_wanted(const struct runner *runner) { return runner->lane->scheduled > (runner->scheduled ? 1U : 0U); }

static void unschedule(struct lane *lane, struct runner *runner) {
  struct lane_queue *queue = runner->queue;
  struct runner **at = &queue->first;
  while (*at && *at != runner) {
    at = &(*at)->next_scheduled;
  }
  if (*at) {
    *at = runner->next_scheduled;
    if (queue->last == &runner->next_scheduled) {
      queue->last = at;
    }
  }
  queue->scheduled--;
  lane->scheduled--;
  runner->scheduled = false;
}

void lane_leave(struct runner *runner) {
  struct lane *lane = runner->lane;
  if (!lane) {
    return;
  }
  if (runner->scheduled) {
    unschedule(lane, runner);
  }
  bell_forget(&lane->bell, runner);
  runner->queue->joined--;
  *runner->link = runner->next;
  if (runner->next) {
    runner->next->link = runner->link;
  }
  runner->lane = NULL;
}

void lane_schedule(struct runner *runner) {
  struct lane *lane = runner->lane;
  if (!lane || runner->scheduled) {
    return;
  }
  struct lane_queue *queue = runner->queue;
  if (lane->scheduled == 0) {
    uv_idle_start(&lane->idle, on_idle);
  }
  lane->scheduled++;
  queue->scheduled++;
  runner->scheduled = true;
  runner->next_scheduled = NULL;
  *queue->last = runner;
  queue->last = &runner->next_scheduled;
}

void lane_wake(struct lane *lane, struct runner *runner) {
  atomic_store_explicit(&runner->woken, true, memory_order_release);
  /* libuv before 1.53 can lose a wake-up without this fence. */
  atomic_thread_fence(memory_order_seq_cst);
  uv_async_send(&lane->wake);
}

void lane_wake_all(struct lane *lane) {
  atomic_store(&lane->all_woken, true);
  atomic_thread_fence(memory_order_seq_cst); /* as above */
  uv_async_send(&lane->wake);
}
