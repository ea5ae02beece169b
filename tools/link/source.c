/*
 * A source: a work queue whose frames go into a pipeline. Each is acknowledged by what became of it there:
 *
 *   emitted                     done: the queue forgets it
 *   client_gone, shutdown,      given back, to be computed by another box or once more
 *   sink_error
 *   oldest, newest, late,       ended: the pipeline drops such frames by its configuration
 *   unread
 *   invalid, gpu_fault          ended, and put on the subject of dead letters; so is one that was given back too often
 *
 * The queue is asked for as many frames as the pipeline has free slots, one by one. While a frame is under way the queue is
 * told so, and keeps it from others; a box that dies tells nothing, and its frames are delivered again after `ack_wait`.
 *
 * A source that is stopped asks for no more frames, and computes those that its open requests still bring. The server keeps a
 * frame that it sends to a closed connection for `ack_wait`. So the source unsubscribes, and waits for the server's answer
 * before it disconnects. nats-server 2.9 may keep a frame that it sends during the unsubscription, too: therefore open requests
 * first have SERVED_WAIT to end, as they do while frames come without a pause.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/link/queue.h"

enum { JOBS = 2 * FRAMED_MAX_SLOTS };
#define EXPIRES       (5000 * MS)
#define REFUSED_PAUSE (1000 * MS)
#define SERVED_WAIT   (300 * MS)
#define DRAIN_LOOK    (10 * MS)

/* A frame that the queue gave us and has no word of yet. */
struct job {
  natsMsg *message; /* NULL: none */
  uint64_t number;  /* in the stream */
  unsigned delivered;
  bool submitted;   /* else it waits for a slot */
  bool stale;       /* its stream was made again since: the number is another frame's */
  const char *word; /* what the queue is to be told; NULL: not known yet */
  char why[96];     /* it is a dead letter */
};

struct source {
  struct job jobs[JOBS];
  unsigned count;
  unsigned asked;  /* frames that were asked for and have not come */
  int64_t stopped; /* when it asked no more; 0: it asks */
  bool drained;    /* since then it has unsubscribed, and no more frames come */
  int64_t asked_at;
  int64_t warned; /* when it refused to give any, while that is said; 0: it is not */
  int64_t told;   /* when the queue was last told that frames are under way */
  struct queue queue;
};

static bool source_open(struct link *link) {
  link->state = calloc(1, sizeof(struct source));
  return link->state != NULL;
}

/* -- words to the queue ------------------------------------------------------------------------------------------------ */

static const char done[] = "+ACK", give_back[] = "-NAK", end[] = "+TERM", under_way[] = "+WPI";

enum { BACK_FIRST_MS = 250, BACK_DOUBLED = 5 };

static void tell(const struct link *link, const natsMsg *message, const char *word) {
  natsConnection_Publish(link->broker.connection, natsMsg_GetReply(message), word, (int)strlen(word));
}

/* Another box may have it at once; from the second time on it pauses, or a trouble that lasts would use up its deliveries. */
static void tell_back(const struct link *link, const struct job *job) {
  char word[64];
  unsigned doubled = job->delivered < BACK_DOUBLED ? job->delivered : BACK_DOUBLED;
  if (doubled < 2) {
    tell(link, job->message, give_back);
    return;
  }
  snprintf(word, sizeof word, "%s {\"delay\":%" PRId64 "}", give_back, (BACK_FIRST_MS << (doubled - 2)) * MS);
  tell(link, job->message, word);
}

static void put_dead(const struct link *link, const struct job *job) {
  natsMsg *letter = NULL;
  char number[24];
  snprintf(number, sizeof number, "%" PRIu64, job->number);
  natsStatus status =
      natsMsg_Create(&letter, link->settings->dead, NULL, natsMsg_GetData(job->message), natsMsg_GetDataLength(job->message));
  status = status == NATS_OK ? natsMsgHeader_Set(letter, "Framed-Reason", job->why) : status;
  status = status == NATS_OK ? natsMsgHeader_Set(letter, "Framed-Stream", link->settings->stream) : status;
  status = status == NATS_OK ? natsMsgHeader_Set(letter, "Framed-Sequence", number) : status;
  if (status == NATS_OK) {
    natsConnection_PublishMsg(link->broker.connection, letter);
  }
  natsMsg_Destroy(letter);
  link_say(link, "frame %s of stream %s is dead: %s", number, link->settings->stream, job->why);
}

