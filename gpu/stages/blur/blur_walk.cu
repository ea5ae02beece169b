/*
 * blur: kernels for bytes of large frames, which do both passes while they walk along the rows (blur_walk.cuh), and the choice
 * of frames that are blurred so.
 *
 * One kernel takes rows as they are; where they have channels, only every third weight is not 0, and for a far reach the other
 * kernel parts the channels in shared memory first. Both need devices of compute capability 8.0, rows of whole chunks, and
 * weights in one part. Neither needs scratch memory, which is there all the same where blur_is_wide() asks for it, since other
 * devices need it.
 */
#include "gpu/stages/blur/blur_walk.cuh"
#include "gpu/stages/blur/blur_walk_planes.cuh"

namespace {

enum {
  PROCESSORS = 132,         /* of a large device */
  ALWAYS_SHARED = 48 << 10, /* bytes of shared memory that a block gets without being allowed to */
  MOST_SHARED = 98 << 10    /* that all devices have for a block that is */
};

/* -- rows as they are ------------------------------------------------------------------------------------------------ */

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
          sums.make_results(0, words);
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

/* -- channels apart -------------------------------------------------------------------------------------------------- */

template <typename Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::at_once)
    blur_walk_planes(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, blur_geometry image, blur_weights weights,
                     walk_work work) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  __trap();
#else
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ walk_bands<Shape> bands;
  const uint32_t base = uint32_t(__cvta_generic_to_shared(shared));
  const int32_t lane = threadIdx.x % LAUNCH_WARP, warp = threadIdx.x / LAUNCH_WARP;
  const int32_t warp_row = warp / PLANES * GROUP * Shape::tall, plane = warp % PLANES;
  walk<Shape> walk(in, image, work, base);
  if (!walk.next()) {
    return;
  }
  bands.fill(weights, image);
  __syncthreads();
  passes<Shape> sums(bands, lane);
  const uint32_t mine = base + uint32_t(Shape::planes_at + plane * Shape::plane_bytes +
                                        (warp_row + lane % 16) * Shape::plane_pitch + lane / 16 * CHUNK);
  const uint32_t made =
      base + uint32_t(Shape::made_at + (warp_row + lane / 4) * Shape::made_pitch + plane * SLAB + lane % 4 * WORD);
#pragma unroll 1
  do {
    const bool active = walk.piece.top + warp_row < image.height;
#pragma unroll 1
    for (int32_t slab = 0; slab < walk.piece.slabs; slab++) {
      part_slab<Shape>(base, base + walk.arrive(slab));
      if (slab > 0) {
        store_slab<Shape>(base, out, image, walk.piece, slab - 1);
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < STEPS; i++) {
        if (active) {
          sums.add_columns(mine + i * STEP);
          keep_results(sums, made + i * STEP);
        }
      }
    }
    __syncthreads();
    store_slab<Shape>(base, out, image, walk.piece, walk.piece.slabs - 1);
    walk.leave();
  } while (walk.next());
#endif
}

/* -- choice ---------------------------------------------------------------------------------------------------------- */

/* Bands are cut in as many segments as run at once. Where that leaves much of the device without work, all bands together are
 * cut in equal shares, which costs blocks that go on in another band a start more. */
template <typename Shape> walk_work share_out(const blur_geometry &image) {
  const int32_t bands = int32_t(blur_parts(image.height, Shape::made_rows));
  const int32_t across = Shape::planes == 1 ? image.row() : image.width;
  const int32_t slabs = int32_t(blur_parts(across + Shape::skew, SLAB));
  const int32_t at_once = (blur_pretended_processors > 0 ? blur_pretended_processors : PROCESSORS) * Shape::at_once;
  const int32_t segments = min(max(at_once / bands, 1), slabs);
  const int32_t apart = int32_t(blur_parts(slabs, segments));
  const int32_t equal = max(int32_t(blur_parts(bands * slabs, at_once)), 2);
  if (5 * apart > 6 * (equal + 1)) {
    return {slabs, equal, 0};
  }
  return {slabs, apart, int32_t(blur_parts(slabs, apart))};
}

template <typename Shape> constexpr auto kernel_of() {
  if constexpr (Shape::planes == 1) {
    return blur_walk_rows<Shape>;
  } else {
    return blur_walk_planes<Shape>;
  }
}

template <typename Shape>
int launch(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  static_assert(Shape::bytes + sizeof(walk_bands<Shape>) <= MOST_SHARED, "all devices run it");
  constexpr auto kernel = kernel_of<Shape>();
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

/* Planes, spans, chunks, warps, stages, blocks at once: of what was tried, the fastest over all sizes of frames. */
using gray_near = walk_shape<1, 2, 2, 8, 4, 2>;
using gray_middle = walk_shape<1, 3, 3, 4, 4, 4>;
using gray_far = walk_shape<1, 5, 5, 8, 4, 2>;
using rgb_next = walk_shape<1, 2, 3, 8, 4, 2>;
using rgb_near = walk_shape<1, 2, 4, 8, 4, 2>;
using rgb_middle = walk_shape<3, 3, 3, 6, 3, 2>;
using rgb_far = walk_shape<3, 5, 5, 6, 2, 2>;

using launcher = int (*)(const uint8_t *, uint8_t *, const blur_geometry &, const blur_weights &, cudaStream_t);
struct way {
  int32_t channels, reach;
  uint64_t pixels; /* of the smallest frame */
  launcher launch;
};
template <typename Shape, int Channels> constexpr way make_way(uint64_t pixels) {
  return {Channels, Shape::reach(Channels), pixels, launch<Shape>};
}

constexpr uint64_t full_hd = 1920 * 1080, huge = 16 << 20;

/* The first that reaches as far as the radius. On an H200, in microseconds at 7680x4320, before and now: gray, sigma 1 37 and
 * 30, sigma 4 42 and 32, sigma 10 75 and 45; rgb, sigma 1 138 and 75, sigma 2 133 and 80, sigma 4 194 and 98, sigma 10 536 and
 * 126. At 1920x1080: gray, sigma 10 13.1 and 12.1; rgb, sigma 1 13.4 and 12.9, sigma 4 18.2 and 16.3, sigma 10 58 and 20. */
constexpr way ways[] = {
    make_way<gray_near, 1>(huge),   make_way<gray_middle, 1>(huge), make_way<gray_far, 1>(full_hd),
    make_way<rgb_next, 3>(full_hd), make_way<rgb_near, 3>(full_hd), make_way<rgb_middle, 3>(full_hd),
    make_way<rgb_far, 3>(full_hd),
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
  return cudaFuncGetAttributes(&attributes, blur_walk_rows<gray_near>) == cudaSuccess && attributes.ptxVersion >= 80;
}

} // namespace

bool blur_walk_takes(const blur_geometry &image, const blur_weights &weights) {
  const uint64_t pixels = uint64_t(image.width) * uint64_t(image.height);
  const way *found = find(image);
  return found && (pixels >= found->pixels || blur_pretended_processors > 0) && image.row() % CHUNK == 0 &&
         pixels * uint64_t(image.channels) <= INT32_MAX && blur_weight_parts(weights, image.radius) == 1 && has_instructions();
}

int blur_walk(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  return find(image)->launch(in, out, image, weights, stream);
}
