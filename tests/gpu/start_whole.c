/* The start of a process that has the whole backend and all kernels, with frames of 4 MiB. See start_times.c. */
#include "tests/gpu/start_times.h"

#include "gpu/cuda/cuda.h"
#include "tests/fault/fault.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FRAME_BYTES = 4 << 20, SLOTS = 3 };
#define HANG_NS 300000000L

const char start_program[] = "whole";

static struct gpu_device *device;
static struct gpu_buffers buffers[SLOTS];
static struct gpu_error error;

static struct gpu_program *make_program(struct gpu_stage_request request, const struct gpu_options *options) {
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){FRAME_BYTES / 4}, 1);
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, &error);
  start_require(chain != NULL, "gpu_chain_new", error.text);
  struct gpu_program *program = gpu_program_new(device, chain, buffers, SLOTS, options, &error);
  start_require(program != NULL, "gpu_program_new", error.text);
  start_phase("program");
  start_require(gpu_program_warm_up(program, &error), "gpu_program_warm_up", error.text);
  start_phase("warm_up");
  return program;
}

void start_work(unsigned char *memory, size_t bytes, unsigned programs) {
  static const struct gpu_options measured, decided = {.graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct gpu_stage_request affine = {.stage = stage_about_find("affine"),
                                     .values = {{.count = 1, .numbers = {2}}, {.count = 1, .numbers = {1}}}};
  device = gpu_open(GPU_BACKEND_CUDA, 0, 0, &error);
  start_require(device != NULL, "gpu_open", error.text);
  start_phase("gpu_open_rest");
  start_require(cuda_overhead_measure((struct cuda_device *)device, &error), "cuda_overhead_measure", error.text);
  start_phase("overhead_again");
  start_require(gpu_pin(device, memory, bytes, &error), "gpu_pin", error.text);
  start_phase("pin");
  for (unsigned i = 0; i < SLOTS; i++) {
    buffers[i] = (struct gpu_buffers){.input = memory + i * FRAME_BYTES, .output = memory + (SLOTS + i) * FRAME_BYTES};
  }
  struct gpu_measured found = {0};
  for (unsigned i = 0; i < programs; i++) {
    gpu_program_measured(make_program(affine, &measured), &found);
  }
  make_program(affine, &decided);
  printf(" | us_a_frame: plain=%.1f graph=%.1f", (double)found.plain / 1e3, (double)found.graph / 1e3);
}

void start_fail(const char *how) {
  static const struct gpu_options options = {.graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  const struct gpu_frame frame = {.sequence = 1};
  bool hangs = strcmp(how, "hang") == 0;
  if (strcmp(how, "healthy") == 0) {
    return;
  }
  struct gpu_stage_request fault = {.stage = stage_about_find("fault"),
                                    .values = {{.count = 1, .numbers = {hangs ? FAULT_HANG : FAULT_ILLEGAL}}, {.count = 1}}};
  start_require(fault.stage != NULL, "fault", "this build has no such stage");
  struct gpu_program *program = make_program(fault, &options);
  start_begin();
  start_require(gpu_submit(program, 0, &frame, &error), "gpu_submit", error.text);
  if (hangs) {
    nanosleep(&(struct timespec){.tv_nsec = HANG_NS}, NULL);
  }
  while (!hangs && gpu_ask(program, 0, &error) == GPU_PENDING) {
  }
  start_phase("found");
}
