/*
 * What the kernel of blur_walk.cu is made of: shapes, products, the share of the work that a block has, rows that arrive in
 * shared memory, weights, and both passes over 32 columns.
 *
 * A block makes some times 16 rows and walks along them, 32 columns a step. Its rows are under way to shared memory in slabs of
 * SLAB columns meanwhile. Each warp keeps what the last columns summed up to in registers, so that nothing is made twice but
 * the columns before the first results. Columns are samples, whatever their channel.
 *
 * Sums are products on the units that multiply matrices. Samples and the columns' sums are whole numbers below 2048: as 16 bit
 * floats they are multiples of the smallest one, with the number's own bits. Weights are also such floats, with a scale that
 * makes the results of both passes 16 bit floats' own bits. Sums of 24 bits are 32 bit floats.
 *
 * The instructions are there from compute capability 8.0 on. All rows are multiples of CHUNK bytes, and all offsets within an
 * image fit in 32 bits.
 */
#ifndef FRAMED_GPU_STAGES_BLUR_WALK_CUH
#define FRAMED_GPU_STAGES_BLUR_WALK_CUH

#include "gpu/stages/async.cuh"
#include "gpu/stages/blur/blur.cuh"

namespace {

enum {
  GROUP = 16, /* rows that one product sums up, and that it makes */
  CHUNK = 16, /* columns that one product sums up, and bytes that arrive together */
  STEP = 32,  /* columns that a warp makes at a time */
  SLAB = 64,  /* columns that arrive together */
  STEPS = SLAB / STEP,
  WORD = 4
};

/* Spans are the groups of rows that sums of 16 rows need, Chunks those of columns that a result needs; Stages slabs are in
 * shared memory, and AtOnce blocks on a processor. */
template <int Spans, int Chunks, int Warps, int Stages, int AtOnce> struct walk_shape {
  static constexpr int spans = Spans, chunks = Chunks, stages = Stages, at_once = AtOnce;
  static constexpr int threads = Warps * LAUNCH_WARP;
  static constexpr int above = GROUP / 2 * (Spans - 1);
  static constexpr int beside = CHUNK / 2 * (Chunks - 1);
  static constexpr int reach(int channels) { return above * channels < beside ? above : beside / channels; } /* pixels */

  /* Results are so far behind the columns that arrived; where that can be whole steps, they wait for them. */
  static constexpr int delay = Chunks % 2 == 0 ? 0 : (Chunks - 1) / 2 % 2;
  static constexpr int lag = beside + CHUNK * delay;
  static constexpr int skew = lag % STEP;
  static constexpr int warm = (Chunks + delay) / 2; /* steps before the first results */
  static constexpr int window = Chunks + 1 + delay; /* chunks that are kept */

  /* Shared memory. A thread brings one chunk of rows that are `apart`. */
  static constexpr int made_rows = GROUP * Warps;
  static constexpr int rows = made_rows + 2 * above;
  static constexpr int pitch = SLAB + CHUNK; /* so that eight rows' chunks are in different banks */
  static constexpr int stage_bytes = rows * pitch;
  static constexpr int bytes = stage_bytes * Stages;
  static constexpr int row_chunks = SLAB / CHUNK;
  static constexpr int apart = threads / row_chunks;
  static constexpr int fetches = (rows + apart - 1) / apart;
};

/* -- instructions ---------------------------------------------------------------------------------------------------- */

/* From where a lane's row of 16 bytes is: two rows of each of two neighbouring columns, four times. */
__device__ __forceinline__ void load_transposed(uint32_t (&words)[WORD], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void store_word(uint32_t at, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}

/* Whole numbers of the smallest 16 bit float, as the bits of two such floats; what is smaller is cut off. */
__device__ __forceinline__ uint32_t cut_off(float first, float second) {
  uint32_t both;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}

/* -- products --------------------------------------------------------------------------------------------------------- */

/* The first words of a row of `a` and of the row 8 further, then the second words; of a column of `b` both words. */
struct left_factor {
  uint32_t words[2][2];
};
struct right_factor {
  uint32_t words[2];
};

/* Sums of products: 16 rows of `a` with 16 numbers each, of which a thread has four of row lane / 4 and four of the row 8
 * further; 8 columns of `b`, of which it has four numbers of column lane / 4. Of each row it gets two neighbouring sums. Which
 * of the 16 its four are is the caller's choice, as long as both factors have the same. */
struct sums {
  float at[4];

  /* Adds a * b. */
  __device__ __forceinline__ void add(const left_factor &a, const right_factor &b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(at[0]), "+f"(at[1]), "+f"(at[2]), "+f"(at[3])
        : "r"(a.words[0][0]), "r"(a.words[0][1]), "r"(a.words[1][0]), "r"(a.words[1][1]), "r"(b.words[0]), "r"(b.words[1]));
  }
};

/* What sums start from so that cutting them off rounds halves upwards: half of the smallest 16 bit float. */
__device__ __forceinline__ sums begin_sums() {
  constexpr float half = 0.5F / 16777216.0F;
  return {{half, half, half, half}};
}

__device__ __forceinline__ uint32_t join(uint32_t first, uint32_t second) { return __byte_perm(first, second, 0x5410U); }

/* The weights at all distances from -Reach to Reach, in steps of `step` samples, times `scale`. */
template <int Reach> struct band {
  uint16_t at[2 * Reach + 1];

  /* By a block of so many threads. */
  __device__ void fill(const blur_weights &weights, int32_t radius, int32_t step, int32_t threads, float scale) {
    for (int32_t i = threadIdx.x; i < 2 * Reach + 1; i += threads) {
      const int32_t distance = abs(i - Reach);
      const float weight = distance % step == 0 && distance / step <= radius ? weights.at[distance / step] * BLUR_UNIT : 0;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(at[i]) : "f"(weight * scale));
    }
  }
};