/* Nobody asks for the job any more. */
static void end_job(struct link *link, struct job *job) {
  struct source *source = link->state;
  natsMsg_Destroy(job->message);
  *job = (struct job){0};
  source->count--;
  atomic_store(&link->in_flight, source->count);
}

/* What became of the frame is known; the queue is told as soon as there is one. */
static void settle(struct link *link, struct job *job, const char *word, const char *why) {
  bool last = word == give_back && job->delivered >= link->settings->deliver;
  enum counter counter = word == done ? COUNT_ACKED : word == give_back ? COUNT_GIVEN_BACK : COUNT_ENDED;
  job->word = last ? end : word;
  if (last || why) {
    snprintf(job->why, sizeof job->why, "%s", why ? why : "it was given back too often");
    counter = COUNT_DEAD;
  }
  link_count(link, counter, 1);
}

static void settle_fate(struct link *link, struct job *job, int fate) {
  switch (fate) {
  case FRAMED_EMITTED:
    settle(link, job, done, NULL);
    break;
  case FRAMED_OLDEST:
  case FRAMED_NEWEST:
  case FRAMED_LATE:
  case FRAMED_UNREAD:
    settle(link, job, end, NULL);
    break;
  case FRAMED_INVALID:
  case FRAMED_GPU_FAULT:
    settle(link, job, end, framed_fate_name(fate));
    break;
  default:
    settle(link, job, give_back, NULL);
    break;
  }
}

static void tell_settled(struct link *link) {
  struct source *source = link->state;
  for (unsigned i = 0; i < JOBS; i++) {
    struct job *job = &source->jobs[i];
    if (job->message && job->word && job->stale) {
      end_job(link, job);
    } else if (job->message && job->word) {
      if (job->why[0]) {
        put_dead(link, job);
      }
      if (job->word == give_back) {
        tell_back(link, job);
      } else {
        tell(link, job->message, job->word);
        sweep_told(&source->queue.sweep, job->number);
      }
      end_job(link, job);
    }
  }
}

static void tell_under_way(struct link *link, int64_t now) {
  struct source *source = link->state;
  if (now - source->told < link->settings->ack_wait_ns / 3) {
    return;
  }
  source->told = now;
  for (unsigned i = 0; i < JOBS; i++) {
    if (source->jobs[i].message && !source->jobs[i].stale) {
      tell(link, source->jobs[i].message, under_way);
    }
  }
}

/* -- frames in --------------------------------------------------------------------------------------------------------- */

/* False: no slot is free. */
static bool submit(struct link *link, struct job *job) {
  void *frame = framed_acquire(link->client);
  if (!frame) {
    return false;
  }
  memcpy(frame, natsMsg_GetData(job->message), framed_info(link->client)->input_bytes);
  framed_submit(link->client, frame, job->number, 0, 0); /* one that fails is given back with all others */
  job->submitted = true;
  return true;
}

static void submit_waiting(struct link *link) {
  struct source *source = link->state;
  for (unsigned i = 0; i < JOBS; i++) {
    struct job *job = &source->jobs[i];
    if (job->message && !job->submitted && !job->word && !submit(link, job)) {
      return;
    }
  }
}

static struct job *find_job(struct source *source, uint64_t number) {
  for (unsigned i = 0; i < JOBS; i++) {
    if (source->jobs[i].message && source->jobs[i].number == number) {
      return &source->jobs[i];
    }
  }
  return NULL;
}

static struct job *free_job(struct source *source) {
  for (unsigned i = 0; i < JOBS; i++) {
    if (!source->jobs[i].message) {
      return &source->jobs[i];
    }
  }
  return NULL;
}

