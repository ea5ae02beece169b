#include "tools/framebench/load/client.h"

#include "daemon/measure/clock.h"
#include "tools/framebench/load/native.h"
#include "tools/framebench/load/pace.h"
#include "tools/framebench/load/window.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  READ_LEAST = 64 << 10,
  READ_MOST = 1 << 20,
  SAYING = 256,                  /* bytes of a daemon's refusal */
  LOOK_NS = 20 * 1000 * 1000,    /* how often a blocked call checks whether it should end */
  SILENCE_NS = 200 * 1000 * 1000 /* after which nothing is expected any more */
};
#define PATIENCE_NS NS_PER_S /* timeout of a full window; results that are missing then are lost */

struct load_client {
  struct load_native *native; /* handles native pipelines; NULL: this file does */
  struct load_wire wire;
  struct load_pace pace;
  struct load_window window;
  struct load_batch batch;
  struct load_parser parser;
  unsigned char *buffer; /* the reader's */
  size_t buffer_bytes;
  pthread_t writer, reader;
  bool started;
  bool writing, reading; /* the threads must be joined */
  atomic_bool hurry;     /* the writer ends at once */
  atomic_bool finish;    /* the reader ends after a silence */
  _Atomic uint64_t sent;
  atomic_bool sent_out; /* `sent` is final */
  atomic_int write_error, read_error;
  char saying[SAYING]; /* the first bytes that were received */
  size_t said;
  /* owned by the reader */
  uint64_t received, answered, arrived, disordered, next;
  bool by_order, spoiled;
  int64_t now, max_ns;
  struct histogram ns;
  /* owned by the writer */
  uint64_t offered;
  struct histogram lag_ns;
};

/* -- when frames are due -------------------------------------------------------------------------------------------- */

/* Sleeps until shortly before `at`, then polls the clock, since sleeping is too coarse. */
static void wait_until(struct load_client *client, int64_t at) {
  const struct timespec time = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
  if (!client->pace.spin) {
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
    }
  }
  int64_t now;
  while ((now = clock_now()) < at && !atomic_load(&client->hurry)) {
  }
  histogram_record(&client->lag_ns, now - at);
}

/* -- the writer ----------------------------------------------------------------------------------------------------- */

/* Returns the bytes sent: fewer if the connection broke, or at the end of the time. */
static size_t send_all(struct load_client *client, const void *memory, size_t bytes) {
  const unsigned char *begin = memory;
  size_t done = 0;
  while (done < bytes) {
    ssize_t sent = send(client->wire.to, begin + done, bytes - done, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += (size_t)sent;
    } else if (errno != EAGAIN && errno != EINTR) {
      client->write_error = errno;
      break;
    } else if (atomic_load(&client->hurry) || clock_now() >= client->pace.give_up) {
      break;
    }
  }
  return done;
}

static bool send_batch(struct load_client *client, uint64_t first, unsigned count) {
  load_batch_stamp(&client->batch, first, count);
  size_t sent = send_all(client, client->batch.memory, count * client->batch.stride) / client->batch.stride;
  atomic_store(&client->sent, first + sent); /* frames of an incomplete batch are answered, too */
  return sent == count;
}

/*
 * Sends the frames that are due, several at once if the writer is late. At an excessive rate there can be more due frames than
 * can ever be sent.
 */
static void write_by_clock(struct load_client *client) {
  int64_t at;
  for (uint64_t number = 0; (at = load_pace_due(&client->pace, number)) < client->pace.to && !atomic_load(&client->hurry);) {
    if (clock_now() < at) {
      wait_until(client, at);
    }
    int64_t now = clock_now();
    unsigned count = load_pace_count(&client->pace, number, client->batch.frames, now);
    if (now >= client->pace.give_up || !send_batch(client, number, count)) {
      return;
    }
    number += count;
  }
}

static void write_as_taken(struct load_client *client) {
  uint64_t number = 0;
  for (;;) {
    uint64_t room = load_window_wait(&client->window, number, PATIENCE_NS);
    int64_t now = clock_now();
    if (now >= client->pace.to || atomic_load(&client->hurry)) {
      return;
    }
    unsigned count = room < client->batch.frames ? (unsigned)room : client->batch.frames;
    for (unsigned i = 0; i < count; i++) {
      load_window_note(&client->window, number + i, now);
    }
    if (!send_batch(client, number, count)) {
      return;
    }
    client->offered += load_pace_measures(&client->pace, now) ? count : 0;
    number += count;
  }
}

