/* What the files that serve lanes share. */
#ifndef FRAMED_GPU_SERVE_PRIVATE_H
#define FRAMED_GPU_SERVE_PRIVATE_H

#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/record/mailbox.h"
#include "gpu/serve/serve.h"

enum served_state { IDLE, RUNNING, TELLING };

struct line {
  unsigned number;
  struct line_page *page;
  struct bell_page *bell;
  int eventfd;
  pthread_t thread;
  bool ends;
  pthread_mutex_t lock; /* held but while the thread sleeps */
  atomic_uint waiting;  /* for the lock */
  unsigned spinners;    /* programs whose lane spins */
  unsigned rung;        /* programs to which the lane gives frames itself */
  unsigned most;        /* above the highest place that was ever used */
  struct served *programs[PAGES_PROGRAMS];
};

struct served {
  struct line *line;
  unsigned bit, count;
  bool is_awaited; /* its lane spins, and so does the thread where processors are many */
  bool spins;      /* the device is asked, */
  int64_t linger;  /* for so long after the last frame was done; then it is told */
  int64_t active;
  bool armed;   /* it will be told of the oldest */
  bool directs; /* whoever is told says so to the lane */
  struct gpu_device *device;
  struct gpu_program *program;
  struct program_page *page;
  struct mailbox_words *mailbox; /* NULL: there is none */
  bool is_rung;                  /* by the lane */
  uint64_t told;                 /* what the lane awaited last that was answered */
  int64_t due;                   /* the next look at the mailbox */
  uint32_t taken;                /* frames that came in */
  _Atomic enum served_state states[GPU_MAX_SLOTS];
  uint64_t tickets[GPU_MAX_SLOTS];
  unsigned order[GPU_MAX_SLOTS]; /* the slots that run, the oldest first */
  unsigned running;
  char owner[64];
};

/* Sets the program's bit in the bell of its lane, and wakes the lane if it sleeps. Any thread. */
static inline void line_tell(const struct served *served) {
  const struct line *line = served->line;
  pages_set(line->bell->bits, served->bit);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load(&line->bell->sleeping)) {
    const uint64_t one = 1;
    (void)!write(line->eventfd, &one, sizeof one); /* it cannot fail but by being rung already */
  }
}

/* rung.c: looks at the mailboxes of programs to which the lane gives frames itself, where it is time to. For how many ns the
 * line's thread may sleep then; INT64_MAX: until it is called. */
int64_t rung_attend(struct line *line);

#endif
