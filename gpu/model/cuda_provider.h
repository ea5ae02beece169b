/*
 * ONNX Runtime's CUDA part: loading it, and getting hold of the graphs that it captures.
 *
 * Nothing gives those graphs away, and its replay of them costs a lane calls and memory that a graph of our own frames does
 * not. So the four functions of CUDA that it captures with are replaced in its table of imported functions.
 */
#ifndef FRAMED_GPU_MODEL_CUDA_PROVIDER_H
#define FRAMED_GPU_MODEL_CUDA_PROVIDER_H

#include "gpu/cuda/cuda.h"
#include "gpu/model/choice.h"
#include "gpu/model/private.h"

/* A workspace for cuBLAS, without which each capture would hold allocations, and a graph with such cannot be part of another.
 */
enum { PROVIDER_WORKSPACE = 32 << 20 };

/* What a thread that opens a session lets it do and learns of it. */
struct provider_capture {
  void *workspace;      /* PROVIDER_WORKSPACE bytes of the device, or NULL */
  cudaGraph_t graph;    /* what was captured, ours to destroy; NULL: nothing, or it cannot be part of another graph */
  cudaGraphExec_t exec; /* the session's own, which lives as long as that; NULL: nothing was captured */
};

/* While set, captures of this thread are noted there. NULL: no longer. */
void provider_watch(struct provider_capture *capture);

/* Loads the libraries that it needs, as long as it was not loaded with them: they may have been installed since. */
void provider_load(const struct onnxruntime *runtime);

/* Adds the CUDA part to the options of a session that computes on `stream`. */
bool provider_append(const struct model *model, struct ort_options *options, int device, cudaStream_t stream,
                     const struct model_choice *choice, struct gpu_error *error);

#endif
