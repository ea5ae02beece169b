/* What tells of a frame, and the kernel that stays: mailbox.h says how. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/cuda/mailbox.h"
#include "gpu/stages/affine.h"
#include "gpu/stages/threshold.h"
#include "gpu/stages/work.h"
#ifdef FRAMED_FAULTS
#include "tests/fault/fault.h"
#endif
}

namespace {

enum { THREADS = 512, LOADS = 4, LOOKS = 4 }; /* looks at a doorbell, for one at the clock */

__device__ uint64_t resident_now() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/* What the host writes is read anew each time, and what the kernel wrote is there before the answer is. */
__device__ uint32_t resident_listen(const uint32_t *word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ void resident_say(uint32_t *word, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ uint4 resident_load(const uint4 *from) {
  uint4 pack;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(pack.x), "=r"(pack.y), "=r"(pack.z), "=r"(pack.w)
               : "l"(from)
               : "memory");
  return pack;
}

template <typename Constants> __device__ Constants resident_constants(const mailbox_step &step) {
  return *reinterpret_cast<const Constants *>(step.constants);
}

__device__ uint8_t affine_sample(uint8_t value, affine_constants constants) { return affine_byte(value, constants); }
__device__ float affine_sample(float value, affine_constants constants) { return affine_float(value, constants); }
__device__ uint8_t threshold_sample(uint8_t value, threshold_constants constants) { return threshold_byte(value, constants); }
__device__ float threshold_sample(float value, threshold_constants constants) { return threshold_float(value, constants); }

__device__ float work_sample(float value, work_constants constants) {
  for (uint32_t round = 0; round < constants.rounds; round++) {
    value = work_round(value);
  }
  return value;
}
__device__ uint8_t work_sample(uint8_t value, work_constants constants) {
  return work_to_byte(work_sample(work_from_byte(value), constants));
}

/* All stages of a few samples, which stay in registers. */
template <typename Sample, int Count> __device__ void resident_steps(const resident_run &run, Sample *samples) {
  for (unsigned k = 0; k < run.length; k++) {
    const mailbox_step &step = run.steps[k];
    switch (step.kind) {
    case RESIDENT_AFFINE:
#pragma unroll
      for (int i = 0; i < Count; i++) {
        samples[i] = affine_sample(samples[i], resident_constants<affine_constants>(step));
      }
      break;
    case RESIDENT_WORK:
#pragma unroll
      for (int i = 0; i < Count; i++) {
        samples[i] = work_sample(samples[i], resident_constants<work_constants>(step));
      }
      break;
    case RESIDENT_THRESHOLD:
#pragma unroll
      for (int i = 0; i < Count; i++) {
        samples[i] = threshold_sample(samples[i], resident_constants<threshold_constants>(step));
      }
      break;
    case RESIDENT_FAULT:
    case RESIDENT_NONE:
      break;
    }
  }
}

/* One frame, by one block. A load from the host takes a microsecond, so each thread has several under way at once. */
template <typename Sample> __device__ void resident_frame(const resident_run &run, unsigned slot) {
  constexpr int width = sizeof(uint4) / sizeof(Sample);
  union {
    uint4 pack;
    Sample samples[width];
  } values[LOADS];
  const uint4 *const from = static_cast<const uint4 *>(run.inputs[slot]);
  uint4 *const to = static_cast<uint4 *>(run.outputs[slot]);
  const uint64_t packs = run.samples / width;
  for (uint64_t first = threadIdx.x; first < packs; first += LOADS * THREADS) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      if (first + i * THREADS < packs) {
        values[i].pack = resident_load(from + first + i * THREADS);
      }
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      if (first + i * THREADS < packs) {
        resident_steps<Sample, width>(run, values[i].samples);
        to[first + i * THREADS] = values[i].pack;
      }
    }
  }
  const uint64_t last = packs * width + threadIdx.x;
  if (last < run.samples) {
    Sample sample = static_cast<const volatile Sample *>(run.inputs[slot])[last];
    resident_steps<Sample, 1>(run, &sample);
    static_cast<Sample *>(run.outputs[slot])[last] = sample;
  }
}

