/*
 * blur: kernel for bytes, which does both passes while it walks along the rows (blur_walk.cuh), and the choice of images that
 * are blurred so. It needs compute capability 8.0, rows of whole chunks, and a radius that one of its shapes reaches.
 */
#include "gpu/stages/blur/blur_walk.cuh"

namespace {

enum {
  PROCESSORS = 132,         /* of a large device */
  ALWAYS_SHARED = 48 << 10, /* bytes of shared memory that a block gets without being allowed to */
  MOST_SHARED = 98 << 10    /* that all devices have for a block that is */
};

/* Where a lane's results go: eight neighbours of each of two rows a step, every other lane's first and second four. Where
 * results begin within a sector of memory, the lanes behind that hold theirs back for a step, so that sectors are written
 * whole. */
template <typename Shape> struct outlet {
  int32_t lane_x, lane_y;
  bool held;
  int32_t x, y, least;
  uint8_t *target;
  uint32_t kept[2][2];

  __device__ __forceinline__ outlet(int32_t lane, int32_t row) : kept{} {
    lane_x = lane % 4 / 2 * 8 + lane % 2 * 16;
    lane_y = row + lane / 4;
    held = Shape::skew != 0 && lane_x >= Shape::skew;
  }
  __device__ __forceinline__ void aim(uint8_t *out, const blur_geometry &image, const walk_piece &piece) {
    x = piece.first + lane_x - (held ? STEP : 0);
    y = piece.top + lane_y;
    least = max(0, piece.first + lane_x);
    target = out + int64_t(y) * image.row() + x;
  }
  __device__ __forceinline__ void store(const blur_geometry &image, int half, uint32_t first, uint32_t second) const {
    if (y + half * 8 < image.height && x >= least && x < image.row()) {
      *reinterpret_cast<launch_pack<uint32_t, 2> *>(target + int64_t(half) * 8 * image.row()) = {first, second};
    }
  }
  __device__ __forceinline__ void put(const blur_geometry &image, const uint32_t (&words)[2][2]) {
    const bool odd = lane_x >= 16;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const uint32_t got = __shfl_xor_sync(launch_all_lanes, odd ? words[half][0] : words[half][1], 1);
      const uint32_t first = odd ? got : words[half][0], second = odd ? words[half][1] : got;
      store(image, half, held ? kept[half][0] : first, held ? kept[half][1] : second);
      if (Shape::skew != 0) {
        kept[half][0] = first;
        kept[half][1] = second;
      }
    }
    x += STEP;
    target += STEP;
  }
  __device__ __forceinline__ void finish(const blur_geometry &image) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (held) {
        store(image, half, kept[half][0], kept[half][1]);
      }
    }
  }
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::at_once)
    blur_walk_rows(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, blur_geometry image, blur_weights weights,
                   walk_work work) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  __trap();
#else
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ walk_bands<Shape> bands;
  const uint32_t base = uint32_t(__cvta_generic_to_shared(shared));
  const int32_t lane = threadIdx.x % LAUNCH_WARP, warp_row = int32_t(threadIdx.x) / LAUNCH_WARP * GROUP;
  walk<Shape> walk(in, image, work, base);
  if (!walk.next()) {
    return;
  }
  bands.fill(weights, image);
  __syncthreads();
  passes<Shape> sums(bands, lane);
  outlet<Shape> results(lane, warp_row);
  const uint32_t mine = base + uint32_t((warp_row + lane % 16) * Shape::pitch + lane / 16 * CHUNK);
#pragma unroll 1
  do {
    const bool active = walk.piece.top + warp_row < image.height;
    results.aim(out, image, walk.piece);
#pragma unroll 1
    for (int32_t slab = 0; slab < walk.piece.slabs; slab++) {
      const uint32_t arrived = mine + walk.arrive(slab);
#pragma unroll
      for (int i = 0; i < STEPS; i++) {
        const int32_t step = slab * STEPS + i;
        if (!active || step < walk.piece.lead || step >= walk.piece.steps) {
          continue;
        }
        sums.add_columns(arrived + i * STEP);
        if (step >= walk.piece.warm) {
          uint32_t words[2][2];
          sums.make_results(words);
          results.put(image, words);
        }
      }
    }
    if (active) {
      results.finish(image);
    }
    walk.leave();
  } while (walk.next());
