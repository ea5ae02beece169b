/*
 * What a configuration will take before it takes it: formats, pinned host memory, device memory; and the judgement of
 * what cannot fit. `--check`, the start and a reload all pass through here, so that what one accepts the others do.
 */
#ifndef FRAMED_SERVER_FOOTPRINT_H
#define FRAMED_SERVER_FOOTPRINT_H

#include <stdio.h>

#include "config/config.h"
#include "daemon/device/device.h"

struct footprint { /* of one pipeline, with all its clients */
  struct frame_format input, output;
  size_t pinned_bytes; /* of the host */
  size_t device_bytes;
  size_t record_bytes; /* of the host, for frames on their way into the recording */
  size_t reader_bytes; /* at most, for what slow readers have yet to take */
};

/* False if the pipeline's formats do not fit each other, with the stage concerned. */
bool footprint_of(const struct config *config, const struct config_pipeline *pipeline, struct footprint *footprint,
                  struct gpu_error *error);

/* Reads the configuration, opens its models, and checks all that can be checked without a device. NULL with errors. May take
 * seconds. */
struct config *footprint_load(const char *path, struct config_errors *errors);

/* The same of a text; `name` is for the errors. */
struct config *footprint_parse(const char *name, const char *text, struct config_errors *errors);

/* The table of --check. */
void footprint_print(FILE *out, const char *path, const struct config *config);

#endif
