/* The loops of `resize` on the CPU; see resize_rows.h. */
#include "gpu/stages/resize/resize_rows.h"
#include "gpu/stages/vector.h"

#include <string.h>

enum { TABLES = 1 + RESIZE_TAPS };

/* Samples of a row of the source, and room behind it for what the last entries of a table multiply with 0. */
static size_t mixed_samples(const struct resize_plane *plane) {
  return ((size_t)plane->in_width + RESIZE_TAPS) * plane->channels;
}

size_t resize_columns_bytes(const struct resize_plane *plane) {
  size_t table = TABLES * (size_t)plane->width * plane->channels * sizeof(uint32_t);
  return table + mixed_samples(plane) * (sizeof(uint32_t) + sizeof(uint16_t));
}

static void make_nearest(struct resize_columns *columns, const struct resize_plane *plane) {
  int32_t *entry = columns->first;
  for (uint32_t x = 0; x < plane->width; x++) {
    uint32_t first = resize_nearest(x, plane->in_width, plane->width) * plane->channels;
    for (uint32_t c = 0; c < plane->channels; c++) {
      *entry++ = (int32_t)(first + c);
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
      columns->first[entry] = (int32_t)(pair.first * plane->channels + c);
      columns->second[entry] = (int32_t)(pair.second * plane->channels + c);
      columns->weight[entry] = weight;
      columns->part[entry] = part;
    }
  }
}

static uint32_t longest_span(const struct resize_plane *plane) {
  uint32_t longest = 0;
  for (uint32_t x = 0; x < plane->width; x++) {
    struct resize_span span = resize_span_at(x, plane->in_width, plane->width);
    longest = span.last - span.first >= longest ? span.last - span.first + 1 : longest;
  }
  return longest;
}

/* A weight for each of the longest span's samples; shorter spans have 0 behind their end. */
static void make_short_spans(struct resize_columns *columns, const struct resize_plane *plane) {
  size_t entry = 0;
  for (uint32_t x = 0; x < plane->width; x++) {
    struct resize_span span = resize_span_at(x, plane->in_width, plane->width);
    for (uint32_t c = 0; c < plane->channels; c++, entry++) {
      columns->first[entry] = (int32_t)(span.first * plane->channels + c);
      for (uint32_t i = 0; i < RESIZE_TAPS; i++) {
        columns->tap[i][entry] = span.first + i <= span.last ? resize_span_weight(&span, span.first + i) : 0;
      }
    }
  }
}

static void make_long_spans(struct resize_columns *columns, const struct resize_plane *plane) {
  for (uint32_t x = 0; x < plane->width; x++) {
    struct resize_span span = resize_span_at(x, plane->in_width, plane->width);
    columns->first[x] = (int32_t)(span.first * plane->channels);
    columns->second[x] = (int32_t)(span.last * plane->channels);
    columns->part[x] = span.head;
    columns->tail[x] = span.tail;
    columns->body = span.body;
  }
}

void *resize_columns_make(struct resize_columns *columns, const struct resize_plane *plane, enum resize_filter filter,
                          bool floats, void *memory) {
  size_t count = (size_t)plane->width * plane->channels;
  int32_t *words = memory;
  float *numbers = memory;
  void *mixed = words + TABLES * count;
  *columns = (struct resize_columns){
      .filter = filter,
      .count = count,
      .first = words,
      .second = words + count,
      .weight = (uint32_t *)memory + 2 * count,
      .part = numbers + 3 * count,
      .tail = numbers + 4 * count,
      .tap = {numbers + count, numbers + 2 * count, numbers + 3 * count, numbers + 4 * count},
  };
  uint32_t longest = filter == RESIZE_AREA ? longest_span(plane) : 0;
  if (filter == RESIZE_NEAREST) {
    make_nearest(columns, plane);
  } else if (filter == RESIZE_BILINEAR) {
    make_bilinear(columns, plane, floats);
  } else if (!floats && longest <= RESIZE_TAPS) {
    columns->taps = longest;
    make_short_spans(columns, plane);
    memset(mixed, 0, mixed_samples(plane) * sizeof(float));
  } else {
    make_long_spans(columns, plane);
  }
  return mixed;
}

/* -- down the columns --------------------------------------------------------------------------------------------- */

STAGE_VECTOR static void mix_rows(const uint8_t *restrict upper, const uint8_t *restrict lower, uint32_t weight, size_t count,
                                  uint16_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (uint16_t)resize_mix_rows(upper[i], lower[i], weight);
  }
}

