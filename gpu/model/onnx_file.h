/*
 * What a file of ONNX says of itself, read from its bytes alone: versions, inputs, size of weights, and which other files it
 * wants.
 *
 * The bytes may be anybody's. Reading them takes time and memory in proportion to their number, and everything that is given
 * points into them. Where a file is well formed its meaning is still ONNX Runtime's to judge.
 */
#ifndef FRAMED_GPU_MODEL_ONNX_FILE_H
#define FRAMED_GPU_MODEL_ONNX_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ONNX_MOST_INPUTS = 8, ONNX_MOST_RANK = 8, ONNX_MOST_FILES = 64, ONNX_PROBLEM = 200 };

struct onnx_text {
  const char *text; /* not terminated */
  size_t length;
};

/* Prints one with "%.*s", shortened: names come from strangers. */
#define ONNX_PRINT(name) (int)((name).length < 64 ? (name).length : 64), (name).text

struct onnx_input {
  struct onnx_text name;
  bool is_tensor, is_ranked;
  int type; /* enum onnx_type, or a number that is not supported */
  unsigned rank;
  int64_t shape[ONNX_MOST_RANK];          /* -1: open */
  struct onnx_text names[ONNX_MOST_RANK]; /* of open sides; may be empty */
};

struct onnx_file {
  int64_t ir_version, opset; /* opset of the standard operators; 0: not said */
  uint64_t weight_bytes, nodes;
  uint64_t single_bytes; /* of the weights, those of float32 */
  uint64_t off_gpu;      /* operators that a GPU does not compute alone: a bit for each, see operators.h */
  unsigned input_count;  /* without those that have a value in the file; `inputs` holds the first ones */
  struct onnx_input inputs[ONNX_MOST_INPUTS];
  unsigned file_count; /* files beside it that hold weights */
  char files[ONNX_MOST_FILES][NAME_MAX + 1];
  uint64_t file_bytes[ONNX_MOST_FILES]; /* which must be in them at least */
};

/* On false `problem` says in one sentence why it is no model that could be used. */
bool onnx_file_read(const void *bytes, size_t count, struct onnx_file *file, char problem[ONNX_PROBLEM]);

#endif
