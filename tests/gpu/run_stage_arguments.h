/*
 * The arguments of run-stage as text: options, the format of frames, and a chain of stages. Texts of stages are cut up.
 */
#ifndef FRAMED_TESTS_GPU_RUN_STAGE_ARGUMENTS_H
#define FRAMED_TESTS_GPU_RUN_STAGE_ARGUMENTS_H

#include "gpu/gpu.h"

struct options {
  enum gpu_backend_choice backend;
  long repeat;
  const char *all; /* size of the frames; NULL: one chain */
  bool jobs;
  struct frame_format format;
  struct gpu_stage_request requests[GPU_MAX_STAGES];
  unsigned count;
};

bool arguments_parse(struct options *options, int argc, char **argv);
/* A line of FORMAT, WIDTHxHEIGHT and stages, parted by tabs. */
bool arguments_parse_job(struct options *options, char *line);
bool arguments_parse_format(const char *name, const char *size, struct frame_format *format);
/* The chain; says which stage is wrong. */
bool arguments_parse_stages(struct options *options, int count, char **stages);

#endif
