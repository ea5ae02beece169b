/* What the files of this folder have of each other. From the lowest: bytes.c (reads files), signature.c (what a model takes and
 * gives), session.c (ONNX Runtime on the CPU), model.c. */
#ifndef FRAMED_GPU_MODEL_PRIVATE_H
#define FRAMED_GPU_MODEL_PRIVATE_H

#include "gpu/backend.h"
#include "gpu/model/model.h"
#include "gpu/model/onnx_file.h"
#include "gpu/model/onnxruntime.h"
#include "gpu/model/parts.h"

#include <stdatomic.h>

struct model {
  struct model *next; /* of those that are open */
  char *key;          /* what was asked for */
  unsigned holders;
  atomic_uint users;            /* slots of all programs of all chains that have it */
  struct stage_counter *served; /* frames of each instance: own_served, or memory that others read too */
  struct stage_counter own_served[MODEL_MOST_INSTANCES];
  _Atomic uint64_t running; /* on the CPU: a bit for each frame that it computes at this moment */
  char *path;
  struct kept_file files[1 + ONNX_MOST_FILES]; /* as they were opened */
  unsigned instances, threads;
  size_t memory;
  enum model_precision precision;
  struct model_batch batch;
  bool is_padded;            /* it takes no fewer frames than the most */
  _Atomic uint64_t *batches; /* with one frame, with two ...: own_batches, or likewise */
  _Atomic uint64_t own_batches[MODEL_MOST_BATCH];
  int64_t ir_version, opset;
  uint64_t weight_bytes, single_bytes, nodes, hash;
  uint64_t off_gpu; /* see operators.h */
  bool takes_rows;  /* the file leaves the first side of its input open */
  struct model_tensor input;
  unsigned output_count;
  struct model_tensor outputs[MODEL_MOST_OUTPUTS];
  struct parts parts; /* of all outputs in one frame */
  const struct onnxruntime *runtime;
  struct ort_session *session;
};

/* How many frames it computes at once at most. */
static inline unsigned model_rows(const struct model *model) { return model->batch.most > 1 ? model->batch.most : 1; }

/* -- bytes.c: files as they were at one moment ------------------------------------------------------------------------- */

struct model_bytes {
  unsigned char *bytes;
  size_t count;
  uint64_t hash;
  unsigned char *files[ONNX_MOST_FILES]; /* those beside it, in the order of struct onnx_file */
  size_t file_counts[ONNX_MOST_FILES];
  struct kept_file kept[1 + ONNX_MOST_FILES]; /* what they were read from, unless somebody takes it */
};

/* Reads the file, what it says, and the files that it names. On false nothing is left to free. */
bool model_bytes_read(const char *path, struct model_bytes *bytes, struct onnx_file *file, struct gpu_error *error);
/* The same once more of an open model's files, also if others stand in their place. */
bool model_bytes_read_again(const struct model *model, struct model_bytes *bytes, struct onnx_file *file,
                            struct gpu_error *error);
void model_bytes_free(struct model_bytes *bytes);

/* -- signature.c ------------------------------------------------------------------------------------------------------- */

/* The one input, with the sides of `settings` where the file leaves them open. */
bool signature_read_input(struct model *model, const struct onnx_file *file, const struct model_settings *settings,
                          struct gpu_error *error);
/* Fills in what a tensor is as part of a frame, from its type, rank and shape. `what`: "input" or "output". */
bool signature_set_format(const struct model *model, struct model_tensor *tensor, const char *what, struct gpu_error *error);

/* -- session.c --------------------------------------------------------------------------------------------------------- */

/* What every session of the model has; for the caller to release. NULL on error. */
struct ort_options *session_options(const struct model *model, const struct model_bytes *bytes, const struct onnx_file *file,
                                    struct gpu_error *error);
/* Puts why the library refused to open it into our words. Returns false. */
bool session_explain(const struct model *model, struct gpu_error *error);
/* Makes the session and learns the outputs from it. */
bool session_open(struct model *model, const struct model_bytes *bytes, const struct onnx_file *file, struct gpu_error *error);
void session_close(struct model *model);

#endif
