/*
 * A sink stores the results of a pipeline in a stream, each once.
 *
 * Each result is copied into a message. Its name (`Nats-Msg-Id`) makes the stream store it once, however often it is sent. With
 * `block` the pipeline gets its slot back, and counts the frame as emitted, when the stream has answered. Unanswered messages
 * are sent again, also over the next connection. If the link dies, the pipeline passes unreleased results to its next reader.
 * With `drop` the slot returns at once, and the link disconnects from the pipeline while the broker does not answer.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/link/link.h"

enum { FLIGHTS = 256, NAME = 256 };
#define ANSWER_WAIT   (2000 * MS)
#define SILENCE       (1000 * MS)
#define REFUSED_FIRST (100 * MS)
#define REFUSED_MOST  (5000 * MS)

/* A result that is being sent. */
struct flight {
  natsMsg *message; /* reused for results of the same size, since creating one is the most expensive step; NULL: none */
  bool away;
  struct framed_result result;
  bool held; /* it holds the result's slot */
  size_t bytes;
  unsigned serial; /* counts the messages of this flight, so that late answers to earlier ones are ignored */
  unsigned sent;   /* number of attempts */
  int64_t due;     /* time of the next attempt */
  int64_t refused; /* the pause after a refusal */
};

struct sink {
  struct flight flights[FLIGHTS];
  unsigned count;
  unsigned serial;
  size_t bytes;
  int64_t due;    /* the earliest `due` of all flights, or earlier */
  int64_t calm;   /* with `drop`: without an answer by then, it requests an answer */
  bool refuses;   /* the stream refused the last message */
  int64_t warned; /* time of the last reported refusal; 0: the trouble is over */
  bool waits;     /* `waiting` has no message for lack of memory */
  struct framed_result waiting;
  struct framed_result spent[FLIGHTS]; /* stored, but not released yet */
  unsigned spent_count;
};

static bool sink_open(struct link *link) {
  link->state = calloc(1, sizeof(struct sink));
  return link->state != NULL;
}

static bool drops(const struct link *link) { return link->settings->overload == LINK_DROP; }

static void drop_message(struct flight *flight) {
  natsMsg_Destroy(flight->message);
  flight->message = NULL;
}

/* A message with one attempt has one answer, so it can be reused. Others are freed, since more answers may follow. */
static void end_flight(struct link *link, struct flight *flight, bool answered) {
  struct sink *sink = link->state;
  if (flight->held && link->client) {
    sink->spent[sink->spent_count++] = flight->result;
  }
  if (!answered || flight->sent > 1) {
    drop_message(flight);
  }
  flight->away = flight->held = false;
  sink->bytes -= flight->bytes;
  sink->count--;
  atomic_store(&link->in_flight, sink->count);
}

/* Released from the last to the first: the daemon frees slots in order, so only the first release wakes it. */
static void give_back(struct link *link) {
  struct sink *sink = link->state;
  while (sink->spent_count > 0) {
    framed_release(link->client, &sink->spent[--sink->spent_count]);
  }
}

static void sink_close(struct link *link) {
  struct sink *sink = link->state;
  for (unsigned i = 0; i < FLIGHTS; i++) {
    drop_message(&sink->flights[i]);
  }
  free(sink);
}

/* -- out --------------------------------------------------------------------------------------------------------------- */

/* The CLOCK_REALTIME ns of a time of CLOCK_MONOTONIC, which has no meaning on other machines. */
static int64_t wall_clock(int64_t monotonic) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec - (link_clock() - monotonic);
}

/* When the queue of the pipeline's frames was created; 0: no queue, or not known yet. */
static int64_t queue_made(const struct link *link) { return link->source ? atomic_load(&link->source->stream_made) : 0; }

/*
 * Two boxes may compute a frame of a queue, so its number in the queue is its name. A queue that is created again counts from
 * 1, so the name includes the time of creation.
 */
