#include "tools/framebench/load/trial.h"

#include "daemon/measure/clock.h"
#include "tools/framectl/common/http.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LEAD_MS = 20, LOOK_MS = 5, STEP_MS = 50, PATIENCE_S = 10 };

struct trial {
  const struct load_target *target;
  const struct load_plan *plan;
  struct load_client **clients;
  unsigned count;             /* of the clients */
  struct load_ledger *before; /* before any client */
  struct load_ledger *now;
  int64_t start;
};

static void sleep_until(int64_t at) {
  const struct timespec time = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
  }
}

/* -- waiting for the daemon ----------------------------------------------------------------------------------------- */

typedef bool settled(const struct trial *trial, unsigned pipeline);

/* Native clients connect their own consumers. */
static bool needs_reader(const struct load_pipeline *pipeline) { return !pipeline->native && pipeline->sink[0] != '\0'; }

static bool readers_are_known(const struct trial *trial, unsigned i) {
  return !needs_reader(&trial->target->pipelines[i]) || trial->now[i].readers > trial->before[i].readers;
}

static bool nothing_is_in_flight(const struct trial *trial, unsigned i) { return trial->now[i].in_flight == 0; }

static bool clients_are_gone(const struct trial *trial, unsigned i) {
  return trial->now[i].clients <= trial->before[i].clients && trial->now[i].readers <= trial->before[i].readers;
}

/* Polls the ledgers. A timeout is no problem, since the figures show the state. */
static bool look_until(const struct trial *trial, settled *is_settled, bool *reached, struct problem *problem) {
  int64_t deadline = clock_now() + PATIENCE_S * NS_PER_S;
  for (*reached = false; !*reached && clock_now() < deadline;) {
    if (!load_target_look(trial->target, trial->now, problem)) {
      return false;
    }
    *reached = true;
    for (unsigned i = 0; i < trial->target->count; i++) {
      *reached &= is_settled(trial, i);
    }
    if (!*reached) {
      sleep_until(clock_now() + LOOK_MS * NS_PER_MS);
    }
  }
  return true;
}

/* -- connecting ----------------------------------------------------------------------------------------------------- */

static bool connect_to(const struct load_pipeline *pipeline, const char *path, const char *end, int *fd,
                       struct problem *problem) {
  char what[LOAD_NAME + 32];
  snprintf(what, sizeof what, "the %s of %s", end, pipeline->name);
  *fd = unix_connect(path, what, -1, problem);
  return *fd >= 0;
}

static bool keep(struct trial *trial, struct load_client *client) {
  if (client) {
    trial->clients[trial->count++] = client;
  }
  return client != NULL;
}

/* Takes ownership of `reader`; -1: none. */
static bool connect_client(struct trial *trial, const struct load_pipeline *pipeline, int reader, struct problem *problem) {
  if (pipeline->native) {
    const struct load_native_wire native = {pipeline->source, pipeline->sink, trial->plan->transport, trial->plan->spin};
    return keep(trial, load_client_new_native(&native, problem));
  }
  struct load_wire wire = {.from = reader, .in = pipeline->in, .out = pipeline->out};
  if (!connect_to(pipeline, pipeline->source, "source", &wire.to, problem)) {
    if (reader >= 0) {
      close(reader);
    }
    return false;
  }
  wire.from = reader >= 0 ? reader : wire.to;
  return keep(trial, load_client_new(&wire, problem));
}

/* Readers connect first, so that they receive every result. -1 if results come back on the producer's connection. */
static bool connect_readers(struct trial *trial, int *readers, struct problem *problem) {
  for (unsigned i = 0; i < trial->target->count; i++) {
    const struct load_pipeline *pipeline = &trial->target->pipelines[i];
    if (needs_reader(pipeline) && !connect_to(pipeline, pipeline->sink, "sink", &readers[i], problem)) {
      return false;
    }
  }
  bool known;
  return look_until(trial, readers_are_known, &known, problem) &&
         (known || problem_set(problem, EXIT_STATUS_REFUSED, PROBLEM_LOG " says why", "the daemon does not take a reader"));
}

