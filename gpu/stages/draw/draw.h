/*
 * draw: boxes with their classes and scores, drawn into the picture that came into the pipeline.
 *
 * A box is an outline of `thickness` pixels within its edges, in one of eight colours by its class, and a label in that colour
 * above it, or within it where there is no room above. Better boxes hide worse ones. Chroma of halved planes is that of the
 * upper left pixel of each four.
 */
#ifndef FRAMED_GPU_STAGES_DRAW_DRAW_H
#define FRAMED_GPU_STAGES_DRAW_DRAW_H

#include "gpu/stages/arithmetic.h"

enum {
  DRAW_ROW = 6,     /* of a box: x, y, width, height, score, class */
  DRAW_MOST = 1000, /* boxes */
  DRAW_COLOURS = 8,
  DRAW_BLACK = DRAW_COLOURS, /* of text */
  DRAW_NOTHING,
  DRAW_TEXT = 32, /* letters of a label: a name cut off, a space, and "0.00" */
  DRAW_NUMBER = 5,
  DRAW_NAMES = 256,       /* other classes are shown by their number, as those whose name does not fit below are */
  DRAW_NAMES_TEXT = 2800, /* with the rest it must fit into a kernel's parameters, 4 KiB */
  DRAW_GLYPHS = 64,       /* from the space to the underscore; small letters are shown as capitals */
  DRAW_GLYPH_ROWS = 7,    /* of five pixels each */
  DRAW_GLYPH_COLUMNS = 5,
  DRAW_CELL_WIDTH = 6, /* of a letter, with the gap after it */
  DRAW_LABEL_HEIGHT = 9
};

struct draw_constants {
  uint32_t pixels; /* enum pixel_format */
  uint32_t width, height;
  uint32_t boxes, thickness;
  uint32_t zoom;                      /* side of a letter's pixel */
  float score;                        /* least score of what is drawn */
  uint8_t colours[DRAW_BLACK + 1][3]; /* as the format's channels have them */
};

/* What labels are written with; it goes to a kernel by value. */
struct draw_letters {
  uint32_t count;                  /* of names */
  uint16_t begins[DRAW_NAMES + 1]; /* name i is text[begins[i]] up to text[begins[i + 1]] */
  uint8_t font[DRAW_GLYPHS][DRAW_GLYPH_ROWS];
  char text[DRAW_NAMES_TEXT];
};

/* From left to below right, from top to above bottom. */
struct draw_rectangle {
  uint32_t left, top, right, bottom;
};

struct draw_item {
  struct draw_rectangle box, label;
  uint32_t colour, length;
  char text[DRAW_TEXT];
};

extern const struct stage_descriptor draw_stage;

int draw_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

/* The names of the plan, as far as they fit, and the font. */
void draw_letters_fill(const struct stage_plan *plan, struct draw_letters *letters);

STAGE_INLINE bool draw_is_within(const struct draw_rectangle *rectangle, uint32_t x, uint32_t y) {
  return x >= rectangle->left && x < rectangle->right && y >= rectangle->top && y < rectangle->bottom;
}

/* -- what a box becomes -------------------------------------------------------------------------------------------- */

STAGE_INLINE uint32_t draw_edge(float position, uint32_t limit) {
  return arithmetic_whole(arithmetic_clamp(position, 0.0F, (float)limit) + 0.5F);
}

/* A whole number below 65536 without leading zeros. */
STAGE_INLINE void draw_write_number(struct draw_item *item, uint32_t number) {
  uint32_t unit = 10000;
  while (unit > 1 && number < unit) {
    unit /= 10;
  }
  for (; unit > 0; unit /= 10) {
    item->text[item->length++] = (char)('0' + number / unit % 10);
  }
}

STAGE_INLINE void draw_write_label(struct draw_item *item, const struct draw_letters *letters, uint32_t class_index,
                                   float score) {
  const uint32_t hundredths = arithmetic_whole(arithmetic_clamp(score, 0.0F, 9.99F) * 100.0F + 0.5F);
  item->length = 0;
  if (class_index < letters->count) {
    const uint32_t end = letters->begins[class_index + 1];
    for (uint32_t i = letters->begins[class_index]; i < end && item->length < DRAW_TEXT - DRAW_NUMBER; i++) {
      item->text[item->length++] = letters->text[i];
    }
  } else {
    draw_write_number(item, class_index);
  }
  item->text[item->length++] = ' ';
  item->text[item->length++] = (char)('0' + hundredths / 100);
  item->text[item->length++] = '.';
  item->text[item->length++] = (char)('0' + hundredths / 10 % 10);
  item->text[item->length++] = (char)('0' + hundredths % 10);
}

STAGE_INLINE void draw_place_label(struct draw_item *item, const struct draw_constants *constants) {
  const uint32_t width = (item->length * DRAW_CELL_WIDTH + 1) * constants->zoom;
  const uint32_t height = (uint32_t)DRAW_LABEL_HEIGHT * constants->zoom;
  const struct draw_rectangle *box = &item->box;
  const uint32_t last = constants->width > width ? constants->width - width : 0;
  item->label.left = box->left < last ? box->left : last;
  item->label.top = box->top >= height ? box->top - height : box->top;
  item->label.right = item->label.left + width;
  item->label.bottom = item->label.top + height;
  item->label.right = item->label.right < constants->width ? item->label.right : constants->width;
  item->label.bottom = item->label.bottom < constants->height ? item->label.bottom : constants->height;
}

