/* work: kernel launcher. Four samples a thread and step, so that their rounds overlap in the pipeline. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/work.h"
}

namespace {

struct work_operation {
  work_constants constants;

  __device__ float operator()(float value) const {
    for (uint32_t round = 0; round < constants.rounds; round++) {
      value = work_round(value);
    }
    return value;
  }
  __device__ uint8_t operator()(uint8_t value) const { return work_to_byte((*this)(work_from_byte(value))); }
};

} // namespace

extern "C" int work_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  work_operation operation;
  STAGE_GET_CONSTANTS(plan, &operation.constants);
  return launch_samples<4, 4>(plan, call, operation, stream);
}