/* -- the work -------------------------------------------------------------------------------------------------------- */

/* Bands of made_rows rows have so many slabs each. A block does `share` of them, in one band where that is cut in segments, or
 * else of all bands one after another. */
struct walk_work {
  int32_t slabs, share, segments;
};

/* The part of a block's share that lies in one band. Slabs begin at their multiples, so that whole lines arrive: before the
 * columns that are needed there may be steps that are not. */
struct walk_piece {
  int32_t top, first, length; /* results */
  int32_t begin;              /* of the first slab */
  int32_t lead, warm, steps;  /* first step that is done, first that has results, and how many there are */
  int32_t slabs;

  /* `count` slabs of results, of which `at` is the first of all. */
  template <typename Shape>
  __device__ __forceinline__ void aim(const blur_geometry &image, const walk_work &work, int32_t at, int32_t count) {
    top = at / work.slabs * Shape::made_rows;
    first = at % work.slabs * SLAB - Shape::skew;
    length = count * SLAB;
    const int32_t need = first + Shape::lag - STEP * Shape::warm;
    begin = (need + GROUP * SLAB) / SLAB * SLAB - GROUP * SLAB; /* so that division rounds down */
    lead = (need - begin) / STEP;
    warm = Shape::warm + lead;
    steps = warm + min(length, (image.row() - first + STEP - 1) / STEP * STEP) / STEP;
    slabs = (steps + STEPS - 1) / STEPS;
  }
};

/* -- the source ------------------------------------------------------------------------------------------------------ */

__device__ __forceinline__ int32_t reflect_sample(const blur_geometry &image, int32_t index) {
  const int32_t shift = 2 * BLUR_MAX_RADIUS * image.channels; /* so that division rounds down */
  const int32_t pixel = (index + shift) / image.channels - shift / image.channels;
  return border_reflect(pixel, image.width) * image.channels + (index + shift) % image.channels;
}

