/*
 * framebench load: sends frames into a running daemon and reads the results, like its clients.
 *
 * This file reads the command line and orders the trials; trial.c runs one, and client.c generates the load.
 */
#include "config/units.h"
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/load/report.h"
#include "tools/framebench/load/search.h"
#include "tools/framebench/load/trial.h"
#include "tools/framebench/load/window.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct load_options {
  const char *socket;
  struct load_plan plan;
  struct load_goal goal;
  const char *goal_text;
  bool rate_given, search, json;
  char **names;
  unsigned name_count;
};

/* -- the command line ----------------------------------------------------------------------------------------------- */

enum {
  SOCKET = 's',
  RATE = 'r',
  IN_FLIGHT = 'n',
  CLIENTS = 'c',
  DURATION = 'd',
  WARM_UP = 'w',
  SEARCH = 'S',
  SPIN = 'p',
  TRANSPORT = 't',
  JSON = 'j'
};

static const struct option long_options[] = {{"socket", required_argument, NULL, SOCKET},
                                             {"rate", required_argument, NULL, RATE},
                                             {"in-flight", required_argument, NULL, IN_FLIGHT},
                                             {"clients", required_argument, NULL, CLIENTS},
                                             {"duration", required_argument, NULL, DURATION},
                                             {"warm-up", required_argument, NULL, WARM_UP},
                                             {"search", required_argument, NULL, SEARCH},
                                             {"spin", no_argument, NULL, SPIN},
                                             {"transport", required_argument, NULL, TRANSPORT},
                                             {"json", no_argument, NULL, JSON},
                                             {NULL, 0, NULL, 0}};

#define MOST_FRAMES_PER_S 1e9 /* due times must be distinct nanoseconds */

static bool refuse(const char *option, const char *remedy, struct problem *problem) {
  return problem_set(problem, EXIT_STATUS_USAGE, remedy, "--%s does not take '%s'", option, optarg);
}

static bool take_rate(struct load_options *options, struct problem *problem) {
  options->rate_given = true;
  double rate = 0;
  bool is_rate = units_number(optarg, &rate) == UNITS_OK && rate > 0 && rate <= MOST_FRAMES_PER_S;
  options->plan.rate = is_rate ? rate : 0;
  return is_rate || strcmp(optarg, "max") == 0 || refuse("rate", "give frames a second, 1e9 at most, or max", problem);
}

static bool take_count(const char *option, int64_t maximum, unsigned *count, struct problem *problem) {
  int64_t value;
  if (units_whole(optarg, &value) != UNITS_OK || value < 1 || value > maximum) {
    char remedy[64];
    snprintf(remedy, sizeof remedy, "give a whole number from 1 to %" PRId64, maximum);
    return refuse(option, remedy, problem);
  }
  *count = (unsigned)value;
  return true;
}

static bool take_duration(const char *option, int64_t least, int64_t *ns, struct problem *problem) {
  const char *unit;
  return (units_duration(optarg, ns, &unit) == UNITS_OK && *ns >= least && *ns <= INT64_C(86400) * 1000000000) ||
         refuse(option, "give a duration with its unit, such as 10s or 500ms", problem);
}

static bool take_transport(struct load_options *options, struct problem *problem) {
  options->plan.transport = strcmp(optarg, "shm") == 0 ? LOAD_SHARED : LOAD_STREAM;
  return options->plan.transport == LOAD_SHARED || strcmp(optarg, "stream") == 0 ||
         refuse("transport", "give shm or stream", problem);
}

static bool take(int option, char **arguments, struct load_options *options, struct problem *problem) {
  struct load_plan *plan = &options->plan;
  switch (option) {
  case SOCKET:
    options->socket = optarg;
    return true;
  case RATE:
    return take_rate(options, problem);
  case IN_FLIGHT:
    return take_count("in-flight", LOAD_WINDOW_LIMIT, &plan->in_flight, problem);
  case CLIENTS:
    return take_count("clients", 1024, &plan->clients, problem);
  case DURATION:
    return take_duration("duration", 1000000, &plan->duration_ns, problem);
  case WARM_UP:
    return take_duration("warm-up", 0, &plan->warm_up_ns, problem);
  case SEARCH:
    options->search = true;
    options->goal_text = optarg;
    return load_goal_parse(optarg, &options->goal, problem);
  case SPIN:
    plan->spin = true;
    return true;
  case TRANSPORT:
    return take_transport(options, problem);
  case JSON:
    options->json = true;
    return true;
  default:
    return problem_set_option(problem, option, arguments, "see `framebench load --help`");
  }
}