static void *write_frames(void *argument) {
  struct load_client *client = argument;
  prctl(PR_SET_TIMERSLACK, 1UL); /* of this thread only */
  size_t header = strlen(client->wire.in.header);
  if (send_all(client, client->wire.in.header, header) == header) {
    if (client->pace.rate > 0) {
      write_by_clock(client);
      client->offered = load_pace_offered(&client->pace);
    } else {
      write_as_taken(client);
    }
  }
  atomic_store(&client->sent_out, true);
  shutdown(client->wire.to, SHUT_WR);
  return NULL;
}

/* -- the reader ----------------------------------------------------------------------------------------------------- */

/* The number of the current result: from its stamp, or else by order. */
static uint64_t number_of(struct load_client *client, const unsigned char head[LOAD_STAMP]) {
  uint64_t number;
  if (client->by_order || !load_stamp_read(head, &number)) {
    client->spoiled |= !client->by_order && client->received > 0; /* earlier results had stamps */
    client->by_order = true;
    return client->received;
  }
  return number;
}

static void take_result(void *context, const unsigned char head[LOAD_STAMP]) {
  struct load_client *client = context;
  const struct load_pace *pace = &client->pace;
  uint64_t number = number_of(client, head);
  int64_t at = pace->rate > 0 ? load_pace_due(pace, number) : load_window_time(&client->window, number);
  client->received++;
  client->arrived += load_pace_measures(pace, client->now);
  client->disordered += number < client->next;
  client->next = number >= client->next ? number + 1 : client->next;
  if (load_pace_measures(pace, at)) {
    client->answered++;
    histogram_record(&client->ns, client->now - at);
    client->max_ns = client->now - at > client->max_ns ? client->now - at : client->max_ns;
  }
}

/* Returns the number of bytes, 0 at the end of the connection, -1 if nothing is available, -2 if it broke. */
static ssize_t receive(struct load_client *client) {
  ssize_t count = recv(client->wire.from, client->buffer, client->buffer_bytes, client->pace.spin ? MSG_DONTWAIT : 0);
  if (count >= 0) {
    return count;
  }
  if (errno == EAGAIN || errno == EINTR) {
    return -1;
  }
  client->read_error = errno;
  return -2;
}

static void keep_saying(struct load_client *client, size_t count) {
  size_t room = SAYING - 1 - client->said;
  size_t taken = count < room ? count : room;
  memcpy(client->saying + client->said, client->buffer, taken);
  client->said += taken;
}

static bool has_all(const struct load_client *client) {
  return atomic_load(&client->sent_out) && client->next >= atomic_load(&client->sent);
}

/* True if the reader should end, and no bytes have come since `silent_since` for long enough. */
static bool is_silent(const struct load_client *client, int64_t silent_since) {
  return atomic_load(&client->finish) && clock_now() - silent_since > SILENCE_NS;
}

static void *read_results(void *argument) {
  struct load_client *client = argument;
  int64_t silent_since = clock_now();
  bool last = false; /* one more read after the silence, since this thread may have been descheduled */
  ssize_t count;
  while ((count = receive(client)) != 0 && count != -2) {
    if (count > 0) {
      client->now = silent_since = clock_now();
      keep_saying(client, (size_t)count);
      load_parser_feed(&client->parser, client->buffer, (size_t)count, take_result, client);
      load_window_settle(&client->window, client->next);
    }
    if (client->parser.broken || has_all(client) || (last && count < 0)) {
      return NULL;
    }
    last = is_silent(client, silent_since);
  }
  if (count == 0 && !atomic_load(&client->sent_out)) {
    client->read_error = ECONNRESET; /* the results ended before the frames */
  }
  atomic_store(&client->hurry, true);
  return NULL;
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static void set_patience(int socket) {
  const struct timeval look = {.tv_usec = LOOK_NS / 1000};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
}

static void close_wire(const struct load_wire *wire) {
  close(wire->to);
  if (wire->from != wire->to) {
    close(wire->from);
  }
}

static size_t read_bytes(const struct load_form *form) {
  size_t bytes = form->frame_bytes > READ_LEAST ? form->frame_bytes : READ_LEAST;
  return bytes < READ_MOST ? bytes : READ_MOST;
}

struct load_client *load_client_new(const struct load_wire *wire, struct problem *problem) {
  struct load_client *client = calloc(1, sizeof *client);
  if (!client) {
    close_wire(wire);
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a client");
    return NULL;
  }
  client->wire = *wire;
  client->parser.form = wire->out;
  set_patience(wire->to);
  set_patience(wire->from);
  client->buffer_bytes = read_bytes(&wire->out);
  client->buffer = malloc(client->buffer_bytes);
  if (!client->buffer || !load_batch_init(&client->batch, &wire->in)) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for frames of %zu bytes", wire->in.frame_bytes);
    return load_client_free(client);
  }
  memset(client->buffer, 0, client->buffer_bytes); /* pre-faulted, so that page faults are not measured */
  return client;
}