static void write_name(const struct link *link, const struct framed_result *result, char frame[NAME], char id[NAME]) {
  snprintf(frame, NAME, "%s:%" PRIu64 ":%" PRIu64, link->settings->name, result->epoch, result->number);
  int64_t made = queue_made(link);
  if (made != 0) {
    snprintf(id, NAME, "%s:%s:%" PRId64 ":%" PRIu64, link->settings->name, link->settings->queue, made, result->sequence);
  } else {
    memcpy(id, frame, NAME);
  }
}

/* False: no memory. */
static bool write_headers(const struct link *link, natsMsg *message, const struct framed_result *result) {
  char frame[NAME], id[NAME], sequence[24], taken[24], total[24];
  natsStatus status = NATS_OK;
  write_name(link, result, frame, id);
  snprintf(sequence, sizeof sequence, "%" PRIu64, result->sequence);
  snprintf(taken, sizeof taken, "%" PRId64, wall_clock(result->timestamp));
  snprintf(total, sizeof total, "%" PRIu32, result->steps[FRAMED_TOTAL]);
  const char *const headers[][2] = {{"Nats-Msg-Id", id},           {"Framed-Frame", frame},
                                    {"Framed-Sequence", sequence}, {"Framed-Time", taken},
                                    {"Framed-Latency", total},     {"Framed-Format", framed_info(link->client)->output_format}};
  for (size_t i = 0; i < sizeof headers / sizeof *headers && status == NATS_OK; i++) {
    status = natsMsgHeader_Set(message, headers[i][0], headers[i][1]);
  }
  return status == NATS_OK;
}

/* Prepares a flight's message for a result. False: no memory. */
static bool make_message(struct link *link, struct flight *flight, const struct framed_result *result) {
  struct sink *sink = link->state;
  char reply[128];
  if (flight->message && (size_t)natsMsg_GetDataLength(flight->message) == result->size) {
    memcpy((char *)natsMsg_GetData(flight->message), result->data,
           result->size); /* the message owns this memory, and is copied when it is sent */
  } else {
    drop_message(flight);
    flight->serial = ++sink->serial;
    snprintf(reply, sizeof reply, "%s.%u.%u", link->broker.address, (unsigned)(flight - sink->flights), flight->serial);
    if (natsMsg_Create(&flight->message, link->settings->subject, reply, result->data, (int)result->size) != NATS_OK) {
      return false;
    }
  }
  if (!write_headers(link, flight->message, result)) {
    drop_message(flight);
  }
  return flight->message != NULL;
}

static void send_flight(struct link *link, struct flight *flight, int64_t now) {
  struct sink *sink = link->state;
  natsConnection_PublishMsg(link->broker.connection, flight->message); /* a lost message has no answer, and is sent again */
  flight->sent++;
  flight->due = now + ANSWER_WAIT;
  sink->due = flight->due < sink->due ? flight->due : sink->due;
}

/* The first free one, which limits the messages to the most that were ever in flight. */
static struct flight *free_flight(struct sink *sink) {
  struct flight *flight = sink->flights;
  while (flight->away) {
    flight++;
  }
  return flight;
}

static bool has_room(const struct link *link) {
  const struct sink *sink = link->state;
  size_t bytes = framed_info(link->client)->output_bytes;
  return !sink->waits && sink->count < FLIGHTS && (sink->count == 0 || sink->bytes + bytes <= link->memory);
}

/* With `drop` results are always received, so that they keep no slots of the pipeline. */
static int sink_wanted(const struct link *link) {
  const struct sink *sink = link->state;
  if (!link->client || !link->broker.connection || link->stopping) {
    return 0;
  }
  bool named = !link->source || queue_made(link) != 0;
  return drops(link) || (!sink->refuses && named && has_room(link)) ? FRAMED_RESULT : 0;
}

