/* What cpu.c, which opens devices of the CPU backend, and program.c, which has frames run on them, have of each other. */
#ifndef FRAMED_GPU_CPU_PROGRAM_H
#define FRAMED_GPU_CPU_PROGRAM_H

#include "gpu/backend.h"
#include "gpu/cpu/pool.h"

struct cpu_device {
  struct gpu_device base;
  struct pool *pool;
  unsigned number;
};

/* Calls of the backend; see backend.h. */
struct gpu_program *cpu_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                    unsigned count, const struct gpu_options *options, struct gpu_error *error);
bool cpu_prepare(struct gpu_program *program, struct gpu_error *error);
void cpu_program_free(struct gpu_program *program);
bool cpu_submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error);
enum gpu_progress cpu_told(struct gpu_program *program, unsigned slot);
enum gpu_progress cpu_ask(struct gpu_program *program, unsigned slot, struct gpu_error *error);
bool cpu_arm(struct gpu_program *program, unsigned slot, struct gpu_error *error);
bool cpu_times(struct gpu_program *program, unsigned slot, struct gpu_times *times);
const char *cpu_refusal(struct gpu_program *program, unsigned slot);
bool cpu_late(struct gpu_program *program, unsigned slot);

#endif
