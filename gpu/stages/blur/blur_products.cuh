/*
 * What the kernels for bytes make their sums of: products of 16 bit floats on the units that multiply matrices, and the band of
 * weights that is a factor of all.
 *
 * Samples and the columns' sums are whole numbers below 2048: as 16 bit floats they are multiples of the smallest one, with the
 * number's own bits. Weights are also such floats or, where some have too many bits, sums of two, and so are the products. Sums
 * of 24 bits are 32 bit floats, and come out as whole numbers where something is added that has no room for smaller parts.
 */
#ifndef FRAMED_GPU_STAGES_BLUR_PRODUCTS_CUH
#define FRAMED_GPU_STAGES_BLUR_PRODUCTS_CUH

#include "gpu/stages/blur/blur.cuh"

namespace {

/* The first words of a row of `a` and of the row 8 further, then the second words; of a column of `b` both words. */
struct left_factor {
  uint32_t words[2][2];

  /* From shared memory: the row that a lane names has 8 numbers. Rows 0 to 7 and 8 to 15 of the first 8 columns of `a`, and
   * the same of the others, are named by 8 lanes each. */
  __device__ __forceinline__ void load(const uint16_t *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0][0]), "=r"(words[0][1]), "=r"(words[1][0]), "=r"(words[1][1])
                 : "r"(uint32_t(__cvta_generic_to_shared(row)))
                 : "memory");
  }
};
struct right_factor {
  uint32_t words[2];
};

/* Sums of products: 16 rows of `a` with 16 numbers each, of which a thread has four of row lane / 4 and four of the row 8
 * further; 8 columns of `b`, of which it has four numbers of column lane / 4. Of each row it gets two neighbouring sums. Which
 * of the 16 its four are is the caller's choice, as long as both factors have the same. */
struct sums {
  float at[4];

  /* start + a * b */
  __device__ __forceinline__ void make(const sums &start, const left_factor &a, const right_factor &b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(at[0]), "=f"(at[1]), "=f"(at[2]), "=f"(at[3])
        : "r"(a.words[0][0]), "r"(a.words[0][1]), "r"(a.words[1][0]), "r"(a.words[1][1]), "r"(b.words[0]), "r"(b.words[1]),
          "f"(start.at[0]), "f"(start.at[1]), "f"(start.at[2]), "f"(start.at[3]));
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
        : "=f"(at[0]), "=f"(at[1]), "=f"(at[2]), "=f"(at[3])
        : "r"(a.words[0][0]), "r"(a.words[0][1]), "r"(b.words[0]), "f"(start.at[0]), "f"(start.at[1]), "f"(start.at[2]),
          "f"(start.at[3]));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(at[0]), "+f"(at[1]), "+f"(at[2]), "+f"(at[3])
        : "r"(a.words[1][0]), "r"(a.words[1][1]), "r"(b.words[1]));
#endif
  }
};

/* What sums start from so that cutting them off rounds halves upwards, and what is added to cut them off: in multiples of the
 * smallest 16 bit float, from where `step` of them are the last place of a float. The number is in the lower half then. */
template <int Step> __device__ __forceinline__ sums begin_sums() {
  constexpr float half = float(Step) / 2 / 16777216.0F;
  return {{half, half, half, half}};
}
template <int Step> __device__ __forceinline__ uint32_t whole(float sum) {
  return __float_as_uint(__fadd_rz(sum, float(Step) / 2));
}

__device__ __forceinline__ uint32_t join(uint32_t first, uint32_t second) { return __byte_perm(first, second, 0x5410U); }

/* -- weights --------------------------------------------------------------------------------------------------------- */

/* The weights at all distances from -Reach to Reach, in steps of `step` samples, as `Parts` floats each. They are whole numbers
 * times `scale`. */
template <int Reach, int Parts> struct band {
  uint16_t parts[Parts][2 * Reach + 1];

  /* By a block of so many threads. */
  __device__ void fill(const blur_weights &weights, int32_t radius, int32_t step, int32_t threads, float scale = 1.0F) {
    for (int32_t i = threadIdx.x; i < 2 * Reach + 1; i += threads) {
      const int32_t distance = abs(i - Reach);
      const bool within = distance % step == 0 && distance / step <= radius;
      const uint32_t weight = within ? uint32_t(weights.at[distance / step] * BLUR_UNIT) : 0;
      const uint32_t rest = Parts == 1 ? 0 : weight % 4;
      parts[0][i] = half_bits(float(weight - rest) * scale);
      if (Parts > 1) {
        parts[Parts - 1][i] = half_bits(float(rest) * scale);
      }
    }
  }
  static __device__ uint16_t half_bits(float weight) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(weight));
    return bits;
  }
  __device__ uint32_t pair(int part, int32_t distance) const {
    const uint16_t *two = parts[part] + Reach + distance;
    return join(two[0], two[1]);
  }
};

} // namespace

#endif