/* False: no memory. */
static bool begin_flight(struct link *link, const struct framed_result *result, int64_t now) {
  struct sink *sink = link->state;
  struct flight *flight = free_flight(sink);
  if (!make_message(link, flight, result)) {
    return false;
  }
  flight->away = true;
  flight->held = !drops(link);
  flight->result = *result;
  flight->bytes = result->size;
  flight->sent = 0;
  flight->refused = 0;
  sink->calm = sink->count == 0 ? now + SILENCE : sink->calm;
  sink->count++;
  sink->bytes += result->size;
  atomic_store(&link->in_flight, sink->count);
  if (drops(link)) {
    framed_release(link->client, result);
  }
  send_flight(link, flight, now);
  return true;
}

static void lose_result(struct link *link, const struct framed_result *result) {
  framed_release(link->client, result);
  link_count(link, COUNT_LOST, 1);
}

static void take_result(struct link *link, const struct framed_result *result, int64_t now) {
  struct sink *sink = link->state;
  link_count(link, COUNT_MISSED, result->dropped);
  if (!result->data) {
    return;
  }
  if ((drops(link) && !has_room(link)) || !begin_flight(link, result, now)) {
    if (drops(link)) {
      lose_result(link, result);
    } else {
      sink->waits = true;
      sink->waiting = *result;
    }
  }
}

static void send_due(struct link *link, int64_t now) {
  struct sink *sink = link->state;
  broker_flush(&link->broker); /* otherwise the broker's current ping would look like unsent data */
  bool stuck = broker_is_stuck(&link->broker);
  sink->due = INT64_MAX;
  for (unsigned i = 0; i < FLIGHTS; i++) {
    struct flight *flight = &sink->flights[i];
    if (!flight->away) {
      continue;
    }
    if (now < flight->due) {
      sink->due = flight->due < sink->due ? flight->due : sink->due;
    } else if (drops(link)) {
      link_count(link, COUNT_LOST, 1);
      end_flight(link, flight, false);
    } else if (stuck) {
      flight->due = now + ANSWER_WAIT; /* the previous attempt is still in the send buffer */
      sink->due = flight->due < sink->due ? flight->due : sink->due;
    } else {
      link_count(link, COUNT_RETRIES, 1);
      send_flight(link, flight, now);
    }
  }
}

/* Asks a silent broker for an answer. Any message shows that it still works. */
static int64_t watch_silence(struct link *link, int64_t now) {
  struct sink *sink = link->state;
  if (!drops(link) || (sink->count == 0 && !link->silent)) {
    return INT64_MAX;
  }
  if (now >= sink->calm) {
    link_set_broker_answers(link, false);
    sink->calm = now + SILENCE;
    link_ask(link, "STREAM.INFO", NULL, "", "there");
  }
  return sink->calm;
}

/* A broker that alternates between accepting and refusing is reported once. */
static void end_refusal(struct link *link, int64_t now) {
  struct sink *sink = link->state;
  if (sink->warned != 0 && !sink->refuses && now - sink->warned >= SILENCE) {
    sink->warned = 0;
    link_say(link, "the stream stores results again");
    link_recover(link);
  }
}

static int64_t sink_turn(struct link *link, int64_t now) {
  struct sink *sink = link->state;
  struct framed_result result;
  give_back(link);
  if (!link->broker.connection) {
    return INT64_MAX;
  }
  end_refusal(link, now);
  if (sink->count > 0 && now >= sink->due) {
    send_due(link, now);
  }
  if (sink->waits) {
    sink->waits = !begin_flight(link, &sink->waiting, now);
  }
  while (sink_wanted(link) != 0 && framed_receive(link->client, &result) > 0) {
    take_result(link, &result, now);
  }
  int64_t silence = watch_silence(link, now), due = sink->count > 0 ? sink->due : INT64_MAX;
  return due < silence ? due : silence;
}

/* -- in ---------------------------------------------------------------------------------------------------------------- */

