/* A pipeline of a configuration without a daemon: its stages, for one frame after the other. */
#ifndef FRAMED_SERVER_SINGLE_H
#define FRAMED_SERVER_SINGLE_H

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/device/device.h"
#include "daemon/frame/arena.h"

struct single {
  const struct config *config;
  const struct config_pipeline *pipeline;
  struct device *device;
  bool owns_device;
  struct device_chain *chain;
  struct device_program *program;
  struct arena memory;
  unsigned char *input, *output;
  size_t input_bytes, output_bytes;
};

/* `device` NULL: it opens its own. Also after a failure single_close() is due. */
bool single_open(struct single *single, const struct config *config, const struct config_pipeline *pipeline,
                 struct device *device, struct failure *failure);
/* Makes the output of the input; `restart`: stages begin anew. */
bool single_run(struct single *single, bool restart, struct failure *failure);
/* After a fault nothing is given back: the process is to end, as a worker may be in a stage for ever. False: so it is. */
bool single_close(struct single *single);

#endif