static bool connect_clients(struct trial *trial, int *readers, struct problem *problem) {
  for (unsigned i = 0; i < trial->target->count; i++) {
    for (unsigned n = 0; n < trial->plan->clients; n++) {
      int reader = readers[i];
      readers[i] = -1;
      if (!connect_client(trial, &trial->target->pipelines[i], reader, problem)) {
        return false;
      }
    }
  }
  return true;
}

static bool connect_all(struct trial *trial, struct problem *problem) {
  unsigned count = trial->target->count;
  int *readers = calloc(count, sizeof *readers);
  if (!readers) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
  }
  for (unsigned i = 0; i < count; i++) {
    readers[i] = -1;
  }
  bool done = connect_readers(trial, readers, problem) && connect_clients(trial, readers, problem);
  for (unsigned i = 0; i < count; i++) {
    if (readers[i] >= 0) {
      close(readers[i]);
    }
  }
  free(readers);
  return done;
}

/* -- running -------------------------------------------------------------------------------------------------------- */

/* Staggers the clients' frames, so that together they are as even as those of one client. */
static bool start_all(struct trial *trial, struct problem *problem) {
  const struct load_plan *plan = trial->plan;
  trial->start = clock_now() + LEAD_MS * NS_PER_MS;
  for (unsigned i = 0; i < trial->count; i++) {
    struct load_pace pace = {.rate = plan->rate / trial->count, .in_flight = plan->in_flight, .spin = plan->spin};
    pace.start = trial->start + (plan->rate > 0 ? (int64_t)(i * 1e9 / plan->rate) : 0);
    pace.from = trial->start + plan->warm_up_ns;
    pace.to = pace.from + plan->duration_ns;
    pace.give_up = pace.to + PATIENCE_S * NS_PER_S;
    if (!load_client_start(trial->clients[i], &pace, problem)) {
      return false;
    }
  }
  return true;
}

static bool is_broken(const struct trial *trial) {
  bool broken = false;
  for (unsigned i = 0; i < trial->count; i++) {
    broken |= load_client_is_broken(trial->clients[i]);
  }
  return broken;
}

static void show_progress(const struct trial *trial, int64_t now) {
  const struct load_plan *plan = trial->plan;
  char rate[64] = "";
  if (plan->rate > 0) {
    snprintf(rate, sizeof rate, " at %.6g frames/s", plan->rate);
  }
  if (plan->progress) {
    progress_show(plan->progress, 0, "load%s: %.0f of %.0f s", rate, (double)(now - trial->start) / 1e9,
                  (double)(plan->warm_up_ns + plan->duration_ns) / 1e9);
  }
}

/* Sleeps in steps, since a refused client should end the trial early. */
static void sleep_while_it_runs(const struct trial *trial, int64_t at) {
  for (int64_t now; (now = clock_now()) < at && !is_broken(trial);) {
    sleep_until(at - now > STEP_MS * NS_PER_MS ? now + STEP_MS * NS_PER_MS : at);
    show_progress(trial, now);
  }
}

/* Measures the processor time of the measured seconds. */
static void watch_cpu(const struct trial *trial, struct load_outcome *outcome) {
  struct load_cpu before = {0}, after = {0};
  int64_t from = trial->start + trial->plan->warm_up_ns;
  sleep_while_it_runs(trial, from);
  bool known = load_cpu_read(trial->target->pid, &before);
  sleep_while_it_runs(trial, from + trial->plan->duration_ns);
  outcome->cpu_known = known && load_cpu_read(trial->target->pid, &after);
  outcome->cpu = (struct load_cpu){after.user - before.user, after.system - before.system};
}

static bool send_out(const struct trial *trial, struct problem *problem) {
  bool done;
  for (unsigned i = 0; i < trial->count; i++) {
    load_client_send_out(trial->clients[i], is_broken(trial));
  }
  if (is_broken(trial)) {
    return true; /* the figures show the reason */
  }
  return look_until(trial, nothing_is_in_flight, &done, problem);
}