#endif
}

/* -- choice ---------------------------------------------------------------------------------------------------------- */

/* Bands are cut in as many segments as run at once. Where that leaves much of the device without work, all bands together are
 * cut in equal shares, which costs blocks that go on in another band a start more. */
template <typename Shape> walk_work share_out(const blur_geometry &image) {
  const int32_t bands = int32_t(blur_parts(image.height, Shape::made_rows));
  const int32_t slabs = int32_t(blur_parts(image.row() + Shape::skew, SLAB));
  const int32_t at_once = (blur_pretended_processors > 0 ? blur_pretended_processors : PROCESSORS) * Shape::at_once;
  const int32_t segments = min(max(at_once / bands, 1), slabs);
  const int32_t apart = int32_t(blur_parts(slabs, segments));
  const int32_t equal = max(int32_t(blur_parts(bands * slabs, at_once)), 2);
  if (5 * apart > 6 * (equal + 1)) {
    return {slabs, equal, 0};
  }
  return {slabs, apart, int32_t(blur_parts(slabs, apart))};
}

template <typename Shape>
int launch(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  static_assert(Shape::bytes + sizeof(walk_bands<Shape>) <= MOST_SHARED, "all devices run it");
  const auto kernel = blur_walk_rows<Shape>;
  if (Shape::bytes + sizeof(walk_bands<Shape>) > ALWAYS_SHARED) { /* each time, since each device has it anew */
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::bytes);
    if (error != cudaSuccess) {
      return error;
    }
  }
  const walk_work work = share_out<Shape>(image);
  const int32_t bands = int32_t(blur_parts(image.height, Shape::made_rows));
  const uint32_t blocks = work.segments > 0 ? uint32_t(bands * work.segments) : blur_parts(bands * work.slabs, work.share);
  kernel<<<blocks, Shape::threads, Shape::bytes, stream>>>(in, out, image, weights, work);
  return cudaGetLastError();
}

using launcher = int (*)(const uint8_t *, uint8_t *, const blur_geometry &, const blur_weights &, cudaStream_t);
struct way {
  int32_t channels, reach;
  launcher launch;
};
template <int Channels, typename Shape> constexpr way make_way() { return {Channels, Shape::reach(Channels), launch<Shape>}; }

using near = walk_shape<2, 2, 4, 3, 4>;

/* Spans, chunks, warps, stages, blocks at once: of what was tried, the fastest at 1080p and 4K. The first that reaches as far
 * as the radius is taken. */
constexpr way ways[] = {
    make_way<1, near>(),
    make_way<1, walk_shape<3, 3, 4, 3, 4>>(),
    make_way<1, walk_shape<5, 5, 8, 4, 2>>(),
    make_way<1, walk_shape<9, 9, 8, 4, 1>>(),
    make_way<3, walk_shape<2, 3, 8, 4, 2>>(),
    make_way<3, walk_shape<2, 4, 8, 4, 2>>(),
    make_way<3, walk_shape<3, 7, 8, 4, 2>>(),
    make_way<3, walk_shape<5, 13, 8, 4, 1>>(),
};

const way *find(const blur_geometry &image) {
  for (const way &one : ways) {
    if (one.channels == image.channels && image.radius <= one.reach) {
      return &one;
    }
  }
  return nullptr;
}

/* Whether what this device runs was compiled for one that has the instructions. */
bool has_instructions() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, blur_walk_rows<near>) == cudaSuccess && attributes.ptxVersion >= 80;
}

} // namespace

bool blur_walk_takes(const blur_geometry &image) {
  return find(image) && image.row() % CHUNK == 0 && int64_t(image.row()) * image.height <= INT32_MAX && has_instructions();
}

int blur_walk(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  return find(image)->launch(in, out, image, weights, stream);
}