static void refuse(struct link *link, struct flight *flight, const char *why) {
  struct sink *sink = link->state;
  if (sink->warned == 0) {
    link_warn(link, "the stream refuses a result: %s", why);
  }
  sink->refuses = true;
  sink->warned = link_clock();
  if (drops(link)) {
    link_count(link, COUNT_LOST, 1);
    end_flight(link, flight, false);
    return;
  }
  int64_t twice = flight->refused * 2 < REFUSED_MOST ? flight->refused * 2 : REFUSED_MOST;
  flight->refused = flight->refused == 0 ? REFUSED_FIRST : twice;
  flight->due = link_clock() + flight->refused;
  sink->due = flight->due < sink->due ? flight->due : sink->due;
}

static void take_refusal(struct link *link, struct flight *flight, const char *text, size_t length) {
  json_t *answer = json_loadb(text, length, 0, NULL);
  const char *why = json_string_value(json_object_get(json_object_get(answer, "error"), "description"));
  refuse(link, flight, why ? why : "its answer makes no sense");
  json_decref(answer);
}

/* Other subscribers may answer, too. Only the stream's own answer ends the flight. */
static bool is_of_stream(const struct link *link, const char *text, size_t length) {
  char name[NAME];
  size_t size = (size_t)snprintf(name, sizeof name, "\"%s\"", link->settings->stream);
  return memmem(text, length, name, size) != NULL;
}

static void take_answer(struct link *link, struct flight *flight, const natsMsg *message) {
  struct sink *sink = link->state;
  const char *text = natsMsg_GetData(message);
  size_t length = (size_t)natsMsg_GetDataLength(message);
  if (!memmem(text, length, "\"seq\":", 6) || memmem(text, length, "\"error\"", 7)) {
    take_refusal(link, flight, text, length);
  } else if (is_of_stream(link, text, length)) {
    link_count(link, COUNT_STORED, 1);
    link_count(link, COUNT_DUPLICATES,
               memmem(text, length, "\"duplicate\":true", 16) || memmem(text, length, "\"duplicate\": true", 17));
    sink->refuses = false;
    link_taken(link);
    end_flight(link, flight, true);
  }
}

static void sink_take_message(struct link *link, natsMsg *message) {
  struct sink *sink = link->state;
  char *end;
  sink->calm = link_clock() + SILENCE;
  link_set_broker_answers(link, true);
  unsigned long index = strtoul(broker_answer(&link->broker, message), &end, 10),
                serial = strtoul(end + (*end == '.'), NULL, 10);
  if (index < FLIGHTS) {
    struct flight *flight = &sink->flights[index];
    if (flight->away && flight->serial == serial) {
      take_answer(link, flight, message);
    }
  }
  broker_done(&link->broker, message);
}

/* -- connections -------------------------------------------------------------------------------------------------------- */

/* Sends all unanswered messages again at once. */
static void sink_broker_there(struct link *link) {
  struct sink *sink = link->state;
  sink->refuses = false;
  sink->warned = 0;
  for (unsigned i = 0; i < FLIGHTS; i++) {
    if (sink->flights[i].away && !drops(link)) {
      sink->flights[i].due = 0;
      sink->due = 0;
    }
  }
}

/* The pipeline passes unreleased results to its next reader, with the same names. */
static void sink_daemon_gone(struct link *link) {
  struct sink *sink = link->state;
  sink->waits = false;
  sink->spent_count = 0;
  for (unsigned i = 0; i < FLIGHTS; i++) {
    sink->flights[i].held = false;
    if (!sink->flights[i].away) {
      drop_message(&sink->flights[i]);
    }
  }
}

static bool sink_is_idle(const struct link *link) {
  const struct sink *sink = link->state;
  return sink->count == 0 && sink->spent_count == 0;
}

const struct link_kind sink_kind = {
    .open = sink_open,
    .close = sink_close,
    .broker_there = sink_broker_there,
    .daemon_gone = sink_daemon_gone,
    .take_message = sink_take_message,
    .turn = sink_turn,
    .wanted = sink_wanted,
    .is_idle = sink_is_idle,
};
