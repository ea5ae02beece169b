/*
 * Instances of a model on a GPU: each has a session of ONNX Runtime with weights and memory of its own, and a graph that
 * computes one frame from a fixed place to a fixed place.
 *
 * ONNX Runtime runs while an instance is made, until it has captured its graph, and never again: frames replay that graph.
 * An instance of several rows computes as many frames at once; their outputs lie row by row. Where the places are a slot's own
 * buffers the instance is bound to the slot; otherwise it is shared, has a stream of its own, and frames of any slot are copied
 * in and out of its places.
 */
#ifndef FRAMED_GPU_MODEL_CUDA_INSTANCE_H
#define FRAMED_GPU_MODEL_CUDA_INSTANCE_H

#include "gpu/model/cuda_provider.h"

#include <pthread.h>

struct cuda_instance {
  struct model *model;
  unsigned number; /* of those of its model on its device, from 1 */
  struct gpu_device *device;
  bool bound;
  unsigned rows; /* frames that it computes at once */
  struct model_choice choice;
  int chosen; /* what a bound one gives */
  cudaStream_t stream;
  cudaEvent_t entered, done;        /* of a shared one: the latest frame may begin, and has ended */
  unsigned char *workspace, *input; /* input: NULL where it is the slot's */
  unsigned char *outputs;           /* all of them, as gpu/model/parts.h says, with the table */
  struct stage_buffers places;      /* what the graph reads and writes */
  struct ort_session *session;
  struct ort_binding *binding;
  struct ort_memory_info *memory;
  struct provider_capture capture;
  size_t bytes;         /* what it took of the device */
  pthread_mutex_t lock; /* of a shared one: frames are put onto its stream by one lane at a time */
};

/* What the instance tells of a frame. */
static inline void cuda_instance_tell(const struct cuda_instance *instance, struct stage_run *run) {
  run->instance = instance->number;
  run->served = instance->number <= MODEL_MOST_INSTANCES ? &instance->model->served[instance->number - 1] : NULL;
}

/* What an instance is made of. */
struct cuda_opening {
  struct gpu_device *device;
  struct model *model;
  const struct model_bytes *bytes;
  const struct onnx_file *file;
  const struct model_choice *choice;
  const struct stage_buffers *slot; /* that it is bound to, with one output; NULL: it is shared */
  int chosen;                       /* the output; MODEL_ALL where it is shared */
  unsigned rows;                    /* 1, or more where it is shared */
  struct cuda_instance *instance;   /* what was made */
  struct gpu_error error;           /* or why nothing was */
};

/* Makes so many of one model on one device, some at the same time: all, or none and an error. For threads that set up. */
bool cuda_instance_open(struct cuda_opening *openings, unsigned count, struct gpu_error *error);
/* Where the results of one output begin, of an instance that is shared. */
unsigned char *cuda_instance_output(const struct cuda_instance *instance, unsigned index);
/* The file as it was when the model was opened; for the caller to free. */
bool cuda_instance_read_file(const struct model *model, struct model_bytes *bytes, struct onnx_file *file,
                             struct gpu_error *error);
/* Nothing may be on the device that uses it. On a dead device it is left as it is. NULL is fine; returns NULL. */
struct cuda_instance *cuda_instance_close(struct cuda_instance *instance);

/* Whether its graph can be part of another one. */
static inline bool cuda_instance_is_child(const struct cuda_instance *instance) { return instance->capture.graph != NULL; }
/* Milliseconds of one of so many frames in a row, with nothing else on the device. For threads that set up. */
bool cuda_instance_time(struct cuda_instance *instance, unsigned frames, float *ms, struct gpu_error *error);
/* Whether no frame is in a shared one. */
bool cuda_instance_is_free(struct cuda_instance *instance);

/* [lane] Enqueue one frame; of a bound one on the slot's stream, which may be under capture if the instance is a child. */
cudaError_t cuda_instance_run_bound(const struct cuda_instance *instance, struct stage_run *run, cudaStream_t stream);
cudaError_t cuda_instance_run_shared(struct cuda_instance *instance, const struct stage_call *call, int chosen,
                                     cudaStream_t stream);

#endif
