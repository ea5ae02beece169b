#include "tools/link/queue.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ASK_EVERY (1000 * MS)
#define HELD_FOR  (5000 * MS) /* two answers may differ for a moment */
#define STILL_FOR (10000 * MS)
#define NS_PER_S  INT64_C(1000000000)

static const char account_answer[] = "account", stream_answer[] = "stream";

void queue_begin(struct link *link, struct queue *queue) {
  queue->due = 0;
  queue->accounted = queue->warned = false;
  queue->held_since = 0;
  queue->moved = link_clock();
  sweep_begin(link, &queue->sweep);
}

int64_t queue_turn(struct link *link, struct queue *queue, int64_t now) {
  if (now >= queue->due) {
    queue->due = now + ASK_EVERY;
    link_ask(link, "CONSUMER.INFO", link->settings->consumer, "", account_answer);
  }
  return queue->due;
}

/* -- the consumer ------------------------------------------------------------------------------------------------------ */

static uint64_t count_of(const json_t *object, const char *name) {
  json_int_t value = json_integer_value(json_object_get(object, name));
  return value > 0 ? (uint64_t)value : 0;
}

/* False: the answer is no consumer info. */
static bool read_account(const json_t *answer, struct account *account) {
  const json_t *delivered = json_object_get(answer, "delivered"), *floor = json_object_get(answer, "ack_floor");
  if (!json_is_integer(json_object_get(answer, "num_ack_pending")) || !json_is_object(delivered)) {
    return false;
  }
  *account = (struct account){.waiting = count_of(answer, "num_pending"),
                              .under_way = count_of(answer, "num_ack_pending"),
                              .delivered = count_of(delivered, "stream_seq"),
                              .deliveries = count_of(delivered, "consumer_seq"),
                              .floor = count_of(floor, "stream_seq")};
  return true;
}

/* Asks only for the consumer's subject, since a queue of several subjects has several consumers. */
static void ask_stream(const struct link *link, const struct queue *queue) {
  char body[320] = "";
  if (queue->subject[0]) {
    snprintf(body, sizeof body, "{\"subjects_filter\":\"%s\"}", queue->subject);
  }
  link_ask(link, "STREAM.INFO", NULL, body, stream_answer);
}

/* The subject is inserted into a JSON request, so it must not contain quotes or backslashes. */
static void take_subject(struct queue *queue, const json_t *answer) {
  const char *subject = json_string_value(json_object_get(json_object_get(answer, "config"), "filter_subject"));
  bool all = !subject || strcmp(subject, ">") == 0 || strpbrk(subject, "\"\\") || strlen(subject) >= sizeof queue->subject;
  snprintf(queue->subject, sizeof queue->subject, "%s", all ? "" : subject);
}

static void take_account(struct link *link, struct queue *queue, const json_t *answer) {
  int64_t now = link_clock();
  if (!read_account(answer, &queue->account)) {
    return;
  }
  if (queue->account.deliveries != queue->deliveries) {
    queue->deliveries = queue->account.deliveries;
    queue->moved = now;
  }
  queue->accounted = true;
  take_subject(queue, answer);
  sweep_account(link, &queue->sweep, &queue->account, now);
  ask_stream(link, queue);
}

/* -- the stream -------------------------------------------------------------------------------------------------------- */

/* Uses this machine's clock, since servers do not send theirs. */
static int64_t age_of(const char *time) {
  struct tm parts = {0};
  struct timespec now;
  if (!time || !strptime(time, "%Y-%m-%dT%H:%M:%S", &parts)) {
    return 0;
  }
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t age = ((int64_t)now.tv_sec - (int64_t)timegm(&parts)) * NS_PER_S;
  return age > 0 ? age : 0;
}