static bool check_options(const struct load_options *options, struct problem *problem) {
  if (options->plan.in_flight > 0 && (options->plan.rate > 0 || options->search)) {
    return problem_set(problem, EXIT_STATUS_USAGE, "leave one of them out",
                       "--in-flight excludes --rate: with a rate the clock decides when frames are due");
  }
  return !(options->search && options->rate_given) || problem_set(problem, EXIT_STATUS_USAGE, "leave one of them out",
                                                                  "--rate excludes --search, which finds the rate itself");
}

static bool read_options(int count, char **arguments, struct load_options *options, struct problem *problem) {
  const char *named = getenv("FRAMED_SOCKET");
  *options = (struct load_options){
      .socket = named && named[0] ? named : "/run/framed/status.sock",
      .plan = {.clients = 1, .warm_up_ns = 1000000000, .duration_ns = INT64_C(10000000000)},
  };
  opterr = 0;
  int option;
  while ((option = getopt_long(count, arguments, ":s:", long_options, NULL)) != -1) {
    if (!take(option, arguments, options, problem)) {
      return false;
    }
  }
  options->names = arguments + optind;
  options->name_count = (unsigned)(count - optind);
  return check_options(options, problem);
}

/* -- trials --------------------------------------------------------------------------------------------------------- */

struct load {
  const struct load_options *options;
  const struct load_target *target;
  struct results *results;
};

static bool run_trial(const struct load *load, const struct load_plan *plan, struct load_outcome *outcome,
                      struct problem *problem) {
  struct load_plan shown = *plan;
  shown.progress = results_progress(load->results);
  if (!load_trial(load->target, &shown, outcome, problem)) {
    return false;
  }
  results_row(load->results, load_report_row(load->target, plan, outcome));
  return true;
}

static bool check_sure(const struct load_outcome *outcome, struct problem *problem) {
  return load_outcome_is_sure(outcome) ||
         problem_set(problem, EXIT_STATUS_REFUSED, "search with stages that leave bytes as they are, or with none",
                     "frames were lost, and results without a number cannot be matched to frames");
}

static bool holds_at(void *context, double rate, bool *holds, struct problem *problem) {
  const struct load *load = context;
  struct load_plan plan = load->options->plan;
  struct load_outcome outcome;
  plan.rate = rate;
  bool done = run_trial(load, &plan, &outcome, problem) && check_sure(&outcome, problem);
  *holds = done && load_outcome_quantile(&outcome, load->options->goal.share) < load->options->goal.us;
  load_outcome_clear(&outcome);
  return done;
}

static const struct section search_section = {
    "search", "The highest rate that holds (0: none of those tried)",
    (const struct column[]){{"goal", "GOAL", COLUMN_TEXT}, {"frames_per_s", "FRAMES/s", COLUMN_RATE}, {0}}};

/* The rate under back pressure is an upper limit for the search. */
static bool search(const struct load *load, struct problem *problem) {
  const double precision = 0.02;
  struct load_outcome outcome;
  double best = 0;
  bool done = run_trial(load, &load->options->plan, &outcome, problem) && check_sure(&outcome, problem);
  double top = (double)outcome.figures.arrived / outcome.seconds;
  load_outcome_clear(&outcome);
  if (!done || !load_search(top, precision, holds_at, (void *)load, &best, problem)) {
    return false;
  }
  results_section(load->results, &search_section);
  results_row(load->results, json_pack("{s:s, s:f, s:f, s:f}", "goal", load->options->goal_text, "share",
                                       load->options->goal.share, "us", load->options->goal.us, "frames_per_s", best));
  return true;
}

static bool run_once(const struct load *load, struct problem *problem) {
  struct load_outcome outcome;
  bool done = run_trial(load, &load->options->plan, &outcome, problem);
  if (done) {
    load_report_frames(load->results, load->target, &outcome);
  }
  load_outcome_clear(&outcome);
  return done;
}

static bool measure(const struct load_options *options, const struct load_target *target, struct problem *problem) {
  struct load load = {options, target, results_new("load", options->json, machine_describe())};
  if (!load.results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  results_set(load.results, "daemon", json_incref(target->daemon));
  results_section(load.results, &load_section);
  bool done = (options->search ? search(&load, problem) : run_once(&load, problem)) && results_finish(load.results, problem);
  results_free(load.results);
  return done;
}

bool command_load(int count, char **arguments, struct problem *problem) {
  struct load_options options;
  struct load_target target;
  if (!read_options(count, arguments, &options, problem) ||
      !load_target_open(&target, options.socket, (const char *const *)options.names, options.name_count, problem)) {
    return false;
  }
  bool done = measure(&options, &target, problem);
  load_target_close(&target);
  return done;
}
