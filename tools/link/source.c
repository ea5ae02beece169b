/*
 * A source feeds a pipeline from a work queue. It acknowledges each frame by its fate in the pipeline:
 *
 *   emitted                     done: the queue removes it
 *   client_gone, shutdown,      returned: another box computes it, or this one again
 *   sink_error
 *   oldest, newest, late,       ended: the pipeline drops such frames by its configuration
 *   unread
 *   invalid, gpu_fault          ended, and published as a dead letter; so is a frame that was returned too often
 *
 * The source requests as many frames as the pipeline has free slots, one by one. It reports frames in flight to the queue,
 * which then keeps them from other boxes. If a box dies, its frames are delivered again after `ack_wait`.
 *
 * A stopping source requests no more frames, and computes those of its open requests. The server keeps a frame that it sends to
 * a closed connection for `ack_wait`. So the source unsubscribes, and waits for the server's answer before it disconnects.
 * nats-server 2.9 may also keep a frame that it sends during the unsubscription. So open requests first have SERVED_WAIT to
 * end, which suffices while frames arrive steadily.
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

/* A delivered frame that is not acknowledged yet. */
struct job {
  natsMsg *message; /* NULL: the entry is free */
  uint64_t number;  /* its sequence number in the stream */
  unsigned delivered;
  bool submitted;   /* otherwise it waits for a slot */
  bool stale;       /* its stream was created again since, so the number names another frame */
  const char *word; /* the acknowledgement to send; NULL: its fate is unknown */
  char why[96];     /* of a dead letter */
};

struct source {
  struct job jobs[JOBS];
  unsigned count;
  unsigned asked;  /* requested frames that have not arrived */
  int64_t stopped; /* when it stopped requesting; 0: it has not */
  bool drained;    /* it has unsubscribed, and no more frames will arrive */
  int64_t asked_at;
  int64_t warned;      /* when the server last refused, while that is reported; 0: it does not refuse */
  int64_t reported_at; /* when frames in flight were last reported to the queue */
  struct queue queue;
};

static bool source_open(struct link *link) {
  link->state = calloc(1, sizeof(struct source));
  return link->state != NULL;
}

/* -- acknowledgements --------------------------------------------------------------------------------------------------- */

static const char done[] = "+ACK", give_back[] = "-NAK", end[] = "+TERM", under_way[] = "+WPI";

enum { BACK_FIRST_MS = 250, BACK_DOUBLED = 5 };

static void acknowledge(const struct link *link, const natsMsg *message, const char *word) {
  natsConnection_Publish(link->broker.connection, natsMsg_GetReply(message), word, (int)strlen(word));
}

/*
 * The first return allows an immediate delivery. Later ones add a delay, since a lasting fault would otherwise use up the
 * frame's deliveries.
 */
static void return_frame(const struct link *link, const struct job *job) {
  char word[64];
  unsigned doubled = job->delivered < BACK_DOUBLED ? job->delivered : BACK_DOUBLED;
  if (doubled < 2) {
    acknowledge(link, job->message, give_back);
    return;
  }
  snprintf(word, sizeof word, "%s {\"delay\":%" PRId64 "}", give_back, (BACK_FIRST_MS << (doubled - 2)) * MS);
  acknowledge(link, job->message, word);
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

/* Frees a job that is acknowledged. */
static void end_job(struct link *link, struct job *job) {
  struct source *source = link->state;
  natsMsg_Destroy(job->message);
  *job = (struct job){0};
  source->count--;
  atomic_store(&link->in_flight, source->count);
}

/* Sets the acknowledgement of a job whose fate is known. send_acks() sends it when the broker is connected. */
static void settle(struct link *link, struct job *job, const char *word, const char *why) {
  bool last = word == give_back && job->delivered >= link->settings->deliver;
  enum counter counter = word == done ? COUNT_ACKED : word == give_back ? COUNT_GIVEN_BACK : COUNT_ENDED;
  job->word = last ? end : word;
  if (last || why) {
    snprintf(job->why, sizeof job->why, "%s", why ? why : "it was returned too often");
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

static void send_acks(struct link *link) {
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
        return_frame(link, job);
      } else {
        acknowledge(link, job->message, job->word);
        sweep_note_ack(&source->queue.sweep, job->number);
      }
      end_job(link, job);
    }
  }
}

