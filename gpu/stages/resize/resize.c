/*
 * resize: descriptor, and the CPU loop over planes and rows; resize_rows.c has the loops along a row.
 *
 * What depends on the column alone is laid down in a table once a frame, in scratch memory: it costs one row, and
 * needs no memory that outlives the call. Every filter works down the columns first (resize.h), which here means
 * whole rows of the source, and then along the row through the table.
 */
#include "gpu/stages/prepare.h"
#include "gpu/stages/resize/resize_rows.h"

#include <string.h>

enum { VIDEO_BLACK = 16, NO_COLOUR = 128 };

/* -- geometry ----------------------------------------------------------------------------------------------------- */

static uint32_t proportional(uint32_t side, uint32_t in, uint32_t out) {
  uint64_t result = ((uint64_t)side * out + in / 2) / in;
  return result > 0 ? (uint32_t)result : 1;
}

/* Where the image goes. It begins at even pixels, so that halved chroma begins at the same place. */
static struct frame_window letterbox(const struct frame_format *in, const struct frame_format *out) {
  struct frame_window window = {.width = out->width, .height = out->height};
  if ((uint64_t)in->width * out->height < (uint64_t)in->height * out->width) {
    window.width = proportional(in->width, in->height, out->height);
  } else {
    window.height = proportional(in->height, in->width, out->width);
  }
  window.x = (out->width - window.width) / 2 & ~1U;
  window.y = (out->height - window.height) / 2 & ~1U;
  return window;
}

static struct resize_plane full_plane(const struct frame_format *in, const struct frame_format *out,
                                      struct frame_window window) {
  return (struct resize_plane){
      .channels = in->pixels == PIXELS_RGB24 || in->pixels == PIXELS_BGR24 ? 3 : 1,
      .in_width = in->width,
      .in_height = in->height,
      .out_width = out->width,
      .out_height = out->height,
      .x = window.x,
      .y = window.y,
      .width = window.width,
      .height = window.height,
  };
}

static uint32_t half(uint32_t side) { return (side + 1) / 2; }

/* A plane of chroma beside the plane of luma: half of everything, rounded up. */
static struct resize_plane half_plane(const struct resize_plane *luma, uint32_t channels) {
  return (struct resize_plane){
      .in_offset = (uint64_t)luma->in_width * luma->in_height,
      .out_offset = (uint64_t)luma->out_width * luma->out_height,
      .channels = channels,
      .in_width = half(luma->in_width),
      .in_height = half(luma->in_height),
      .out_width = half(luma->out_width),
      .out_height = half(luma->out_height),
      .x = luma->x / 2,
      .y = luma->y / 2,
      .width = half(luma->width),
      .height = half(luma->height),
      .fill = NO_COLOUR,
  };
}

static void add_chroma(struct resize_constants *constants, bool interleaved) {
  constants->planes = interleaved ? 2 : 3;
  constants->plane[1] = half_plane(&constants->plane[0], interleaved ? 2 : 1);
  constants->plane[2] = constants->plane[1];
  constants->plane[2].in_offset += (uint64_t)constants->plane[1].in_width * constants->plane[1].in_height;
  constants->plane[2].out_offset += (uint64_t)constants->plane[1].out_width * constants->plane[1].out_height;
}

static struct resize_constants make_constants(struct stage_plan *plan, const struct stage_value *values) {
  struct frame_window window = {.width = plan->output.width, .height = plan->output.height};
  if ((enum resize_fit)values[RESIZE_FIT].numbers[0] == RESIZE_LETTERBOX) {
    window = letterbox(&plan->input, &plan->output);
  }
  struct resize_constants constants = {.filter = (uint32_t)values[RESIZE_FILTER].numbers[0], .planes = 1};
  plan->output.view = format_view_in(&plan->input.view, &window, plan->output.width, plan->output.height);
  constants.plane[0] = full_plane(&plan->input, &plan->output, window);
  bool yuv = plan->input.pixels == PIXELS_NV12 || plan->input.pixels == PIXELS_YUV420P;
  double fill = yuv && !values[RESIZE_FILL].given ? VIDEO_BLACK : values[RESIZE_FILL].numbers[0];
  constants.plane[0].fill = (float)(plan->input.dtype == ELEMENT_FLOAT32 ? fill / 255 : fill);
  if (yuv) {
    add_chroma(&constants, plan->input.pixels == PIXELS_NV12);
  }
  return constants;
}

