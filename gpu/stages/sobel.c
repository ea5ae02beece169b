/* sobel: descriptor and CPU loop. Rows are computed between their ends, which see the mirror image, in one loop. */
#include "gpu/stages/sobel.h"
#include "gpu/stages/border.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.pixels != PIXELS_GRAY && plan->input.pixels != PIXELS_GRAYF32LE) {
    return stage_refuse(plan, problem, "gray and grayf32le", "put `convert: {to: gray}` before it");
  }
  struct sobel_constants constants = {(int32_t)values[SOBEL_OUTPUT].numbers[0], (float)values[SOBEL_SCALE].numbers[0]};
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

/* -- one row of bytes, and the same of floats --------------------------------------------------------------------- */

/* Row above, row itself, row below. */
struct byte_rows {
  const uint8_t *up, *middle, *down;
};

struct float_rows {
  const float *up, *middle, *down;
};

static inline uint8_t byte_at(struct byte_rows r, size_t left, size_t x, size_t right, int32_t output, float scale) {
  int32_t across = (r.up[right] - r.up[left]) + 2 * (r.middle[right] - r.middle[left]) + (r.down[right] - r.down[left]);
  int32_t down = (r.down[left] - r.up[left]) + 2 * (r.down[x] - r.up[x]) + (r.down[right] - r.up[right]);
  return sobel_byte(output, scale, (float)across, (float)down);
}

static inline float float_at(struct float_rows r, size_t left, size_t x, size_t right, int32_t output, float scale) {
  float across = sobel_component(r.up[right] - r.up[left], r.middle[right] - r.middle[left], r.down[right] - r.down[left]);
  float down = sobel_component(r.down[left] - r.up[left], r.down[x] - r.up[x], r.down[right] - r.up[right]);
  return sobel_float(output, scale, across, down);
}

/* One loop for each output, all that is known beforehand being settled outside it. */
#define INNER_LOOP(name, rows, sample, at, output)                                                                             \
  STAGE_VECTOR static void name(struct rows r, size_t width, float scale, sample *restrict out) {                              \
    for (size_t x = 1; x + 1 < width; x++) {                                                                                   \
      out[x] = at(r, x - 1, x, x + 1, output, scale);                                                                          \
    }                                                                                                                          \
  }

INNER_LOOP(bytes_magnitude, byte_rows, uint8_t, byte_at, SOBEL_MAGNITUDE)
INNER_LOOP(bytes_x, byte_rows, uint8_t, byte_at, SOBEL_X)
INNER_LOOP(bytes_y, byte_rows, uint8_t, byte_at, SOBEL_Y)
INNER_LOOP(floats_magnitude, float_rows, float, float_at, SOBEL_MAGNITUDE)
INNER_LOOP(floats_x, float_rows, float, float_at, SOBEL_X)
INNER_LOOP(floats_y, float_rows, float, float_at, SOBEL_Y)

static void row_of_bytes(struct byte_rows r, size_t width, struct sobel_constants k, uint8_t *out) {
  static void (*const inner[])(struct byte_rows, size_t, float, uint8_t *restrict) = {bytes_magnitude, bytes_x, bytes_y};
  size_t last = width - 1;
  out[0] = byte_at(r, width > 1, 0, width > 1, k.output, k.scale);
  inner[k.output](r, width, k.scale, out);
  out[last] = byte_at(r, last - (width > 1), last, last - (width > 1), k.output, k.scale);
}

static void row_of_floats(struct float_rows r, size_t width, struct sobel_constants k, float *out) {
  static void (*const inner[])(struct float_rows, size_t, float, float *restrict) = {floats_magnitude, floats_x, floats_y};
  size_t last = width - 1;
  out[0] = float_at(r, width > 1, 0, width > 1, k.output, k.scale);
  inner[k.output](r, width, k.scale, out);
  out[last] = float_at(r, last - (width > 1), last, last - (width > 1), k.output, k.scale);
}

/* -- the stage ---------------------------------------------------------------------------------------------------- */

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct sobel_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  size_t width = plan->input.width;
  int32_t height = (int32_t)plan->input.height;
  for (int32_t y = 0; y < height; y++) {
    size_t up = (size_t)border_reflect(y - 1, height) * width;
    size_t middle = (size_t)y * width;
    size_t down = (size_t)border_reflect(y + 1, height) * width;
    if (plan->input.dtype == ELEMENT_FLOAT32) {
      const float *in = call->input;
      row_of_floats((struct float_rows){in + up, in + middle, in + down}, width, constants, (float *)call->output + middle);
    } else {
      const uint8_t *in = call->input;
      row_of_bytes((struct byte_rows){in + up, in + middle, in + down}, width, constants, (uint8_t *)call->output + middle);
    }
  }
}

const struct stage_descriptor sobel_stage = {
    .about = &sobel_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(sobel_enqueue)};
