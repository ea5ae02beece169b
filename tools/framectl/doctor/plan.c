/*
 * `framectl plan`: predicts the gain of slots by the model of daemon/measure/overlap.h. The times come from the command line,
 * or from a running daemon. All times here are in microseconds.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/units.h"
#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/doctor/plan_report.h"
#include "tools/framectl/status/view.h"

enum { MAX_FRAMES = 1000000, STEADY_FRAMES = 1000, DEFAULT_SLOTS = 2, DEFAULT_COLUMNS = 100, MAX_COLUMNS = 200 };

static const char *const option_names[PLAN_OPTIONS] = {
    [PLAN_H2D] = "--h2d",   [PLAN_KERNEL] = "--kernel", [PLAN_D2H] = "--d2h",       [PLAN_TURNAROUND] = "--turnaround",
    [PLAN_HOST] = "--host", [PLAN_SLOTS] = "--slots",   [PLAN_CHUNKS] = "--chunks", [PLAN_FROM] = "--from",
};

/* -- the command line -------------------------------------------------------------------------------------------------- */

static bool read_time(const struct invocation *invocation, enum plan_option option, double *us, struct problem *problem) {
  const char *text = invocation->plan[option], *unit;
  int64_t ns;
  if (!text) {
    return true;
  }
  switch (units_duration(text, &ns, &unit)) {
  case UNITS_OK:
    *us = (double)ns / 1e3;
    return true;
  case UNITS_TOO_LARGE:
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s is too long: %s", option_names[option], text);
  default:
    return problem_set(problem, EXIT_STATUS_USAGE, "give a number with one of the units " UNITS_OF_TIME ", as 7.5ms",
                       "%s is no time: %s", option_names[option], text);
  }
}

static bool read_count(const struct invocation *invocation, enum plan_option option, int64_t most, uint64_t *count,
                       struct problem *problem) {
  int64_t value;
  if (!invocation->plan[option]) {
    return true;
  }
  if (units_whole(invocation->plan[option], &value) != UNITS_OK || value < 1 || value > most) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s takes a whole number from 1 to %" PRId64 ", not %s",
                       option_names[option], most, invocation->plan[option]);
  }
  *count = (uint64_t)value;
  return true;
}

static bool read_times(const struct invocation *invocation, struct overlap_work *work, struct problem *problem) {
  static const enum plan_option options[OVERLAP_ENGINES] = {PLAN_H2D, PLAN_KERNEL, PLAN_D2H};
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    if (!invocation->plan[options[engine]] && !invocation->plan[PLAN_FROM]) {
      return problem_set(problem, EXIT_STATUS_USAGE, "`framectl plan --help` shows what it needs", "plan needs %s, or --from",
                         option_names[options[engine]]);
    }
    if (!read_time(invocation, options[engine], &work->service[engine], problem)) {
      return false;
    }
  }
  return read_time(invocation, PLAN_TURNAROUND, &work->turnaround, problem) &&
         read_time(invocation, PLAN_HOST, &work->host, problem);
}

static bool read_frames(const struct invocation *invocation, struct plan_request *request, struct problem *problem) {
  if (invocation->frames > 0 && invocation->plan[PLAN_CHUNKS]) {
    return problem_set(problem, EXIT_STATUS_USAGE, "--frames: the times are of each frame; --chunks: of all chunks together",
                       "--frames and --chunks exclude each other");
  }
  if (invocation->plan[PLAN_FROM] && invocation->plan[PLAN_CHUNKS]) {
    return problem_set(problem, EXIT_STATUS_USAGE, "use --frames with --from", "the daemon measures whole frames, not chunks");
  }
  if (invocation->frames > MAX_FRAMES) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "--frames takes %d at most", MAX_FRAMES);
  }
  request->frames = invocation->frames > 0 ? invocation->frames : STEADY_FRAMES;
  request->is_cut = invocation->plan[PLAN_CHUNKS] != NULL;
  return read_count(invocation, PLAN_CHUNKS, MAX_FRAMES, &request->frames, problem);
}

/* Divides the times of the whole by the number of chunks. The turnaround is already that of one chunk. */
static void cut(struct plan_request *request) {
  for (int engine = 0; engine < OVERLAP_ENGINES && request->is_cut; engine++) {
    request->work.service[engine] /= (double)request->frames;
  }
}

/* -- a running daemon --------------------------------------------------------------------------------------------------- */

/* The step of a model has the time of a run, which all frames of a batch share. */
static void take_model(const struct pipeline_view *view, struct plan_request *request) {
  const struct model_view *model = &view->model;
  request->run_us = view->latency[STEP_MODEL].mean;
  request->batched = model->batches > 0 ? (double)model->batched / (double)model->batches : 1;
  request->model_us = fmin(request->run_us / request->batched, request->work.service[OVERLAP_KERNEL]);
}

