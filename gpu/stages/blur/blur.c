/*
 * blur: descriptor and CPU loop.
 *
 * Each row of the result is made by itself: the rows around it are summed into one row of floats, its ends are
 * mirrored, and that is summed along. Both go block by block, so that sums stay in the first-level cache.
 */
#include "gpu/stages/blur/blur.h"
#include "gpu/stages/border.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <assert.h>
#include <math.h>

int32_t blur_pretended_processors;

enum { BLOCK = 1024 /* samples */ };

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  unsigned channels = stage_channels(&plan->input);
  if (channels == 0) {
    return stage_refuse(plan, problem, "gray, rgb24, bgr24 and grayf32le",
                        "put `convert: {to: rgb24}` or `{to: gray}` before it");
  }
  double sigma = values[BLUR_SIGMA].numbers[0];
  double radius = values[BLUR_RADIUS].numbers[0];
  if (radius == 0) {
    radius = ceil(sigma * (plan->input.dtype == ELEMENT_FLOAT32 ? 4 : 3));
  }
  struct blur_constants constants = {
      .radius = (uint32_t)radius,
      .channels = channels,
      .ratio = exp(-1 / (2 * sigma * sigma)),
      .floats = plan->input.dtype == ELEMENT_FLOAT32,
  };
  STAGE_SET_CONSTANTS(plan, &constants);
  /* The CPU keeps one row with its margins there. */
  plan->scratch_bytes = (plan->input.width + 2 * (size_t)constants.radius) * channels * sizeof(float);
  return stage_keep_format(plan, problem);
}

/* -- loops over one block ----------------------------------------------------------------------------------------- */

/* Samples at one distance, before and after the middle. */
struct byte_pair {
  const uint8_t *before, *after;
};

struct float_pair {
  const float *before, *after;
};

static inline float sum_byte_pair(struct byte_pair p, size_t i) { return (float)(p.before[i] + p.after[i]); }
static inline float sum_float_pair(struct float_pair p, size_t i) { return p.before[i] + p.after[i]; }

/* Each loop reads and writes the sums once, so the more distances it takes the better: the first takes the middle and as many
 * distances as fours leave over, at least one, and the others take FEW each. */
enum { FEW = 4 };

#define BLOCK_LOOPS(vector, kind, sample, pair, both)                                                                          \
  vector static void begin_1_##kind(const sample *restrict in, const struct pair *pairs, const float *restrict weights,        \
                                    size_t count, float *restrict sum) {                                                       \
    const struct pair a = pairs[0];                                                                                            \
    float w[] = {weights[0], weights[1]};                                                                                      \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      sum[i] = blur_add((float)in[i] * w[0], both(a, i), w[1]);                                                                \
    }                                                                                                                          \
  }                                                                                                                            \
  vector static void begin_2_##kind(const sample *restrict in, const struct pair *pairs, const float *restrict weights,        \
                                    size_t count, float *restrict sum) {                                                       \
    const struct pair a = pairs[0], b = pairs[1];                                                                              \
    float w[] = {weights[0], weights[1], weights[2]};                                                                          \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      sum[i] = blur_add(blur_add((float)in[i] * w[0], both(a, i), w[1]), both(b, i), w[2]);                                    \
    }                                                                                                                          \
  }                                                                                                                            \
  vector static void begin_3_##kind(const sample *restrict in, const struct pair *pairs, const float *restrict weights,        \
                                    size_t count, float *restrict sum) {                                                       \
    const struct pair a = pairs[0], b = pairs[1], c = pairs[2];                                                                \
    float w[] = {weights[0], weights[1], weights[2], weights[3]};                                                              \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      float near = blur_add(blur_add((float)in[i] * w[0], both(a, i), w[1]), both(b, i), w[2]);                                \
      sum[i] = blur_add(near, both(c, i), w[3]);                                                                               \
    }                                                                                                                          \
  }                                                                                                                            \
  vector static void begin_4_##kind(const sample *restrict in, const struct pair *pairs, const float *restrict weights,        \
                                    size_t count, float *restrict sum) {                                                       \
    const struct pair a = pairs[0], b = pairs[1], c = pairs[2], d = pairs[3];                                                  \
    float w[] = {weights[0], weights[1], weights[2], weights[3], weights[4]};                                                  \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      float near = blur_add(blur_add((float)in[i] * w[0], both(a, i), w[1]), both(b, i), w[2]);                                \
      sum[i] = blur_add(blur_add(near, both(c, i), w[3]), both(d, i), w[4]);                                                   \
    }                                                                                                                          \
  }                                                                                                                            \
  vector static void add_few_##kind(const struct pair *pairs, const float *restrict weights, size_t count,                     \
                                    float *restrict sum) {                                                                     \
    const struct pair a = pairs[0], b = pairs[1], c = pairs[2], d = pairs[3];                                                  \
    float w[] = {weights[0], weights[1], weights[2], weights[3]};                                                              \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      float near = blur_add(blur_add(sum[i], both(a, i), w[0]), both(b, i), w[1]);                                             \
      sum[i] = blur_add(blur_add(near, both(c, i), w[2]), both(d, i), w[3]);                                                   \
    }                                                                                                                          \
  }                                                                                                                            \
  /* The weighted sums around `in`; the pairs are those at distance 1, 2 and so on up to the radius. */                        \
  static void sum_##kind(const sample *in, const struct pair *pairs, const float *weights, uint32_t radius, size_t count,      \
                         float *sum) {                                                                                         \
    static void (*const begin[])(const sample *restrict, const struct pair *, const float *restrict, size_t,                   \
                                 float *restrict) = {begin_1_##kind, begin_2_##kind, begin_3_##kind, begin_4_##kind};          \
    uint32_t first = (radius - 1) % FEW + 1;                                                                                   \
    begin[first - 1](in, pairs, weights, count, sum);                                                                          \
    for (uint32_t k = first; k < radius; k += FEW) {                                                                           \
      add_few_##kind(pairs + k, weights + k + 1, count, sum);                                                                  \
    }                                                                                                                          \
  }

BLOCK_LOOPS(STAGE_VECTOR_EXACT, bytes, uint8_t, byte_pair, sum_byte_pair)
BLOCK_LOOPS(STAGE_VECTOR_EXACT, sums_of_bytes, float, float_pair, sum_float_pair)
BLOCK_LOOPS(STAGE_VECTOR, floats, float, float_pair, sum_float_pair)

STAGE_VECTOR static void round_bytes(const float *restrict sum, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = arithmetic_level(sum[i]);
  }
}

