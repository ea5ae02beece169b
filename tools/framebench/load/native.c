#include "tools/framebench/load/native.h"

#include "daemon/measure/clock.h"
#include "tools/client/framed.h"
#include "tools/framebench/load/pace.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { NOTED = 1 << 14 /* more frames than can be in flight */, LOOK_NS = 20 * 1000 * 1000, SILENT_NS = 100 * 1000 * 1000 };
#define UNDER_WAY_NS (5 * NS_PER_S) /* for the last results; both ends may pause for a while */

struct load_native {
  struct framed *client;
  struct framed *consumer; /* of the results; NULL: they come back to the client */
  struct load_pace pace;
  pthread_t thread;
  bool running;
  atomic_bool hurry, broken;
  /* Used only by the thread until it has ended. */
  bool spin;
  uint64_t sent, received, offered, answered, arrived, disordered, next, under_way;
  int64_t sent_at[NOTED];
  int64_t max_ns;
  struct histogram ns, lag_ns;
};

/* When a frame is due; without a rate, as soon as it is accepted. */
static int64_t due(const struct load_native *native, uint64_t number, int64_t now) {
  return native->pace.rate > 0 ? load_pace_due(&native->pace, number) : now;
}

/* -- results ---------------------------------------------------------------------------------------------------------- */

static void take(struct load_native *native, const struct framed_result *result, int64_t now) {
  const struct load_pace *pace = &native->pace;
  int64_t at = native->sent_at[result->sequence % NOTED];
  native->received++;
  native->arrived += load_pace_measures(pace, now);
  native->disordered += result->sequence < native->next;
  native->next = result->sequence >= native->next ? result->sequence + 1 : native->next;
  if (load_pace_measures(pace, at)) {
    native->answered++;
    histogram_record(&native->ns, now - at);
    native->max_ns = now - at > native->max_ns ? now - at : native->max_ns;
  }
}

/* With shared memory each dropped frame is reported separately, otherwise with the next result. */
static void receive_all(struct load_native *native, int64_t now) {
  struct framed *taker = native->consumer ? native->consumer : native->client;
  bool told = !native->consumer && framed_info(taker)->transport == FRAMED_SHARED;
  struct framed_result result;
  while (framed_receive(taker, &result) > 0) {
    native->under_way -= told ? 1 : 1 + result.dropped;
    if (result.data) {
      take(native, &result, now);
    }
    framed_release(taker, &result);
  }
}

/* -- frames ------------------------------------------------------------------------------------------------------------ */

static bool may_send(const struct load_native *native) {
  const struct load_pace *pace = &native->pace;
  return pace->rate > 0 || pace->in_flight == 0 || native->under_way < pace->in_flight;
}

/* Sends the frames that are due, while there is room. Returns when the next one is due. */
static int64_t send_all(struct load_native *native, int64_t now) {
  int64_t at;
  void *frame;
  while (may_send(native) && now < native->pace.give_up && (at = due(native, native->sent, now)) <= now &&
         at < native->pace.to && (frame = framed_acquire(native->client))) {
    if (native->pace.rate > 0) {
      histogram_record(&native->lag_ns, now - at);
    }
    native->sent_at[native->sent % NOTED] = at;
    native->offered += native->pace.rate > 0 ? 0 : load_pace_measures(&native->pace, at);
    native->under_way++;
    framed_submit(native->client, frame, native->sent++, 0, 0);
  }
  return due(native, native->sent, now);
}

/* -- waiting ---------------------------------------------------------------------------------------------------------- */

static int spin_for_both(struct load_native *native, int room, int64_t until) {
  int events;
  do {
    events = framed_poll(native->consumer, FRAMED_RESULT, 0);
    events = events != 0 ? events : framed_poll(native->client, room, 0);
  } while (events == 0 && clock_now() < until);
  return events;
}

static int sleep_for_both(struct load_native *native, int room, int64_t patience) {
  struct pollfd ends[] = {{.fd = framed_descriptor(native->consumer)}, {.fd = framed_descriptor(native->client)}};
  const struct timespec timeout = {.tv_nsec = patience};
  int events = framed_arm(native->consumer, FRAMED_RESULT, &ends[0].events);
  events = events != 0 ? events : framed_arm(native->client, room, &ends[1].events);
  if (events == 0) {
    (void)!ppoll(ends, 2, &timeout, NULL);
  }
  return events;
}

/* Over a connection, the sender can reach its end before its last results arrive. */
static int end_of_both(struct load_native *native, int events) {
  bool waits = (events & FRAMED_END) && native->under_way > 0;
  int there = waits ? framed_poll(native->consumer, FRAMED_RESULT, SILENT_NS) : 0;
  bool comes = there > 0 && (there & FRAMED_RESULT); /* not the end of the results */
  return comes ? events & ~FRAMED_END : events;
}

static int wait_for_more(struct load_native *native, int64_t next, bool more, int64_t now) {
  bool early = more && next > now;
  int64_t patience = early && next - now < LOOK_NS ? next - now : LOOK_NS;
  int room = more && !early && may_send(native) ? FRAMED_ROOM : 0;
  if (!native->consumer) {
    return framed_poll(native->client, FRAMED_RESULT | room, patience);
  }
  int events = native->spin ? spin_for_both(native, room, now + patience) : sleep_for_both(native, room, patience);
  return events > 0 ? end_of_both(native, events) : events;
}