/* A thread's part of what arrives. */
template <typename Shape> struct arrivals {
  const uint8_t *in;
  int32_t row, x; /* of the slab */
  uint32_t to;    /* in shared memory */
  uint32_t from[Shape::fetches];

  __device__ __forceinline__ arrivals(const uint8_t *in, uint32_t base)
      : in(in), row(int32_t(threadIdx.x) / Shape::row_chunks), x(int32_t(threadIdx.x) % Shape::row_chunks * CHUNK),
        to(base + uint32_t(row * Shape::pitch + x)) {}

  __device__ __forceinline__ bool is_there(int i) const {
    return (i + 1) * Shape::apart <= Shape::rows || row + i * Shape::apart < Shape::rows;
  }
  __device__ __forceinline__ void aim(const blur_geometry &image, const walk_piece &piece) {
#pragma unroll
    for (int i = 0; i < Shape::fetches; i++) {
      const int32_t y = piece.top - Shape::above + row + i * Shape::apart;
      from[i] = uint32_t(border_reflect(y, image.height)) * uint32_t(image.row()) + uint32_t(x);
    }
  }
  __device__ __forceinline__ void fetch(const blur_geometry &image, const walk_piece &piece, int32_t slab,
                                        int32_t stage) const {
    const int32_t first = piece.begin + slab * SLAB;
    const uint32_t target = to + uint32_t(stage * Shape::stage_bytes);
    if (slab < piece.slabs && first + x >= 0 && first + x + CHUNK <= image.row()) {
#pragma unroll
      for (int i = 0; i < Shape::fetches; i++) {
        if (is_there(i)) {
          async_copy(target + i * Shape::apart * Shape::pitch, in + first + from[i]);
        }
      }
    } else if (slab < piece.slabs && first + x + CHUNK > -Shape::beside && first + x < image.row() + Shape::beside) {
      gather(image, first, target);
    }
    async_commit();
  }
  /* What lies beyond the edges: all samples of all rows are asked for before the first is used, as a whole block waits. */
  __device__ __forceinline__ void gather(const blur_geometry &image, int32_t first, uint32_t target) const {
#pragma unroll
    for (int word = 0; word < CHUNK; word += WORD) {
      uint32_t words[Shape::fetches] = {};
#pragma unroll
      for (int byte = 0; byte < WORD; byte++) {
        const uint8_t *column = in + reflect_sample(image, first + x + word + byte) - x;
#pragma unroll
        for (int i = 0; i < Shape::fetches; i++) {
          words[i] |= uint32_t(column[from[i]]) << (8 * byte);
        }
      }
#pragma unroll
      for (int i = 0; i < Shape::fetches; i++) {
        if (is_there(i)) {
          store_word(target + i * Shape::apart * Shape::pitch + word, words[i]);
        }
      }
    }
  }
};

/* A block's way through its share of the work. */
template <typename Shape> struct walk {
  const blur_geometry &image;
  const walk_work &work;
  int32_t at, end; /* slabs that are left */
  int32_t stage;   /* which arrives next */
  walk_piece piece;
  arrivals<Shape> source;

  __device__ __forceinline__ walk(const uint8_t *in, const blur_geometry &image, const walk_work &work, uint32_t base)
      : image(image), work(work), source(in, base) {
    const int32_t block = int32_t(blockIdx.x);
    const int32_t bands = (image.height + Shape::made_rows - 1) / Shape::made_rows;
    const int32_t band = work.segments > 0 ? block / work.segments : 0;
    at = work.segments > 0 ? band * work.slabs + block % work.segments * work.share : block * work.share;
    end = min(at + work.share, (work.segments > 0 ? band + 1 : bands) * work.slabs);
  }
  /* Goes to the next piece and lets all slabs come but one that there is room for. False if there is none. */
  __device__ __forceinline__ bool next() {
    if (at >= end) {
      return false;
    }
    const int32_t count = min(end - at, work.slabs - at % work.slabs);
    piece.aim<Shape>(image, work, at, count);
    at += count;
    source.aim(image, piece);
    stage = 0;
#pragma unroll 1
    for (int i = 0; i < Shape::stages - 1; i++) {
      source.fetch(image, piece, i, i);
    }
    return true;
  }
  /* Waits for a slab of the piece, lets another come where the one before it was, and returns where it is. */
  __device__ __forceinline__ uint32_t arrive(int32_t slab) {
    async_wait<Shape::stages - 2>();
    __syncthreads();
    source.fetch(image, piece, slab + Shape::stages - 1, stage == 0 ? Shape::stages - 1 : stage - 1);
    const uint32_t offset = uint32_t(stage * Shape::stage_bytes);
    stage = stage + 1 == Shape::stages ? 0 : stage + 1;
    return offset;
  }
  /* After the last one: nobody reads shared memory any more. */
  static __device__ __forceinline__ void leave() {
    async_wait<0>();
    __syncthreads();
  }
};

