/* See cases.h. */
#include "tests/gpu/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct cases_size cases_sizes[] = {
    {1, 1, CASES_TINY},        {2, 2, CASES_TINY},     {3, 5, CASES_TINY},       {17, 31, CASES_SMALL},
    {64, 48, CASES_SMALL},     {288, 96, CASES_SMALL}, {641, 479, CASES_MEDIUM}, {1920, 1080, CASES_MEDIUM},
    {7680, 4320, CASES_LARGE}, {0, 0, CASES_TINY},
};

const struct cases_size cases_as_if_large[] = {
    {16, 3, CASES_TINY}, {64, 48, CASES_SMALL}, {272, 150, CASES_SMALL}, {1024, 150, CASES_SMALL}, {0, 0, CASES_TINY}};

/* -- random numbers ------------------------------------------------------------------------------------------------ */

/* One step of a counter through a mixing function: well spread for any seed. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static double next_unit(uint64_t *state) { return (double)(next_random(state) >> 11) / 9007199254740992.0; }

/* -- formats ------------------------------------------------------------------------------------------------------- */

unsigned cases_formats(const struct cases_size *size, struct frame_format formats[CASES_MAX_FORMATS]) {
  static const enum pixel_format usual[] = {PIXELS_GRAY, PIXELS_RGB24, PIXELS_NV12, PIXELS_GRAYF32LE};
  unsigned count = 0;
  if (size->effort == CASES_LARGE) {
    for (; count < sizeof usual / sizeof *usual; count++) {
      formats[count] = format_image(usual[count], size->width, size->height);
    }
    return count;
  }
  for (int pixels = PIXELS_NONE + 1; pixels < PIXELS_COUNT; pixels++) {
    formats[count++] = format_image((enum pixel_format)pixels, size->width, size->height);
  }
  const uint64_t shape[] = {1, size->height, size->width};
  formats[count++] = format_tensor(ELEMENT_UINT8, shape + 1, 2);
  formats[count++] = format_tensor(ELEMENT_FLOAT32, shape, 3);
  formats[count++] = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){(uint64_t)size->width * size->height}, 1);
  formats[count++] = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){3, size->height, size->width}, 3);
  /* As detectors give it: candidates of six numbers, one for each cell of the three grids of YOLOX. */
  const uint64_t side = size->width < 32 ? 1 : size->width / 32;
  formats[count++] = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, 21 * side * side, 6}, 3);
  return count;
}

/* -- parameter values ---------------------------------------------------------------------------------------------- */

/* Beyond this, numbers and counts are tested by the bounds alone. */
#define USUAL_NUMBER 300.0
#define USUAL_SIDE   2500

/* Most for integers that need not be given: they say how much is done for each sample. */
static const double usual_count[] = {[CASES_TINY] = 1000, [CASES_SMALL] = 30, [CASES_MEDIUM] = 10, [CASES_LARGE] = 2};

/* Such an integer that may be as large as this says how often something is repeated. */
#define MANY 10000

static bool repeats(const struct stage_parameter *parameter) {
  return parameter->type == STAGE_INTEGER && !parameter->required && parameter->maximum >= MANY;
}

static double usual_maximum(const struct stage_parameter *parameter, enum cases_effort effort) {
  double limit = parameter->type != STAGE_INTEGER ? USUAL_NUMBER : parameter->required ? USUAL_SIDE : usual_count[effort];
  return fmax(parameter->minimum, fmin(parameter->maximum, limit));
}

/* Integers are drawn on a logarithmic scale, so that small ones are as frequent as large ones. */
static double random_number(const struct stage_parameter *parameter, enum cases_effort effort, uint64_t *random) {
  double low = fmax(parameter->minimum, -USUAL_NUMBER);
  double high = usual_maximum(parameter, effort);
  switch (parameter->type) {
  case STAGE_CHOICE:
    return floor(next_unit(random) * (parameter->maximum + 1));
  case STAGE_INTEGER:
    return fmin(high, floor(low + exp(next_unit(random) * log(high - low + 2)) - 1));
  case STAGE_NUMBER:
  case STAGE_NUMBERS:
  case STAGE_WORD:
  case STAGE_FILE:
  case STAGE_SETTINGS:
    break;
  }
  return low + next_unit(random) * (high - low);
}

