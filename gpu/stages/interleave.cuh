/*
 * Parting and joining interleaved bytes: what one thread reads or writes of a row, as arrays that stay in registers.
 *
 * Where rows are aligned, all bytes move at once, `Wide` of them a load or store; elsewhere one by one, `left` saying
 * how many pixels (or groups) of the row are still there. Those beyond it repeat the last, and are not written.
 */
#ifndef FRAMED_GPU_STAGES_INTERLEAVE_CUH
#define FRAMED_GPU_STAGES_INTERLEAVE_CUH

#include "gpu/stages/launch.cuh"

/* Gives samples[i] = in[i * Step + offset] for `Count` pixels or pairs of which `left` are there, and repeats the last. */
template <int Step, int Count>
static __device__ __forceinline__ void interleave_take(const uint8_t *in, uint32_t left, int offset, uint8_t *samples) {
#pragma unroll
  for (int i = 0; i < Count; i++) {
    samples[i] = in[(i < left ? i : left - 1) * Step + offset];
  }
}

template <int Step, int Count>
static __device__ __forceinline__ void interleave_give(uint8_t *out, uint32_t left, int offset, const uint8_t *samples) {
#pragma unroll
  for (int i = 0; i < Count; i++) {
    if (i < left) {
      out[i * Step + offset] = samples[i];
    }
  }
}

/* All bytes of a block's row at once, `Wide` of them a load. */
template <int Bytes, int Wide> static __device__ __forceinline__ void interleave_read(const uint8_t *in, uint8_t *bytes) {
#pragma unroll
  for (int i = 0; i < Bytes / Wide; i++) {
    const auto pack = reinterpret_cast<const launch_pack<uint8_t, Wide> *>(in)[i];
#pragma unroll
    for (int j = 0; j < Wide; j++) {
      bytes[i * Wide + j] = pack.values[j];
    }
  }
}

template <int Bytes, int Wide> static __device__ __forceinline__ void interleave_write(uint8_t *out, const uint8_t *bytes) {
#pragma unroll
  for (int i = 0; i < Bytes / Wide; i++) {
    launch_pack<uint8_t, Wide> pack;
#pragma unroll
    for (int j = 0; j < Wide; j++) {
      pack.values[j] = bytes[i * Wide + j];
    }
    reinterpret_cast<launch_pack<uint8_t, Wide> *>(out)[i] = pack;
  }
}

/* `Count` groups of `Step` samples; planes[k] gets sample k of each. */
template <int Step, int Count, int Wide>
static __device__ __forceinline__ void interleave_split(const uint8_t *in, bool aligned, uint32_t left,
                                                        uint8_t *const (&planes)[Step]) {
  if (aligned) {
    uint8_t bytes[Step * Count];
    interleave_read<Step * Count, Wide>(in, bytes);
#pragma unroll
    for (int i = 0; i < Step * Count; i++) {
      planes[i % Step][i / Step] = bytes[i];
    }
  } else {
#pragma unroll
    for (int k = 0; k < Step; k++) {
      interleave_take<Step, Count>(in, left, k, planes[k]);
    }
  }
}

template <int Step, int Count, int Wide>
static __device__ __forceinline__ void interleave_join(uint8_t *out, bool aligned, uint32_t left,
                                                       const uint8_t *const (&planes)[Step]) {
  if (aligned) {
    uint8_t bytes[Step * Count];
#pragma unroll
    for (int i = 0; i < Step * Count; i++) {
      bytes[i] = planes[i % Step][i / Step];
    }
    interleave_write<Step * Count, Wide>(out, bytes);
  } else {
#pragma unroll
    for (int k = 0; k < Step; k++) {
      interleave_give<Step, Count>(out, left, k, planes[k]);
    }
  }
}

#endif