struct load_client *load_client_new_native(const struct load_native_wire *wire, struct problem *problem) {
  struct load_client *client = calloc(1, sizeof *client);
  if (!client) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a client");
    return NULL;
  }
  client->native = load_native_new(wire, problem);
  if (!client->native) {
    free(client);
    return NULL;
  }
  return client;
}

bool load_client_start(struct load_client *client, const struct load_pace *pace, struct problem *problem) {
  if (client->native) {
    return load_native_start(client->native, pace, problem);
  }
  client->pace = *pace;
  client->started = true;
  load_window_init(&client->window, pace->in_flight > 0 ? pace->in_flight : LOAD_WINDOW_LIMIT, pace->spin);
  int code = pthread_create(&client->reader, NULL, read_results, client);
  client->reading = code == 0;
  if (code == 0) {
    code = pthread_create(&client->writer, NULL, write_frames, client);
    client->writing = code == 0;
  }
  return code == 0 || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no thread for a client: %s", strerror(code));
}

void load_client_send_out(struct load_client *client, bool hurry) {
  if (client->native) {
    load_native_finish(client->native, hurry);
  }
  if (hurry) {
    atomic_store(&client->hurry, true);
  }
  if (client->writing) {
    pthread_join(client->writer, NULL);
  }
  client->writing = false;
}

void load_client_finish(struct load_client *client) {
  atomic_store(&client->finish, true);
  if (client->reading) {
    pthread_join(client->reader, NULL);
  }
  client->reading = false;
}

bool load_client_is_broken(const struct load_client *client) {
  return client->native ? load_native_is_broken(client->native)
                        : atomic_load(&client->write_error) || atomic_load(&client->read_error);
}

struct load_client *load_client_free(struct load_client *client) {
  if (client) {
    load_client_send_out(client, true);
    load_client_finish(client);
    if (!client->native) {
      close_wire(&client->wire);
    }
    client->native = load_native_free(client->native);
    if (client->started) {
      load_window_clear(&client->window);
    }
    load_batch_clear(&client->batch);
    free(client->buffer);
    free(client);
  }
  return NULL;
}

/* -- figures -------------------------------------------------------------------------------------------------------- */

/* The daemon sends the reason of a refusal on the producer's or the reader's connection. */
static bool report_saying(const struct load_client *client, struct problem *problem) {
  static const char begins[] = "framed: ";
  char text[SAYING] = "";
  memcpy(text, client->saying, client->said);
  if (client->wire.to != client->wire.from && strncmp(text, begins, strlen(begins)) != 0) {
    ssize_t count = recv(client->wire.to, text, sizeof text - 1, MSG_DONTWAIT);
    text[count > 0 ? count : 0] = '\0';
  }
  if (strncmp(text, begins, strlen(begins)) != 0) {
    return problem_set(problem, EXIT_STATUS_REFUSED, PROBLEM_LOG " says why", "the daemon closed a connection: %s",
                       strerror(client->write_error ? client->write_error : client->read_error));
  }
  const char *said = text + strlen(begins);
  return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%.*s", (int)strcspn(said, "\n"), said);
}

bool load_client_figures(const struct load_client *client, struct load_figures *figures, struct problem *problem) {
  if (client->native) {
    return load_native_figures(client->native, figures, problem);
  }
  if (load_client_is_broken(client)) {
    return report_saying(client, problem);
  }
  if (client->parser.broken || client->spoiled) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "is anyone else sending frames to this pipeline?",
                       "a result is not what was sent: %s",
                       client->spoiled ? "it bears no number" : "it does not begin like a frame of y4m");
  }
  figures->sent += client->sent;
  figures->received += client->received;
  figures->offered += client->offered;
  figures->answered += client->answered;
  figures->arrived += client->arrived;
  figures->disordered += client->disordered;
  figures->by_order |= client->by_order;
  figures->max_ns = client->max_ns > figures->max_ns ? client->max_ns : figures->max_ns;
  histogram_read(&client->ns, &figures->ns);
  histogram_read(&client->lag_ns, &figures->lag_ns);
  return true;
}