/* Names, files and settings are never drawn: what they may be is the stage's own affair. */
static bool is_drawn(const struct stage_parameter *parameter) {
  return parameter->type != STAGE_WORD && parameter->type != STAGE_FILE && parameter->type != STAGE_SETTINGS;
}

/* What is not given has its default; but where frames are not small, things are not repeated as often. */
static void set_defaults(const struct stage_about *stage, enum cases_effort effort, uint64_t *random,
                         struct stage_value *values) {
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    const struct stage_parameter *parameter = stage->parameters + i;
    values[i] = (struct stage_value){.count = 1, .numbers = {parameter->fallback}};
    if (parameter->required) {
      values[i].given = true;
      values[i].numbers[0] = random_number(parameter, effort, random);
    } else if (repeats(parameter) && effort >= CASES_MEDIUM) {
      values[i].given = true;
      values[i].numbers[0] = usual_maximum(parameter, effort);
    }
  }
}

static void set_random(const struct stage_about *stage, enum cases_effort effort, uint64_t *random,
                       struct stage_value *values) {
  set_defaults(stage, effort, random, values);
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    const struct stage_parameter *parameter = stage->parameters + i;
    if (!is_drawn(parameter) || (!parameter->required && next_unit(random) < 0.4)) {
      continue;
    }
    values[i].given = true;
    values[i].count = parameter->type == STAGE_NUMBERS && next_unit(random) < 0.5 ? 3 : 1;
    for (unsigned n = 0; n < values[i].count; n++) {
      values[i].numbers[n] = random_number(parameter, effort, random);
    }
  }
}

static void set_bounds(const struct stage_about *stage, enum cases_effort effort, bool upper, struct stage_value *values) {
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    const struct stage_parameter *parameter = stage->parameters + i;
    double most = repeats(parameter) && effort > CASES_TINY ? usual_maximum(parameter, effort) : parameter->maximum;
    values[i] = (struct stage_value){.given = is_drawn(parameter), .count = 1, .numbers = {upper ? most : parameter->minimum}};
  }
}

/* A part of each side. */
struct share {
  uint32_t width, of_width, height, of_height;
};

/* New sizes that random numbers do not meet, and that are made in ways of their own; the last has bars, if it is to fit. */
static const struct share shares[] = {{1, 1, 1, 1}, {1, 2, 1, 2}, {3, 4, 3, 4}, {2, 3, 5, 6}, {1, 4, 1, 4}, {1, 8, 1, 8}};
enum { SHARES = sizeof shares / sizeof *shares, SHARES_OF_LARGE = SHARES - 2 };

static bool set_share(const struct stage_about *stage, const struct cases_size *size, const struct share *share,
                      struct stage_value *values) {
  bool sized = false;
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    const struct stage_parameter *parameter = stage->parameters + i;
    bool width = strcmp(parameter->name, "width") == 0;
    if (parameter->required && (width || strcmp(parameter->name, "height") == 0)) {
      uint32_t side = width ? size->width * share->width / share->of_width : size->height * share->height / share->of_height;
      values[i].numbers[0] = side > 0 ? side : 1;
      sized = true;
    }
  }
  return sized;
}

/* Such sizes with each choice. */
static unsigned add_shares(const struct stage_about *stage, const struct cases_size *size, uint64_t *seed, unsigned count,
                           struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS]) {
  const unsigned most = size->effort < CASES_MEDIUM ? SHARES : SHARES_OF_LARGE;
  for (unsigned share = 0; share < most; share++) {
    for (unsigned i = 0; i < stage->parameter_count; i++) {
      const struct stage_parameter *parameter = stage->parameters + i;
      for (unsigned choice = 0; parameter->type == STAGE_CHOICE && parameter->choices[choice]; choice++) {
        if (count < CASES_MAX_SETS) {
          set_defaults(stage, size->effort, seed, sets[count]);
          sets[count][i] = (struct stage_value){.given = true, .count = 1, .numbers = {choice}};
          count += set_share(stage, size, &shares[share], sets[count]);
        }
      }
    }
  }
  return count;
}

