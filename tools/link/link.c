#include "tools/link/link.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "config/quote.h"

#define PAUSE_FIRST    (100 * MS)
#define PAUSE_LONGEST  (3000 * MS)
#define TURN_LONGEST   (1000 * MS)
#define STOP_PATIENCE  (3000 * MS)
#define DAEMON_WAIT    (5000 * MS)
#define ELECTION       (7000 * MS)
#define PRESENCE_EVERY (500 * MS)

enum { POLLS = BROKER_POLLS + 2 };

const char *const counter_names[COUNTERS] = {"stored",     "duplicates", "retries", "lost",    "missed",   "acked",
                                             "given_back", "ended",      "dead",    "results", "published"};

void link_say(const struct link *link, const char *format, ...) {
  char text[BROKER_TEXT + 256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  quote_make_printable(text);
  fprintf(stderr, "framed-link: %s %s: %s\n", settings_role(link->settings), link->settings->name, text);
}

/* -- both sides -------------------------------------------------------------------------------------------------------- */

/* `error` may be NULL. An error of a connected link is a warning. */
static void standing_set(struct standing *standing, bool connected, const char *error) {
  pthread_mutex_lock(&standing->lock);
  standing->since = standing->since == 0 || connected != standing->connected ? link_clock() : standing->since;
  standing->connected = connected;
  standing->warns = connected && error;
  if (error) {
    snprintf(standing->error, sizeof standing->error, "%s", error);
    quote_make_printable(standing->error); /* JSON requires UTF-8, and a server's message may be something else */
  }
  pthread_mutex_unlock(&standing->lock);
}

void link_warn(struct link *link, const char *format, ...) {
  char text[BROKER_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  link_say(link, "%s", text);
  standing_set(&link->standing, true, text);
}

/* Reports problems of the stream. Advice is reported once; lasting problems also become warnings. */
static void warn_of_stream(struct link *link) {
  const char *advice;
  while ((advice = broker_advice(&link->broker))) {
    link_say(link, "warning: stream %s %s", link->settings->stream, advice);
  }
  if (link->broker.discards) {
    link_warn(link, "stream %s is a work queue that removes unfinished frames when it is full: set discard: new",
              link->settings->stream);
  }
  if (link->broker.keeps) {
    link_warn(link,
              "stream %s is no work queue, and keeps finished frames for ever: remove it, set queue: true on each sink "
              "that feeds it, or limit its size",
              link->settings->stream);
  }
}

void link_set_depth(struct link *link, uint64_t depth, uint64_t unserved, int64_t oldest_ns) {
  struct standing *standing = &link->standing;
  pthread_mutex_lock(&standing->lock);
  standing->has_queue = true;
  standing->depth = depth;
  standing->unserved = unserved;
  standing->oldest_ns = oldest_ns;
  pthread_mutex_unlock(&standing->lock);
}

void link_recover(struct link *link) {
  standing_set(&link->standing, true, NULL);
  warn_of_stream(link);
}

static bool is_due(const struct pause *pause, int64_t now) { return now >= pause->next; }

/* True: this is the first failure since a success, so it deserves a line in the log. */
static bool pause_failed(struct pause *pause) {
  bool first = pause->wait == 0;
  pause->wait = first ? PAUSE_FIRST : pause->wait * 2 < PAUSE_LONGEST ? pause->wait * 2 : PAUSE_LONGEST;
  pause->next = link_clock() + pause->wait;
  return first;
}

static void lose_broker(struct link *link) {
  if (pause_failed(&link->to_broker)) {
    link_say(link, "no broker: %s; it tries again", link->broker.why);
  }
  broker_disconnect(&link->broker);
  atomic_store(&link->has_broker, false);
  link->unanswered_since = 0;
  link->renews = NULL;
  standing_set(&link->standing, false, link->broker.why);
}

void link_renew(struct link *link, const char *why) { link->renews = why; }

void link_ask(const struct link *link, const char *what, const char *consumer, const char *body, const char *answer) {
  char subject[256], reply[128];
  snprintf(subject, sizeof subject, "$JS.API.%s.%s%s%s", what, link->settings->stream, consumer ? "." : "",
           consumer ? consumer : "");
  snprintf(reply, sizeof reply, "%s.%s", link->broker.address, answer);
  natsConnection_PublishRequest(link->broker.connection, subject, reply, body, (int)strlen(body));
}

void link_meet_broker(struct link *link, bool connected) {
  if (!connected) {
    lose_broker(link);
    return;
  }
  link_say(link, "connected to the broker");
  link->to_broker = (struct pause){0};
  link->silent = false;
  atomic_store(&link->has_broker, true);
  link_recover(link);
  link->kind->broker_there(link);
}

void link_taken(struct link *link) {
  if (link->unanswered_since != 0) {
    link->unanswered_since = 0;
    link_recover(link);
  }
}

static const char presence_answer[] = "present";

/* A missing responder is normal while servers elect a leader. If the stream is gone, the next connection creates it again. */
static void handle_no_responders(struct link *link) {
  int64_t now = link_clock();
  if (link->broker.no_responders && link->unanswered_since == 0) {
    link->unanswered_since = now;
    link->asked = 0;
    link_warn(link, "its messages have no receiver: the stream or its consumer is gone, or has no leader");
  }
  if (link->unanswered_since != 0 && link->broker.no_responders && now - link->unanswered_since > ELECTION) {
    link_renew(link, "its messages had no receiver");
  } else if (link->unanswered_since != 0 && now - link->asked > PRESENCE_EVERY) {
    link->asked = now;
    link_ask(link, "STREAM.INFO", NULL, "", presence_answer);
  }
  link->broker.no_responders = false;
}

/* Handles the answer to the question whether the stream exists. False for any other message. */
static bool take_presence(struct link *link, natsMsg *message) {
  static const char gone[] = "\"err_code\":10059";
  const char *text = natsMsg_GetData(message);
  size_t length = (size_t)natsMsg_GetDataLength(message);
  if (strcmp(broker_answer(&link->broker, message), presence_answer) != 0) {
    return false;
  }
  if (length < 512 && memmem(text, length, gone, strlen(gone))) {
    link_renew(link, "its stream is gone");
  }
  natsMsg_Destroy(message);
  return true;
}

static void renew(struct link *link) {
  if (link->renews && link->broker.connection) {
    snprintf(link->broker.why, sizeof link->broker.why, "%s", link->renews);
    lose_broker(link);
  }
}

void link_set_broker_answers(struct link *link, bool answers) {
  if (answers != link->silent) {
    return;
  }
  link->silent = !answers;
  atomic_store(&link->has_broker, answers);
  if (answers) {
    link_say(link, "the broker answers again");
    link_recover(link);
  } else {
    link_say(link, "the broker does not answer");
    standing_set(&link->standing, false, "it does not answer");
  }
}

static bool seeks_broker(const struct link *link, int64_t now) {
  return !link->broker.connection && is_due(&link->to_broker, now) && !link->stopping;
}

/* The log and the daemon get the server's refusals, since nothing else shows them. */
static void turn_broker(struct link *link, const struct pollfd polls[BROKER_POLLS]) {
  const char *refusal;
  bool there = broker_turn(&link->broker, polls);
  while ((refusal = broker_refusal(&link->broker))) {
    link_warn(link, "the server refuses a right: %s", refusal);
  }
  if (!there) {
    lose_broker(link);
  }
}

static void leave_daemon(struct link *link) {
  link->client = framed_close(link->client);
  atomic_store(&link->has_daemon, false);
  link->kind->daemon_gone(link);
}

void link_miss_daemon(struct link *link, const char *why) {
  if (pause_failed(&link->to_daemon)) {
    link_say(link, "no pipeline at %s: %s; it tries again", link->settings->socket, why);
  }
  atomic_store(&link->has_daemon, false);
}

static void lose_daemon(struct link *link, const struct framed_error *error) {
  link_miss_daemon(link, error->text[0] ? error->text : "the daemon closed the connection");
  if (link->client) {
    leave_daemon(link);
  }
}

/* Whether a message of the pipeline's size is too large for the broker; then `error` has the reason. */
static bool is_too_large(const struct link *link, struct framed_error *error) {
  enum { HEADERS = 1024 };
  const struct framed_info *info = framed_info(link->client);
  size_t bytes = link->settings->is_source ? info->input_bytes : info->output_bytes, most = broker_largest(&link->broker);
  if (bytes + HEADERS <= most) {
    return false;
  }
  snprintf(error->text, sizeof error->text, "refused: %s have %zu bytes, and a message may have %zu: %s",
           link->settings->is_source ? "frames" : "results", bytes, most - HEADERS,
           most < BROKER_LARGEST ? "set max_payload: 8MB in the server's configuration" : "let a stage make them smaller");
  return true;
}

/* Only shared memory reports the fates of frames, which a source needs. */
static bool lacks_fates(const struct link *link, struct framed_error *error) {
  if (!link->settings->is_source || framed_info(link->client)->transport != FRAMED_STREAM) {
    return false;
  }
  snprintf(error->text, sizeof error->text,
           "the pipeline offers no shared memory, which is needed to learn the fates of frames");
  return true;
}

static void seek_daemon(struct link *link) {
  struct framed_error error;
  const struct framed_options options = {.role = link->settings->is_source ? FRAMED_PRODUCER : FRAMED_CONSUMER,
                                         .connect_timeout_ns = DAEMON_WAIT,
                                         .reconnect_for_ns = -1,
                                         .fates = link->settings->is_source};
  link->client = framed_connect(link->settings->socket, &options, &error);
  if (!link->client || is_too_large(link, &error) || lacks_fates(link, &error)) { /* a reload may change that */
    lose_daemon(link, &error);
    return;
  }
  if (framed_info(link->client)->transport == FRAMED_STREAM) {
    link_say(link, "the pipeline offers no shared memory: results count as emitted before they are stored");
  }
  link_say(link, "connected to pipeline %s, %s", framed_info(link->client)->pipeline, link->settings->socket);
  link->to_daemon = (struct pause){0};
  atomic_store(&link->has_daemon, true);
}

/*
 * A sink with `drop` disconnects from the pipeline while the broker does not answer. Its frames become `unread`, or go to other
 * readers.
 */
static void keep_sides(struct link *link, int64_t now) {
  bool drops = !link->settings->is_source && link->settings->overload == LINK_DROP;
  if (seeks_broker(link, now)) {
    link_meet_broker(link, broker_connect(&link->broker, link->settings));
    if (atomic_load(&link->stream_made) ==
        0) { /* set even if only the consumer could not be created, since the sink needs it */
      atomic_store(&link->stream_made, link->broker.stream_made);
    }
  }
  bool answers = link->broker.connection && !link->silent;
  if (!answers && link->client && drops) {
    leave_daemon(link);
  }
  if (answers && !link->client && is_due(&link->to_daemon, now) && !link->stopping) {
    seek_daemon(link);
  }
}

/* -- turns ------------------------------------------------------------------------------------------------------------ */

static int patience_ms(const struct link *link, int64_t until) {
  int64_t now = link_clock();
  int64_t latest = now + TURN_LONGEST < until ? now + TURN_LONGEST : until;
  if (!link->broker.connection && link->to_broker.next < latest) {
    latest = link->to_broker.next;
  }
  if (!link->client && link->to_daemon.next < latest && link->to_daemon.next > now) {
    latest = link->to_daemon.next;
  }
  return latest > now ? (int)((latest - now + MS - 1) / MS) : 0;
}

/* False: the client has an event or is lost, so there is nothing to wait for. */
static bool arm_client(struct link *link, struct pollfd *ready) {
  *ready = (struct pollfd){.fd = -1};
  if (!link->client) {
    return true;
  }
  ready->fd = framed_descriptor(link->client);
  int wanted = link->kind->wanted(link), there = framed_arm(link->client, wanted, &ready->events);
  if (there == FRAMED_FAILED || (there & FRAMED_END) != 0) {
    lose_daemon(link, framed_problem(link->client));
    ready->fd = -1;
    return false;
  }
  return (there & wanted) == 0;
}

static void turn(struct link *link) {
  struct pollfd polls[POLLS];
  natsMsg *message;
  int64_t until = link->kind->turn(link, link_clock());
  broker_flush(&link->broker);
  bool waits = arm_client(link, &polls[BROKER_POLLS]);
  broker_arm(&link->broker, polls);
  polls[BROKER_POLLS + 1] = (struct pollfd){.fd = link->stopping ? -1 : link->stop, .events = POLLIN};
  poll(polls, POLLS, waits ? patience_ms(link, until) : 0);
  turn_broker(link, polls);
  while ((message = broker_take(&link->broker))) {
    if (!take_presence(link, message)) {
      link->kind->take_message(link, message);
    }
  }
  if (link->broker.connection) {
    handle_no_responders(link);
    renew(link);
  }
  link->stopping |= polls[BROKER_POLLS + 1].revents != 0;
}

static void run_client(struct link *link) {
  int64_t stopped = 0;
  while (!link->stopping || (!link->kind->is_idle(link) && link_clock() < stopped + STOP_PATIENCE)) {
    keep_sides(link, link_clock());
    turn(link);
    stopped = link->stopping && stopped == 0 ? link_clock() : stopped;
  }
  if (link->client) {
    leave_daemon(link);
  }
  link->kind->turn(link, link_clock());
}

static void *run(void *closure) {
  struct link *link = closure;
  if (link->kind->run) {
    link->kind->run(link);
  } else {
    run_client(link);
  }
  link->kind->close(link);
  broker_close(&link->broker);
  return NULL;
}

bool link_start(struct link *link, const struct link_kind *kind, const struct settings *settings,
                const struct link_settings *which) {
  link->settings = which;
  link->kind = kind;
  link->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_mutex_init(&link->standing.lock, NULL);
  bool opened = broker_open(&link->broker, settings) && link->stop >= 0 && link->kind->open(link);
  if (opened && pthread_create(&link->thread, NULL, run, link) == 0) {
    return true;
  }
  if (opened) {
    link->kind->close(link);
  }
  broker_close(&link->broker);
  if (link->stop >= 0) {
    close(link->stop);
  }
  return false;
}

void link_stop(struct link *link) {
  const uint64_t one = 1;
  (void)!write(link->stop, &one, sizeof one);
}

void link_join(struct link *link) {
  pthread_join(link->thread, NULL);
  close(link->stop);
}
