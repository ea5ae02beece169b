/*
 * Frames. Each lane of the daemon has a thread here, which puts its frames on the device and, where the lane spins, asks the
 * device for them. Whoever learns that a frame is done says so in the program's page: that thread, or on the CPU backend the
 * thread that computed it.
 *
 * A slot is taken from RUNNING to IDLE by one thread alone, before the word is written that lets the lane use it again. The
 * thread sleeps only after it has said so, and looked once more; the lane sets its bit before it looks whether the thread
 * sleeps. So no frame is left lying.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gpu/serve/private.h"

enum { MOST_LINES = 256, ENOUGH_PROCESSORS = 4 };
#define SPIN_NS INT64_C(50000)
#define LOOK_NS INT64_C(100000000)

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static struct line *lines[MOST_LINES];
static unsigned line_count;

/* -- what is done --------------------------------------------------------------------------------------------------- */

/* Says what became of a slot's frame, unless another thread does. */
static void tell(struct served *served, unsigned slot) {
  enum served_state running = RUNNING;
  if (!atomic_compare_exchange_strong(&served->states[slot], &running, TELLING)) {
    return;
  }
  struct program_result *result = &served->page->results[slot];
  uint64_t ticket = served->tickets[slot];
  const char *refusal = gpu_refusal(served->program, slot);
  result->outcome = gpu_late(served->program, slot) ? PROGRAM_LATE : refusal ? PROGRAM_REFUSED : PROGRAM_COMPUTED;
  if (refusal) {
    snprintf(result->refusal, sizeof result->refusal, "%s", refusal);
  }
  result->has_times = gpu_times(served->program, slot, &result->times);
  atomic_store(&served->states[slot], IDLE);
  atomic_store_explicit(&result->word, ticket, memory_order_release);
  line_tell(served);
}

static void futex_wake(struct line *line) {
  atomic_fetch_add(&line->page->calls, 1);
  (void)syscall(SYS_futex, &line->page->calls, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Called by threads of the backend when a frame has left its stream. On a GPU nothing of the device may be asked in them. */
static void wake(void *context) {
  struct served *served = context;
  if (!served->directs) {
    pages_set(served->line->page->bits, served->bit);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&served->line->page->sleeping)) {
      futex_wake(served->line);
    }
    return;
  }
  for (unsigned slot = 0; slot < served->count; slot++) {
    if (atomic_load(&served->states[slot]) == RUNNING && gpu_told(served->program, slot) == GPU_DONE) {
      tell(served, slot);
    }
  }
}

/* -- the thread ----------------------------------------------------------------------------------------------------- */

_Noreturn static void end_by_nonsense(void) {
  struct gpu_error error;
  gpu_error_set(&error, EBADMSG, NULL, "the worker was given a frame that makes no sense");
  serve_end(&error);
}

static void submit(struct served *served, const struct program_frame *frame) {
  struct gpu_error error;
  const struct gpu_frame given = {.sequence = frame->sequence,
                                  .restart = (frame->flags & PROGRAM_RESTART) != 0,
                                  .notify = served->directs || (frame->flags & PROGRAM_NOTIFY) != 0,
                                  .timed = (frame->flags & PROGRAM_TIMED) != 0,
                                  .again = (frame->flags & PROGRAM_AGAIN) != 0,
                                  .deadline = frame->deadline};
  if (frame->slot >= served->count || atomic_load(&served->states[frame->slot]) != IDLE) {
    end_by_nonsense();
  }
  served->active = served->running == 0 ? gpu_now() : served->active;
  served->tickets[frame->slot] = frame->ticket;
  served->order[served->running++] = frame->slot;
  if (!gpu_submit(served->program, frame->slot, &given, &error)) {
    serve_end(&error);
  }
  /* Not before: until then the backend says of the slot what became of the frame before. The frame may be done by now. */
  atomic_store(&served->states[frame->slot], RUNNING);
  if (served->directs && gpu_told(served->program, frame->slot) == GPU_DONE) {
    tell(served, frame->slot);
  }
}

/* Those that others have told of are no longer in the order. */
static void tidy(struct served *served) {
  unsigned left = 0;
  for (unsigned i = 0; i < served->running; i++) {
    if (atomic_load(&served->states[served->order[i]]) != IDLE) {
      served->order[left++] = served->order[i];
    }
  }
  served->running = left;
}

static bool take_frames(struct served *served) {
  uint32_t tail = atomic_load_explicit(&served->page->tail, memory_order_acquire);
  bool any = tail != served->taken;
  if (tail - served->taken > GPU_MAX_SLOTS) {
    end_by_nonsense();
  }
  tidy(served);
  for (; served->taken != tail; served->taken++) {
    const struct program_frame frame = served->page->ring[served->taken % GPU_MAX_SLOTS];
    submit(served, &frame);
  }
  return any;
}