/* What the largest plane takes. */
static size_t scratch_bytes(const struct resize_constants *constants) {
  size_t most = 0;
  for (uint32_t i = 0; i < constants->planes; i++) {
    size_t bytes = resize_columns_bytes(&constants->plane[i]);
    most = bytes > most ? bytes : most;
  }
  return most;
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.pixels == PIXELS_NONE || plan->input.pixels == PIXELS_YUYV422) {
    const char *remedy = plan->input.pixels == PIXELS_NONE ? "put it before the stage that makes a tensor of the image"
                                                           : "put `convert: {to: nv12}` before it";
    return stage_refuse(plan, problem, "gray, rgb24, bgr24, nv12, yuv420p and grayf32le", remedy);
  }
  plan->output =
      format_image(plan->input.pixels, (uint32_t)values[RESIZE_WIDTH].numbers[0], (uint32_t)values[RESIZE_HEIGHT].numbers[0]);
  struct resize_constants constants = make_constants(plan, values);
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->scratch_bytes = scratch_bytes(&constants);
  return stage_fill_sizes(plan, problem);
}

/* -- the stage ---------------------------------------------------------------------------------------------------- */

static void fill(const struct resize_plane *plane, bool floats, void *out, size_t first, size_t count) {
  if (floats) {
    for (size_t i = 0; i < count; i++) {
      ((float *)out)[first + i] = plane->fill;
    }
  } else {
    memset((uint8_t *)out + first, arithmetic_level(plane->fill), count);
  }
}

/* The bars: whole rows above and below, and what stands left and right of the window. */
static void fill_bars(const struct resize_plane *plane, bool floats, void *out) {
  size_t row = (size_t)plane->out_width * plane->channels;
  size_t left = (size_t)plane->x * plane->channels;
  size_t right = left + (size_t)plane->width * plane->channels;
  for (size_t y = 0; y < plane->out_height; y++) {
    size_t start = plane->out_offset + y * row;
    if (y < plane->y || y >= (size_t)plane->y + plane->height) {
      fill(plane, floats, out, start, row);
    } else {
      fill(plane, floats, out, start, left);
      fill(plane, floats, out, start + right, row - right);
    }
  }
}

static void run_plane(const struct resize_plane *plane, enum resize_filter filter, bool floats, const struct stage_call *call) {
  struct resize_columns columns;
  filter = !floats && resize_averages(filter, plane) ? RESIZE_AREA : filter; /* which is faster */
  size_t row = (size_t)plane->out_width * plane->channels;
  size_t start = plane->out_offset + plane->y * row + (size_t)plane->x * plane->channels;
  void *mixed = resize_columns_make(&columns, plane, filter, floats, call->scratch);
  for (uint32_t y = 0; y < plane->height; y++) {
    if (floats) {
      const float *in = (const float *)call->input + plane->in_offset;
      resize_row_of_floats(plane, &columns, y, in, mixed, (float *)call->output + start + y * row);
    } else {
      const uint8_t *in = (const uint8_t *)call->input + plane->in_offset;
      resize_row_of_bytes(plane, &columns, y, in, mixed, (uint8_t *)call->output + start + y * row);
    }
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct resize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  bool floats = plan->input.dtype == ELEMENT_FLOAT32;
  if (resize_keeps(&constants.plane[0])) {
    memcpy(call->output, call->input, plan->input_bytes);
    return;
  }
  for (uint32_t i = 0; i < constants.planes; i++) {
    fill_bars(&constants.plane[i], floats, call->output);
    run_plane(&constants.plane[i], (enum resize_filter)constants.filter, floats, call);
  }
}

const struct stage_descriptor resize_stage = {
    .about = &resize_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(resize_enqueue)};
