#include "daemon/status/tracer.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/measure/clock.h"
#include "daemon/status/trace.h"

enum {
  TICK_MS = 10,
  TICKS_A_LOOK = 10,    /* for new sessions, and for clients that left */
  RECORDS = 131072,     /* in all rings together, at least FEWEST_RECORDS each: 14 MB */
  MOST_RECORDS = 16384, /* of one session: enough for 1.6 million frames a second */
  FEWEST_RECORDS = 64,
  RECORDS_AT_ONCE = 256
};

#define STOPPED        "the daemon is stopping"
#define STOPPED_REMEDY "ask again when it runs"

/* A session whose ring is read. */
struct feed {
  struct trace_subject subject;
  struct trace_ring *ring;
  uint64_t since; /* what is before it in the ring is an earlier trace's */
};

struct trace_job {
  struct trace_job *next, **link;
  struct tracer *tracer;
  struct trace_order order;
  struct trace *trace;
  uint64_t *positions; /* one for each feed that was there when it was last read */
  unsigned position_count;
  bool laid_out;
};

struct tracer {
  const struct status_ops *ops;
  struct loop_timer *timer; /* while a trace is taken */
  struct feed *feeds;       /* likewise */
  unsigned feed_count, ring_records, ticks;
  struct trace_job *jobs;
  unsigned alive; /* traces in memory */
  bool stopped;
};

/* -- sessions ------------------------------------------------------------------------------------------------------- */

static bool is_known(const struct tracer *tracer, const struct trace_ring *ring) {
  for (unsigned i = 0; i < tracer->feed_count; i++) {
    if (tracer->feeds[i].ring == ring) {
      return true;
    }
  }
  return false;
}

static bool add_feed(struct tracer *tracer, const struct pipeline *pipeline, unsigned seat, struct trace_ring *ring) {
  const struct config_pipeline *config = pipeline_config(pipeline);
  const struct engine_placement *place = pipeline_placement_of(pipeline, seat);
  struct feed *feeds = realloc(tracer->feeds, (tracer->feed_count + 1) * sizeof *feeds);
  if (!feeds) {
    return false;
  }
  struct feed *feed = &feeds[tracer->feed_count++];
  *feed = (struct feed){.subject = {.session = seat,
                                    .sessions = config->source.clients,
                                    .device_count = place->count,
                                    .copies_by_kernel = pipeline_copies_by_kernel(pipeline)},
                        .ring = trace_ring_hold(ring),
                        .since = trace_ring_end(ring)};
  for (unsigned i = 0; i < feed->subject.device_count; i++) {
    feed->subject.devices[i] = (uint8_t)place->on[i].number;
  }
  snprintf(feed->subject.pipeline, sizeof feed->subject.pipeline, "%s", config->name);
  tracer->feeds = feeds;
  return true;
}

/* Sessions for whose rings there is no memory are left out, as if they had no frames. */
static void find_sessions(struct tracer *tracer) {
  struct server_view view;
  tracer->ops->read(tracer->ops->server, &view);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    struct pipeline *pipeline = tracer->ops->pipeline(tracer->ops->server, i);
    for (unsigned seat = 0; seat < pipeline_seats(pipeline); seat++) {
      struct trace_ring *ring = pipeline_trace(pipeline, seat, tracer->ring_records);
      if (ring && !is_known(tracer, ring)) {
        add_feed(tracer, pipeline, seat, ring);
      }
    }
  }
}

static unsigned records_of_each(const struct tracer *tracer) {
  struct server_view view;
  unsigned sessions = 0;
  tracer->ops->read(tracer->ops->server, &view);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    sessions += pipeline_seats(tracer->ops->pipeline(tracer->ops->server, i));
  }
  unsigned records = sessions > 0 ? RECORDS / sessions : MOST_RECORDS;
  records = records < MOST_RECORDS ? records : MOST_RECORDS;
  return records > FEWEST_RECORDS ? records : FEWEST_RECORDS;
}

static void let_sessions_go(struct tracer *tracer) {
  struct server_view view;
  tracer->ops->read(tracer->ops->server, &view);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    struct pipeline *pipeline = tracer->ops->pipeline(tracer->ops->server, i);
    for (unsigned seat = 0; seat < pipeline_seats(pipeline); seat++) {
      pipeline_trace_end(pipeline, seat);
    }
  }
  for (unsigned i = 0; i < tracer->feed_count; i++) {
    trace_ring_drop(tracer->feeds[i].ring);
  }
  free(tracer->feeds);
  tracer->feeds = NULL;
  tracer->feed_count = 0;
}

/* -- reading -------------------------------------------------------------------------------------------------------- */

/* A trace that begins takes what happens from now on, one that is being taken also what a new session did since it came. */
static bool join_feeds(struct trace_job *job, bool begins) {
  const struct tracer *tracer = job->tracer;
  if (job->position_count == tracer->feed_count) {
    return true;
  }
  uint64_t *positions = realloc(job->positions, tracer->feed_count * sizeof *positions);
  if (!positions) {
    return false;
  }
  job->positions = positions;
  while (job->position_count < tracer->feed_count) {
    const struct feed *feed = &tracer->feeds[job->position_count];
    if (!trace_add_subject(job->trace, &feed->subject)) {
      return false;
    }
    job->positions[job->position_count++] = begins ? trace_ring_end(feed->ring) : feed->since;
  }
  return true;
}