/* After the last frame it still waits for results in flight, since the session would otherwise wait for this client. */
static bool is_time_over(const struct load_native *native, int64_t now) {
  return atomic_load(&native->hurry) || now >= native->pace.give_up + UNDER_WAY_NS;
}

static void *run(void *argument) {
  struct load_native *native = argument;
  int events = 0;
  bool more = true;
  prctl(PR_SET_TIMERSLACK, 1UL); /* of this thread only */
  for (int64_t now = clock_now(); events >= 0 && !(events & FRAMED_END) && !is_time_over(native, now); now = clock_now()) {
    receive_all(native, now);
    int64_t next = send_all(native, now);
    if (more && (next >= native->pace.to || now >= native->pace.give_up)) { /* frames that were due before are sent late */
      more = false;
      framed_finish(native->client);
    }
    events = wait_for_more(native, next, more, now);
  }
  if (native->pace.rate > 0) {
    native->offered = load_pace_offered(&native->pace);
  }
  atomic_store(&native->broken, events < 0 || (more && (events & FRAMED_END))); /* the results ended before the frames */
  return NULL;
}

/* -- life --------------------------------------------------------------------------------------------------------------- */

/*
 * Touches every page, so that page faults are not measured. As floats these bytes are about 0.01. Products with weights stay
 * normal numbers, since denormal ones are slow.
 */
static void fill_frames(struct framed *client) {
  void *frames[FRAMED_MAX_SLOTS];
  unsigned count = 0;
  while (count < FRAMED_MAX_SLOTS && (frames[count] = framed_acquire(client))) {
    memset(frames[count++], 0x3c, framed_info(client)->input_bytes);
  }
  while (count > 0) {
    framed_cancel(client, frames[--count]);
  }
}

static struct framed *connect_as(enum framed_role role, const char *path, const struct load_native_wire *wire,
                                 struct problem *problem) {
  const struct framed_options options = {.role = (int)role,
                                         .stream_only = wire->transport == LOAD_STREAM,
                                         .spin_ns = wire->spin ? NS_PER_S : 0,
                                         .reconnect_for_ns = -1};
  struct framed_error error = {.text = "no memory"};
  struct framed *client = framed_connect(path, &options, &error);
  if (!client) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s", error.text);
  } else if (wire->transport == LOAD_SHARED && framed_info(client)->transport != FRAMED_SHARED) {
    problem_set(problem, EXIT_STATUS_REFUSED, PROBLEM_LOG " says why", "the daemon offers no shared memory");
    framed_close(client);
    client = NULL;
  }
  return client;
}

/* The producer connects first: the session may get new memory for it, which the consumer must see. */
static bool connect_all(struct load_native *native, const struct load_native_wire *wire, struct problem *problem) {
  bool replies = wire->sink[0] == '\0';
  native->client = connect_as(replies ? FRAMED_BOTH : FRAMED_PRODUCER, wire->source, wire, problem);
  native->consumer = replies || !native->client ? NULL : connect_as(FRAMED_CONSUMER, wire->sink, wire, problem);
  return native->client && (replies || native->consumer);
}

struct load_native *load_native_new(const struct load_native_wire *wire, struct problem *problem) {
  struct load_native *native = calloc(1, sizeof *native);
  if (!native) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a client");
    return NULL;
  }
  native->spin = wire->spin;
  if (!connect_all(native, wire, problem)) {
    return load_native_free(native);
  }
  fill_frames(native->client);
  return native;
}

bool load_native_start(struct load_native *native, const struct load_pace *pace, struct problem *problem) {
  native->pace = *pace;
  int code = pthread_create(&native->thread, NULL, run, native);
  native->running = code == 0;
  return code == 0 || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no thread for a client: %s", strerror(code));
}

bool load_native_is_broken(const struct load_native *native) { return atomic_load(&native->broken); }

void load_native_finish(struct load_native *native, bool hurry) {
  if (hurry) {
    atomic_store(&native->hurry, true);
  }
  if (native->running) {
    pthread_join(native->thread, NULL);
  }
  native->running = false;
}

struct load_native *load_native_free(struct load_native *native) {
  if (native) {
    load_native_finish(native, true);
    framed_close(native->client);
    framed_close(native->consumer);
    free(native);
  }
  return NULL;
}

bool load_native_figures(const struct load_native *native, struct load_figures *figures, struct problem *problem) {
  if (load_native_is_broken(native)) {
    const struct framed_error *error = framed_problem(native->client);
    error = native->consumer && error->code == 0 ? framed_problem(native->consumer) : error;
    return problem_set(problem, EXIT_STATUS_REFUSED, PROBLEM_LOG " says why", "%s",
                       error->code != 0 ? error->text : "the daemon closed a connection");
  }
  figures->shared |= framed_info(native->client)->transport == FRAMED_SHARED;
  figures->sent += native->sent;
  figures->received += native->received;
  figures->offered += native->offered;
  figures->answered += native->answered;
  figures->arrived += native->arrived;
  figures->disordered += native->disordered;
  figures->max_ns = native->max_ns > figures->max_ns ? native->max_ns : figures->max_ns;
  histogram_read(&native->ns, &figures->ns);
  histogram_read(&native->lag_ns, &figures->lag_ns);
  return true;
}
