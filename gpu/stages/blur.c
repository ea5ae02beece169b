/*
 * blur: descriptor and CPU loop.
 *
 * Each row of the result is made by itself: the rows around it are summed into one row of floats, its ends are
 * mirrored, and that is summed along. Both go block by block, so that sums stay in the first-level cache.
 */
#include "gpu/stages/blur.h"
#include "gpu/stages/border.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <math.h>

enum { SIGMA, RADIUS };
enum { BLOCK = 1024 /* samples */ };

static const struct stage_parameter parameters[] = {
    [SIGMA] = {.name = "sigma",
               .type = STAGE_NUMBER,
               .required = true,
               .minimum = 0.1,
               .maximum = 64,
               .help = "Standard deviation of the Gaussian in pixels."},
    [RADIUS] = {.name = "radius",
                .type = STAGE_INTEGER,
                .minimum = 0,
                .maximum = BLUR_MAX_RADIUS,
                .fallback = 0,
                .help = "Pixels that count on each side; 0 takes 3 times sigma for 8 bits and 4 times for floats, rounded up."},
};

/* The CPU keeps one row with its margins there, the GPU a whole frame when the radius is large. */
static size_t scratch_bytes(const struct frame_format *format, const struct blur_constants *constants) {
  size_t row = (format->width + 2 * (size_t)constants->radius) * constants->channels;
  bool whole = constants->radius > BLUR_TILE_RADIUS && format->height > 1;
  return (whole ? row * format->height : row) * sizeof(float);
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  unsigned channels = stage_channels(&plan->input);
  if (channels == 0) {
    return stage_refuse(plan, problem, "gray, rgb24, bgr24 and grayf32le",
                        "put `convert: {to: rgb24}` or `{to: gray}` before it");
  }
  double sigma = values[SIGMA].numbers[0];
  double radius = values[RADIUS].numbers[0];
  if (radius == 0) {
    radius = ceil(sigma * (plan->input.dtype == ELEMENT_FLOAT32 ? 4 : 3));
  }
  struct blur_constants constants = {(uint32_t)radius, channels, exp(-1 / (2 * sigma * sigma))};
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->scratch_bytes = scratch_bytes(&plan->input, &constants);
  return stage_keep_format(plan, problem);
}

/* -- loops over one block ----------------------------------------------------------------------------------------- */

STAGE_VECTOR static void begin_bytes(const uint8_t *restrict in, float weight, size_t count, float *restrict sum) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = (float)in[i] * weight;
  }
}

STAGE_VECTOR static void begin_floats(const float *restrict in, float weight, size_t count, float *restrict sum) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = in[i] * weight;
  }
}

/* Samples at one distance, before and after the middle. */
struct byte_pair {
  const uint8_t *before, *after;
};

struct float_pair {
  const float *before, *after;
};

STAGE_VECTOR static void add_bytes(struct byte_pair p, float weight, size_t count, float *restrict sum) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = blur_add(sum[i], (float)(p.before[i] + p.after[i]), weight);
  }
}

STAGE_VECTOR static void add_floats(struct float_pair p, float weight, size_t count, float *restrict sum) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = blur_add(sum[i], p.before[i] + p.after[i], weight);
  }
}

/* Two distances at once spare half of the traffic of the sums. */
STAGE_VECTOR static void add_bytes_twice(struct byte_pair near, struct byte_pair far, const float *restrict weights,
                                         size_t count, float *restrict sum) {
  float first = weights[0];
  float second = weights[1];
  for (size_t i = 0; i < count; i++) {
    float nearer = blur_add(sum[i], (float)(near.before[i] + near.after[i]), first);
    sum[i] = blur_add(nearer, (float)(far.before[i] + far.after[i]), second);
  }
}

STAGE_VECTOR static void add_floats_twice(struct float_pair near, struct float_pair far, const float *restrict weights,
                                          size_t count, float *restrict sum) {
  float first = weights[0];
  float second = weights[1];
  for (size_t i = 0; i < count; i++) {
    float nearer = blur_add(sum[i], near.before[i] + near.after[i], first);
    sum[i] = blur_add(nearer, far.before[i] + far.after[i], second);
  }
}

STAGE_VECTOR static void round_bytes(const float *restrict sum, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = arithmetic_level(sum[i]);
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

/* Where a block of the rows at distance k from row y begins. */
static struct byte_pair byte_rows(const struct job *job, int32_t y, int32_t k, size_t start) {
  const uint8_t *in = (const uint8_t *)job->in + start;
  return (struct byte_pair){in + (size_t)border_reflect(y - k, job->height) * job->row,
                            in + (size_t)border_reflect(y + k, job->height) * job->row};
}

static struct float_pair float_rows(const struct job *job, int32_t y, int32_t k, size_t start) {
  const float *in = (const float *)job->in + start;
  return (struct float_pair){in + (size_t)border_reflect(y - k, job->height) * job->row,
                             in + (size_t)border_reflect(y + k, job->height) * job->row};
}

/* Sums a block of the rows around row y into `sum`. */
static void down_bytes(const struct job *job, int32_t y, size_t start, size_t count, float *sum) {
  const float *weights = job->weights->at;
  int32_t radius = (int32_t)job->constants->radius;
  int32_t k = 1;
  begin_bytes((const uint8_t *)job->in + (size_t)y * job->row + start, weights[0], count, sum);
  for (; k < radius; k += 2) {
    add_bytes_twice(byte_rows(job, y, k, start), byte_rows(job, y, k + 1, start), weights + k, count, sum);
  }
  if (k == radius) {
    add_bytes(byte_rows(job, y, k, start), weights[k], count, sum);
  }
}

static void down_floats(const struct job *job, int32_t y, size_t start, size_t count, float *sum) {
  const float *weights = job->weights->at;
  int32_t radius = (int32_t)job->constants->radius;
  int32_t k = 1;
  begin_floats((const float *)job->in + (size_t)y * job->row + start, weights[0], count, sum);
  for (; k < radius; k += 2) {
    add_floats_twice(float_rows(job, y, k, start), float_rows(job, y, k + 1, start), weights + k, count, sum);
  }
  if (k == radius) {
    add_floats(float_rows(job, y, k, start), weights[k], count, sum);
  }
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
  const float *weights = job->weights->at;
  size_t step = job->constants->channels;
  size_t k = 1;
  begin_floats(middle, weights[0], count, sum);
  for (; k < job->constants->radius; k += 2) {
    add_floats_twice((struct float_pair){middle - k * step, middle + k * step},
                     (struct float_pair){middle - (k + 1) * step, middle + (k + 1) * step}, weights + k, count, sum);
  }
  if (k == job->constants->radius) {
    add_floats((struct float_pair){middle - k * step, middle + k * step}, weights[k], count, sum);
  }
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
    .name = "blur",
    .help = "Smooths with a Gaussian; takes gray, rgb24, bgr24 and grayf32le, and keeps the format.",
    .parameters = parameters,
    .parameter_count = STAGE_PARAMETER_COUNT(parameters),
    .prepare = prepare,
    .run = run,
    .enqueue = STAGE_ENQUEUE(blur_enqueue),
};