static uint64_t messages_in(const struct queue *queue, const json_t *state) {
  const json_t *subjects = json_object_get(state, "subjects");
  const char *name;
  json_t *count;
  uint64_t sum = 0;
  if (!queue->subject[0]) {
    return count_of(state, "messages");
  }
  json_object_foreach((json_t *)subjects, name, count) {
    sum += json_integer_value(count) > 0 ? (uint64_t)json_integer_value(count) : 0;
  }
  return sum;
}

/*
 * The frames in the stream that the consumer does not know. Frames published between the two answers do not count: at most
 * those since the stream's previous answer, and those after the consumer's last known frame.
 */
static uint64_t unknown(struct queue *queue, uint64_t messages, uint64_t last) {
  const struct account *account = &queue->account;
  uint64_t known = account->waiting + account->under_way, behind = account->delivered + account->waiting;
  uint64_t since = last > queue->last ? last - queue->last : 0, beyond = last > behind ? last - behind : 0;
  uint64_t late = since < beyond ? since : beyond;
  queue->last = last;
  return messages > known + late ? messages - known - late : 0;
}

/* The frames that no box receives: those unknown to the consumer, and those it does not deliver despite requests. */
static uint64_t unserved(struct queue *queue, uint64_t unknown, unsigned asked, int64_t now) {
  uint64_t count = 0;
  if (unknown == 0) {
    queue->held_since = 0;
  } else if (queue->held_since == 0 || unknown < queue->held) {
    queue->held = unknown;
    queue->held_since = queue->held_since == 0 ? now : queue->held_since;
  }
  if (queue->held_since != 0 && now - queue->held_since >= HELD_FOR) {
    count += queue->held;
  }
  if (queue->account.waiting == 0 || asked == 0) {
    queue->moved = now;
  } else if (now - queue->moved >= STILL_FOR) {
    count += queue->account.waiting;
  }
  return count;
}

static void warn_of(struct link *link, struct queue *queue, uint64_t count) {
  if (count > 0 && !queue->warned) {
    link_warn(link,
              "the queue holds %" PRIu64
              " frames that are not delivered: see consumer %s (max_deliver, max_ack_pending, filter) of "
              "stream %s",
              count, link->settings->consumer, link->settings->stream);
  } else if (count == 0 && queue->warned) {
    link_recover(link);
  }
  queue->warned = count > 0;
}

static void take_stream(struct link *link, struct queue *queue, const json_t *answer, unsigned asked) {
  const json_t *state = json_object_get(answer, "state");
  if (!json_is_object(state) || !link->broker.queue || !queue->accounted) {
    return;
  }
  uint64_t messages = messages_in(queue, state);
  uint64_t count = unserved(queue, unknown(queue, messages, count_of(state, "last_seq")), asked, link_clock());
  const char *first = json_string_value(json_object_get(state, "first_ts"));
  link_set_depth(link, messages, count, messages > 0 ? age_of(first) : 0);
  warn_of(link, queue, count);
}

/* -- answers ----------------------------------------------------------------------------------------------------------- */

static void take_answer(struct link *link, struct queue *queue, const natsMsg *message, bool account, unsigned asked) {
  json_t *answer = json_loadb(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message), 0, NULL);
  json_int_t error = json_integer_value(json_object_get(json_object_get(answer, "error"), "err_code"));
  if (error == JSConsumerNotFoundErr || error == JSStreamNotFoundErr) {
    link_renew(link, error == JSStreamNotFoundErr ? "its stream is gone" : "its consumer is gone");
  } else if (account) {
    take_account(link, queue, answer);
  } else {
    take_stream(link, queue, answer, asked);
  }
  json_decref(answer);
}

bool queue_take(struct link *link, struct queue *queue, const natsMsg *message, unsigned asked) {
  const char *answer = broker_answer(&link->broker, message);
  bool account = strcmp(answer, account_answer) == 0;
  if (account || strcmp(answer, stream_answer) == 0) {
    take_answer(link, queue, message, account, asked);
    return true;
  }
  return sweep_take(link, &queue->sweep, message);
}