static bool take_measured(const struct pipeline_view *view, struct plan_request *request, struct problem *problem) {
  static const enum step steps[OVERLAP_ENGINES] = {STEP_H2D, STEP_KERNEL, STEP_D2H};
  if (view->latency[STEP_KERNEL].count == 0 || view->overlap.slots == 0) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "send it frames, or give the times with --h2d, --kernel and --d2h",
                       "the daemon has timed no frame of '%s' in the last ten seconds", view->name);
  }
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    request->work.service[engine] =
        view->overlap.has_services ? view->overlap.service_us[engine] : view->latency[steps[engine]].mean;
    request->work.succession[engine] = view->overlap.succession_us[engine];
  }
  snprintf(request->bound_by, sizeof request->bound_by, "%s", view->overlap.bound_by);
  take_model(view, request);
  request->work.alone = view->overlap.alone_us;
  request->work.turnaround = view->overlap.turnaround_us;
  request->work.host = view->overlap.host_us;
  request->work.kernels = (unsigned)view->overlap.kernels_at_once;
  request->work.slots = view->overlap.slots < OVERLAP_MAX_SLOTS ? (unsigned)view->overlap.slots : OVERLAP_MAX_SLOTS;
  uint64_t sessions = view->sessions > 0 ? view->sessions : 1, devices = view->overlap.devices > 0 ? view->overlap.devices : 1;
  uint64_t slots = (view->slots + devices - 1) / devices * sessions;
  request->kept_free = slots > view->overlap.slots && slots <= OVERLAP_MAX_SLOTS ? (unsigned)(slots - view->overlap.slots) : 0;
  request->keeper =
      request->kept_free > sessions ? "drop-oldest" : "drop-oldest or a deadline"; /* each of these keys keeps one slot free */
  return true;
}

static bool measure(const struct invocation *invocation, struct plan_request *request, struct problem *problem) {
  request->measured = invocation->plan[PLAN_FROM];
  if (!request->measured) {
    return true;
  }
  json_t *document = daemon_status(invocation->socket, DAEMON_PATIENCE_MS, problem);
  struct pipeline_view view;
  bool fine = document && view_find(document, request->measured, &view, problem) && take_measured(&view, request, problem);
  json_decref(document);
  return fine;
}

/* -- both ------------------------------------------------------------------------------------------------------------------ */

/* The measured `alone` and `succession` do not fit other times, so they are reset. */
static void drop_stale_measurements(const struct invocation *invocation, struct plan_request *request) {
  struct overlap_work *work = &request->work;
  static const enum plan_option services[OVERLAP_ENGINES] = {PLAN_H2D, PLAN_KERNEL, PLAN_D2H};
  bool is_other = invocation->plan[PLAN_TURNAROUND] || invocation->plan[PLAN_HOST];
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    if (invocation->plan[services[engine]]) {
      work->succession[engine] = 0;
      is_other = true;
    }
  }
  work->alone = is_other ? 0 : work->alone;
  request->model_us = invocation->plan[PLAN_KERNEL] ? 0 : request->model_us;
}

/*
 * Times of the command line replace the measured ones. A measured turnaround is negative where the host works beside a copy in;
 * the host's time limits that.
 */
static bool read_request(const struct invocation *invocation, struct plan_request *request, struct problem *problem) {
  request->work.slots = DEFAULT_SLOTS;
  if (!read_frames(invocation, request, problem) || !measure(invocation, request, problem)) {
    return false;
  }
  uint64_t slots = request->work.slots;
  if (!read_times(invocation, &request->work, problem) ||
      !read_count(invocation, PLAN_SLOTS, OVERLAP_MAX_SLOTS, &slots, problem)) {
    return false;
  }
  drop_stale_measurements(invocation, request);
  request->work.turnaround = fmax(request->work.turnaround, -request->work.host);
  request->kept_free = slots == request->work.slots ? request->kept_free : 0;
  request->work.slots = (unsigned)slots;
  cut(request);
  return true;
}

/* -- the command -------------------------------------------------------------------------------------------------------- */

static unsigned columns_of_terminal(void) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return DEFAULT_COLUMNS;
  }
  return size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
}

bool command_plan(const struct invocation *invocation, struct problem *problem) {
  struct plan_request request = {0};
  if (!read_request(invocation, &request, problem)) {
    return false;
  }
  bool fine = invocation->json ? plan_report_json(stdout, &request)
                               : plan_report_text(stdout, &request, columns_of_terminal(), invocation->colour);
  return fine || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
}
