/* CUDA's calls of captures and graphs, as the fake runtime has them. */
#include "tests/unit/cuda/fake_world.h"

#include <stdlib.h>

#include "tests/unit/runner.h"

static cudaGraph_t new_graph(void) {
  cudaGraph_t graph = fake_keep(calloc(1, sizeof *graph));
  graph->last = &graph->first;
  graph->next = fake.graphs;
  fake.graphs = graph;
  return graph;
}

static void free_graph(struct fake_graph *graph) {
  struct fake_graph **link = &fake.graphs;
  while (*link != graph) {
    require(*link != NULL, "a graph ends twice");
    link = &(*link)->next;
  }
  *link = graph->next;
  fake_free_operations(&graph->first);
  fake_release(graph);
}

static void copy_operations(const struct fake_graph *graph, struct fake_stream *stream) {
  for (const struct operation *from = graph->first; from; from = from->next) {
    struct operation *operation = fake_push(stream, from->kind);
    struct operation *next = operation->next;
    *operation = *from;
    operation->next = next;
    if (!stream->capture && operation->kind == OPERATION_RECORD) {
      fake_enqueue_record(operation);
    }
    fake.functions += !stream->capture && operation->kind == OPERATION_FUNCTION;
  }
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  cudaError_t status = fake_begin_on_stream(stream);
  ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
  if (status == cudaSuccess) {
    ck_assert_ptr_null(stream->capture);
    stream->capture = new_graph();
  }
  return status;
}

/* Ends the capture whether it fails or not, as CUDA does. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  cudaError_t status = fake_begin_on_stream(stream);
  ck_assert_ptr_nonnull(stream->capture);
  *graph = stream->capture;
  stream->capture = NULL;
  if (status != cudaSuccess) {
    free_graph(*graph);
    *graph = NULL;
  }
  return status;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t graph, unsigned long long flags) {
  cudaError_t status = fake_begin_on_device();
  ck_assert_uint_eq(flags, 0);
  if (status == cudaSuccess) {
    struct fake_stream whole = {.capture = new_graph()};
    copy_operations(graph, &whole);
    *result = whole.capture;
  }
  return status;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
  ck_assert_ptr_nonnull(graph);
  return fake_begin_on_stream(stream);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  require(graph, "a launch of no graph");
  if (status == cudaSuccess) {
    fake.launches++;
    copy_operations(graph, stream);
  }
  return status;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  cudaError_t status = fake_begin_on_device();
  free_graph(graph); /* also where it fails: nobody can try again */
  return status;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }
