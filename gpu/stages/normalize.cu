/*
 * normalize: kernels and launcher. Planes of a size that 4 divides are written 16 bytes at a time, four pixels a
 * thread; for others the second and third plane are not aligned, and each thread takes one pixel.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/normalize.h"
}

namespace {

__device__ __forceinline__ void put(float &to, float value) { to = value; }
__device__ __forceinline__ void put(uint16_t &to, float value) { to = arithmetic_half(value); }

template <typename Out> struct normalize_operation {
  normalize_channel channel;
  __device__ Out operator()(uint8_t value) const {
    Out out;
    put(out, normalize_sample(value, channel));
    return out;
  }
};

/* `Pixels` at a time, from interleaved to planar. Indexes of channels are known when this is compiled, so that samples stay in
 * registers. */
template <typename Out, int Pixels, bool Turned>
__global__ void normalize_planes(const uint8_t *__restrict__ in, Out *__restrict__ out, uint64_t pixels,
                                 normalize_constants constants) {
  constexpr int channels = NORMALIZE_MAX_CHANNELS;
  using plane_pack = launch_pack<Out, Pixels>;
  for (uint64_t step = launch_first(); step < pixels / Pixels; step += launch_stride()) {
    launch_pack<uint8_t, Pixels> source[channels];
    const auto *from = reinterpret_cast<const launch_pack<uint8_t, Pixels> *>(in) + step * channels;
#pragma unroll
    for (int i = 0; i < channels; i++) {
      source[i] = from[i];
    }
#pragma unroll
    for (int c = 0; c < channels; c++) {
      plane_pack plane;
#pragma unroll
      for (int i = 0; i < Pixels; i++) {
        const int sample = i * channels + (Turned ? channels - 1 - c : c);
        put(plane.values[i], normalize_sample(source[sample / Pixels].values[sample % Pixels], constants.channel[c]));
      }
      reinterpret_cast<plane_pack *>(out + c * pixels)[step] = plane;
    }
  }
}

/* A thread a pixel, which stays interleaved. */
template <typename Out>
__global__ void normalize_pixels(const uint8_t *__restrict__ in, Out *__restrict__ out, uint64_t pixels,
                                 normalize_constants constants) {
  constexpr int channels = NORMALIZE_MAX_CHANNELS;
  for (uint64_t i = launch_first(); i < pixels; i += launch_stride()) {
#pragma unroll
    for (int c = 0; c < channels; c++) {
      put(out[i * channels + c], normalize_sample(in[i * channels + constants.source[c]], constants.channel[c]));
    }
  }
}

template <typename Out, bool Turned>
int enqueue_planes(const uint8_t *in, Out *out, uint64_t pixels, const normalize_constants &constants, cudaStream_t on) {
  if (pixels % 4 == 0) {
    normalize_planes<Out, 4, Turned><<<launch_blocks(pixels / 4), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
  } else {
    normalize_planes<Out, 1, Turned><<<launch_blocks(pixels), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
  }
  return cudaGetLastError();
}

template <typename Out>
int enqueue(const stage_plan *plan, const stage_call *call, const normalize_constants &constants, cudaStream_t on) {
  const uint64_t pixels = uint64_t(plan->input.width) * plan->input.height;
  const auto *in = static_cast<const uint8_t *>(call->input);
  auto *out = static_cast<Out *>(call->output);
  if (constants.channels == 1) {
    return launch_map<uint8_t, Out>(in, out, pixels, normalize_operation<Out>{constants.channel[0]}, on);
  }
  if (constants.interleaved) {
    normalize_pixels<Out><<<launch_blocks(pixels), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
    return cudaGetLastError();
  }
  return constants.source[0] == 0 ? enqueue_planes<Out, false>(in, out, pixels, constants, on)
                                  : enqueue_planes<Out, true>(in, out, pixels, constants, on);
}

} // namespace

extern "C" int normalize_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  normalize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const auto on = static_cast<cudaStream_t>(stream);
  return constants.half ? enqueue<uint16_t>(plan, call, constants, on) : enqueue<float>(plan, call, constants, on);
}