unsigned cases_values(const struct stage_about *stage, const struct cases_size *size, uint64_t seed,
                      struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS]) {
  const enum cases_effort effort = size->effort;
  static const unsigned randoms[] = {[CASES_TINY] = 20, [CASES_SMALL] = 30, [CASES_MEDIUM] = 4, [CASES_LARGE] = 1};
  unsigned count = 0;
  set_defaults(stage, effort, &seed, sets[count++]);
  if (effort <= CASES_SMALL) {
    set_bounds(stage, effort, false, sets[count++]);
    set_bounds(stage, effort, true, sets[count++]);
  }
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    const struct stage_parameter *parameter = stage->parameters + i;
    for (unsigned choice = 0; parameter->type == STAGE_CHOICE && parameter->choices[choice]; choice++) {
      if (count < CASES_MAX_SETS) {
        set_defaults(stage, effort, &seed, sets[count]);
        sets[count++][i] = (struct stage_value){.given = true, .count = 1, .numbers = {choice}};
      }
    }
  }
  count = add_shares(stage, size, &seed, count, sets);
  for (unsigned i = 0; i < randoms[effort] && count < CASES_MAX_SETS; i++) {
    set_random(stage, effort, &seed, sets[count++]);
  }
  return count;
}

const char *cases_describe(const struct stage_about *stage, const struct stage_value *values, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < stage->parameter_count && used < size; i++) {
    const struct stage_parameter *parameter = stage->parameters + i;
    if (!values[i].given) {
      continue;
    }
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", parameter->name);
    for (unsigned n = 0; n < values[i].count && used < size; n++) {
      used += (size_t)(parameter->type == STAGE_CHOICE
                           ? snprintf(text + used, size - used, " %s", parameter->choices[(int)values[i].numbers[n]])
                           : snprintf(text + used, size - used, " %.9g", values[i].numbers[n]));
    }
  }
  return text;
}

/* -- frames -------------------------------------------------------------------------------------------------------- */

static float random_float(uint64_t random) {
  static const float special[] = {INFINITY, -INFINITY, NAN, -0.0F, 1e-40F, 0.0F, 1.0F, 255.0F};
  if (random % 256 == 0) {
    return special[random / 256 % 8];
  }
  float unit = (float)(random >> 40) / 16777216.0F;
  return random % 2 ? unit : (unit - 0.5F) * 600.0F; /* half of them as images have it */
}

static void fill_floats(float *data, size_t count, uint64_t *random) {
  for (size_t i = 0; i < count; i++) {
    data[i] = random_float(next_random(random));
  }
}

static void fill_bytes(uint8_t *data, size_t count, uint64_t *random) {
  for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
    uint64_t eight = next_random(random);
    memcpy(data + i, &eight, count - i < sizeof eight ? count - i : sizeof eight);
  }
}

/* Runs of samples, together a quarter of the frame at most. */
static void change_places(const struct frame_format *format, void *data, size_t count, uint64_t *random) {
  enum { RUN = 48 };
  for (size_t i = 0; i < count / (4 * (size_t)RUN) + 1; i++) {
    size_t first = next_random(random) % count;
    size_t run = count - first < RUN ? count - first : RUN;
    if (format->dtype == ELEMENT_FLOAT32) {
      fill_floats((float *)data + first, run, random);
    } else {
      fill_bytes((uint8_t *)data + first, run, random);
    }
  }
}

void cases_fill(const struct frame_format *format, void *data, uint64_t seed, unsigned frame) {
  size_t count = format_samples(format);
  uint64_t random = seed;
  if (format->dtype == ELEMENT_FLOAT32) {
    fill_floats(data, count, &random);
  } else {
    fill_bytes(data, count, &random);
  }
  for (unsigned i = 1; i <= frame; i++) {
    random = seed + i;
    change_places(format, data, count, &random);
  }
}
