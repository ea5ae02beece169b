/*
 * One stage, prepared and run by itself on the CPU, for the tests of the stages.
 *
 * All memory is exactly as large as the plan says, so that AddressSanitizer sees every step beyond it; state
 * starts as zeros and scratch memory and output as garbage. Every function but fixture_problem() fails the test
 * by itself when the stage refuses.
 */
#ifndef FRAMED_TESTS_UNIT_GPU_STAGE_FIXTURE_H
#define FRAMED_TESTS_UNIT_GPU_STAGE_FIXTURE_H

#include "gpu/stage.h"

/* A parameter as a configuration would give it; a choice is given by its index. Lists of them end with {0};
 * SETTINGS(SET("mean", 1, 2, 3), SET("scale", 0.5)) is one. */
struct setting {
  const char *name;
  double numbers[STAGE_MAX_NUMBERS];
  unsigned count;
};

#define SET(parameter, ...)                                                                                                    \
  { (parameter), {__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double) }
#define SETTINGS(...) ((const struct setting[]){__VA_ARGS__, {0}})

struct stage_fixture {
  struct stage_plan plan;
  void *input, *output, *source, *state, *scratch;
  uint64_t sequence; /* of the next frame */
};

/* Prepares the stage; the input is filled with bytes that depend on `seed`, floats between -300 and 300. */
void fixture_open(struct stage_fixture *fixture, const struct stage_descriptor *stage, struct frame_format format,
                  const struct setting *settings, uint32_t seed);
/* The same for a stage that also takes what came into the pipeline, a frame of that format, filled like the input. */
void fixture_open_with(struct stage_fixture *fixture, const struct stage_descriptor *stage, struct frame_format format,
                       struct frame_format source, const struct setting *settings, uint32_t seed);
void fixture_fill(struct stage_fixture *fixture, uint32_t seed);
/* Runs the next frame; the first one restarts. */
void fixture_run(struct stage_fixture *fixture);
/* The next frame is the first of a session again. */
void fixture_restart(struct stage_fixture *fixture);
void fixture_close(struct stage_fixture *fixture);

/* What prepare() says against this, or NULL if it takes it. The text lives until the next call. */
const char *fixture_problem(const struct stage_descriptor *stage, struct frame_format format, const struct setting *settings);

/* Widths and heights from one pixel up, odd and even, ended by 0 x 0. */
extern const uint32_t fixture_sizes[][2];

#endif
