/*
 * `framectl push` and `framectl pull`: frames from standard input into a pipeline, results to standard output.
 *
 * The pipeline's own sockets carry the frames; the status socket only says where they are and what a frame is.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/http.h"
#include "tools/framectl/common/interrupt.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/status/view.h"
#include "tools/framectl/stream/native.h"
#include "tools/framectl/stream/relay.h"

enum { Y4M_HEADER_LIMIT = 1024, Y4M_MARKER = 6 /* "FRAME\n" */ };

struct transfer {
  char name[65];
  struct end_view source, sink; /* strings live in `document` */
  json_t *document;
  struct timespec start;
};

static bool transfer_open(struct transfer *transfer, const struct invocation *invocation, struct problem *problem) {
  struct pipeline_view view;
  *transfer = (struct transfer){.document = daemon_status(invocation->socket, DAEMON_PATIENCE_MS, problem)};
  if (!transfer->document) {
    return false;
  }
  if (!view_find(transfer->document, invocation->operand, &view, problem)) {
    json_decref(transfer->document);
    return false;
  }
  snprintf(transfer->name, sizeof transfer->name, "%s", view.name);
  transfer->source = view.source;
  transfer->sink = view.sink;
  clock_gettime(CLOCK_MONOTONIC, &transfer->start);
  return true;
}

static void transfer_close(struct transfer *transfer) { json_decref(transfer->document); }

static int connect_end(const struct transfer *transfer, const char *which, const char *path, struct problem *problem) {
  char what[128];
  snprintf(what, sizeof what, "the %s of %s", which, transfer->name);
  return unix_connect(path, what, -1, problem);
}

static bool is_json(const struct end_view *end) { return strcmp(end->protocol, "json") == 0; }

static bool refuse_terminal_input(const struct invocation *invocation, struct problem *problem) {
  return invocation->force || !isatty(STDIN_FILENO) ||
         problem_set(problem, EXIT_STATUS_USAGE, "give it frames by '<' or a pipe, or use --force",
                     "standard input is a terminal");
}

static bool refuse_terminal_output(const struct end_view *sink, const struct invocation *invocation, struct problem *problem) {
  return is_json(sink) || invocation->force || !isatty(STDOUT_FILENO) ||
         problem_set(problem, EXIT_STATUS_USAGE, "send them on by '>' or a pipe, or use --force",
                     "results are binary and standard output is a terminal");
}

/* Reports on standard error, which carries no data. */
static void report(const struct transfer *transfer, const char *verb, const struct end_view *end, const struct relay *relay) {
  uint64_t bytes = relay->moved;
  char amount[TEXT_ROOM], rate[TEXT_ROOM];
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double seconds = (double)(now.tv_sec - transfer->start.tv_sec) + (double)(now.tv_nsec - transfer->start.tv_nsec) / 1e9;
  fprintf(stderr, "%s: %s %s in %.1f s (%s/s)", transfer->name, verb, text_bytes(amount, (double)bytes), seconds,
          text_bytes(rate, seconds > 0 ? (double)bytes / seconds : 0));
  if (strcmp(end->protocol, "raw") == 0 && end->frame_bytes > 0) {
    fprintf(stderr, ", %llu frames", (unsigned long long)(bytes / end->frame_bytes));
    if (bytes % end->frame_bytes > 0) {
      fprintf(stderr, " and %llu bytes of a frame of %llu", (unsigned long long)(bytes % end->frame_bytes),
              (unsigned long long)end->frame_bytes);
    }
  }
  if (relay->by_line) {
    fprintf(stderr, ", %llu frames", (unsigned long long)relay->lines);
  }
  fputc('\n', stderr);
}

/* A terminal that shows the results themselves gets no progress line. */
static const char *shown(const char *verb) { return isatty(STDOUT_FILENO) ? NULL : verb; }

