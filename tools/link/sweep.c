#include "tools/link/sweep.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_EVERY (1000 * MS)

static const char account_answer[] = ".account", frame_answer[] = ".frame", removed_answer[] = ".removed";

void sweep_begin(struct sweep *sweep, const struct broker *broker) { *sweep = (struct sweep){.until = broker->delivered}; }

/* One that is lost is made again. */
static void request(const struct link *link, const char *what, const char *consumer, const char *body, const char *answer) {
  char subject[256], reply[128];
  snprintf(subject, sizeof subject, "$JS.API.%s.%s%s%s", what, link->settings->stream, consumer ? "." : "",
           consumer ? consumer : "");
  snprintf(reply, sizeof reply, "%s%s", link->broker.address, answer);
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
  if (sweep->until == 0) {
    return INT64_MAX;
  }
  if (now >= sweep->due) {
    sweep->next = 0;
    sweep->due = now + ASK_EVERY;
    ask_account(link);
  }
  return sweep->due;
}

/* None waits for an acknowledgement: what had been delivered and is there is done. */
static void take_account(const struct link *link, struct sweep *sweep, const char *text, size_t length) {
  json_t *answer = json_loadb(text, length, 0, NULL);
  const json_t *waiting = json_object_get(answer, "num_ack_pending");
  if (json_is_integer(waiting) && json_integer_value(waiting) == 0) {
    sweep->next = 1;
    ask_frame(link, sweep);
  }
  json_decref(answer);
}

static void end(const struct link *link, struct sweep *sweep) {
  if (sweep->removed > 0) {
    link_say(link, "removed %" PRIu64 " frames of stream %s that were done before its server was killed", sweep->removed,
             link->settings->stream);
  }
  sweep->until = 0;
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
  size_t length = strlen(link->broker.address);
  const char *subject = natsMsg_GetSubject(message);
  return strncmp(subject, link->broker.address, length) == 0 && strcmp(subject + length, answer) == 0;
}

bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message) {
  const char *text = natsMsg_GetData(message);
  size_t length = (size_t)natsMsg_GetDataLength(message);
  if (answers(link, message, account_answer)) {
    if (sweep->until > 0 && sweep->next == 0) {
      take_account(link, sweep, text, length);
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
