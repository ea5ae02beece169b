/* The table of a pipeline's states: what may happen in which, and where it leads. */
#include <stdio.h>
#include <string.h>

#include "daemon/pipeline/private.h"
#include "tests/unit/runner.h"

static const char *const happening_names[PIPELINE_HAPPENINGS] = {
    [HAPPENS_START] = "start", [HAPPENS_CONTINUE] = "continue",   [HAPPENS_PAUSE] = "pause",     [HAPPENS_RESUME] = "resume",
    [HAPPENS_DRAIN] = "drain", [HAPPENS_IDLE] = "idle",           [HAPPENS_QUIESCE] = "quiesce", [HAPPENS_STOP] = "stop",
    [HAPPENS_END] = "end",     [HAPPENS_UNQUIESCE] = "unquiesce", [HAPPENS_WAIT] = "wait",       [HAPPENS_FAIL] = "fail"};

/* Every transition to another state; from the two that lead back, a pipeline is taken that goes on, or was, draining. */
static const char *const transitions[] = {
    "starting start running",  "starting continue draining", "starting quiesce stopping",   "starting stop stopping",
    "running pause paused",    "running drain draining",     "running quiesce stopping",    "running stop stopping",
    "paused resume running",   "paused drain draining",      "paused quiesce stopping",     "paused stop stopping",
    "draining resume running", "draining idle drained",      "draining quiesce stopping",   "draining stop stopping",
    "drained resume running",  "drained quiesce stopping",   "drained stop stopping",       "failed resume running",
    "failed quiesce stopping", "failed stop stopping",       "stopping unquiesce draining", "stopping end stopped",
    "starting wait waiting",   "waiting quiesce stopping",   "waiting stop stopping",       "running fail failed",
    "paused fail failed",      "draining fail failed",       "drained fail failed"};

static bool is_listed(const char *text) {
  for (size_t i = 0; i < sizeof transitions / sizeof transitions[0]; i++) {
    if (strcmp(text, transitions[i]) == 0) {
      return true;
    }
  }
  return false;
}

START_TEST(every_transition_is_one_that_is_meant) {
  unsigned moved = 0;
  for (int state = PIPELINE_STARTING; state <= PIPELINE_STOPPED; state++) {
    for (int happening = 0; happening < PIPELINE_HAPPENINGS; happening++) {
      char text[64];
      struct pipeline pipeline = {
          .state = (enum pipeline_state)state, .before = PIPELINE_DRAINING, .continues_as = PIPELINE_DRAINING};
      if (pipeline_may_move(pipeline.state, (enum pipeline_happening)happening) &&
          pipeline_move(&pipeline, (enum pipeline_happening)happening)) {
        snprintf(text, sizeof text, "%s %s %s", pipeline_state_names[state], happening_names[happening],
                 pipeline_state_names[pipeline.state]);
        ck_assert_msg(is_listed(text), "%s", text);
        moved++;
      }
    }
  }
  ck_assert_uint_eq(moved, sizeof transitions / sizeof transitions[0]);
}
END_TEST

START_TEST(what_was_quiesced_comes_back_as_it_was) {
  struct pipeline pipeline = {.state = PIPELINE_PAUSED};
  ck_assert(pipeline_move(&pipeline, HAPPENS_QUIESCE));
  ck_assert(!pipeline_move(&pipeline, HAPPENS_QUIESCE)); /* as where a stop meets a reload */
  ck_assert(pipeline_move(&pipeline, HAPPENS_UNQUIESCE));
  ck_assert_int_eq(pipeline.state, PIPELINE_PAUSED);
}
END_TEST

START_TEST(nothing_brings_a_stopped_pipeline_back) {
  for (int happening = 0; happening < PIPELINE_HAPPENINGS; happening++) {
    bool is_idle = happening == HAPPENS_IDLE; /* a lane may have told that before it heard of the stop */
    ck_assert(pipeline_may_move(PIPELINE_STOPPED, (enum pipeline_happening)happening) == is_idle);
  }
  ck_assert(!pipeline_may_move(PIPELINE_STOPPING, HAPPENS_RESUME));
}
END_TEST

Suite *states_suite(void);
Suite *states_suite(void) {
  Suite *suite = suite_create("states");
  TCase *all = tcase_create("all");
  tcase_add_test(all, every_transition_is_one_that_is_meant);
  tcase_add_test(all, what_was_quiesced_comes_back_as_it_was);
  tcase_add_test(all, nothing_brings_a_stopped_pipeline_back);
  suite_add_tcase(suite, all);
  return suite;
}
