/* fault: what strikes on a GPU; see fault.h. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "tests/fault/fault.h"
}

namespace {

/* The address comes as an argument, so that the compiler cannot know that it is nobody's. */
__global__ void illegal_kernel(volatile uint64_t *nobodys) { *nobodys = 1; }

/* Ends when the host frees it from its endless wait, which it never does. */
__global__ void hang_kernel(uint64_t never) {
  uint64_t turns = 1;
  while (turns != never) {
    __nanosleep(1000);
    turns += 2; /* always odd, and `never` is even */
    asm volatile("" : "+l"(turns));
  }
}

__device__ uint64_t global_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void delay_kernel(uint64_t ns) {
  const uint64_t start = global_ns();
  while (global_ns() - start < ns) {
    __nanosleep(1000);
  }
}

bool is_lost() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && gpu_fault_has_lost(unsigned(device));
}

int strike(fault_constants constants, cudaStream_t stream) {
  switch (constants.kind) {
  case FAULT_ILLEGAL:
    illegal_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<volatile uint64_t *>(uintptr_t(64)));
    break;
  case FAULT_HANG:
    hang_kernel<<<1, 1, 0, stream>>>(0);
    break;
  case FAULT_LOST:
    if (is_lost()) {
      illegal_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<volatile uint64_t *>(uintptr_t(64)));
    }
    break;
  case FAULT_DELAY:
    delay_kernel<<<1, 1, 0, stream>>>(constants.delay_ns);
    break;
  }
  return cudaGetLastError();
}

} // namespace

extern "C" int fault_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  fault_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  cudaStream_t on = static_cast<cudaStream_t>(stream);
  bool strikes = fault_strikes(constants, call->sequence, call->again) || fault_strikes_warm_up(call->sequence);
  int status = strikes ? strike(constants, on) : 0;
  return status != 0 ? status : cudaMemcpyAsync(call->output, call->input, plan->input_bytes, cudaMemcpyDeviceToDevice, on);
}
