/* mask: kernel and launcher. A thread a pixel reads all planes there. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/planes.h"
}

namespace {

__global__ void mask_pixels(const float *__restrict__ in, uint8_t *__restrict__ out, uint64_t pixels,
                            mask_constants constants) {
  for (uint64_t i = launch_first(); i < pixels; i += launch_stride()) {
    float best = -INFINITY;
    uint32_t index = 0;
#pragma unroll 4
    for (uint32_t c = 0; c < constants.classes; c++) {
      const float value = in[c * pixels + i];
      index = value > best ? c : index;
      best = value > best ? value : best;
    }
    out[i] = mask_level(index, constants);
  }
}

} // namespace

extern "C" int mask_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  mask_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  mask_pixels<<<launch_blocks(plan->output_bytes), LAUNCH_THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float *>(call->input), static_cast<uint8_t *>(call->output), plan->output_bytes, constants);
  return cudaGetLastError();
}