static bool report_no_memory(struct problem *problem) { return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory"); }

/*
 * Recognises the line that the daemon sends to a refused client before it closes the connection: "framed: ...
 * ".
 */
static bool is_sentence(const char *text) {
  const char *newline = strchr(text, '\n');
  return strncmp(text, "framed: ", 8) == 0 && newline && newline[1] == '\0';
}

static bool report_sentence(const struct transfer *transfer, const char *text, struct problem *problem) {
  char remedy[192];
  snprintf(remedy, sizeof remedy, "see `framectl status %s`, and " PROBLEM_LOG, transfer->name);
  return problem_set(problem, EXIT_STATUS_REFUSED, remedy, "%.*s", (int)strcspn(text + 8, "\n"), text + 8);
}

/* A producer of `auto` is native if it asks for shared memory. */
static bool is_native(const struct end_view *end, bool shared) {
  return strcmp(end->protocol, "native") == 0 || (shared && strcmp(end->protocol, "auto") == 0);
}

static bool refuse_shared(const struct transfer *transfer, const struct end_view *end, struct problem *problem) {
  return problem_set(problem, EXIT_STATUS_REFUSED, "give it `protocol: native` in the configuration, or leave out --shm",
                     "%s speaks %s there, which has no shared memory", transfer->name, end->protocol);
}

/* -- push ---------------------------------------------------------------------------------------------------------- */

static bool judge_push(const struct transfer *transfer, const struct relay *in, const struct relay *out,
                       struct problem *problem) {
  if (is_sentence(out->first)) {
    return report_sentence(transfer, out->first, problem);
  }
  if (in->state == RELAY_READ_FAILED) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot read standard input: %s", strerror(in->error));
  }
  if (out->state == RELAY_WRITE_FAILED) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write results: %s", strerror(out->error));
  }
  if (in->state != RELAY_ENDED || out->state != RELAY_ENDED) {
    return problem_set(problem, EXIT_STATUS_REFUSED, PROBLEM_LOG " says why",
                       "the daemon closed the connection before it had all frames");
  }
  return in->moved > 0 || problem_set_nothing_sent(problem);
}

/*
 * The second relay receives the results of a `reply` pipeline. For other pipelines it waits until the daemon has read all
 * frames.
 */
static bool push(const struct transfer *transfer, int fd, struct problem *problem) {
  struct relay relays[] = {{.from = STDIN_FILENO, .to = fd, .shut = true, .verb = shown("pushing")},
                           {.from = fd, .to = transfer->sink.reply ? STDOUT_FILENO : -1, .by_line = is_json(&transfer->sink)}};
  if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) { /* a blocking write of frames would delay results */
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot set up the connection: %s", strerror(errno));
  }
  if (!relay_run(relays, 2)) {
    return report_no_memory(problem);
  }
  relay_read_rest(&relays[1]);
  report(transfer, "pushed", &transfer->source, &relays[0]);
  if (transfer->sink.reply) {
    report(transfer, "received", &transfer->sink, &relays[1]);
  }
  return judge_push(transfer, &relays[0], &relays[1], problem);
}

static bool push_to(const struct transfer *transfer, const struct invocation *invocation, struct problem *problem) {
  if (!transfer->source.socket) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "give its source a socket in the configuration",
                       "%s takes its frames from the file %s", transfer->name,
                       transfer->source.file ? transfer->source.file : "that it names");
  }
  if (!refuse_terminal_input(invocation, problem) ||
      (transfer->sink.reply && !refuse_terminal_output(&transfer->sink, invocation, problem))) {
    return false;
  }
  if (is_native(&transfer->source, invocation->shared)) {
    const struct native_transfer native = {transfer->name, transfer->source.socket, transfer->sink.reply, invocation->shared,
                                           0};
    return native_push(&native, problem);
  }
  if (invocation->shared) {
    return refuse_shared(transfer, &transfer->source, problem);
  }
  int fd = connect_end(transfer, "source", transfer->source.socket, problem);
  if (fd < 0) {
    return false;
  }
  bool fine = push(transfer, fd, problem);
  close(fd);
  return fine;
}

bool command_push(const struct invocation *invocation, struct problem *problem) {
  struct transfer transfer;
  if (!transfer_open(&transfer, invocation, problem)) {
    return false;
  }
  bool fine = push_to(&transfer, invocation, problem);
  transfer_close(&transfer);
  return fine;
}

/* -- pull ---------------------------------------------------------------------------------------------------------- */

/* Waits until there is something to read, or an interrupt. */
static void wait_for_first(int fd) {
  struct pollfd ready[] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt_descriptor(), .events = POLLIN}};
  while (poll(ready, 2, -1) < 0 && errno == EINTR) {
  }
}

