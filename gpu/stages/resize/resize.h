/*
 * Arithmetic of `resize`: which samples of the source one sample of the result is made of, and how.
 *
 * Pixels are squares: sample x of a row of n covers x/n to (x+1)/n of it, and its centre is half a pixel in, as in
 * OpenCV. On each axis by itself,
 *   nearest   takes the sample that the centre falls into (cv2.INTER_NEAREST_EXACT); between two it takes the first,
 *             where versions of OpenCV differ,
 *   bilinear  mixes the two samples whose centres it falls between, the edge being repeated (cv2.INTER_LINEAR),
 *   area      averages all that it covers, parts of samples counting in part (cv2.INTER_AREA, which does so only where
 *             both sides shrink or both grow).
 * Positions are quotients of whole numbers and so exact. Bilinear bytes are mixed with weights of 1/2048, down the
 * columns to 1/256 of a level, then along the row; averages and floats are formed in single precision, down the columns
 * first, then along the row, each in the order of the samples.
 *
 * No level differs from OpenCV's by more than 1; nor from swscale's (flags `neighbor`, equal; `bilinear` where it enlarges,
 * `area` where it reduces, with `accurate_rnd`), the mean of a picture by no more than 0.2.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_H
#define FRAMED_GPU_STAGES_RESIZE_H

#include "gpu/record/parameters.h"
#include "gpu/stages/arithmetic.h"

enum { RESIZE_ONE = 2048 /* weight of a whole sample */, RESIZE_MAX_PLANES = 3 };

/* One plane of the image: samples of `channels` interleaved, read whole, written into a window of the result. */
struct resize_plane {
  uint64_t in_offset, out_offset; /* samples from the start of the frame */
  uint32_t channels;
  uint32_t in_width, in_height;   /* pixels */
  uint32_t out_width, out_height; /* of the plane with its bars */
  uint32_t x, y, width, height;   /* the window that shows the image */
  float fill;                     /* outside it */
};

struct resize_constants {
  uint32_t filter; /* enum resize_filter */
  uint32_t planes;
  struct resize_plane plane[RESIZE_MAX_PLANES];
};

/* a / b, which for numbers of 32 bits takes a tenth of the time. */
STAGE_INLINE uint64_t resize_quotient(uint64_t a, uint64_t b) { return (a | b) >> 32 == 0 ? (uint32_t)a / (uint32_t)b : a / b; }

STAGE_INLINE uint32_t resize_nearest(uint32_t x, uint32_t in, uint32_t out) {
  return (uint32_t)resize_quotient((2 * (uint64_t)x + 1) * in - 1, 2 * (uint64_t)out);
}

/* Two samples, and the weight of the second, which is part / whole. */
struct resize_pair {
  uint32_t first, second;
  uint64_t part, whole;
};

STAGE_INLINE struct resize_pair resize_pair_at(uint32_t x, uint32_t in, uint32_t out) {
  struct resize_pair pair = {0, 0, 0, 2 * (uint64_t)out};
  uint64_t centre = (2 * (uint64_t)x + 1) * in; /* in units of 1 / whole of a sample */
  if (centre > out) {
    pair.first = (uint32_t)resize_quotient(centre - out, pair.whole);
    pair.part = centre - out - pair.first * pair.whole;
  }
  pair.second = pair.first + 1 < in ? pair.first + 1 : pair.first;
  return pair;
}

/* Weight of the second sample in 1/2048, rounded, and as a float. */
STAGE_INLINE uint32_t resize_weight(struct resize_pair pair) {
  return (uint32_t)resize_quotient(pair.part * RESIZE_ONE + pair.whole / 2, pair.whole);
}
STAGE_INLINE float resize_weight_float(struct resize_pair pair) { return (float)pair.part / (float)pair.whole; }

/* Two rows mixed, in 1/256 of a level, and two columns of that mixed to a level. The weights are 2048 - w and w; so that one
 * product will do, the sum is 2048 times the first sample, and w times what the second is more (or less: it wraps). */
STAGE_INLINE uint32_t resize_mix_rows(uint8_t upper, uint8_t lower, uint32_t weight) {
  return ((uint32_t)upper * RESIZE_ONE + ((uint32_t)lower - upper) * weight + RESIZE_ONE / 512) / (RESIZE_ONE / 256);
}
STAGE_INLINE uint8_t resize_mix_columns(uint32_t left, uint32_t right, uint32_t weight) {
  return (uint8_t)((left * RESIZE_ONE + (right - left) * weight + RESIZE_ONE * 128) / (RESIZE_ONE * 256));
}
STAGE_INLINE float resize_mix_floats(float first, float second, float weight) {
  return first * (1.0F - weight) + second * weight;
}

/* Samples first to last, with the weights of the first, of each between, and of the last where it is another. */
struct resize_span {
  uint32_t first, last;
  float head, body, tail;
};

STAGE_INLINE struct resize_span resize_span_at(uint32_t x, uint32_t in, uint32_t out) {
  uint64_t begin = (uint64_t)x * in; /* in units of 1 / out of a sample */
  uint64_t end = begin + in;
  uint64_t first = resize_quotient(begin, out);
  uint64_t last = resize_quotient(end - 1, out);
  uint64_t head = (first == last ? end : (first + 1) * out) - begin;
  uint64_t tail = end - last * out;
  struct resize_span span = {(uint32_t)first, (uint32_t)last, (float)head / (float)in, (float)out / (float)in,
                             (float)tail / (float)in};
  return span;
}

/* Weight of sample `index` of a span. */
STAGE_INLINE float resize_span_weight(const struct resize_span *span, uint32_t index) {
  return index == span->first ? span->head : index == span->last ? span->tail : span->body;
}

/* The side of the squares of pixels that `area` averages, where it is 2, 4 or 8 and the same everywhere; 0 otherwise. All
 * weights and sums are exact then, so that the average may be formed in whole numbers. */
STAGE_INLINE uint32_t resize_square(const struct resize_plane *plane) {
  for (uint32_t side = 2; side <= 8; side *= 2) {
    if (plane->in_width == (uint64_t)plane->width * side && plane->in_height == (uint64_t)plane->height * side) {
      return side;
    }
  }
  return 0;
}

/* Whether the result is the source. It is copied then, floats too, where a weight of 0 would make NaN of an infinite neighbour.
 */
STAGE_INLINE bool resize_keeps(const struct resize_plane *plane) {
  return plane->in_width == plane->out_width && plane->in_height == plane->out_height && plane->width == plane->out_width &&
         plane->height == plane->out_height;
}

/* Whether a filter gives the averages of such squares: area does; bilinear mixes bytes with weights of one half where it halves
 * both sides, and loses nothing between rows and columns. */
STAGE_INLINE bool resize_averages(uint32_t filter, const struct resize_plane *plane) {
  uint32_t side = resize_square(plane);
  return filter == RESIZE_AREA ? side != 0 : filter == RESIZE_BILINEAR && side == 2;
}

/* The average of side * side bytes from their sum, halves upwards. */
STAGE_INLINE uint8_t resize_square_average(uint32_t sum, uint32_t side) {
  return (uint8_t)((sum + side * side / 2) / (side * side));
}

extern const struct stage_descriptor resize_stage;

int resize_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