/* "$JS.ACK.STREAM.CONSUMER.DELIVERED.NUMBER.…", with a domain and an account before the stream in newer servers. */
static bool read_reply(const char *reply, uint64_t *number, unsigned *delivered) {
  unsigned dots = 0;
  for (const char *at = reply ? reply : ""; *at; at++) {
    dots += *at == '.';
  }
  if (!reply || strncmp(reply, "$JS.ACK.", 8) != 0 || dots < 8) {
    return false;
  }
  const char *at = reply;
  for (unsigned skip = dots >= 10 ? 6 : 4; skip > 0; skip--) {
    at = strchr(at, '.') + 1;
  }
  return sscanf(at, "%u.%" SCNu64, delivered, number) == 2;
}

/* Takes the message. */
static void begin_job(struct link *link, natsMsg *message, uint64_t number, unsigned delivered) {
  struct source *source = link->state;
  struct job *job = free_job(source);
  if (!job) {
    natsMsg_Destroy(message); /* more than was asked for: it is delivered again */
    return;
  }
  size_t got = (size_t)natsMsg_GetDataLength(message);
  char why[96];
  *job = (struct job){.message = message, .number = number, .delivered = delivered};
  source->count++;
  atomic_store(&link->in_flight, source->count);
  if (delivered > link->settings->deliver) {
    snprintf(why, sizeof why, "none of the %u boxes that had it came to an end with it", delivered - 1);
    settle(link, job, end, why);
  } else if (!link->client) {
    settle(link, job, give_back, NULL);
  } else if (got != framed_info(link->client)->input_bytes) {
    snprintf(why, sizeof why, "it has %zu bytes, and a frame of the pipeline has %zu", got,
             framed_info(link->client)->input_bytes);
    settle(link, job, end, why);
  }
}

/* There are frames, or none for now. The trouble of a daemon that refuses by turns is said once. */
static void mend_refusal(struct link *link) {
  struct source *source = link->state;
  if (source->warned != 0 && link_clock() - source->warned > EXPIRES) {
    source->warned = 0;
    link_mend(link);
  }
  link_taken(link);
}

/* What comes in place of a frame. A consumer that cannot be asked says so at once, each time; so does a server whose answer
 * says nothing. */
static void take_status(struct link *link, natsMsg *message) {
  struct source *source = link->state;
  const char *status = NULL, *why = NULL;
  bool has_status = natsMsgHeader_Get(message, "Status", &status) == NATS_OK && status;
  if (has_status && (strcmp(status, "404") == 0 || strcmp(status, "408") == 0)) {
    mend_refusal(link);
    return;
  }
  natsMsgHeader_Get(message, "Description", &why);
  if (source->warned == 0) {
    link_warn(link, "consumer %s gives no frames: %s", link->settings->consumer,
              why          ? why
              : has_status ? status
                           : "the server's answer is neither a frame nor a status");
  }
  source->warned = link_clock();
}

static void source_take_message(struct link *link, natsMsg *message) {
  struct source *source = link->state;
  uint64_t number;
  unsigned delivered;
  if (queue_take(link, &source->queue, message, source->asked)) {
    natsMsg_Destroy(message);
    return;
  }
  source->asked -= source->asked > 0;
  if (!read_reply(natsMsg_GetReply(message), &number, &delivered)) {
    take_status(link, message);
    natsMsg_Destroy(message);
  } else if (find_job(source, number)) {
    natsMsg_Destroy(message); /* it is delivered again, and still under way here */
  } else {
    mend_refusal(link);
    begin_job(link, message, number, delivered);
  }
}

/* -- asking ------------------------------------------------------------------------------------------------------------ */

/* The pipeline has so many slots, and messages that wait for their fate so much memory. */
static unsigned most_jobs(const struct link *link) {
  const struct framed_info *info = framed_info(link->client);
  size_t fit = link->memory / info->input_bytes;
  return fit == 0 ? 1 : fit < info->slots ? (unsigned)fit : info->slots;
}

