/*
 * What the kernels of blur_walk.cu are made of: shapes, the share of the work that a block has, rows that arrive in shared
 * memory, weights, and both passes over 32 columns.
 *
 * A block makes some times 16 rows and walks along them, 32 columns a step. Its rows are under way to shared memory in slabs of
 * SLAB columns meanwhile. Each warp keeps what the last columns summed up to in registers, so that nothing is made twice but
 * the columns before the first results. What the sums are made of is in blur_products.cuh, except that weights have another
 * scale here: then the results of both passes are 16 bit floats' own bits, two of which are cut off in one instruction. That
 * instruction, and the one that brings rows, are there from compute capability 8.0 on; nothing here is called on older devices.
 *
 * All rows are multiples of CHUNK bytes, and all offsets within an image fit in 32 bits.
 */
#ifndef FRAMED_GPU_STAGES_BLUR_WALK_CUH
#define FRAMED_GPU_STAGES_BLUR_WALK_CUH

#include "gpu/stages/blur/blur_products.cuh"

namespace {

enum {
  GROUP = 16, /* rows that one product sums up, and that it makes */
  CHUNK = 16, /* columns that one product sums up, and bytes that arrive together */
  STEP = 32,  /* columns that a warp makes at a time */
  SLAB = 64,  /* columns that arrive together */
  STEPS = SLAB / STEP,
  WORD = 4
};

/* With one plane, columns are samples, whatever their channel. With three, they are pixels: each warp has one channel. Spans
 * are the groups of rows that sums of 16 rows need, Chunks those of columns that a result needs; Stages slabs are in shared
 * memory, and AtOnce blocks on a processor. */
template <int Planes, int Spans, int Chunks, int Warps, int Stages, int AtOnce> struct walk_shape {
  static_assert(Warps % Planes == 0, "a warp has one channel");
  static constexpr int planes = Planes, spans = Spans, chunks = Chunks, stages = Stages, at_once = AtOnce;
  static constexpr int threads = Warps * LAUNCH_WARP;
  static constexpr int tall = Planes == 1 ? 1 : 2; /* groups of rows that a warp makes */
  static constexpr int above = GROUP / 2 * (Spans - 1);
  static constexpr int beside = CHUNK / 2 * (Chunks - 1);
  static constexpr int reach(int channels) { /* pixels */
    return above * channels < beside || Planes > 1 ? above : beside / channels;
  }

  /* Results are so far behind the columns that arrived; where that can be whole steps, they wait for them. */
  static constexpr int delay = Chunks % 2 == 0 ? 0 : (Chunks - 1) / 2 % 2;
  static constexpr int lag = beside + CHUNK * delay;
  static constexpr int skew = lag % STEP;
  static constexpr int warm = (Chunks + delay) / 2; /* steps before the first results */
  static constexpr int window = Chunks + 1 + delay; /* chunks that are kept */
  static_assert(Planes == 1 || (skew == 0 && above == beside), "slabs of results are put together");

  /* Shared memory: arrivals, and with planes a slab taken apart and the results of one. */
  static constexpr int made_rows = GROUP * tall * Warps / Planes;
  static constexpr int rows = made_rows + 2 * above;
  static constexpr int slab_bytes = SLAB * Planes; /* of a row */
  static constexpr int plane_pitch = SLAB + CHUNK; /* so that eight rows' chunks are in different banks */
  static constexpr int pitch = Planes == 1 ? plane_pitch : slab_bytes;
  static constexpr int stage_bytes = rows * pitch;
  static constexpr int plane_bytes = rows * plane_pitch;
  static constexpr int planes_at = stage_bytes * Stages;
  static constexpr int made_pitch = slab_bytes + CHUNK;
  static constexpr int made_at = planes_at + Planes * plane_bytes;
  static constexpr int bytes = Planes == 1 ? planes_at : made_at + made_rows * made_pitch;

  /* Arrivals: a thread has one chunk of every so manieth row. */
  static constexpr int row_chunks = slab_bytes / CHUNK;
  static constexpr int apart = threads / row_chunks;
  static constexpr int fetches = (rows + apart - 1) / apart;
  static_assert(threads % row_chunks == 0, "each thread has rows");
};

/* -- instructions ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void copy_async(uint32_t to, const uint8_t *from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left> __device__ __forceinline__ void wait_async() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

/* From where a lane's row of 16 bytes is: two rows of each of two neighbouring columns, four times. */
__device__ __forceinline__ void load_transposed(uint32_t (&words)[WORD], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_chunk(uint32_t (&words)[WORD], uint32_t at) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void store_chunk(uint32_t at, const uint32_t (&words)[WORD]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
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
    const int32_t across = Shape::planes == 1 ? image.row() : image.width;
    top = at / work.slabs * Shape::made_rows;
    first = at % work.slabs * SLAB - Shape::skew;
    length = count * SLAB;
    const int32_t need = first + Shape::lag - STEP * Shape::warm;
    begin = (need + GROUP * SLAB) / SLAB * SLAB - GROUP * SLAB; /* so that division rounds down */
    lead = (need - begin) / STEP;
    warm = Shape::warm + lead;
    steps = warm + min(length, (across - first + STEP - 1) / STEP * STEP) / STEP;
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
    const int32_t first = (piece.begin + slab * SLAB) * Shape::planes;
    const uint32_t target = to + uint32_t(stage * Shape::stage_bytes);
    if (slab < piece.slabs && first + x >= 0 && first + x + CHUNK <= image.row()) {
#pragma unroll
      for (int i = 0; i < Shape::fetches; i++) {
        if (is_there(i)) {
          copy_async(target + i * Shape::apart * Shape::pitch, in + first + from[i]);
        }
      }
    } else if (slab < piece.slabs && first + x + CHUNK > -Shape::beside * Shape::planes &&
               first + x < image.row() + Shape::beside * Shape::planes) {
      gather(image, first, target);
    }
    commit_async();
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
    wait_async<Shape::stages - 2>();
    __syncthreads();
    source.fetch(image, piece, slab + Shape::stages - 1, stage == 0 ? Shape::stages - 1 : stage - 1);
    const uint32_t offset = uint32_t(stage * Shape::stage_bytes);
    stage = stage + 1 == Shape::stages ? 0 : stage + 1;
    return offset;
  }
  /* After the last one: nobody reads shared memory any more. */
  static __device__ __forceinline__ void leave() {
    wait_async<0>();
    __syncthreads();
  }
};

/* -- both passes ----------------------------------------------------------------------------------------------------- */

/* The weights as both bands have them: what the first makes of bytes are multiples of the smallest float, too, which the second
 * makes samples of. */
template <typename Shape> struct walk_bands {
  band<Shape::above + GROUP, 1> down;
  band<Shape::beside + STEP, 1> along;

  __device__ __forceinline__ void fill(const blur_weights &weights, const blur_geometry &image) {
    const int32_t apart = Shape::planes == 1 ? image.channels : 1;
    down.fill(weights, image.radius, 1, Shape::threads, BLUR_STEP / BLUR_UNIT);
    along.fill(weights, image.radius, apart, Shape::threads, 1 / BLUR_STEP / BLUR_UNIT);
  }
};

/* Of a warp: weights, and what the last columns of its rows summed up to, as left factors of 16 columns. */
template <typename Shape> struct passes {
  left_factor down[Shape::spans];
  right_factor along[2][Shape::chunks];
  left_factor window[Shape::tall][Shape::window];

  __device__ __forceinline__ passes(const walk_bands<Shape> &bands, int32_t lane) : window{} {
    const int32_t row = lane / 4, fourth = lane % 4;
#pragma unroll
    for (int i = 0; i < Shape::spans * 4; i++) {
      const int32_t distance = i / 4 * GROUP + fourth * 2 + i / 2 % 2 * 8 - Shape::above - row - i % 2 * 8;
      /* Volatile, since else they are read again in each step. */
      const volatile uint16_t *two = bands.down.parts[0] + Shape::above + GROUP + distance;
      down[i / 4].words[i / 2 % 2][i % 2] = uint32_t(two[0]) | uint32_t(two[1]) << 16;
    }
#pragma unroll
    for (int i = 0; i < Shape::chunks * 2; i++) {
      const int32_t column = row / 2 * 4 + i % 2 * 2 + row % 2; /* four results of a lane are neighbours */
      const int32_t distance = i / 2 * CHUNK - Shape::beside + fourth * 4 - column;
      const uint16_t *four = bands.along.parts[0] + Shape::beside + STEP + distance;
      along[i % 2][i / 2] = {{join(four[0], four[2]), join(four[1], four[3])}};
    }
  }

  /* Sums of 32 columns, which begin at `source`, take the place of the oldest. */
  __device__ __forceinline__ void add_columns(uint32_t source) {
    sums made[Shape::tall][4]; /* even and odd columns of 16, then of the next */
#pragma unroll
    for (int span = 0; span < Shape::spans + Shape::tall - 1; span++) {
      uint32_t words[WORD];
      load_transposed(words, source + span * GROUP * Shape::plane_pitch);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const uint32_t first = words[2 * half], second = words[2 * half + 1];
        const right_factor even = {{first & 0x00ff00ffU, second & 0x00ff00ffU}};
        const right_factor odd = {{__byte_perm(first, 0, 0x4341U), __byte_perm(second, 0, 0x4341U)}};
#pragma unroll
        for (int v = 0; v < Shape::tall; v++) {
          if (span >= v && span - v < Shape::spans) {
            made[v][2 * half].make(span == v ? begin_sums<1>() : made[v][2 * half], down[span - v], even);
            made[v][2 * half + 1].make(span == v ? begin_sums<1>() : made[v][2 * half + 1], down[span - v], odd);
          }
        }
      }
    }
#pragma unroll
    for (int v = 0; v < Shape::tall; v++) {
#pragma unroll
      for (int i = 0; i < Shape::window - 2; i++) {
        window[v][i] = window[v][i + 2];
      }
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const sums &one = made[v][i / 2];
        window[v][Shape::window - 2 + i / 4].words[i / 2 % 2][i % 2] = cut_off(one.at[i % 2 * 2], one.at[i % 2 * 2 + 1]);
      }
    }
  }

  /* Results of 16 rows: of a row and of the one 8 further, four neighbouring samples of 16 columns and of the next 16. */
  __device__ __forceinline__ void make_results(int v, uint32_t (&words)[2][2]) const {
    sums made[4];
#pragma unroll
    for (int chunk = 0; chunk < Shape::chunks; chunk++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        made[i].make(chunk == 0 ? begin_sums<1>() : made[i], window[v][chunk + i / 2], along[i % 2][chunk]);
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
