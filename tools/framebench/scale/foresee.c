#include "tools/framebench/scale/foresee.h"

#include "tools/framebench/common/targets.h"
#include "tools/framebench/scale/simulation.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/status/view.h"

#include <math.h>
#include <string.h>

enum { CAMERAS = 10000, RATE = 30, ROW_SECONDS = 1, CHECK_FRAMES = 5000 };

#define WITHIN 0.1

static const struct section checks_section = {"checks", "One device here, and what the model makes of its times",
                                              (const struct column[]){{"work", "WORK", COLUMN_TEXT},
                                                                      {"what", "WHAT", COLUMN_TEXT},
                                                                      {"measured", "MEASURED", COLUMN_RATE},
                                                                      {"simulated", "SIMULATED", COLUMN_RATE},
                                                                      {"ratio", "SIMULATED/MEASURED", COLUMN_RATIO},
                                                                      {0}}};

static const struct section rows_section = {"simulation", "10,000 cameras of 30 frames/s on devices like this one",
                                            (const struct column[]){{"work", "WORK", COLUMN_TEXT},
                                                                    {"devices", "DEVICES", COLUMN_COUNT},
                                                                    {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                                    {"kept", "OF WHAT COMES", COLUMN_RATIO},
                                                                    {"p50_us", "P50", COLUMN_TIME},
                                                                    {"p99_us", "P99", COLUMN_TIME},
                                                                    {"longest_us", "LONGEST", COLUMN_TIME},
                                                                    {"busiest", "BUSIEST", COLUMN_TEXT},
                                                                    {"busy", "BUSY", COLUMN_RATIO},
                                                                    {0}}};

struct checks {
  unsigned hits, count;
};

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

/* -- what one device does ---------------------------------------------------------------------------------------------- */

/* The part of the host's work that goes on beside the copy in makes no frame later. */
static void take_times(const struct overlap_view *times, struct simulation *plan) {
  static const enum simulation_step steps[OVERLAP_ENGINES] = {SIMULATION_IN, SIMULATION_KERNEL, SIMULATION_OUT};
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    plan->service[steps[engine]] = times->service_us[engine];
    plan->succession[steps[engine]] = times->succession_us[engine];
  }
  plan->service[SIMULATION_LANE] = fmax(times->host_us + fmin(times->turnaround_us, 0), 0);
  plan->succession[SIMULATION_LANE] = times->host_us;
  plan->turnaround = fmax(times->turnaround_us, 0);
  plan->kernels = (unsigned)times->kernels_at_once;
}

static bool ask_times(const struct scale *scale, unsigned work, struct simulation *plan, struct problem *problem) {
  char name[SCALE_NAME];
  struct pipeline_view view;
  json_t *status = daemon_status(own_daemon_socket(scale->daemon), DAEMON_PATIENCE_MS, problem);
  bool found = status && view_find(status, scale_pipeline(scale, work, 0, name), &view, problem);
  if (found) {
    take_times(&view.overlap, plan);
    double all = plan->turnaround;
    for (int step = 0; step < SIMULATION_STEPS; step++) {
      all += plan->service[step];
    }
    found = all > 0 || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "the daemon told no times of %s", name);
  }
  json_decref(status);
  return found;
}

static void check(const struct scale *scale, unsigned work, const char *what, double measured, double simulated,
                  struct checks *checks) {
  double ratio = measured > 0 ? simulated / measured : 0;
  checks->hits += fabs(ratio - 1) <= WITHIN;
  checks->count++;
  results_row(scale->results, json_pack("{s:s, s:s, s:f, s:f, s:f}", "work", scale->works[work].name, "what", what, "measured",
                                        measured, "simulated", simulated, "ratio", ratio));
}

/* As fast as frames go, one at a time, and at half of the first. `plan` gets the times of a frame. */
static bool learn(const struct scale *scale, unsigned work, struct simulation *plan, struct checks *checks,
                  struct problem *problem) {
  struct simulated simulated;
  json_t *row = scale_load(scale, work, 0, 0, problem);
  double rate = number(row, "frames_per_s");
  json_decref(row);
  *plan = (struct simulation){.cameras = WORK_SESSIONS, .slots = WORK_SLOTS, .devices = 1, .devices_of_host = 1};
  plan->seconds = CHECK_FRAMES / fmax(rate, 1);
  if (!row || !ask_times(scale, work, plan, problem)) {
    return false;
  }
  row = scale_load_one(scale, work, problem);
  simulation_fit(plan, number(row, "p50_us"));
  json_decref(row);
  if (!row || !simulate(plan, &simulated, problem)) {
    return false;
  }
  check(scale, work, "frames/s, as fast as they go", rate, simulated.frames_per_s, checks);
  row = scale_load(scale, work, 0, rate / 2, problem);
  double p50 = number(row, "p50_us");
  json_decref(row);
  plan->rate = rate / 2 / WORK_SESSIONS;
  if (!row || !simulate(plan, &simulated, problem)) {
    return false;
  }
  check(scale, work, "us, p50 at half of that", p50, simulated.p50, checks);
  return true;
}

/* -- what is not there -------------------------------------------------------------------------------------------------- */

/* The devices here at once are what a host is; one alone does not tell what several would share. */
static bool learn_host(const struct scale *scale, unsigned work, struct simulation *plan, struct problem *problem) {
  double rate = 0;
  plan->devices_of_host = scale->counts[scale->count_count - 1];
  if (plan->devices_of_host > 1 && !scale_alone(scale, work, scale->count_count - 1, &rate, problem)) {
    return false;
  }
  plan->succession[SIMULATION_HOST] = rate > 0 ? 1e6 / rate : 0;
  return true;
}

static bool add_rows(const struct scale *scale, unsigned work, struct simulation *plan, struct problem *problem) {
  static const unsigned devices[] = {8, 16, 32, 64};
  plan->cameras = CAMERAS;
  plan->rate = RATE;
  plan->together = true;
  plan->seconds = ROW_SECONDS;
  for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
    struct simulated simulated;
    plan->devices = devices[i];
    if (!simulate(plan, &simulated, problem)) {
      return false;
    }
    int busiest = 0;
    for (int step = 1; step < SIMULATION_STEPS; step++) {
      busiest = simulated.busy[step] > simulated.busy[busiest] ? step : busiest;
    }
    results_row(scale->results, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:f}", "work", scale->works[work].name,
                                          "devices", (int)devices[i], "frames_per_s", simulated.frames_per_s, "kept",
                                          (double)simulated.done / (double)simulated.due, "p50_us", simulated.p50, "p99_us",
                                          simulated.p99, "longest_us", simulated.longest, "busiest",
                                          simulation_step_names[busiest], "busy", simulated.busy[busiest]));
  }
  return true;
}

bool foresee(const struct scale *scale, struct problem *problem) {
  struct simulation plans[WORK_MOST];
  struct checks checks = {0};
  bool done = true;
  results_section(scale->results, &checks_section);
  for (unsigned work = 0; work < scale->work_count && done; work++) {
    done = learn(scale, work, &plans[work], &checks, problem) && learn_host(scale, work, &plans[work], problem);
  }
  results_section(scale->results, &rows_section);
  for (unsigned work = 0; work < scale->work_count && done; work++) {
    done = add_rows(scale, work, &plans[work], problem);
  }
  if (done) {
    targets_begin(scale->results);
    targets_add(scale->results, &(struct target){"figures of one device that the model foretells within 10 %", "all of them",
                                                 "", checks.hits, checks.count, 1, false});
  }
  return done;
}
