/* image: kernel and launcher. A thread a pixel reads its planes. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/planes.h"
}

namespace {

template <int Channels>
__global__ void image_pixels(const float *__restrict__ in, uint8_t *__restrict__ out, uint64_t pixels,
                             image_constants constants) {
  for (uint64_t i = launch_first(); i < pixels; i += launch_stride()) {
#pragma unroll
    for (int c = 0; c < Channels; c++) {
      out[i * Channels + c] = image_level(in[constants.plane[c] * pixels + i], constants.scale[c], constants.offset[c]);
    }
  }
}

} // namespace

extern "C" int image_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  image_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint64_t pixels = uint64_t(plan->output.width) * plan->output.height;
  const auto *in = static_cast<const float *>(call->input);
  auto *out = static_cast<uint8_t *>(call->output);
  const auto on = static_cast<cudaStream_t>(stream);
  if (constants.channels == 1) {
    image_pixels<1><<<launch_blocks(pixels), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
  } else {
    image_pixels<PLANES_CHANNELS><<<launch_blocks(pixels), LAUNCH_THREADS, 0, on>>>(in, out, pixels, constants);
  }
  return cudaGetLastError();
}