/* A fault is told by no callback, so that each is asked for now and then. */
static void look(struct served *served, bool asks) {
  struct gpu_error error;
  tidy(served);
  for (unsigned i = 0; i < served->running; i++) {
    unsigned slot = served->order[i];
    bool oldest = i == 0;
    enum gpu_progress progress = asks && oldest ? gpu_ask(served->program, slot, &error) : gpu_told(served->program, slot);
    if (progress == GPU_DEAD) {
      serve_end(&error);
    }
    if (progress == GPU_DONE) {
      tell(served, slot);
    } else if (served->spins) {
      return;
    }
  }
}

static uint64_t exchange(_Atomic uint64_t *bits) {
  return atomic_load_explicit(bits, memory_order_relaxed) ? atomic_exchange(bits, 0) : 0;
}

/* Whether there was anything to do. */
static bool serve_bits(struct line *line) {
  bool any = false;
  for (unsigned word = 0; word * 64 < line->most; word++) {
    for (uint64_t bits = exchange(&line->page->bits[word]); bits; bits &= bits - 1) {
      struct served *served = line->programs[word * 64 + (unsigned)__builtin_ctzll(bits)];
      if (served) {
        take_frames(served);
        look(served, false);
        served->due = 0;
        any = true;
      }
    }
  }
  return any;
}

/* Whether the device is to be asked on: else it tells of the oldest frame. */
static bool lingers(struct served *served, int64_t now) {
  struct gpu_error error;
  if (served->running == 0 || served->armed) {
    return false;
  }
  if (now - served->active < served->linger) {
    return true;
  }
  if (!gpu_arm(served->program, served->order[0], &error)) {
    serve_end(&error);
  }
  served->armed = true;
  return true; /* it may have been done before it was armed */
}

/* Asks for the oldest frame of each program that spins, or of all; whether one is to be asked for again at once. */
static bool ask_all(struct line *line, bool all_of_them) {
  bool spins = false;
  for (unsigned i = 0; i < line->most; i++) {
    struct served *served = line->programs[i];
    if (served && served->running > 0 && (served->spins || all_of_them)) {
      unsigned before = served->running;
      look(served, true);
      tidy(served);
      int64_t now = gpu_now();
      served->active = served->running < before ? now : served->active;
      served->armed = served->armed && served->running == before;
      spins = (served->spins && lingers(served, now)) || spins;
    }
  }
  return spins;
}

static bool line_is_busy(const struct line *line) {
  bool busy = false;
  for (unsigned i = 0; i < line->most; i++) {
    busy = busy || (line->programs[i] && line->programs[i]->running > 0);
  }
  return busy;
}

/* For ever where no frame runs, but no longer than that many ns. False: nobody called for so long. */
static bool line_sleep(struct line *line, int64_t most_ns) {
  const int64_t longest = line_is_busy(line) && most_ns > LOOK_NS ? LOOK_NS : most_ns;
  const struct timespec limit = {.tv_nsec = longest <= LOOK_NS ? longest : 0};
  bool called = true;
  uint32_t calls = atomic_load(&line->page->calls);
  atomic_store(&line->page->sleeping, 1);
  atomic_thread_fence(memory_order_seq_cst);
  pthread_mutex_unlock(&line->lock);
  if (!pages_any(line->page->bits)) {
    called = syscall(SYS_futex, &line->page->calls, FUTEX_WAIT, calls, longest <= LOOK_NS ? &limit : NULL, NULL, 0) == 0 ||
             errno != ETIMEDOUT;
  }
  atomic_store(&line->page->sleeping, 0);
  pthread_mutex_lock(&line->lock);
  return called;
}

