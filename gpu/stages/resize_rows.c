/* The loops of `resize` on the CPU; see resize_rows.h. */
#include "gpu/stages/resize_rows.h"
#include "gpu/stages/vector.h"

#include <string.h>

enum { TABLES = 5 };

size_t resize_columns_bytes(size_t samples) { return TABLES * samples * sizeof(uint32_t); }

static void make_nearest(struct resize_columns *columns, const struct resize_plane *plane) {
  uint32_t *entry = columns->first;
  for (uint32_t x = 0; x < plane->width; x++) {
    uint32_t first = resize_nearest(x, plane->in_width, plane->width) * plane->channels;
    for (uint32_t c = 0; c < plane->channels; c++) {
      *entry++ = first + c;
    }
  }
}

static void make_bilinear(struct resize_columns *columns, const struct resize_plane *plane, bool floats) {
  size_t entry = 0;
  for (uint32_t x = 0; x < plane->width; x++) {
    struct resize_pair pair = resize_pair_at(x, plane->in_width, plane->width);
    uint32_t weight = floats ? 0 : resize_weight(pair);
    float part = floats ? resize_weight_float(pair) : 0;
    for (uint32_t c = 0; c < plane->channels; c++, entry++) {
      columns->first[entry] = pair.first * plane->channels + c;
      columns->second[entry] = pair.second * plane->channels + c;
      columns->weight[entry] = weight;
      columns->part[entry] = part;
    }
  }
}

static void make_area(struct resize_columns *columns, const struct resize_plane *plane) {
  for (uint32_t x = 0; x < plane->width; x++) {
    struct resize_span span = resize_span_at(x, plane->in_width, plane->width);
    columns->first[x] = span.first * plane->channels;
    columns->second[x] = span.last * plane->channels;
    columns->part[x] = span.head;
    columns->tail[x] = span.tail;
    columns->body = span.body;
  }
}

void *resize_columns_make(struct resize_columns *columns, const struct resize_plane *plane, enum resize_filter filter,
                          bool floats, void *memory) {
  size_t count = (size_t)plane->width * plane->channels;
  uint32_t *words = memory;
  *columns = (struct resize_columns){
      .filter = filter,
      .count = count,
      .first = words,
      .second = words + count,
      .weight = words + 2 * count,
      .part = (float *)(words + 3 * count),
      .tail = (float *)(words + 4 * count),
  };
  if (filter == RESIZE_NEAREST) {
    make_nearest(columns, plane);
  } else if (filter == RESIZE_BILINEAR) {
    make_bilinear(columns, plane, floats);
  } else {
    make_area(columns, plane);
  }
  return words + TABLES * count;
}

/* -- down the columns --------------------------------------------------------------------------------------------- */

STAGE_VECTOR static void mix_rows(const uint8_t *restrict upper, const uint8_t *restrict lower, uint32_t weight, size_t count,
                                  uint32_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = resize_mix_rows(upper[i], lower[i], weight);
  }
}

STAGE_VECTOR static void mix_rows_of_floats(const float *restrict upper, const float *restrict lower, float weight,
                                            size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = resize_mix_floats(upper[i], lower[i], weight);
  }
}

STAGE_VECTOR static void begin_row(const uint8_t *restrict in, float weight, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (float)in[i] * weight;
  }
}

STAGE_VECTOR static void add_row(const uint8_t *restrict in, float weight, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] += (float)in[i] * weight;
  }
}

STAGE_VECTOR static void begin_row_of_floats(const float *restrict in, float weight, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = in[i] * weight;
  }
}

STAGE_VECTOR static void add_row_of_floats(const float *restrict in, float weight, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] += in[i] * weight;
  }
}

/* -- along the row ------------------------------------------------------------------------------------------------ */

STAGE_VECTOR static void pick(const uint8_t *restrict in, const uint32_t *restrict first, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = in[first[i]];
  }
}

STAGE_VECTOR static void pick_floats(const float *restrict in, const uint32_t *restrict first, size_t count,
                                     float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = in[first[i]];
  }
}

STAGE_VECTOR static void mix_columns(const uint32_t *restrict mixed, const uint32_t *restrict first,
                                     const uint32_t *restrict second, const uint32_t *restrict weight, size_t count,
                                     uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = resize_mix_columns(mixed[first[i]], mixed[second[i]], weight[i]);
  }
}