static bool add_up(const struct trial *trial, struct load_outcome *outcome, struct problem *problem) {
  for (unsigned i = 0; i < trial->count; i++) {
    load_client_finish(trial->clients[i]);
  }
  for (unsigned i = 0; i < trial->count; i++) {
    if (!load_client_figures(trial->clients[i], &outcome->figures, problem)) {
      return false;
    }
  }
  if (!load_target_look(trial->target, trial->now, problem)) {
    return false;
  }
  for (unsigned i = 0; i < trial->target->count; i++) {
    outcome->ledgers[i] = load_ledger_since(&trial->before[i], &trial->now[i]);
    outcome->missed += outcome->ledgers[i].missed;
    outcome->dropped += load_ledger_dropped(&outcome->ledgers[i]);
  }
  return true;
}

static bool run(struct trial *trial, struct load_outcome *outcome, struct problem *problem) {
  if (!load_target_look(trial->target, trial->before, problem) || !connect_all(trial, problem) || !start_all(trial, problem)) {
    return false;
  }
  watch_cpu(trial, outcome);
  return send_out(trial, problem) && add_up(trial, outcome, problem);
}

/* Disconnects and waits until the pipelines are free for the next trial. */
static bool leave(struct trial *trial, struct problem *problem) {
  bool gone;
  for (unsigned i = 0; i < trial->count; i++) {
    load_client_free(trial->clients[i]);
  }
  return !problem->text && look_until(trial, clients_are_gone, &gone, problem);
}

static bool check_plan(const struct load_target *target, const struct load_plan *plan, struct problem *problem) {
  for (unsigned i = 0; i < target->count && plan->transport != LOAD_ANY; i++) {
    if (!target->pipelines[i].native) {
      return problem_set(problem, EXIT_STATUS_USAGE,
                         "give its source `protocol: native`, and its sink `reply: true` or that, too",
                         "%s has no transport to choose", target->pipelines[i].name);
    }
  }
  for (unsigned i = 0; i < target->count && plan->clients > 1; i++) {
    if (target->pipelines[i].sink[0] != '\0') {
      return problem_set(problem, EXIT_STATUS_USAGE, "results of several producers need `sink: {reply: true}`",
                         "%s sends its results to one socket, which allows one client", target->pipelines[i].name);
    }
  }
  return true;
}

bool load_trial(const struct load_target *target, const struct load_plan *plan, struct load_outcome *outcome,
                struct problem *problem) {
  struct trial trial = {.target = target, .plan = plan};
  *outcome = (struct load_outcome){.seconds = (double)plan->duration_ns / 1e9};
  if (!check_plan(target, plan, problem)) {
    return false;
  }
  trial.before = calloc(target->count, sizeof *trial.before);
  trial.now = calloc(target->count, sizeof *trial.now);
  trial.clients = calloc((size_t)target->count * plan->clients, sizeof(struct load_client *));
  outcome->ledgers = calloc(target->count, sizeof *outcome->ledgers);
  bool done = false;
  if (trial.before && trial.now && trial.clients && outcome->ledgers) {
    done = run(&trial, outcome, problem);
    done = leave(&trial, problem) && done;
  } else {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
  }
  free(trial.clients);
  free(trial.now);
  free(trial.before);
  return done;
}

/* -- the outcome ---------------------------------------------------------------------------------------------------- */

void load_outcome_clear(struct load_outcome *outcome) {
  free(outcome->ledgers);
  outcome->ledgers = NULL;
}

bool load_outcome_is_sure(const struct load_outcome *outcome) {
  return !outcome->figures.by_order || outcome->missed + outcome->dropped == 0;
}

uint64_t load_outcome_lost(const struct load_outcome *outcome) {
  const struct load_figures *figures = &outcome->figures;
  return figures->offered > figures->answered ? figures->offered - figures->answered : 0;
}

double load_outcome_quantile(const struct load_outcome *outcome, double share) {
  const struct load_figures *figures = &outcome->figures;
  double rank = ceil(share * (double)figures->offered);
  if (figures->offered == 0 || figures->answered == 0 || rank > (double)figures->answered) {
    return INFINITY;
  }
  return histogram_quantile(&figures->ns, rank / (double)figures->answered);
}