/* -- both passes ----------------------------------------------------------------------------------------------------- */

/* The weights as both bands have them: what the first makes of bytes are multiples of the smallest float, too, which the second
 * makes samples of. */
template <typename Shape> struct walk_bands {
  band<Shape::above + GROUP> down;
  band<Shape::beside + STEP> along;

  __device__ __forceinline__ void fill(const blur_weights &weights, const blur_geometry &image) {
    down.fill(weights, image.radius, 1, Shape::threads, BLUR_STEP / BLUR_UNIT);
    along.fill(weights, image.radius, image.channels, Shape::threads, 1 / BLUR_STEP / BLUR_UNIT);
  }
};

/* Of a warp: weights, and what the last columns of its rows summed up to, as left factors of 16 columns. */
template <typename Shape> struct passes {
  left_factor down[Shape::spans];
  right_factor along[2][Shape::chunks];
  left_factor window[Shape::window];

  __device__ __forceinline__ passes(const walk_bands<Shape> &bands, int32_t lane) : window{} {
    const int32_t row = lane / 4, fourth = lane % 4;
#pragma unroll
    for (int i = 0; i < Shape::spans * 4; i++) {
      const int32_t distance = i / 4 * GROUP + fourth * 2 + i / 2 % 2 * 8 - Shape::above - row - i % 2 * 8;
      /* Volatile, since else they are read again in each step. */
      const volatile uint16_t *two = bands.down.at + Shape::above + GROUP + distance;
      down[i / 4].words[i / 2 % 2][i % 2] = uint32_t(two[0]) | uint32_t(two[1]) << 16;
    }
#pragma unroll
    for (int i = 0; i < Shape::chunks * 2; i++) {
      const int32_t column = row / 2 * 4 + i % 2 * 2 + row % 2; /* four results of a lane are neighbours */
      const int32_t distance = i / 2 * CHUNK - Shape::beside + fourth * 4 - column;
      const uint16_t *four = bands.along.at + Shape::beside + STEP + distance;
      along[i % 2][i / 2] = {{join(four[0], four[2]), join(four[1], four[3])}};
    }
  }

  /* Sums of 32 columns, which begin at `source`, take the place of the oldest. */
  __device__ __forceinline__ void add_columns(uint32_t source) {
    sums made[4] = {begin_sums(), begin_sums(), begin_sums(), begin_sums()}; /* even and odd columns of 16, then of the next */
#pragma unroll
    for (int span = 0; span < Shape::spans; span++) {
      uint32_t words[WORD];
      load_transposed(words, source + span * GROUP * Shape::pitch);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const uint32_t first = words[2 * half], second = words[2 * half + 1];
        made[2 * half].add(down[span], {{first & 0x00ff00ffU, second & 0x00ff00ffU}});
        made[2 * half + 1].add(down[span], {{__byte_perm(first, 0, 0x4341U), __byte_perm(second, 0, 0x4341U)}});
      }
    }
#pragma unroll
    for (int i = 0; i < Shape::window - 2; i++) {
      window[i] = window[i + 2];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const sums &one = made[i / 2];
      window[Shape::window - 2 + i / 4].words[i / 2 % 2][i % 2] = cut_off(one.at[i % 2 * 2], one.at[i % 2 * 2 + 1]);
    }
  }

  /* Results of 16 rows: of a row and of the one 8 further, four neighbouring samples of 16 columns and of the next 16. */
  __device__ __forceinline__ void make_results(uint32_t (&words)[2][2]) const {
    sums made[4] = {begin_sums(), begin_sums(), begin_sums(), begin_sums()};
#pragma unroll
    for (int chunk = 0; chunk < Shape::chunks; chunk++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        made[i].add(window[chunk + i / 2], along[i % 2][chunk]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float *first = made[i % 2 * 2].at + i / 2 * 2;
      const float *second = made[i % 2 * 2 + 1].at + i / 2 * 2;
      words[i / 2][i % 2] = __byte_perm(cut_off(first[0], first[1]), cut_off(second[0], second[1]), 0x6420U);
    }
  }
};

} // namespace

#endif
