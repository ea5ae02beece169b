/* threshold: kernel launcher. One pass over the samples, 16 bytes a thread and step. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/threshold.h"
}

namespace {

struct threshold_operation {
  threshold_constants constants;
  __device__ uint8_t operator()(uint8_t value) const { return threshold_byte(value, constants); }
  __device__ float operator()(float value) const { return threshold_float(value, constants); }
};

} // namespace

extern "C" int threshold_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  threshold_operation operation;
  STAGE_GET_CONSTANTS(plan, &operation.constants);
  return launch_samples(plan, call, operation, stream);
}
