#include "tools/link/sweep.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_EVERY  (1000 * MS)
#define LOOK_EVERY (15000 * MS)

static const char account_answer[] = "account", floor_answer[] = "floor", frame_answer[] = "frame",
                  removed_answer[] = "removed";

void sweep_told(struct sweep *sweep, uint64_t number) {
  sweep->told[sweep->told_next] = number;
  sweep->told_next = (sweep->told_next + 1) % SWEEP_TOLD;
  sweep->told_count += sweep->told_count < SWEEP_TOLD;
}

static void acknowledge(const struct link *link, uint64_t number) {
  char subject[256];
  snprintf(subject, sizeof subject, "$JS.ACK.%s.%s.1.%" PRIu64 ".0.0.0", link->settings->stream, link->settings->consumer,
           number);
  natsConnection_PublishString(link->broker.connection, subject, "+ACK"); /* one that is lost is told again */
}

void sweep_begin(struct link *link, struct sweep *sweep) {
  const struct broker *broker = &link->broker;
  if (broker->made != sweep->made) { /* its numbers are others */
    sweep->told_count = sweep->told_next = 0;
  }
  for (unsigned i = 0; i < sweep->told_count; i++) {
    acknowledge(link, sweep->told[i]);
  }
  sweep->made = broker->made;
  sweep->until = broker->delivered;
  sweep->next = sweep->removed = 0;
  sweep->floor = UINT64_MAX;
  sweep->due = 0;
}

/* A request that is lost is made again. */
static void request(const struct link *link, const char *what, const char *consumer, const char *body, const char *answer) {
  char subject[256], reply[128];
  snprintf(subject, sizeof subject, "$JS.API.%s.%s%s%s", what, link->settings->stream, consumer ? "." : "",
           consumer ? consumer : "");
  snprintf(reply, sizeof reply, "%s.%s", link->broker.address, answer);
  natsConnection_PublishRequest(link->broker.connection, subject, reply, body, (int)strlen(body));
}

static void ask_account(const struct link *link) {
  request(link, "CONSUMER.INFO", link->settings->consumer, "", account_answer);
}

static void ask_frame(const struct link *link, const struct sweep *sweep) {
  char body[256];
  snprintf(body, sizeof body, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\"%s\"}", sweep->next, link->settings->subject);
  request(link, "STREAM.MSG.GET", NULL, body, frame_answer);
}

int64_t sweep_turn(struct link *link, struct sweep *sweep, int64_t now) {
  if (sweep->made == 0) {
    return INT64_MAX;
  }
  if (now >= sweep->due) {
    sweep->next = 0;
    sweep->due = now + (sweep->until > 0 ? ASK_EVERY : LOOK_EVERY);
    ask_account(link);
  }
  return sweep->due;
}

/* Of the first frame that waits, which may be gone. */
static void ask_floor(const struct link *link, struct sweep *sweep, uint64_t floor) {
  char body[64];
  sweep->floor = floor;
  snprintf(body, sizeof body, "{\"seq\":%" PRIu64 "}", floor + 1);
  request(link, "STREAM.MSG.GET", NULL, body, floor_answer);
}

/* No message waits for an acknowledgement: what had been delivered and is there is done. */
static void take_account(const struct link *link, struct sweep *sweep, const char *text, size_t length) {
  json_t *answer = json_loadb(text, length, 0, NULL);
  const json_t *waiting = json_object_get(answer, "num_ack_pending");
  uint64_t floor = (uint64_t)json_integer_value(json_object_get(json_object_get(answer, "ack_floor"), "stream_seq"));
  if (json_is_integer(waiting) && json_integer_value(waiting) == 0) {
    sweep->until = (uint64_t)json_integer_value(json_object_get(json_object_get(answer, "delivered"), "stream_seq"));
    sweep->next = 1;
    ask_frame(link, sweep);
  } else if (json_is_integer(waiting) && floor < sweep->until && floor != sweep->floor) {
    ask_floor(link, sweep, floor);
  }
  json_decref(answer);
}

/* The next one that waits may be gone, too. */
static void take_floor(const struct link *link, struct sweep *sweep, const char *text, size_t length) {
  static const char gone[] = "\"err_code\":10037";
  if (memmem(text, length < 512 ? length : 512, gone, strlen(gone))) {
    acknowledge(link, sweep->floor + 1);
    ask_account(link);
  }
}

static void end(const struct link *link, struct sweep *sweep) {
  if (sweep->removed > 0) {
    link_say(link, "removed %" PRIu64 " frames of stream %s that were done before its server was killed", sweep->removed,
             link->settings->stream);
  }
  sweep->until = sweep->next = sweep->removed = 0;
  sweep->due = link_clock() + LOOK_EVERY;
}

/* The frame itself comes with the answer, behind its number. */
static uint64_t number_in(const char *text, size_t length) {
  enum { HEAD = 512 };
  static const char key[] = "\"seq\":";
  char head[HEAD + 1];
  snprintf(head, sizeof head, "%.*s", (int)(length < HEAD ? length : HEAD), text);
  const char *at = strstr(head, key);
  return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void take_frame(const struct link *link, struct sweep *sweep, const char *text, size_t length) {
  char body[64];
  uint64_t number = number_in(text, length);
  if (number < sweep->next || number > sweep->until) { /* also where there is none, or it may not be asked */
    end(link, sweep);
    return;
  }
  snprintf(body, sizeof body, "{\"seq\":%" PRIu64 ",\"no_erase\":true}", number);
  request(link, "STREAM.MSG.DELETE", NULL, body, removed_answer);
  sweep->removed++;
  sweep->next = number + 1;
  sweep->due = link_clock() + ASK_EVERY;
  ask_frame(link, sweep);
}

static bool answers(const struct link *link, const natsMsg *message, const char *answer) {
  return strcmp(broker_answer(&link->broker, message), answer) == 0;
}

bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message) {
  const char *text = natsMsg_GetData(message);
  size_t length = (size_t)natsMsg_GetDataLength(message);
  if (answers(link, message, account_answer)) {
    if (sweep->made != 0 && sweep->next == 0) {
      take_account(link, sweep, text, length);
    }
    return true;
  }
  if (answers(link, message, floor_answer)) {
    if (sweep->until > 0 && sweep->next == 0) {
      take_floor(link, sweep, text, length);
    }
    return true;
  }
  if (answers(link, message, frame_answer)) {
    if (sweep->next > 0 && sweep->until > 0) {
      take_frame(link, sweep, text, length);
    }
    return true;
  }
  return answers(link, message, removed_answer);
}
