/* See stage_fixture.h. */
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, GARBAGE = 0xa5 };

const uint32_t fixture_sizes[][2] = {{1, 1},   {2, 2},   {3, 1},   {1, 5},    {3, 5},    {4, 4},     {16, 16}, {17, 31},
                                     {33, 15}, {64, 48}, {65, 47}, {255, 65}, {641, 37}, {1025, 19}, {0, 0}};

static void *exact_memory(size_t bytes) {
  void *memory = NULL;
  if (bytes == 0) {
    return NULL;
  }
  ck_assert_int_eq(posix_memalign(&memory, ALIGNMENT, bytes), 0);
  memset(memory, GARBAGE, bytes);
  return memory;
}

static void set_values(const struct stage_descriptor *stage, const struct setting *settings, struct stage_value *values) {
  for (unsigned i = 0; i < stage->about->parameter_count; i++) {
    values[i] = (struct stage_value){.count = 1, .numbers = {stage->about->parameters[i].fallback}};
  }
  for (; settings && settings->name; settings++) {
    unsigned i = 0;
    while (i < stage->about->parameter_count && strcmp(stage->about->parameters[i].name, settings->name) != 0) {
      i++;
    }
    ck_assert_msg(i < stage->about->parameter_count, "%s has no parameter `%s`", stage->about->name, settings->name);
    values[i] = (struct stage_value){.given = true, .count = settings->count};
    memcpy(values[i].numbers, settings->numbers, sizeof settings->numbers);
  }
}

static bool prepare(struct stage_plan *plan, const struct stage_descriptor *stage, struct frame_format format,
                    struct frame_format source, const struct setting *settings, char problem[STAGE_TEXT]) {
  struct stage_value values[STAGE_MAX_PARAMETERS];
  set_values(stage, settings, values);
  *plan = (struct stage_plan){.stage = stage, .input = format, .source = source};
  problem[0] = '\0';
  return stage->prepare(plan, values, problem);
}

static void fill(const struct frame_format *format, void *data, uint32_t seed) {
  size_t samples = format_samples(format);
  uint32_t random = seed * 2654435761U + 1;
  for (size_t i = 0; i < samples; i++) {
    random = random * 1664525U + 1013904223U;
    if (format->dtype == ELEMENT_FLOAT32) {
      ((float *)data)[i] = ((float)(random >> 8) / 16777216.0F - 0.5F) * 600.0F;
    } else {
      ((uint8_t *)data)[i] = (uint8_t)(random >> 24);
    }
  }
}

void fixture_open(struct stage_fixture *fixture, const struct stage_descriptor *stage, struct frame_format format,
                  const struct setting *settings, uint32_t seed) {
  fixture_open_with(fixture, stage, format, (struct frame_format){0}, settings, seed);
}

void fixture_open_with(struct stage_fixture *fixture, const struct stage_descriptor *stage, struct frame_format format,
                       struct frame_format source, const struct setting *settings, uint32_t seed) {
  char problem[STAGE_TEXT];
  size_t bytes;
  *fixture = (struct stage_fixture){0};
  ck_assert_msg(prepare(&fixture->plan, stage, format, source, settings, problem), "%s", problem);
  ck_assert(format_bytes(&format, &bytes));
  ck_assert_uint_eq(fixture->plan.input_bytes, bytes);
  ck_assert(format_bytes(&fixture->plan.output, &bytes));
  ck_assert_uint_eq(fixture->plan.output_bytes, bytes);
  fixture->input = exact_memory(fixture->plan.input_bytes);
  fixture->output = exact_memory(fixture->plan.output_bytes);
  fixture->state = exact_memory(fixture->plan.state_bytes);
  fixture->scratch = exact_memory(fixture->plan.scratch_bytes);
  if (fixture->state) {
    memset(fixture->state, 0, fixture->plan.state_bytes);
  }
  fixture_fill(fixture, seed);
  if (format_bytes(&source, &bytes)) {
    fixture->source = exact_memory(bytes);
    fill(&source, fixture->source, seed + 1);
  }
}

void fixture_fill(struct stage_fixture *fixture, uint32_t seed) { fill(&fixture->plan.input, fixture->input, seed); }

void fixture_run(struct stage_fixture *fixture) {
  memset(fixture->output, GARBAGE, fixture->plan.output_bytes);
  struct stage_call call = {
      .input = fixture->input,
      .output = fixture->output,
      .source = fixture->source,
      .state = fixture->state,
      .scratch = fixture->scratch,
      .sequence = fixture->sequence,
      .restart = fixture->sequence == 0,
  };
  fixture->plan.stage->run(&fixture->plan, &call);
  fixture->sequence++;
}

void fixture_restart(struct stage_fixture *fixture) { fixture->sequence = 0; }

void fixture_close(struct stage_fixture *fixture) {
  free(fixture->input);
  free(fixture->output);
  free(fixture->source);
  free(fixture->state);
  free(fixture->scratch);
  *fixture = (struct stage_fixture){0};
}

const char *fixture_problem(const struct stage_descriptor *stage, struct frame_format format, const struct setting *settings) {
  static char problem[STAGE_TEXT];
  struct stage_plan plan;
  if (prepare(&plan, stage, format, (struct frame_format){0}, settings, problem)) {
    return NULL;
  }
  ck_assert_msg(problem[0] != '\0', "%s refuses without a reason", stage->about->name);
  return problem;
}