STAGE_VECTOR static void round_sums(float *sum, size_t count) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = blur_round_sum(sum[i]);
  }
}

/* -- one row ------------------------------------------------------------------------------------------------------- */

struct job {
  const struct blur_constants *constants;
  const struct blur_weights *weights;
  int32_t width, height;
  size_t row, margin; /* samples of a row, and of `radius` pixels */
  bool floats;
  const void *in;
  void *out;
  float *padded; /* one row with a margin on each side */
};

/* Sums a block of the rows around row y into `sum`. */
static void down_bytes(const struct job *job, int32_t y, size_t start, size_t count, float *sum) {
  const uint8_t *in = (const uint8_t *)job->in + start;
  struct byte_pair rows[BLUR_MAX_RADIUS];
  int32_t radius = (int32_t)job->constants->radius;
  assert(radius >= 1); /* so that rows[0] has a value, as the compiler checks */
  for (int32_t k = 1; k <= radius; k++) {
    rows[k - 1] = (struct byte_pair){in + (size_t)border_reflect(y - k, job->height) * job->row,
                                     in + (size_t)border_reflect(y + k, job->height) * job->row};
  }
  sum_bytes(in + (size_t)y * job->row, rows, job->weights->at, job->constants->radius, count, sum);
  round_sums(sum, count);
}

static void down_floats(const struct job *job, int32_t y, size_t start, size_t count, float *sum) {
  const float *in = (const float *)job->in + start;
  struct float_pair rows[BLUR_MAX_RADIUS];
  int32_t radius = (int32_t)job->constants->radius;
  assert(radius >= 1); /* so that rows[0] has a value, as the compiler checks */
  for (int32_t k = 1; k <= radius; k++) {
    rows[k - 1] = (struct float_pair){in + (size_t)border_reflect(y - k, job->height) * job->row,
                                      in + (size_t)border_reflect(y + k, job->height) * job->row};
  }
  sum_floats(in + (size_t)y * job->row, rows, job->weights->at, job->constants->radius, count, sum);
}

/* Fills the margins with the mirror image of the row between them. */
static void mirror(const struct job *job) {
  size_t channels = job->constants->channels;
  int32_t radius = (int32_t)job->constants->radius;
  float *row = job->padded + job->margin;
  for (int32_t k = 1; k <= radius; k++) {
    const float *left = row + (size_t)border_reflect(-k, job->width) * channels;
    const float *right = row + (size_t)border_reflect(job->width - 1 + k, job->width) * channels;
    for (size_t c = 0; c < channels; c++) {
      *(row - (size_t)k * channels + c) = left[c];
      *(row + job->row + (size_t)(k - 1) * channels + c) = right[c];
    }
  }
}

/* Sums a block of the padded row along into `sum`. */
static void along(const struct job *job, size_t start, size_t count, float *sum) {
  const float *middle = job->padded + job->margin + start;
  struct float_pair pairs[BLUR_MAX_RADIUS];
  size_t step = job->constants->channels;
  assert(job->constants->radius >= 1);
  for (size_t k = 1; k <= job->constants->radius; k++) {
    pairs[k - 1] = (struct float_pair){middle - k * step, middle + k * step};
  }
  (job->floats ? sum_floats : sum_sums_of_bytes)(middle, pairs, job->weights->at, job->constants->radius, count, sum);
}

static void blur_row(const struct job *job, int32_t y) {
  for (size_t start = 0; start < job->row; start += BLOCK) {
    size_t count = job->row - start < BLOCK ? job->row - start : BLOCK;
    (job->floats ? down_floats : down_bytes)(job, y, start, count, job->padded + job->margin + start);
  }
  mirror(job);
  float sum[BLOCK];
  for (size_t start = 0; start < job->row; start += BLOCK) {
    size_t count = job->row - start < BLOCK ? job->row - start : BLOCK;
    size_t target = (size_t)y * job->row + start;
    along(job, start, count, job->floats ? (float *)job->out + target : sum);
    if (!job->floats) {
      round_bytes(sum, count, (uint8_t *)job->out + target);
    }
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct blur_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  struct blur_weights weights = blur_make_weights(&constants);
  struct job job = {
      .constants = &constants,
      .weights = &weights,
      .width = (int32_t)plan->input.width,
      .height = (int32_t)plan->input.height,
      .row = (size_t)plan->input.width * constants.channels,
      .margin = (size_t)constants.radius * constants.channels,
      .floats = plan->input.dtype == ELEMENT_FLOAT32,
      .in = call->input,
      .out = call->output,
      .padded = call->scratch,
  };
  for (int32_t y = 0; y < job.height; y++) {
    blur_row(&job, y);
  }
}

const struct stage_descriptor blur_stage = {
    .about = &blur_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(blur_enqueue)};