/* Whether the daemon refuses this reader. Peeks at the first bytes without consuming them. */
static bool is_refused(int fd, char text[RELAY_FIRST + 1]) {
  wait_for_first(fd);
  if (interrupt_came()) {
    return false;
  }
  ssize_t count = recv(fd, text, strlen("framed: "), MSG_PEEK | MSG_WAITALL);
  if (count != (ssize_t)strlen("framed: ") || memcmp(text, "framed: ", (size_t)count) != 0) {
    return false;
  }
  count = recv(fd, text, RELAY_FIRST, MSG_PEEK);
  text[count > 0 ? count : 0] = '\0';
  return is_sentence(text);
}

/* Copies the line before the first y4m frame byte by byte, so that frames after it can be counted. */
static bool pass_header(int fd, struct problem *problem) {
  char header[Y4M_HEADER_LIMIT];
  for (size_t length = 0; length < sizeof header;) {
    ssize_t count = recv(fd, header + length, 1, 0);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "the daemon closed the connection before the first result");
    }
    if (header[length++] == '\n') {
      return write(STDOUT_FILENO, header, length) == (ssize_t)length ||
             problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write results: %s", strerror(errno));
    }
  }
  return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "the results have no y4m header");
}

static bool judge_pull(const struct relay *relay, uint64_t frames, struct problem *problem) {
  if (relay->state == RELAY_WRITE_FAILED) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write results: %s", strerror(relay->error));
  }
  if (relay->state == RELAY_READ_FAILED) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "the connection broke: %s", strerror(relay->error));
  }
  if ((relay->by_line ? relay->lines : relay->moved) < relay->limit) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "see `framectl status`", "the results ended before %llu frames",
                       (unsigned long long)frames);
  }
  return true;
}

static bool pull(const struct transfer *transfer, int fd, uint64_t frames, struct problem *problem) {
  bool is_y4m = strcmp(transfer->sink.protocol, "y4m") == 0;
  uint64_t frame_bytes = transfer->sink.frame_bytes + (is_y4m ? Y4M_MARKER : 0);
  char text[RELAY_FIRST + 1];
  if (!interrupt_watch()) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no descriptor is left: %s", strerror(errno));
  }
  if (is_refused(fd, text)) {
    return report_sentence(transfer, text, problem);
  }
  if (frames > 0 && is_y4m && !interrupt_came() && !pass_header(fd, problem)) {
    return false;
  }
  bool by_line = is_json(&transfer->sink);
  struct relay relay = {.from = fd,
                        .to = STDOUT_FILENO,
                        .limit = by_line ? frames : frames * frame_bytes,
                        .by_line = by_line,
                        .verb = shown("pulling")};
  if (!relay_run(&relay, 1)) {
    return report_no_memory(problem);
  }
  if (relay.state == RELAY_WRITE_FAILED && relay.error == EPIPE) {
    return true; /* the reader closed the pipe */
  }
  report(transfer, "pulled", &transfer->sink, &relay);
  return judge_pull(&relay, frames, problem);
}

static bool pull_from(const struct transfer *transfer, const struct invocation *invocation, struct problem *problem) {
  if (transfer->sink.reply) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "use `framectl push`, which writes the results of what it pushed",
                       "%s sends its results back to the producer", transfer->name);
  }
  if (!transfer->sink.socket) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "read that file, or give the sink a socket in the configuration",
                       "%s writes its results to the file %s", transfer->name,
                       transfer->sink.file ? transfer->sink.file : "that it names");
  }
  if (!refuse_terminal_output(&transfer->sink, invocation, problem)) {
    return false;
  }
  if (is_native(&transfer->sink, invocation->shared)) {
    const struct native_transfer native = {transfer->name, transfer->sink.socket, false, invocation->shared,
                                           invocation->frames};
    return native_pull(&native, problem);
  }
  if (invocation->shared) {
    return refuse_shared(transfer, &transfer->sink, problem);
  }
  int fd = connect_end(transfer, "sink", transfer->sink.socket, problem);
  if (fd < 0) {
    return false;
  }
  bool fine = pull(transfer, fd, invocation->frames, problem);
  close(fd);
  return fine;
}

bool command_pull(const struct invocation *invocation, struct problem *problem) {
  struct transfer transfer;
  if (!transfer_open(&transfer, invocation, problem)) {
    return false;
  }
  bool fine = pull_from(&transfer, invocation, problem);
  transfer_close(&transfer);
  return fine;
}
