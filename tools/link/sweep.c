#include "tools/link/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_EVERY     (1000 * MS)
#define LOOK_EVERY    (15000 * MS)
#define PAUSE_FIRST   (2000 * MS)
#define PAUSE_LONGEST (256000 * MS)

enum { WALK_MOST = 1024 }; /* acknowledged in one step */

static const char walk_answer[] = "walk", frame_answer[] = "frame", removed_answer[] = "removed";

void sweep_note_ack(struct sweep *sweep, uint64_t number) {
  sweep->acks[sweep->next_ack] = number;
  sweep->next_ack = (sweep->next_ack + 1) % SWEEP_ACKS;
  sweep->ack_count += sweep->ack_count < SWEEP_ACKS;
}

static void acknowledge(const struct link *link, uint64_t number) {
  char subject[256];
  snprintf(subject, sizeof subject, "$JS.ACK.%s.%s.1.%" PRIu64 ".0.0.0", link->settings->stream, link->settings->consumer,
           number);
  natsConnection_PublishString(link->broker.connection, subject, "+ACK"); /* repeated after the next connection if it is lost */
}

void sweep_begin(struct link *link, struct sweep *sweep) {
  const struct broker *broker = &link->broker;
  if (broker->made != sweep->made) { /* a new consumer has other numbers */
    sweep->ack_count = sweep->next_ack = 0;
  }
  for (unsigned i = 0; i < sweep->ack_count; i++) {
    acknowledge(link, sweep->acks[i]);
  }
  sweep->made = broker->made;
  sweep->until = broker->delivered;
  sweep->next = sweep->removed = sweep->walk = 0;
  sweep->floor = UINT64_MAX;
  sweep->due = 0;
}

static void ask_frame(const struct link *link, const struct sweep *sweep) {
  char body[256];
  snprintf(body, sizeof body, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\"%s\"}", sweep->next, link->settings->subject);
  link_ask(link, "STREAM.MSG.GET", NULL, body, frame_answer);
}

/* -- the walk ---------------------------------------------------------------------------------------------------------- */

static void ask_walk(const struct link *link, const struct sweep *sweep) {
  char body[96];
  snprintf(body, sizeof body, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\">\"}", sweep->walk);
  link_ask(link, "STREAM.MSG.GET", NULL, body, walk_answer);
}

static void begin_walk(const struct link *link, struct sweep *sweep, const struct account *account, bool first) {
  sweep->walk = account->floor + 1;
  sweep->end = account->delivered;
  sweep->first = first;
  if (sweep->walk > sweep->end) {
    sweep->walk = 0;
  } else {
    ask_walk(link, sweep);
  }
}

/*
 * `there` is the number of the next frame that exists. Longer gaps are acknowledged in parts; the rest follows with the next
 * account.
 */
static void step_walk(const struct link *link, struct sweep *sweep, uint64_t there) {
  uint64_t end = there - 1 < sweep->end ? there - 1 : sweep->end;
  for (unsigned count = 0; sweep->walk <= end; sweep->walk++, count++) {
    if (count == WALK_MOST) {
      return;
    }
    acknowledge(link, sweep->walk);
  }
  sweep->walk = there < sweep->end && !sweep->first ? there + 1 : 0;
  if (sweep->walk != 0) {
    ask_walk(link, sweep);
  }
}

/* Some of the frames that wait for an acknowledgement may be gone. */
static void watch_floor(const struct link *link, struct sweep *sweep, const struct account *account, int64_t now) {
  if (account->floor != sweep->floor) {
    sweep->floor = account->floor;
    sweep->walk = 0;
    sweep->pause = PAUSE_FIRST;
    sweep->walk_due = now + sweep->pause;
    if (account->floor < sweep->until) {
      begin_walk(link, sweep, account, true);
    }
  } else if (sweep->walk != 0) {
    ask_walk(link, sweep);
  } else if (account->waiting == 0 && now >= sweep->walk_due) {
    sweep->pause = sweep->pause * 2 < PAUSE_LONGEST ? sweep->pause * 2 : PAUSE_LONGEST;
    sweep->walk_due = now + sweep->pause;
    begin_walk(link, sweep, account, false);
  }
}

/* -- accounts and frames ----------------------------------------------------------------------------------------------- */

void sweep_account(struct link *link, struct sweep *sweep, const struct account *account, int64_t now) {
  if (sweep->made == 0 || (sweep->next != 0 && now < sweep->due)) {
    return;
  }
  sweep->next = 0;
  if (account->under_way > 0) {
    watch_floor(link, sweep, account, now);
  } else if (sweep->until > 0 || now >= sweep->due) { /* nothing is in flight, so all delivered frames are done */
    sweep->until = account->delivered;
    sweep->next = 1;
    sweep->walk = 0;
    sweep->due = now + ASK_EVERY;
    ask_frame(link, sweep);
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

/* The frame's data follows its number in the answer. */
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
  if (number < sweep->next || number > sweep->until) { /* also if no frame was found, or the request was refused */
    end(link, sweep);
    return;
  }
  snprintf(body, sizeof body, "{\"seq\":%" PRIu64 ",\"no_erase\":true}", number);
  link_ask(link, "STREAM.MSG.DELETE", NULL, body, removed_answer);
  sweep->removed++;
  sweep->next = number + 1;
  sweep->due = link_clock() + ASK_EVERY;
  ask_frame(link, sweep);
}

static bool is_gone(const char *text, size_t length) {
  static const char gone[] = "\"err_code\":10037";
  return memmem(text, length < 512 ? length : 512, gone, strlen(gone)) != NULL;
}

static void take_walk(const struct link *link, struct sweep *sweep, const char *text, size_t length) {
  uint64_t number = is_gone(text, length) ? sweep->end + 1 : number_in(text, length);
  if (number >= sweep->walk) {
    step_walk(link, sweep, number);
  } else {
    sweep->walk = 0; /* the request was refused */
  }
}

bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message) {
  const char *text = natsMsg_GetData(message), *answer = broker_answer(&link->broker, message);
  size_t length = (size_t)natsMsg_GetDataLength(message);
  if (strcmp(answer, walk_answer) == 0) {
    if (sweep->walk != 0) {
      take_walk(link, sweep, text, length);
    }
    return true;
  }
  if (strcmp(answer, frame_answer) == 0) {
    if (sweep->next > 0 && sweep->until > 0) {
      take_frame(link, sweep, text, length);
    }
    return true;
  }
  return strcmp(answer, removed_answer) == 0;
}