STAGE_VECTOR static void mix_columns_of_floats(const float *restrict mixed, const uint32_t *restrict first,
                                               const uint32_t *restrict second, const float *restrict part, size_t count,
                                               float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = resize_mix_floats(mixed[first[i]], mixed[second[i]], part[i]);
  }
}

/* Entry x of the table applied to the channel that `mixed` begins with. */
static inline float average(const float *mixed, const struct resize_columns *columns, size_t x, size_t channels) {
  uint32_t first = columns->first[x];
  uint32_t last = columns->second[x];
  float sum = mixed[first] * columns->part[x];
  for (size_t i = first + channels; i < last; i += channels) {
    sum += mixed[i] * columns->body;
  }
  return first == last ? sum : sum + mixed[last] * columns->tail[x];
}

/* -- one row ------------------------------------------------------------------------------------------------------ */

static void bilinear_bytes(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y,
                           const uint8_t *in, uint32_t *mixed, uint8_t *out) {
  size_t row = (size_t)plane->in_width * plane->channels;
  struct resize_pair pair = resize_pair_at(y, plane->in_height, plane->height);
  mix_rows(in + pair.first * row, in + pair.second * row, resize_weight(pair), row, mixed);
  mix_columns(mixed, columns->first, columns->second, columns->weight, columns->count, out);
}

static void area_bytes(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const uint8_t *in,
                       float *mixed, uint8_t *out) {
  size_t row = (size_t)plane->in_width * plane->channels;
  struct resize_span span = resize_span_at(y, plane->in_height, plane->height);
  begin_row(in + span.first * row, span.head, row, mixed);
  for (uint32_t i = span.first + 1; i <= span.last; i++) {
    add_row(in + i * row, resize_span_weight(&span, i), row, mixed);
  }
  for (size_t x = 0; x < plane->width; x++) {
    for (size_t c = 0; c < plane->channels; c++) {
      *out++ = arithmetic_level(average(mixed + c, columns, x, plane->channels));
    }
  }
}

void resize_row_of_bytes(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const uint8_t *in,
                         void *mixed, uint8_t *out) {
  if (columns->filter == RESIZE_BILINEAR) {
    bilinear_bytes(plane, columns, y, in, mixed, out);
  } else if (columns->filter == RESIZE_AREA) {
    area_bytes(plane, columns, y, in, mixed, out);
  } else {
    size_t row = (size_t)plane->in_width * plane->channels;
    pick(in + resize_nearest(y, plane->in_height, plane->height) * row, columns->first, columns->count, out);
  }
}

static void bilinear_floats(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const float *in,
                            float *mixed, float *out) {
  size_t row = (size_t)plane->in_width * plane->channels;
  struct resize_pair pair = resize_pair_at(y, plane->in_height, plane->height);
  mix_rows_of_floats(in + pair.first * row, in + pair.second * row, resize_weight_float(pair), row, mixed);
  mix_columns_of_floats(mixed, columns->first, columns->second, columns->part, columns->count, out);
}

static void area_floats(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const float *in,
                        float *mixed, float *out) {
  size_t row = (size_t)plane->in_width * plane->channels;
  struct resize_span span = resize_span_at(y, plane->in_height, plane->height);
  begin_row_of_floats(in + span.first * row, span.head, row, mixed);
  for (uint32_t i = span.first + 1; i <= span.last; i++) {
    add_row_of_floats(in + i * row, resize_span_weight(&span, i), row, mixed);
  }
  for (size_t x = 0; x < plane->width; x++) {
    out[x] = average(mixed, columns, x, 1);
  }
}

void resize_row_of_floats(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const float *in,
                          void *mixed, float *out) {
  if (columns->filter == RESIZE_BILINEAR) {
    bilinear_floats(plane, columns, y, in, mixed, out);
  } else if (columns->filter == RESIZE_AREA) {
    area_floats(plane, columns, y, in, mixed, out);
  } else {
    size_t row = (size_t)plane->in_width * plane->channels;
    pick_floats(in + resize_nearest(y, plane->in_height, plane->height) * row, columns->first, columns->count, out);
  }
}