static void ask(struct link *link, int64_t now) {
  struct source *source = link->state;
  char request[64];
  if (source->asked > 0 && now - source->asked_at > EXPIRES + EXPIRES / 2) {
    source->asked = 0; /* whoever was asked is gone */
    link->broker.unheard = true;
  }
  snprintf(request, sizeof request, "{\"batch\":1,\"expires\":%lld}", (long long)EXPIRES);
  while (source->count + source->asked < most_jobs(link)) {
    link_ask(link, "CONSUMER.MSG.NEXT", link->settings->consumer, request, "frames");
    source->asked++;
    source->asked_at = now;
  }
}

/* -- what comes and goes ----------------------------------------------------------------------------------------------- */

static void take_fates(struct link *link) {
  struct framed_result result;
  while (framed_receive(link->client, &result) > 0) {
    struct job *job = find_job(link->state, result.sequence);
    if (job && !job->word) {
      settle_fate(link, job, result.fate);
    }
    framed_release(link->client, &result);
  }
}

/* The sink names results by the stream (sink.c), and another stream is named when no frame of the former one is under way. */
static bool names_are_of_stream(struct link *link) {
  const struct source *source = link->state;
  if (source->count == 0) {
    atomic_store(&link->stream_made, link->broker.stream_made);
  }
  return atomic_load(&link->stream_made) == link->broker.stream_made;
}

static void drain(struct link *link, int64_t now) {
  struct source *source = link->state;
  source->stopped = source->stopped == 0 ? now : source->stopped;
  if (source->asked == 0 || now - source->stopped >= SERVED_WAIT) {
    source->drained = broker_drain(&link->broker);
  }
}

static int64_t source_turn(struct link *link, int64_t now) {
  struct source *source = link->state;
  if (link->client) {
    take_fates(link);
    submit_waiting(link);
  }
  if (!link->broker.connection) {
    return INT64_MAX;
  }
  tell_settled(link);
  tell_under_way(link, now);
  if (link->stopping) {
    drain(link, now);
    return now + DRAIN_LOOK;
  }
  if (link->client && now >= source->warned + REFUSED_PAUSE && names_are_of_stream(link)) {
    ask(link, now);
  }
  int64_t queue = queue_turn(link, &source->queue, now), tell_again = source->told + link->settings->ack_wait_ns / 3;
  return source->count > 0 && tell_again < queue ? tell_again : queue;
}

static void source_broker_there(struct link *link) {
  struct source *source = link->state;
  source->asked = 0;
  source->warned = 0;
  for (unsigned i = 0; i < JOBS; i++) {
    source->jobs[i].stale |= source->jobs[i].message && atomic_load(&link->stream_made) != link->broker.stream_made;
  }
  queue_begin(link, &source->queue);
}

/* What was under way there may be computed elsewhere. */
static void source_daemon_gone(struct link *link) {
  struct source *source = link->state;
  for (unsigned i = 0; i < JOBS; i++) {
    if (source->jobs[i].message && !source->jobs[i].word) {
      settle(link, &source->jobs[i], give_back, NULL);
    }
  }
}

static int source_wanted(const struct link *link) {
  (void)link;
  return FRAMED_RESULT;
}

static bool source_is_idle(const struct link *link) {
  const struct source *source = link->state;
  return source->count == 0 && (source->drained || !link->broker.connection);
}

static void source_close(struct link *link) {
  struct source *source = link->state;
  for (unsigned i = 0; i < JOBS; i++) {
    if (source->jobs[i].message) {
      end_job(link, &source->jobs[i]);
    }
  }
  free(source);
}

const struct link_kind source_kind = {
    .open = source_open,
    .close = source_close,
    .broker_there = source_broker_there,
    .daemon_gone = source_daemon_gone,
    .take_message = source_take_message,
    .turn = source_turn,
    .wanted = source_wanted,
    .is_idle = source_is_idle,
};
