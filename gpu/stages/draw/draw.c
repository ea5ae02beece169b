/* draw: descriptor, and the CPU's way, which draws the worst box first and the best one last. */
#include "gpu/stages/draw/draw.h"
#include "gpu/stages/labels.h"
#include "gpu/stages/prepare.h"

#include <stdio.h>

enum { LINES_OF_TEXT = 35 }; /* that a picture is at least high enough for, before letters grow */

struct colour {
  uint8_t red, green, blue;
};

/* Light enough for black text. */
static const struct colour colours[DRAW_BLACK + 1] = {{64, 224, 96},   {255, 160, 48},  {96, 176, 255},
                                                      {255, 224, 64},  {255, 112, 176}, {64, 224, 224},
                                                      {200, 144, 255}, {200, 232, 64},  [DRAW_BLACK] = {0, 0, 0}};

/* BT.601, as convert has it. */
static uint8_t weigh(struct colour colour, double red, double green, double blue, double offset) {
  return arithmetic_level((float)(colour.red * red + colour.green * green + colour.blue * blue + offset));
}

static void set_colour(enum pixel_format pixels, struct colour colour, uint8_t channels[3]) {
  switch (pixels) {
  case PIXELS_RGB24:
    memcpy(channels, (uint8_t[]){colour.red, colour.green, colour.blue}, 3);
    break;
  case PIXELS_BGR24:
    memcpy(channels, (uint8_t[]){colour.blue, colour.green, colour.red}, 3);
    break;
  case PIXELS_NV12:
  case PIXELS_YUV420P:
    channels[0] = weigh(colour, 0.2568, 0.5041, 0.0979, 16);
    channels[1] = weigh(colour, -0.1482, -0.2910, 0.4392, 128);
    channels[2] = weigh(colour, 0.4392, -0.3678, -0.0714, 128);
    break;
  default:
    channels[0] = weigh(colour, 0.299, 0.587, 0.114, 0);
  }
}

static bool takes_picture(const struct frame_format *source) {
  switch (source->pixels) {
  case PIXELS_GRAY:
  case PIXELS_RGB24:
  case PIXELS_BGR24:
  case PIXELS_NV12:
  case PIXELS_YUV420P:
    return true;
  default:
    return false;
  }
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.meaning != MEANING_BOXES || plan->input.shape[0] > DRAW_MOST) {
    return stage_refuse(plan, problem, "the result of detect", "put `detect` before it");
  }
  if (!takes_picture(&plan->source)) {
    char text[FORMAT_TEXT];
    snprintf(problem, STAGE_TEXT, "draw draws on gray, rgb24, bgr24, nv12 and yuv420p, but the source gives %s",
             format_describe(&plan->source, text));
    return false;
  }
  const uint32_t zoom = plan->source.height / (LINES_OF_TEXT * DRAW_LABEL_HEIGHT);
  struct draw_constants constants = {
      .pixels = (uint32_t)plan->source.pixels,
      .width = plan->source.width,
      .height = plan->source.height,
      .boxes = (uint32_t)plan->input.shape[0],
      .thickness = (uint32_t)values[DRAW_THICKNESS].numbers[0],
      .zoom = zoom > 0 ? zoom : 1,
      .score = (float)values[DRAW_SCORE].numbers[0],
  };
  for (unsigned i = 0; i <= DRAW_BLACK; i++) {
    set_colour(plan->source.pixels, colours[i], constants.colours[i]);
  }
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->output = plan->source;
  plan->takes_source = true;
  plan->scratch_bytes = constants.boxes * sizeof(struct draw_item);
  return stage_fill_sizes(plan, problem) && labels_read(plan, &values[DRAW_LABELS], problem);
}

/* -- drawing ------------------------------------------------------------------------------------------------------- */

struct canvas {
  const struct draw_constants *constants;
  const struct draw_letters *letters;
  uint8_t *picture;
};

static void draw_rows(const struct canvas *canvas, const struct draw_item *item, const struct draw_rectangle *part) {
  for (uint32_t y = part->top; y < part->bottom; y++) {
    for (uint32_t x = part->left; x < part->right; x++) {
      const uint32_t colour = draw_at(canvas->constants, canvas->letters, item, x, y);
      if (colour != DRAW_NOTHING) {
        draw_put(canvas->constants, canvas->picture, x, y, colour);
      }
    }
  }
}

/* The four sides of the outline, which may cover each other, and the label. */
static void draw_item(const struct canvas *canvas, const struct draw_item *item) {
  const struct draw_rectangle *box = &item->box;
  const uint32_t thickness = canvas->constants->thickness;
  const bool is_thin = box->right - box->left <= 2 * thickness || box->bottom - box->top <= 2 * thickness;
  if (box->right <= box->left || box->bottom <= box->top || is_thin) {
    draw_rows(canvas, item, box);
  } else {
    draw_rows(canvas, item, &(struct draw_rectangle){box->left, box->top, box->right, box->top + thickness});
    draw_rows(canvas, item, &(struct draw_rectangle){box->left, box->bottom - thickness, box->right, box->bottom});
    draw_rows(canvas, item, &(struct draw_rectangle){box->left, box->top, box->left + thickness, box->bottom});
    draw_rows(canvas, item, &(struct draw_rectangle){box->right - thickness, box->top, box->right, box->bottom});
  }
  draw_rows(canvas, item, &item->label);
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct draw_constants constants;
  struct draw_letters letters;
  STAGE_GET_CONSTANTS(plan, &constants);
  draw_letters_fill(plan, &letters);
  memcpy(call->output, call->source, plan->output_bytes);
  const struct canvas canvas = {&constants, &letters, call->output};
  for (uint32_t i = constants.boxes; i-- > 0;) {
    const struct draw_item item = draw_item_of(&constants, &letters, (const float *)call->input + (size_t)i * DRAW_ROW);
    draw_item(&canvas, &item);
  }
}

const struct stage_descriptor draw_stage = {
    .about = &draw_about, .prepare = prepare, .release = labels_release, .run = run, .enqueue = STAGE_ENQUEUE(draw_enqueue)};
