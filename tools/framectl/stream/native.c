#include "tools/framectl/stream/native.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/client/framed.h"
#include "tools/framectl/common/interrupt.h"
#include "tools/framectl/common/progress.h"
#include "tools/framectl/common/text.h"

struct passage {
  const struct native_transfer *transfer;
  struct framed *client;
  struct timespec start;
  unsigned char *frame; /* the one being filled; NULL: none */
  size_t filled;
  uint64_t sent, results, dropped;
  bool ended;        /* standard input ended */
  bool output_ended; /* the reader of the results closed the pipe */
  struct progress progress;
};

static bool report_client(const struct passage *passage, struct problem *problem) {
  char remedy[192];
  snprintf(remedy, sizeof remedy, "see `framectl status %s`, and " PROBLEM_LOG, passage->transfer->name);
  return problem_set(problem, EXIT_STATUS_REFUSED, remedy, "%s", framed_problem(passage->client)->text);
}

static bool open_passage(struct passage *passage, const struct native_transfer *transfer, int role, struct problem *problem) {
  const struct framed_options options = {.role = role, .stream_only = !transfer->shared, .reconnect_for_ns = -1};
  struct framed_error error;
  *passage = (struct passage){.transfer = transfer, .client = framed_connect(transfer->path, &options, &error)};
  clock_gettime(CLOCK_MONOTONIC, &passage->start);
  if (!isatty(STDOUT_FILENO)) { /* a terminal may show the results themselves */
    progress_begin(&passage->progress);
  }
  if (!passage->client) {
    return problem_set(problem, error.code == FRAMED_E_SYSTEM ? EXIT_STATUS_NO_DAEMON : EXIT_STATUS_REFUSED,
                       PROBLEM_LOG " says why", "%s", error.text);
  }
  if (transfer->shared && framed_info(passage->client)->transport != FRAMED_SHARED) {
    fprintf(stderr, "%s: the daemon offers no shared memory here; frames go over the connection\n", transfer->name);
  }
  return true;
}

static void report(struct passage *passage, const char *verb, uint64_t frames, size_t frame_bytes) {
  char amount[TEXT_ROOM], rate[TEXT_ROOM];
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double seconds = (double)(now.tv_sec - passage->start.tv_sec) + (double)(now.tv_nsec - passage->start.tv_nsec) / 1e9;
  double bytes = (double)frames * (double)frame_bytes;
  progress_clear(&passage->progress);
  fprintf(stderr, "%s: %s %s in %.1f s (%s/s), %llu frames", passage->transfer->name, verb, text_bytes(amount, bytes), seconds,
          text_bytes(rate, seconds > 0 ? bytes / seconds : 0), (unsigned long long)frames);
  fprintf(stderr, "%s\n", framed_info(passage->client)->transport == FRAMED_SHARED ? " through shared memory" : "");
}

static void show_progress(struct passage *passage) {
  uint64_t frames = passage->sent > passage->results ? passage->sent : passage->results;
  progress_show(&passage->progress, -1, "%s: %llu frames", passage->transfer->name, (unsigned long long)frames);
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

static bool write_all(struct passage *passage, const unsigned char *bytes, size_t count, struct problem *problem) {
  while (count > 0) {
    ssize_t written = write(STDOUT_FILENO, bytes, count);
    if (written < 0 && errno == EINTR && interrupt_came()) {
      return true;
    }
    if (written < 0 && errno != EINTR) {
      passage->output_ended = errno == EPIPE;
      return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write results: %s", strerror(errno));
    }
    bytes += written > 0 ? written : 0;
    count -= written > 0 ? (size_t)written : 0;
  }
  return true;
}

static bool take_results(struct passage *passage, struct problem *problem) {
  struct framed_result result;
  uint64_t limit = passage->transfer->frames;
  bool done = true;
  while (done && !interrupt_came() && (limit == 0 || passage->results < limit) &&
         framed_receive(passage->client, &result) > 0) {
    bool shared = framed_info(passage->client)->transport == FRAMED_SHARED;
    passage->dropped += shared ? result.data == NULL : result.dropped;
    if (result.data) {
      passage->results++;
      done = write_all(passage, result.data, result.size, problem);
    }
    framed_release(passage->client, &result);
    show_progress(passage);
  }
  return done;
}

/* -- frames ------------------------------------------------------------------------------------------------------------ */

static bool end_input(struct passage *passage, struct problem *problem) {
  passage->ended = true;
  if (passage->filled > 0) {
    fprintf(stderr, "%s: standard input ended after %zu of %zu bytes of a frame, which were left out\n",
            passage->transfer->name, passage->filled, framed_info(passage->client)->input_bytes);
  }
  return framed_finish(passage->client) == 0 || report_client(passage, problem);
}

static bool read_input(struct passage *passage, struct problem *problem) {
  size_t wanted = framed_info(passage->client)->input_bytes;
  ssize_t count = read(STDIN_FILENO, passage->frame + passage->filled, wanted - passage->filled);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR ||
           problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot read standard input: %s", strerror(errno));
  }
  if (count == 0) {
    return end_input(passage, problem);
  }
  passage->filled += (size_t)count;
  if (passage->filled == wanted) {
    void *frame = passage->frame;
    passage->frame = NULL;
    passage->filled = 0;
    show_progress(passage);
    return framed_submit(passage->client, frame, passage->sent++, 0, 0) == 0 || report_client(passage, problem);
  }
  return true;
}

