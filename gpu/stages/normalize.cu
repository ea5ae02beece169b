/*
 * normalize: kernels and launcher. Planes of a size that 4 divides are written 16 bytes at a time, four pixels a
 * thread; for others the second and third plane are not aligned, and each thread takes one pixel.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/normalize.h"
}

namespace {

struct normalize_operation {
  normalize_channel channel;
  __device__ float operator()(uint8_t value) const { return normalize_sample(value, channel); }
};

/* `Pixels` at a time, from interleaved to planar. */
template <int Pixels>
__global__ void normalize_interleaved(const uint8_t *__restrict__ in, float *__restrict__ out, uint64_t pixels,
                                      normalize_constants constants) {
  constexpr int channels = NORMALIZE_MAX_CHANNELS;
  using plane_pack = launch_pack<float, Pixels>;
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
        const int sample = i * channels + c;
        plane.values[i] = normalize_sample(source[sample / Pixels].values[sample % Pixels], constants.channel[c]);
      }
      reinterpret_cast<plane_pack *>(out + c * pixels)[step] = plane;
    }
  }
}

} // namespace

extern "C" int normalize_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  normalize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint64_t pixels = uint64_t(plan->input.width) * plan->input.height;
  if (constants.channels == 1) {
    return launch_map<uint8_t, float>(call->input, call->output, pixels, normalize_operation{constants.channel[0]}, stream);
  }
  const auto *in = static_cast<const uint8_t *>(call->input);
  auto *out = static_cast<float *>(call->output);
  const auto on = static_cast<cudaStream_t>(stream);
  if (pixels % 4 == 0) {
    normalize_interleaved<4><<<launch_blocks(pixels / 4), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
  } else {
    normalize_interleaved<1><<<launch_blocks(pixels), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
  }
  return cudaGetLastError();
}