/* False: the trace is full. */
static bool read_feed(struct trace_job *job, unsigned number) {
  struct trace_record records[RECORDS_AT_ONCE];
  const struct feed *feed = &job->tracer->feeds[number];
  for (;;) {
    unsigned count = trace_ring_read(feed->ring, &job->positions[number], records, RECORDS_AT_ONCE, &job->trace->overwritten);
    if (count == 0) {
      return true;
    }
    if (!trace_add_records(job->trace, number, records, count)) {
      return false;
    }
  }
}

/* False: the trace takes no more records. */
static bool job_read(struct trace_job *job) {
  if (!join_feeds(job, false)) {
    return false;
  }
  for (unsigned i = 0; i < job->position_count; i++) {
    if (!read_feed(job, i)) {
      return false;
    }
  }
  return true;
}

/* -- ends ----------------------------------------------------------------------------------------------------------- */

static void detach(struct trace_job *job) {
  *job->link = job->next;
  if (job->next) {
    job->next->link = job->link;
  }
  struct tracer *tracer = job->tracer;
  if (!tracer->jobs) {
    let_sessions_go(tracer);
    tracer->timer = loop_timer_close(tracer->timer);
  }
}

static void job_free(struct trace_job *job) {
  trace_free(job->trace);
  free(job->positions);
  free(job);
}

static void job_fail(struct trace_job *job, const char *remedy, const char *why) {
  answer_error(job->order.failed, job->order.context, 503, remedy, "%s", why);
  job_free(job);
}

static void lay_out(void *context) {
  struct trace_job *job = context;
  job->laid_out = trace_lay_out(job->trace);
}

static void on_laid_out(void *context) {
  struct trace_job *job = context;
  if (!job->laid_out) {
    job_fail(job, NULL, "not enough memory for this trace");
    return;
  }
  struct trace *trace = job->trace;
  job->trace = NULL;
  job->order.ready(job->order.context, trace);
  job_free(job);
}

static void job_tend(struct trace_job *job, bool look, int64_t now) {
  bool takes_more = job_read(job);
  if (look && !job->order.wanted(job->order.context)) {
    detach(job);
    job_fail(job, NULL, "nobody waits for this trace any more");
  } else if (!takes_more || now - job->trace->began >= job->order.duration_ns) {
    job->trace->full = !takes_more;
    job->trace->ended = now;
    detach(job);
    if (!loop_job(job->tracer->ops->loop, lay_out, on_laid_out, job)) {
      job_fail(job, NULL, "not enough memory for this trace");
    }
  }
}

static void on_tick(void *context) {
  struct tracer *tracer = context;
  bool look = ++tracer->ticks % TICKS_A_LOOK == 0;
  int64_t now = clock_now();
  if (look) {
    find_sessions(tracer);
  }
  for (struct trace_job *job = tracer->jobs, *next; job; job = next) {
    next = job->next;
    job_tend(job, look, now);
  }
}

/* -- begin ---------------------------------------------------------------------------------------------------------- */

static struct trace_job *job_new(struct tracer *tracer, const struct trace_order *order) {
  struct server_view view;
  struct trace_job *job = calloc(1, sizeof *job);
  struct trace *trace = trace_new(&tracer->alive);
  if (!job || !trace) {
    trace_free(trace);
    free(job);
    return NULL;
  }
  tracer->ops->read(tracer->ops->server, &view);
  trace->backend = view.backend;
  trace->began = clock_now();
  *job = (struct trace_job){.tracer = tracer, .order = *order, .trace = trace};
  return job;
}

static bool start_reading(struct tracer *tracer) {
  if (!tracer->timer) {
    tracer->timer = loop_timer_new(tracer->ops->loop, on_tick, tracer);
    if (!tracer->timer) {
      return false;
    }
    tracer->ring_records = records_of_each(tracer);
    loop_timer_start(tracer->timer, TICK_MS, TICK_MS);
  }
  find_sessions(tracer);
  return true;
}

void tracer_take(struct tracer *tracer, const struct trace_order *order) {
  if (tracer->stopped) {
    answer_error(order->failed, order->context, 503, STOPPED_REMEDY, STOPPED);
    return;
  }
  if (tracer->alive >= TRACER_MOST) {
    answer_error(order->failed, order->context, 503, "try again when one of them has ended",
                 "%d traces are being taken or sent", TRACER_MOST);
    return;
  }
  struct trace_job *job = job_new(tracer, order);
  if (!job) {
    answer_error(order->failed, order->context, 503, NULL, "not enough memory for a trace");
    return;
  }
  job->next = tracer->jobs;
  job->link = &tracer->jobs;
  if (job->next) {
    job->next->link = &job->next;
  }
  tracer->jobs = job;
  if (!start_reading(tracer) || !join_feeds(job, true)) {
    detach(job);
    job_fail(job, NULL, "not enough memory for a trace");
  }
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

struct tracer *tracer_new(const struct status_ops *ops) {
  struct tracer *tracer = calloc(1, sizeof *tracer);
  if (tracer) {
    tracer->ops = ops;
  }
  return tracer;
}

static bool fail_all(struct tracer *tracer, const char *remedy, const char *why) {
  bool any = tracer->jobs != NULL;
  for (struct trace_job *job = tracer->jobs, *next; job; job = next) {
    next = job->next;
    detach(job);
    job_fail(job, remedy, why);
  }
  return any;
}

void tracer_stop(struct tracer *tracer) {
  if (tracer) {
    tracer->stopped = true;
    fail_all(tracer, STOPPED_REMEDY, STOPPED);
  }
}

bool tracer_yield(struct tracer *tracer) { return tracer && fail_all(tracer, "ask again", "another process takes over"); }

struct tracer *tracer_free(struct tracer *tracer) {
  free(tracer);
  return NULL;
}