/* Waits for standard input or the connection. Standard input is polled only while a frame is being filled. */
static int wait_for_either(struct passage *passage) {
  bool fills = passage->frame && !passage->ended;
  struct pollfd ready[] = {{.fd = fills ? STDIN_FILENO : -1, .events = POLLIN}, {.fd = framed_descriptor(passage->client)}};
  int events = framed_arm(passage->client, FRAMED_RESULT | (fills || passage->ended ? 0 : FRAMED_ROOM), &ready[1].events);
  if (events == 0 || (events > 0 && fills)) {
    poll(ready, 2, events == 0 ? -1 : 0);
  }
  return events < 0 ? events : (events & FRAMED_END) | (ready[0].revents != 0 ? FRAMED_ROOM : 0);
}

static bool push(struct passage *passage, struct problem *problem) {
  for (int events = 0; !(events & FRAMED_END);) {
    if (passage->transfer->replies && !take_results(passage, problem)) {
      return false;
    }
    if (!passage->frame && !passage->ended) {
      passage->frame = framed_acquire(passage->client);
    }
    events = wait_for_either(passage);
    if (events < 0) {
      return report_client(passage, problem);
    }
    if ((events & FRAMED_ROOM) && !read_input(passage, problem)) {
      return false;
    }
  }
  return true;
}

bool native_push(const struct native_transfer *transfer, struct problem *problem) {
  struct passage passage;
  if (!open_passage(&passage, transfer, transfer->replies ? FRAMED_BOTH : FRAMED_PRODUCER, problem)) {
    return false;
  }
  const struct framed_info *info = framed_info(passage.client);
  bool fine = push(&passage, problem);
  report(&passage, "pushed", passage.sent, info->input_bytes);
  if (transfer->replies) {
    report(&passage, "received", passage.results, info->output_bytes);
  }
  if (passage.dropped > 0) {
    fprintf(stderr, "%s: %llu frames were dropped; `framectl status %s` says why\n", transfer->name,
            (unsigned long long)passage.dropped, transfer->name);
  }
  if (fine && passage.sent == 0) {
    fine = problem_set_nothing_sent(problem);
  }
  framed_close(passage.client);
  return fine;
}

/* -- pull -------------------------------------------------------------------------------------------------------------- */

/* FRAMED_RESULT, FRAMED_END, 0 after an interrupt or without either, or an error. */
static int wait_for_result(struct passage *passage) {
  struct pollfd ready[] = {{.fd = framed_descriptor(passage->client)}, {.fd = interrupt_descriptor(), .events = POLLIN}};
  int events = framed_arm(passage->client, FRAMED_RESULT, &ready[0].events);
  if (events == 0) {
    poll(ready, 2, -1);
  }
  return events;
}

static bool pull(struct passage *passage, struct problem *problem) {
  uint64_t limit = passage->transfer->frames;
  for (int events = 0; !(events & FRAMED_END);) {
    if (!take_results(passage, problem)) {
      return passage->output_ended;
    }
    if (limit > 0 && passage->results == limit) {
      return true;
    }
    if (interrupt_came()) {
      break;
    }
    events = wait_for_result(passage);
    if (events < 0) {
      return report_client(passage, problem);
    }
  }
  return limit == 0 || problem_set(problem, EXIT_STATUS_REFUSED, "see `framectl status`",
                                   "the results ended before %llu frames", (unsigned long long)limit);
}

bool native_pull(const struct native_transfer *transfer, struct problem *problem) {
  struct passage passage;
  if (!open_passage(&passage, transfer, FRAMED_CONSUMER, problem)) {
    return false;
  }
  bool fine = interrupt_watch()
                  ? pull(&passage, problem)
                  : problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no descriptor is left: %s", strerror(errno));
  if (!passage.output_ended) {
    report(&passage, "pulled", passage.results, framed_info(passage.client)->output_bytes);
  }
  framed_close(passage.client);
  return fine;
}
