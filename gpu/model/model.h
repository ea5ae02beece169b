/*
 * A model: a file of ONNX with what it takes and gives, ready to run on the CPU.
 *
 * model_open() reads the file once, as a stranger's: regular files only, of a bounded size, and the files of weights beside it
 * from its own folder alone. What ONNX Runtime gets are these bytes. A model may be run by several threads at once. Whoever
 * asks for the same file with the same settings while it is open gets the same model; once there is something else in the file
 * or in one beside it, that is another one. It lives until everybody who holds it has let go.
 */
#ifndef FRAMED_GPU_MODEL_MODEL_H
#define FRAMED_GPU_MODEL_MODEL_H

#include "gpu/gpu.h"
#include "gpu/kept.h"

enum {
  MODEL_MOST_RANK = 8,
  MODEL_MOST_OUTPUTS = 16,
  MODEL_NAME = 128,
  MODEL_INSTANCES = 2,
  MODEL_MOST_INSTANCES = 64,
  MODEL_MOST_BATCH = 64,
  MODEL_ALL = -1
};

enum model_precision { MODEL_TF32, MODEL_FLOAT32 };

/* Sides of one input, for a file that leaves some of them open. */
struct model_shape {
  const char *input;
  unsigned rank;
  int64_t sides[MODEL_MOST_RANK];
};

/* How frames of all that run it go through it together. */
struct model_batch {
  unsigned most;   /* in one run; 0: each goes by itself */
  int64_t wait_ns; /* how long a frame may be held back for others; 0: never while an instance is free */
};

/* What is zero is the default. */
struct model_settings {
  const char *file;
  const struct model_shape *shapes;
  unsigned shape_count;
  unsigned instances; /* that may run at once on one device */
  size_t memory;      /* most that one may take on a GPU; 0: no limit */
  enum model_precision precision;
  struct model_batch batch;
};

struct model_tensor {
  char name[MODEL_NAME];
  int type;      /* enum onnx_type */
  unsigned rank; /* as the model has it; of a model that takes batches the first side is 1 */
  int64_t shape[MODEL_MOST_RANK];
  struct frame_format format; /* as frames have it: without the leading sides of 1 that are too many */
  size_t bytes;
};

struct model;

/* For threads that set up: it takes milliseconds to seconds. NULL on error. */
struct model *model_open(const struct model_settings *settings, struct gpu_error *error);
struct model *model_hold(struct model *model);    /* returns it */
struct model *model_release(struct model *model); /* NULL is fine; returns NULL */

/* Adds its files, as they were opened, to a list as kept_list() does. */
unsigned model_files(const struct model *model, struct kept_file *list, unsigned count, unsigned most);

/* -- what it is --------------------------------------------------------------------------------------------------- */

struct model_summary {
  const char *file, *runtime; /* its path, and the version of ONNX Runtime that runs it */
  int64_t ir_version, opset;
  uint64_t weight_bytes, nodes;
  bool is_single;              /* most weights are of float32 */
  bool takes_rows;             /* the file leaves the first of its input's sides open: it may take several frames at once */
  uint64_t off_gpu;            /* operators of it that a GPU does not compute alone: see operators.h */
  unsigned users;              /* slots of all pipelines that may run it */
  uint64_t hash;               /* of all bytes of the file and of those beside it */
  unsigned instances, threads; /* threads of one run on the CPU */
  size_t memory;
  enum model_precision precision;
  struct model_batch batch;
  bool is_padded; /* it takes no fewer frames than the most */
};

void model_summary(const struct model *model, struct model_summary *summary);
/* From now on it counts in that memory, of MODEL_MOST_INSTANCES and MODEL_MOST_BATCH numbers, which outlives it; or, where both
 * are NULL, in its own. While none of its frames runs. */
void model_count_in(struct model *model, _Atomic uint64_t *served, _Atomic uint64_t *batches);
/* How many frames each instance has computed, of all pipelines, but for those of a warm-up. Returns the number of instances. */
unsigned model_served(const struct model *model, uint64_t served[MODEL_MOST_INSTANCES]);
/* How many batches had one frame, two, and so on; but for those of a warm-up. Returns the most that one may have, or 0. */
unsigned model_batches(const struct model *model, uint64_t batches[MODEL_MOST_BATCH]);
const struct model_tensor *model_input(const struct model *model);
unsigned model_output_count(const struct model *model);
const struct model_tensor *model_output(const struct model *model, unsigned index);
/* The index of the output of that name, or MODEL_ALL if there is none. */
int model_find_output(const struct model *model, const char *name);

/* -- running it on the CPU ---------------------------------------------------------------------------------------- */

/* Computes output `chosen`, or with MODEL_ALL all of them as gpu/model/parts.h says, in the caller's thread. The memory is of
 * the sizes that input, output or parts have. Not of a model that takes no fewer frames than the most. */
bool model_run(const struct model *model, const void *input, void *output, int chosen, struct gpu_error *error);

/* Computes `count` frames at once: they lie one after the other in `input`, and so do their results in each of the `outputs`.
 * All are as large as the most frames that the model may take at once. */
bool model_run_batch(const struct model *model, unsigned count, const void *input, void *const *outputs,
                     struct gpu_error *error);

#endif