STAGE_VECTOR static void mix_rows_of_floats(const float *restrict upper, const float *restrict lower, float weight,
                                            size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = resize_mix_floats(upper[i], lower[i], weight);
  }
}

/* Each sample and the one `step` after it in one word, so that both are fetched at once. */
STAGE_VECTOR static void pair_up(const uint16_t *restrict mixed, size_t step, size_t count, uint32_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = mixed[i] | (uint32_t)mixed[i + step] << 16;
  }
}

STAGE_VECTOR static void begin_row(const uint8_t *restrict in, float weight, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (float)in[i] * weight;
  }
}

/* Two rows at once spare half of the traffic of the sums. */
STAGE_VECTOR static void begin_two_rows(const uint8_t *restrict a, float first, const uint8_t *restrict b, float second,
                                        size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (float)a[i] * first + (float)b[i] * second;
  }
}

STAGE_VECTOR static void add_row(const uint8_t *restrict in, float weight, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] += (float)in[i] * weight;
  }
}

STAGE_VECTOR static void add_two_rows(const uint8_t *restrict a, float first, const uint8_t *restrict b, float second,
                                      size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (out[i] + (float)a[i] * first) + (float)b[i] * second;
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

/* The same in whole numbers, where all weights are equal. */
STAGE_VECTOR static void begin_sums(const uint8_t *restrict a, const uint8_t *restrict b, size_t count,
                                    uint16_t *restrict sum) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = (uint16_t)(a[i] + b[i]);
  }
}

STAGE_VECTOR static void add_sums(const uint8_t *restrict a, const uint8_t *restrict b, size_t count, uint16_t *restrict sum) {
  for (size_t i = 0; i < count; i++) {
    sum[i] = (uint16_t)(sum[i] + a[i] + b[i]);
  }
}

/* -- along the row ------------------------------------------------------------------------------------------------ */

STAGE_VECTOR static void pick(const uint8_t *restrict in, const int32_t *restrict first, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = in[first[i]];
  }
}

STAGE_VECTOR static void pick_floats(const float *restrict in, const int32_t *restrict first, size_t count,
                                     float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = in[first[i]];
  }
}

STAGE_VECTOR static void mix_columns(const uint32_t *restrict pairs, const int32_t *restrict first,
                                     const uint32_t *restrict weight, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    uint32_t pair = pairs[first[i]];
    out[i] = resize_mix_columns(pair & 0xffff, pair >> 16, weight[i]);
  }
}

STAGE_VECTOR static void mix_columns_of_floats(const float *restrict mixed, const int32_t *restrict first,
                                               const int32_t *restrict second, const float *restrict part, size_t count,
                                               float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = resize_mix_floats(mixed[first[i]], mixed[second[i]], part[i]);
  }
}

STAGE_VECTOR static void average_of_two(const float *restrict mixed, size_t step, const struct resize_columns *restrict columns,
                                        uint8_t *restrict out) {
  const int32_t *restrict first = columns->first;
  const float *restrict head = columns->tap[0];
  const float *restrict tail = columns->tap[1];
  const float *restrict after = mixed + step;
  for (size_t i = 0; i < columns->count; i++) {
    out[i] = arithmetic_level(mixed[first[i]] * head[i] + after[first[i]] * tail[i]);
  }
}

STAGE_VECTOR static void average_of_four(const float *restrict mixed, size_t step,
                                         const struct resize_columns *restrict columns, uint8_t *restrict out) {
  const int32_t *restrict first = columns->first;
  float *const *tap = columns->tap;
  const float *restrict weights[RESIZE_TAPS] = {tap[0], tap[1], tap[2], tap[3]};
  const float *restrict rest[RESIZE_TAPS] = {mixed, mixed + step, mixed + 2 * step, mixed + 3 * step};
  for (size_t i = 0; i < columns->count; i++) {
    float sum = rest[0][first[i]] * weights[0][i] + rest[1][first[i]] * weights[1][i];
    out[i] = arithmetic_level((sum + rest[2][first[i]] * weights[2][i]) + rest[3][first[i]] * weights[3][i]);
  }
}