static void report_in_progress(struct link *link, int64_t now) {
  struct source *source = link->state;
  if (now - source->reported_at < link->settings->ack_wait_ns / 3) {
    return;
  }
  source->reported_at = now;
  for (unsigned i = 0; i < JOBS; i++) {
    if (source->jobs[i].message && !source->jobs[i].stale) {
      acknowledge(link, source->jobs[i].message, under_way);
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
  framed_submit(link->client, frame, job->number, 0, 0); /* a failed frame is returned with all others */
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

/* "$JS.ACK.STREAM.CONSUMER.DELIVERED.NUMBER.…". Newer servers add a domain and an account before the stream. */
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

/* Takes ownership of the message. */
static void begin_job(struct link *link, natsMsg *message, uint64_t number, unsigned delivered) {
  struct source *source = link->state;
  struct job *job = free_job(source);
  if (!job) {
    natsMsg_Destroy(message); /* nobody requested it, so it is delivered again */
    return;
  }
  size_t got = (size_t)natsMsg_GetDataLength(message);
  char why[96];
  *job = (struct job){.message = message, .number = number, .delivered = delivered};
  source->count++;
  atomic_store(&link->in_flight, source->count);
  if (delivered > link->settings->deliver) {
    snprintf(why, sizeof why, "%u boxes had it, and none finished it", delivered - 1);
    settle(link, job, end, why);
  } else if (!link->client) {
    settle(link, job, give_back, NULL);
  } else if (got != framed_info(link->client)->input_bytes) {
    snprintf(why, sizeof why, "it has %zu bytes, and a frame of the pipeline has %zu", got,
             framed_info(link->client)->input_bytes);
    settle(link, job, end, why);
  }
}

/* Frames arrived, or the queue is empty. A server that alternates between answers and refusals is reported once. */
static void end_refusal(struct link *link) {
  struct source *source = link->state;
  if (source->warned != 0 && link_clock() - source->warned > EXPIRES) {
    source->warned = 0;
    link_recover(link);
  }
  link_taken(link);
}

/* Handles a status in place of a frame. A refusal comes at once for each request, so it is reported once. */
static void take_status(struct link *link, natsMsg *message) {
  struct source *source = link->state;
  const char *status = NULL, *why = NULL;
  bool has_status = natsMsgHeader_Get(message, "Status", &status) == NATS_OK && status;
  if (has_status && (strcmp(status, "404") == 0 || strcmp(status, "408") == 0)) {
    end_refusal(link);
    return;
  }
  natsMsgHeader_Get(message, "Description", &why);
  if (source->warned == 0) {
    link_warn(link, "consumer %s sends no frames: %s", link->settings->consumer,
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
    natsMsg_Destroy(message); /* a repeated delivery of a frame that is still in flight here */
  } else {
    end_refusal(link);
    begin_job(link, message, number, delivered);
  }
}

/* -- asking ------------------------------------------------------------------------------------------------------------ */

/* The pipeline's slots limit the jobs, and so does the memory for unanswered messages. */
static unsigned most_jobs(const struct link *link) {
  const struct framed_info *info = framed_info(link->client);
  size_t fit = link->memory / info->input_bytes;
  return fit == 0 ? 1 : fit < info->slots ? (unsigned)fit : info->slots;
}

static void ask(struct link *link, int64_t now) {
  struct source *source = link->state;
  char request[64];
  if (source->asked > 0 && now - source->asked_at > EXPIRES + EXPIRES / 2) {
    source->asked = 0; /* the request was lost */
    link->broker.no_responders = true;
  }
  snprintf(request, sizeof request, "{\"batch\":1,\"expires\":%lld}", (long long)EXPIRES);
  while (source->count + source->asked < most_jobs(link)) {
    link_ask(link, "CONSUMER.MSG.NEXT", link->settings->consumer, request, "frames");
    source->asked++;
    source->asked_at = now;
  }
}

/* -- connections -------------------------------------------------------------------------------------------------------- */

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

/*
 * The sink names results by the stream (sink.c). So the new stream is published only when no frame of the old one is in flight.
 */
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
  send_acks(link);
  report_in_progress(link, now);
  if (link->stopping) {
    drain(link, now);
    return now + DRAIN_LOOK;
  }
  if (link->client && now >= source->warned + REFUSED_PAUSE && names_are_of_stream(link)) {
    ask(link, now);
  }
  int64_t queue = queue_turn(link, &source->queue, now), report_again = source->reported_at + link->settings->ack_wait_ns / 3;
  return source->count > 0 && report_again < queue ? report_again : queue;
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

/* Frames in flight may be computed elsewhere. */
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