/* From one row of the result of detect. What is not drawn has no extent. */
STAGE_INLINE struct draw_item draw_item_of(const struct draw_constants *constants, const struct draw_letters *letters,
                                           const float *row) {
  struct draw_item item;
  const uint32_t class_index = arithmetic_whole(arithmetic_clamp(row[5], 0.0F, 65535.0F));
  item.box.left = draw_edge(row[0], constants->width);
  item.box.top = draw_edge(row[1], constants->height);
  item.box.right = draw_edge(row[0] + row[2], constants->width);
  item.box.bottom = draw_edge(row[1] + row[3], constants->height);
  item.colour = class_index % DRAW_COLOURS;
  draw_write_label(&item, letters, class_index, row[4]);
  draw_place_label(&item, constants);
  if (!(row[4] > 0) || row[4] < constants->score) {
    item.box.right = item.box.left;
    item.label.right = item.label.left;
  }
  return item;
}

/* -- what a pixel becomes ------------------------------------------------------------------------------------------ */

STAGE_INLINE uint32_t draw_glyph(char letter) {
  const uint32_t capital = letter >= 'a' && letter <= 'z' ? (uint32_t)(letter - 'a' + 'A') : (uint32_t)(unsigned char)letter;
  return capital >= ' ' && capital <= '_' ? capital - ' ' : '?' - ' ';
}

/* Whether a letter has ink there, in pixels of letters from the corner of the label's first letter. */
STAGE_INLINE bool draw_has_ink(const struct draw_item *item, const struct draw_letters *letters, uint32_t x, uint32_t y) {
  const uint32_t index = x / DRAW_CELL_WIDTH;
  const uint32_t column = x % DRAW_CELL_WIDTH;
  return y < DRAW_GLYPH_ROWS && index < item->length && column < DRAW_GLYPH_COLUMNS &&
         (letters->font[draw_glyph(item->text[index])][y] >> (DRAW_GLYPH_COLUMNS - 1 - column) & 1) != 0;
}

STAGE_INLINE uint32_t draw_label_at(const struct draw_constants *constants, const struct draw_letters *letters,
                                    const struct draw_item *item, uint32_t x, uint32_t y) {
  const uint32_t column = (x - item->label.left) / constants->zoom;
  const uint32_t row = (y - item->label.top) / constants->zoom;
  /* The text has a margin of one pixel on each side. */
  return column > 0 && row > 0 && draw_has_ink(item, letters, column - 1, row - 1) ? (uint32_t)DRAW_BLACK : item->colour;
}

/* Whether a pixel within the box belongs to its outline. */
STAGE_INLINE bool draw_is_outline(const struct draw_constants *constants, const struct draw_rectangle *box, uint32_t x,
                                  uint32_t y) {
  const uint32_t thickness = constants->thickness;
  return x - box->left < thickness || box->right - x <= thickness || y - box->top < thickness || box->bottom - y <= thickness;
}

/* The colour that an item gives a pixel, or DRAW_NOTHING. */
STAGE_INLINE uint32_t draw_at(const struct draw_constants *constants, const struct draw_letters *letters,
                              const struct draw_item *item, uint32_t x, uint32_t y) {
  if (draw_is_within(&item->label, x, y)) {
    return draw_label_at(constants, letters, item, x, y);
  }
  return draw_is_within(&item->box, x, y) && draw_is_outline(constants, &item->box, x, y) ? item->colour
                                                                                          : (uint32_t)DRAW_NOTHING;
}

/* Writes a pixel of a colour. */
STAGE_INLINE void draw_put(const struct draw_constants *constants, uint8_t *picture, uint32_t x, uint32_t y, uint32_t colour) {
  const uint8_t *channels = constants->colours[colour];
  const uint64_t luma = (uint64_t)constants->width * constants->height;
  const uint64_t at = (uint64_t)y * constants->width + x;
  const uint64_t half_width = (constants->width + 1) / 2;
  const uint64_t half_at = (uint64_t)(y / 2) * half_width + x / 2;
  const bool has_chroma = x % 2 == 0 && y % 2 == 0;
  switch (constants->pixels) {
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    picture[3 * at] = channels[0];
    picture[3 * at + 1] = channels[1];
    picture[3 * at + 2] = channels[2];
    break;
  case PIXELS_NV12:
    picture[at] = channels[0];
    if (has_chroma) {
      picture[luma + 2 * half_at] = channels[1];
      picture[luma + 2 * half_at + 1] = channels[2];
    }
    break;
  case PIXELS_YUV420P:
    picture[at] = channels[0];
    if (has_chroma) {
      picture[luma + half_at] = channels[1];
      picture[luma + half_width * ((constants->height + 1) / 2) + half_at] = channels[2];
    }
    break;
  default: /* gray */
    picture[at] = channels[0];
  }
}

#endif
