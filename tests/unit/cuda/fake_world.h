/*
 * What the fake runtime consists of, for those of its files that make up CUDA's calls.
 *
 * A stream is a list of operations, and so is a graph. An object that was kept lives until it is released, once.
 */
#ifndef FRAMED_TESTS_UNIT_CUDA_FAKE_WORLD_H
#define FRAMED_TESTS_UNIT_CUDA_FAKE_WORLD_H

#include "tests/unit/cuda/fake_cuda.h"

enum operation_kind {
  OPERATION_COPY,
  OPERATION_KERNEL_COPY,
  OPERATION_SET,
  OPERATION_RECORD,
  OPERATION_WAIT,
  OPERATION_FUNCTION,
  OPERATION_KERNEL
};

struct operation {
  struct operation *next;
  enum operation_kind kind;
  void *to;
  const void *from;
  size_t bytes;
  int value;
  struct fake_event *event;
  unsigned generation; /* of the event: which record is meant */
  void (*run)(void *argument);
  void *argument;
  int64_t ns;
};

struct fake_graph {
  struct fake_graph *next;
  struct operation *first, **last;
};

struct fake_stream {
  struct fake_stream *next;
  struct operation *first, **last;
  int priority;
  struct fake_context *context; /* green; NULL: that of the device */
  struct fake_graph *capture;   /* what is enqueued goes there */
};

struct fake_event {
  unsigned recorded, happened; /* how often it was put on a stream, and reached */
  int64_t at;
  bool timed;
};

enum { MAX_OBJECTS = 1024, FEW_BYTES = 8 };

extern int current_device; /* of the one thread there is; the backend remembers it too */

struct fake_world {
  struct fake_stream *streams;
  struct fake_graph *graphs;
  void *objects[MAX_OBJECTS]; /* streams, events, allocations */
  unsigned alive, calls, functions, launches, records, kernel_copies;
  unsigned seed;
  bool polling, late_records, blind, old, ungreen;
  int driver; /* its version, as CUDA counts them; 0: there is none */
  int64_t now, copy_ns, event_ns;
  int64_t host_now, host_step, engine_cost, kernel_cost;
  unsigned fail_in;
  cudaError_t fail_with;
  bool sticky;
  cudaError_t dead, last_error;
  void *pinned;
};

extern struct fake_world fake;

/* What every call that may fail begins with, by what it needs. */
cudaError_t fake_begin(void);
cudaError_t fake_begin_on_device(void);
cudaError_t fake_begin_on_stream(const struct fake_stream *stream);
cudaError_t fake_failed(cudaError_t status); /* remembers it as the last error; returns it */

void *fake_keep(void *object);
void fake_release(void *object);

struct operation *fake_push(struct fake_stream *stream, enum operation_kind kind);
void fake_push_copy(struct fake_stream *stream, enum operation_kind kind, void *to, const void *from, size_t bytes);
/* A record takes its number where it is put on a stream: for one in a graph, at each launch. */
void fake_enqueue_record(struct operation *operation);
void fake_free_operations(struct operation **first);
/* What time does by itself where tests poll. */
void fake_run_some(void);

#endif