/* Whoever waits for the lock gets it: a mutex alone would not see to that. */
static void rest(const struct line *line) {
  if (atomic_load(&line->waiting) > 0) {
    nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
  } else {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
}

static void *serve(void *context) {
  struct line *line = context;
  int64_t active = 0, asked = 0;
  prctl(PR_SET_TIMERSLACK, 1000UL); /* naps are short */
  pthread_mutex_lock(&line->lock);
  while (!line->ends) {
    bool any = serve_bits(line);
    bool spins = ask_all(line, false);
    int64_t nap = rung_attend(line);
    int64_t now = any || spins || active ? gpu_now() : 0;
    active = any ? now : active;
    if (spins || (active && now - active < SPIN_NS && line->spinners > 0)) {
      pthread_mutex_unlock(&line->lock); /* who adds or removes a program gets its turn */
      rest(line);
      pthread_mutex_lock(&line->lock);
      continue;
    }
    active = 0;
    if (!line_sleep(line, nap) && gpu_now() - asked >= LOOK_NS) {
      ask_all(line, true);
      asked = gpu_now();
    }
  }
  pthread_mutex_unlock(&line->lock);
  return NULL;
}

/* -- making them ---------------------------------------------------------------------------------------------------- */

static struct line *find_line(unsigned number) {
  struct line *found = NULL;
  pthread_mutex_lock(&all);
  for (unsigned i = 0; i < line_count; i++) {
    found = lines[i]->number == number ? lines[i] : found;
  }
  pthread_mutex_unlock(&all);
  return found;
}

bool lines_open(unsigned number, const int descriptors[3], struct gpu_error *error) {
  struct line *line = calloc(1, sizeof *line);
  if (!line || line_count == MOST_LINES || find_line(number)) {
    free(line);
    return gpu_error_set(error, ENOMEM, NULL, "the worker cannot serve one more lane");
  }
  pthread_mutex_init(&line->lock, NULL);
  line->number = number;
  line->page = serve_map(descriptors[0], sizeof *line->page);
  line->bell = serve_map(descriptors[1], sizeof *line->bell);
  line->eventfd = descriptors[2];
  if (!line->page || !line->bell || gpu_thread_new(&line->thread, "framed-serve", serve, line) != 0) {
    return gpu_error_set(error, errno, NULL, "the worker cannot serve a lane"); /* the worker is of no use, and ends */
  }
  gpu_tell_of_thread(line->thread);
  pthread_mutex_lock(&all);
  lines[line_count++] = line;
  pthread_mutex_unlock(&all);
  return true;
}

static bool make(struct served *served, const struct worker_program *setup, const struct gpu_chain *chain,
                 const struct gpu_buffers *buffers, struct gpu_error *error) {
  const struct gpu_options options = {.wake = wake,
                                      .context = served,
                                      .notify = setup->notify != 0,
                                      .graph = (enum gpu_graph_choice)setup->graph,
                                      .timed_one_in = setup->timed_one_in,
                                      .spared = setup->spared,
                                      .order = (enum gpu_order_choice)setup->order,
                                      .copy = (enum gpu_copy_choice)setup->copy,
                                      .priority = (enum gpu_priority)setup->priority,
                                      .resident = setup->resident != 0,
                                      .linger_ns = setup->linger_ns,
                                      .mailbox = served->mailbox,
                                      .share = setup->share,
                                      .owner = served->owner,
                                      .weigh = setup->weigh != 0};
  served->program = gpu_program_new(served->device, chain, buffers, setup->count, &options, error);
  return served->program && (!setup->warms_up || gpu_program_warm_up(served->program, error));
}

static void take_line(struct line *line) {
  atomic_fetch_add(&line->waiting, 1);
  pthread_mutex_lock(&line->lock);
  atomic_fetch_sub(&line->waiting, 1);
}

static struct served *drop(struct served *served) {
  gpu_program_free(served->program);
  munmap(served->page, sizeof *served->page);
  if (served->mailbox) {
    munmap(served->mailbox, sizeof *served->mailbox);
  }
  free(served);
  return NULL;
}

/* A lane that gives frames itself is no reason to spin. */
static void join(struct served *served) {
  struct line *line = served->line;
  served->is_awaited = served->is_awaited && !served->is_rung;
  take_line(line);
  line->programs[served->bit] = served;
  line->spinners += served->is_awaited;
  line->rung += served->is_rung;
  line->most = line->most > served->bit ? line->most : served->bit + 1;
  pthread_mutex_unlock(&line->lock);
  if (served->is_rung) { /* the kernel is there still, and is looked after */
    wake(served);
  }
}

struct served *lines_add(const struct worker_program *setup, struct gpu_device *device, const struct gpu_chain *chain,
                         const struct gpu_buffers *buffers, const int descriptors[2], struct gpu_error *error) {
  struct served *served = calloc(1, sizeof *served);
  struct line *line = find_line(setup->line);
  void *page = serve_map(descriptors[0], sizeof *served->page);
  void *mailbox = serve_map(descriptors[1], sizeof *served->mailbox);
  if (!served || !line || !page || (setup->resident && !mailbox)) {
    free(served);
    gpu_error_set(error, errno, NULL, "the worker cannot serve one more program");
    return NULL;
  }
  *served = (struct served){
      .line = line, .bit = setup->bit, .count = setup->count, .device = device, .page = page, .mailbox = mailbox};
  served->directs = strcmp(gpu_backend_name(device), "cpu") == 0;
  served->spins = !served->directs && !setup->notify;
  served->linger = setup->linger_ns;
  served->is_awaited = !setup->notify && sysconf(_SC_NPROCESSORS_ONLN) >= ENOUGH_PROCESSORS;
  snprintf(served->owner, sizeof served->owner, "%s", setup->owner);
  if (!make(served, setup, chain, buffers, error)) {
    return drop(served);
  }
  served->is_rung = gpu_program_is_rung(served->program);
  join(served);
  return served;
}

const struct gpu_program *lines_program(const struct served *served) { return served->program; }

void lines_remove(struct served *served) {
  struct line *line = served->line;
  take_line(line);
  line->programs[served->bit] = NULL;
  line->spinners -= served->is_awaited;
  line->rung -= served->is_rung;
  pthread_mutex_unlock(&line->lock);
  for (tidy(served); served->running > 0; tidy(served)) {
    look(served, true);
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  drop(served);
}

void lines_close(void) {
  pthread_mutex_lock(&all);
  while (line_count > 0) {
    struct line *line = lines[--line_count];
    take_line(line);
    line->ends = true;
    futex_wake(line);
    pthread_mutex_unlock(&line->lock);
    pthread_join(line->thread, NULL);
    munmap(line->page, sizeof *line->page);
    munmap(line->bell, sizeof *line->bell);
    close(line->eventfd);
    pthread_mutex_destroy(&line->lock);
    free(line);
  }
  pthread_mutex_unlock(&all);
}