#ifdef FRAMED_FAULTS
__device__ void resident_strike(const resident_run &run, const mailbox_line &doorbell) {
  const bool strikes = *const_cast<const volatile uint32_t *>(&doorbell.strikes) != 0;
  for (unsigned k = 0; k < run.length && strikes; k++) {
    const fault_kind kind = *reinterpret_cast<const fault_kind *>(run.steps[k].constants); /* the first of its constants */
    if (run.steps[k].kind == RESIDENT_FAULT && kind == FAULT_ILLEGAL) {
      *reinterpret_cast<volatile uint64_t *>(uintptr_t(64)) = 1;
    }
    while (run.steps[k].kind == RESIDENT_FAULT && kind == FAULT_HANG) {
      __nanosleep(1000);
    }
  }
}
#endif

/* Whether the run is to end, which any of its blocks may find and all of them see. */
__device__ bool resident_is_over(const resident_run &run, uint64_t began) {
  volatile resident_shared *shared = run.shared;
  const uint64_t now = resident_now();
  const uint64_t active = shared->active > began ? shared->active : began;
  if (shared->closing != run.number && (now - began > run.most_ns || (now > active && now - active > run.linger_ns))) {
    shared->closing = run.number;
  }
  return shared->closing == run.number;
}

/* One thread of a block: waits for another number than `seen` at the doorbell; `seen`: it is time to leave. */
__device__ uint32_t resident_wait(const resident_run &run, const mailbox_line &doorbell, uint32_t seen, uint64_t began,
                                  unsigned *looks) {
  for (;;) {
    const uint32_t number = resident_listen(&doorbell.word);
    if (++*looks % LOOKS == 0 && resident_is_over(run, began)) {
      return seen;
    }
    if (number != seen) {
      return number;
    }
  }
}

/* The last one to leave tells. */
__device__ void resident_leave(const resident_run &run) {
  __threadfence_system();
  if (atomicAdd(&run.shared->gone, 1) == gridDim.x - 1) {
    run.shared->gone = 0;
    resident_say(&run.mailbox->left.word, run.number);
  }
}

__global__ void __launch_bounds__(THREADS) resident_kernel(const __grid_constant__ resident_run run) {
  __shared__ uint32_t rung;
  const unsigned slot = blockIdx.x;
  const mailbox_line &doorbell = run.mailbox->doorbells[slot];
  const uint64_t began = resident_now();
  unsigned looks = 0; /* so that the first one hears what was rung before */
  uint32_t seen = resident_listen(&run.mailbox->answers[slot].word);
  for (;;) {
    if (threadIdx.x == 0) {
      rung = resident_wait(run, doorbell, seen, began, &looks);
    }
    __syncthreads();
    if (rung == seen) {
      break;
    }
#ifdef FRAMED_FAULTS
    resident_strike(run, doorbell);
#endif
    if (run.floats) {
      resident_frame<float>(run, slot);
    } else {
      resident_frame<uint8_t>(run, slot);
    }
    seen = rung;
    __syncthreads(); /* all of the block have written, and have read `rung` */
    if (threadIdx.x == 0) {
      resident_say(&run.mailbox->answers[slot].word, seen);
      *const_cast<volatile uint64_t *>(&run.shared->active) = resident_now();
    }
  }
  if (threadIdx.x == 0) {
    resident_leave(run);
  }
}

__global__ void answer_kernel(const uint32_t *doorbell, uint32_t *answer) { resident_say(answer, resident_listen(doorbell)); }

} // namespace

extern "C" int cuda_mailbox_answer(mailbox_words *words, unsigned slot, void *stream) {
  answer_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(&words->doorbells[slot].word, &words->answers[slot].word);
  return cudaGetLastError();
}

extern "C" int cuda_mailbox_launch(const resident_run *run, void *stream) {
  resident_kernel<<<run->slots, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(*run);
  return cudaGetLastError();
}