/* Averages of squares from the sums down their columns; a loop for each side and number of channels. */
#define SQUARE_LOOP(side, channels)                                                                                            \
  STAGE_VECTOR static void average_##side##_##channels(const uint16_t *restrict sum, size_t width, uint8_t *restrict out) {    \
    for (size_t x = 0; x < width; x++) {                                                                                       \
      for (size_t c = 0; c < (channels); c++) {                                                                                \
        uint32_t total = 0;                                                                                                    \
        for (size_t i = 0; i < (side); i++) {                                                                                  \
          total += sum[(x * (side) + i) * (channels) + c];                                                                     \
        }                                                                                                                      \
        out[x * (channels) + c] = resize_square_average(total, side);                                                          \
      }                                                                                                                        \
    }                                                                                                                          \
  }

SQUARE_LOOP(2, 1)
SQUARE_LOOP(2, 2)
SQUARE_LOOP(2, 3)
SQUARE_LOOP(4, 1)
SQUARE_LOOP(4, 2)
SQUARE_LOOP(4, 3)
SQUARE_LOOP(8, 1)
SQUARE_LOOP(8, 2)
SQUARE_LOOP(8, 3)

/* Entry x of the table of long spans applied to the channel that `mixed` begins with. */
static inline float average(const float *mixed, const struct resize_columns *columns, size_t x, size_t channels) {
  size_t first = (size_t)columns->first[x];
  size_t last = (size_t)columns->second[x];
  float sum = mixed[first] * columns->part[x];
  for (size_t i = first + channels; i < last; i += channels) {
    sum += mixed[i] * columns->body;
  }
  return first == last ? sum : sum + mixed[last] * columns->tail[x];
}

/* -- one row ------------------------------------------------------------------------------------------------------ */

static void bilinear_bytes(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y,
                           const uint8_t *in, uint32_t *pairs, uint8_t *out) {
  size_t row = (size_t)plane->in_width * plane->channels;
  uint16_t *mixed = (uint16_t *)(pairs + mixed_samples(plane));
  struct resize_pair pair = resize_pair_at(y, plane->in_height, plane->height);
  mix_rows(in + pair.first * row, in + pair.second * row, resize_weight(pair), row, mixed);
  memcpy(mixed + row, mixed + row - plane->channels, plane->channels * sizeof *mixed);
  pair_up(mixed, plane->channels, row, pairs);
  mix_columns(pairs, columns->first, columns->weight, columns->count, out);
}

/* The weighted sum of the rows of a span, in their order. */
static void sum_rows(const struct resize_span *span, const uint8_t *in, size_t row, float *sum) {
  uint32_t i = span->first + 2;
  if (span->first == span->last) {
    begin_row(in + span->first * row, span->head, row, sum);
    return;
  }
  begin_two_rows(in + span->first * row, span->head, in + (i - 1) * row, resize_span_weight(span, i - 1), row, sum);
  for (; i + 1 <= span->last; i += 2) {
    add_two_rows(in + i * row, span->body, in + (i + 1) * row, resize_span_weight(span, i + 1), row, sum);
  }
  if (i == span->last) {
    add_row(in + i * row, span->tail, row, sum);
  }
}

static void squares(const struct resize_plane *plane, uint32_t side, uint32_t y, const uint8_t *in, uint16_t *sum,
                    uint8_t *out) {
  static void (*const average[][3])(const uint16_t *restrict, size_t,
                                    uint8_t *restrict) = {{average_2_1, average_2_2, average_2_3},
                                                          {average_4_1, average_4_2, average_4_3},
                                                          {average_8_1, average_8_2, average_8_3}};
  size_t row = (size_t)plane->in_width * plane->channels;
  const uint8_t *top = in + (size_t)y * side * row;
  begin_sums(top, top + row, row, sum);
  for (uint32_t i = 2; i < side; i += 2) {
    add_sums(top + i * row, top + (i + 1) * row, row, sum);
  }
  average[side / 4][plane->channels - 1](sum, plane->width, out);
}

static void area_bytes(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const uint8_t *in,
                       float *mixed, uint8_t *out) {
  uint32_t side = resize_square(plane);
  if (side > 0) {
    squares(plane, side, y, in, (uint16_t *)mixed, out);
    return;
  }
  struct resize_span span = resize_span_at(y, plane->in_height, plane->height);
  sum_rows(&span, in, (size_t)plane->in_width * plane->channels, mixed);
  if (columns->taps > 0 && columns->taps <= 2) {
    average_of_two(mixed, plane->channels, columns, out);
    return;
  }
  if (columns->taps > 2) {
    average_of_four(mixed, plane->channels, columns, out);
    return;
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
