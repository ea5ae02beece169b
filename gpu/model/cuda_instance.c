/* Makes instances of models on a GPU and puts frames through them; see cuda_instance.h. */
#include "gpu/model/cuda_instance.h"
#include "gpu/cpu/pool.h"
#include "gpu/model/operators.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The runtime runs once or twice as it is, then captures. */
enum { MOST_RUNS = 5, MOST_AT_ONCE = 8, MOST_BYTES = 512 << 20 };

#define CHECK(instance, error, function, ...)                                                                                  \
  onnxruntime_check((instance)->model->runtime, (instance)->model->runtime->function(__VA_ARGS__), (instance)->model->path,    \
                    (error))

/* -- memory ------------------------------------------------------------------------------------------------------------- */

static bool allocate(struct cuda_instance *instance, unsigned char **memory, size_t bytes, struct gpu_error *error) {
  void *found = NULL;
  bool good = CUDA_CALL(instance->device, error, cudaMalloc, &found, bytes) &&
              CUDA_CALL(instance->device, error, cudaMemsetAsync, found, 0, bytes, instance->stream);
  *memory = found;
  return good;
}

/* The table of all outputs does not change: it is there before the first frame. */
static bool make_places(struct cuda_instance *instance, const struct stage_buffers *slot, struct gpu_error *error) {
  const struct model *model = instance->model;
  if (!allocate(instance, &instance->workspace, PROVIDER_WORKSPACE, error) ||
      !allocate(instance, &instance->outputs, instance->rows * parts_bytes(&model->parts), error) ||
      !CUDA_CALL(instance->device, error, cudaMemcpyAsync, instance->outputs, &model->parts, sizeof model->parts,
                 cudaMemcpyHostToDevice, instance->stream)) {
    return false;
  }
  if (slot) {
    instance->places = *slot;
    return true;
  }
  instance->places.output = instance->outputs;
  if (!allocate(instance, &instance->input, instance->rows * model->input.bytes, error)) {
    return false;
  }
  instance->places.input = instance->input;
  return true;
}

unsigned char *cuda_instance_output(const struct cuda_instance *instance, unsigned index) {
  return instance->outputs + instance->rows * instance->model->parts.parts[index].offset;
}

static void *find_output(const struct cuda_instance *instance, unsigned index) {
  const struct part *part = &instance->model->parts.parts[index];
  bool in_slot = instance->bound && (instance->chosen == MODEL_ALL || instance->chosen == (int)index);
  if (!in_slot) {
    return cuda_instance_output(instance, index);
  }
  return (unsigned char *)instance->places.output + (instance->chosen != MODEL_ALL ? 0 : part->offset);
}

/* -- session ------------------------------------------------------------------------------------------------------------ */

static bool refuse_operators(const struct cuda_instance *instance, struct gpu_error *error) {
  char operators[OPERATORS_TEXT];
  operators_describe(instance->model->off_gpu, operators);
  return gpu_error_set(
      error, 0, "run the pipeline with gpu.backend cpu, or export the model without If, Loop, Scan and operators on shapes",
      "%s has operators that ONNX Runtime does not compute on a GPU alone%s%s", instance->model->path, *operators ? ": " : "",
      operators);
}

static bool explain(const struct cuda_instance *instance, struct gpu_error *error) {
  bool needs_cpu =
      strstr(error->text, "fallback to CPU EP") || strstr(error->text, "graph capture") || strstr(error->text, "control flow");
  if (needs_cpu) {
    return refuse_operators(instance, error);
  }
  if (strstr(error->text, "Failed to allocate memory") || strstr(error->text, "smaller than requested bytes")) {
    return gpu_error_set(error, 0, "give it more `memory` or fewer `instances`, or free some of the GPU's", "%s: %s%s",
                         instance->model->path, "no memory on the GPU for an instance",
                         instance->model->memory > 0 ? ", which has a limit (memory)" : "");
  }
  return session_explain(instance->model, error);
}

static bool create_session(struct cuda_instance *instance, const struct model_bytes *bytes, const struct onnx_file *file,
                           struct gpu_error *error) {
  const struct model *model = instance->model;
  const int index = ((struct cuda_device *)instance->device)->index;
  struct ort_options *options = session_options(model, bytes, file, error);
  if (!options) {
    return false;
  }
  bool good = CHECK(instance, error, set_threads, options, 1) &&
              CHECK(instance, error, configure, options, "session.disable_cpu_ep_fallback", "1") &&
              provider_append(model, options, index, instance->stream, &instance->choice, error);
  if (good &&
      !CHECK(instance, error, create_session, model->runtime->env, bytes->bytes, bytes->count, options, &instance->session)) {
    good = explain(instance, error);
  }
  model->runtime->release_options(options);
  return good;
}

static bool bind(struct cuda_instance *instance, const struct model_tensor *tensor, void *place, bool is_input,
                 struct gpu_error *error) {
  const struct onnxruntime *runtime = instance->model->runtime;
  struct ort_value *value = NULL;
  int64_t shape[MODEL_MOST_RANK];
  memcpy(shape, tensor->shape, sizeof shape);
  shape[0] = instance->rows > 1 ? instance->rows : shape[0];
  if (!CHECK(instance, error, create_tensor, instance->memory, place, instance->rows * tensor->bytes, shape, tensor->rank,
             tensor->type, &value)) {
    return false;
  }
  bool good = is_input ? CHECK(instance, error, bind_input, instance->binding, tensor->name, value)
                       : CHECK(instance, error, bind_output, instance->binding, tensor->name, value);
  runtime->release_value(value); /* the binding holds it */
  return good;
}

static bool bind_all(struct cuda_instance *instance, struct gpu_error *error) {
  const struct model *model = instance->model;
  const int index = ((struct cuda_device *)instance->device)->index;
  if (!CHECK(instance, error, create_memory, "Cuda", ORT_DEVICE, index, ORT_MEMORY_DEFAULT, &instance->memory) ||
      !CHECK(instance, error, create_binding, instance->session, &instance->binding) ||
      !bind(instance, &model->input, instance->places.input, true, error)) {
    return false;
  }
  for (unsigned i = 0; i < model->output_count; i++) {
    if (!bind(instance, &model->outputs[i], find_output(instance, i), false, error)) {
      return false;
    }
  }
  return true;
}

static bool capture(struct cuda_instance *instance, struct gpu_error *error) {
  for (int i = 0; i < MOST_RUNS && !instance->capture.exec; i++) {
    bool runs = CHECK(instance, error, run_bound, instance->session, NULL, instance->binding);
    if (!runs || !CUDA_CALL(instance->device, error, cudaStreamSynchronize, instance->stream)) {
      return !runs && instance->model->off_gpu ? refuse_operators(instance, error) : false;
    }
  }
  return instance->capture.exec ||
         gpu_error_set(error, 0, "run the pipeline with gpu.backend cpu", "%s: ONNX Runtime %s captures no graph of it",
                       instance->model->path, instance->model->runtime->version);
}

/* -- opening and closing ------------------------------------------------------------------------------------------------ */

static void drop_session(struct cuda_instance *instance) {
  const struct onnxruntime *runtime = instance->model->runtime;
  struct gpu_error error;
  if (instance->capture.graph) {
    (void)CUDA_CALL(instance->device, &error, cudaGraphDestroy, instance->capture.graph);
  }
  if (instance->binding) {
    runtime->release_binding(instance->binding);
  }
  if (instance->memory) {
    runtime->release_memory(instance->memory);
  }
  if (instance->session) {
    runtime->release_session(instance->session);
  }
  instance->capture.graph = NULL;
  instance->capture.exec = NULL;
  instance->binding = NULL;
  instance->memory = NULL;
  instance->session = NULL;
}

struct cuda_instance *cuda_instance_close(struct cuda_instance *instance) {
  struct gpu_error error;
  if (!instance || gpu_device_is_dead(instance->device, NULL) || !cuda_enter(instance->device, &error)) {
    return NULL; /* what the library would do on a dead device ends the process */
  }
  void *const memory[] = {instance->workspace, instance->input, instance->outputs};
  cudaEvent_t const events[] = {instance->entered, instance->done};
  drop_session(instance);
  for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
    if (memory[i]) {
      (void)CUDA_CALL(instance->device, &error, cudaFree, memory[i]);
    }
  }
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
    if (events[i]) {
      (void)CUDA_CALL(instance->device, &error, cudaEventDestroy, events[i]);
    }
  }
  if (instance->stream) {
    (void)CUDA_CALL(instance->device, &error, cudaStreamDestroy, instance->stream);
  }
  atomic_fetch_sub_explicit(&instance->device->allocated, instance->bytes, memory_order_relaxed);
  pthread_mutex_destroy(&instance->lock);
  free(instance);
  return NULL;
}

/* What is not made for channels last is opened as the file has it. */
static bool open_session(struct cuda_instance *instance, const struct model_bytes *bytes, const struct onnx_file *file,
                         struct gpu_error *error) {
  const bool layouts[] = {instance->choice.channels_last, false};
  for (int attempt = 0; attempt < (layouts[0] ? 2 : 1); attempt++) {
    instance->choice.channels_last = layouts[attempt];
    instance->choice.adds_bias = instance->choice.adds_bias && layouts[attempt];
    if (create_session(instance, bytes, file, error) && bind_all(instance, error) && capture(instance, error)) {
      return true;
    }
    if (gpu_device_is_dead(instance->device, NULL)) {
      return false;
    }
    drop_session(instance);
  }
  return false;
}

static bool fill(struct cuda_instance *instance, const struct model_bytes *bytes, const struct onnx_file *file,
                 const struct stage_buffers *slot, struct gpu_error *error) {
  if (!cuda_enter(instance->device, error) ||
      !cuda_stream_new(instance->device, GPU_PRIORITY_NORMAL, NULL, &instance->stream, error) ||
      !CUDA_CALL(instance->device, error, cudaEventCreateWithFlags, &instance->entered, cudaEventDisableTiming) ||
      !CUDA_CALL(instance->device, error, cudaEventCreateWithFlags, &instance->done, cudaEventDisableTiming) ||
      !make_places(instance, slot, error)) {
    return false;
  }
  instance->capture.workspace = instance->workspace;
  provider_watch(&instance->capture);
  bool good = open_session(instance, bytes, file, error);
  provider_watch(NULL);
  return good;
}

static size_t free_memory(struct gpu_device *device) {
  size_t available = 0, total;
  return device->backend->memory(device, &available, &total) ? available : 0;
}

static void open_one(struct cuda_opening *opening) {
  struct cuda_instance *instance = calloc(1, sizeof *instance);
  if (!instance) {
    gpu_error_set(&opening->error, ENOMEM, NULL, "no memory for an instance of a model");
    return;
  }
  instance->device = opening->device;
  instance->model = opening->model;
  instance->bound = opening->slot != NULL;
  instance->chosen = opening->chosen;
  instance->rows = opening->rows;
  instance->choice = *opening->choice;
  pthread_mutex_init(&instance->lock, NULL);
  bool good = fill(instance, opening->bytes, opening->file, opening->slot, &opening->error);
  opening->instance = good ? instance : cuda_instance_close(instance);
}

/* Openings, which threads take in turn. */
struct openings {
  struct cuda_opening *list;
  unsigned count;
  _Atomic unsigned taken;
};

static void *open_some(void *context) {
  struct openings *openings = context;
  for (unsigned i = atomic_fetch_add(&openings->taken, 1); i < openings->count; i = atomic_fetch_add(&openings->taken, 1)) {
    open_one(&openings->list[i]);
  }
  return NULL;
}

/* Each that is being opened has the weights in the machine's own memory meanwhile. */
static void open_together(struct openings *openings) {
  const uint64_t most = MOST_BYTES / (openings->list[0].model->weight_bytes + 1) + 1;
  unsigned helpers = 0;
  pthread_t threads[MOST_AT_ONCE];
  while (helpers + 1 < openings->count && helpers + 1 < most && helpers + 1 < MOST_AT_ONCE &&
         gpu_thread_new(&threads[helpers], "framed-begin", open_some, openings) == 0) {
    helpers++;
  }
  open_some(openings);
  while (helpers > 0) {
    pthread_join(threads[--helpers], NULL);
  }
}

/* What one of them took of the device is not to be told from what others did at that moment. */
bool cuda_instance_open(struct cuda_opening *list, unsigned count, struct gpu_error *error) {
  struct openings openings = {.list = list, .count = count};
  struct gpu_device *device = list[0].device;
  size_t before = free_memory(device);
  bool good = true;
  open_together(&openings);
  size_t after = free_memory(device), bytes = before > after ? (before - after) / count : 0;
  for (unsigned i = 0; i < count; i++) {
    if (!list[i].instance && good) {
      *error = list[i].error;
      good = false;
    } else if (list[i].instance) {
      list[i].instance->bytes = bytes;
      atomic_fetch_add_explicit(&device->allocated, bytes, memory_order_relaxed);
    }
  }
  for (unsigned i = 0; i < count && !good; i++) {
    list[i].instance = cuda_instance_close(list[i].instance);
  }
  return good;
}

bool cuda_instance_read_file(const struct model *model, struct model_bytes *bytes, struct onnx_file *file,
                             struct gpu_error *error) {
  if (!model_bytes_read_again(model, bytes, file, error)) {
    return false;
  }
  if (bytes->hash == model->hash) {
    return true;
  }
  model_bytes_free(bytes);
  return gpu_error_set(error, 0, "put a new one in its place with mv, and run `framectl reload`",
                       "%s was written to since it was opened", model->path);
}

/* -- weighing ----------------------------------------------------------------------------------------------------------- */

static bool time_frames(struct cuda_instance *instance, const cudaEvent_t events[2], unsigned frames, float *ms,
                        struct gpu_error *error) {
  struct gpu_device *device = instance->device;
  bool good = CUDA_CALL(device, error, cudaEventRecord, events[0], instance->stream);
  for (unsigned i = 0; i < frames && good; i++) {
    good = CUDA_CALL(device, error, cudaGraphLaunch, instance->capture.exec, instance->stream);
  }
  good = good && CUDA_CALL(device, error, cudaEventRecord, events[1], instance->stream) &&
         CUDA_CALL(device, error, cudaStreamSynchronize, instance->stream) &&
         CUDA_CALL(device, error, cudaEventElapsedTime, ms, events[0], events[1]);
  *ms /= (float)frames;
  return good;
}

bool cuda_instance_time(struct cuda_instance *instance, unsigned frames, float *ms, struct gpu_error *error) {
  cudaEvent_t events[2] = {NULL, NULL};
  struct gpu_error other;
  bool good = CUDA_CALL(instance->device, error, cudaEventCreate, &events[0]) &&
              CUDA_CALL(instance->device, error, cudaEventCreate, &events[1]) &&
              time_frames(instance, events, frames, ms, error);
  for (int i = 0; i < 2; i++) {
    if (events[i]) {
      (void)CUDA_CALL(instance->device, &other, cudaEventDestroy, events[i]);
    }
  }
  return good;
}

/* -- frames ------------------------------------------------------------------------------------------------------------- */

/* cudaErrorNotReady must not be left behind as an error, for which the launch of a later stage would be blamed. */
bool cuda_instance_is_free(struct cuda_instance *instance) {
  struct gpu_error unsaid; /* what is wrong with a device is found by its frames */
  return cuda_progress(instance->device, cudaEventQuery(instance->done), "cudaEventQuery", &unsaid) == GPU_DONE;
}

/* CUDA 13 added the dependencies' data, of which there is none here, to both calls, under their old names. */
static cudaError_t capture_info(cudaStream_t stream, cudaGraph_t *graph, const cudaGraphNode_t **before, size_t *count) {
  enum cudaStreamCaptureStatus status;
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, &status, NULL, graph, before, NULL, count);
#else
  return cudaStreamGetCaptureInfo_v2(stream, &status, NULL, graph, before, count);
#endif
}

static cudaError_t depend_on(cudaStream_t stream, cudaGraphNode_t *node) {
#if CUDART_VERSION >= 13000
  return cudaStreamUpdateCaptureDependencies(stream, node, NULL, 1, cudaStreamSetCaptureDependencies);
#else
  return cudaStreamUpdateCaptureDependencies(stream, node, 1, cudaStreamSetCaptureDependencies);
#endif
}

/* Makes the graph a node of the one that is being captured. */
static cudaError_t add_child(const struct cuda_instance *instance, cudaStream_t stream) {
  cudaGraph_t graph;
  const cudaGraphNode_t *before;
  cudaGraphNode_t node;
  size_t count;
  cudaError_t result = capture_info(stream, &graph, &before, &count);
  result = result == cudaSuccess ? cudaGraphAddChildGraphNode(&node, graph, before, count, instance->capture.graph) : result;
  return result == cudaSuccess ? depend_on(stream, &node) : result;
}

/* An event around the model, of a frame that has times. */
static cudaError_t mark(void *event, bool captured, cudaStream_t stream) {
  return !event     ? cudaSuccess
         : captured ? cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal)
                    : cudaEventRecord(event, stream);
}

cudaError_t cuda_instance_run_bound(const struct cuda_instance *instance, struct stage_run *run, cudaStream_t stream) {
  enum cudaStreamCaptureStatus status;
  cudaError_t result = cudaStreamIsCapturing(stream, &status);
  bool captured = status == cudaStreamCaptureStatusActive;
  cuda_instance_tell(instance, run);
  result = result == cudaSuccess ? mark(run->began, captured, stream) : result;
  if (result == cudaSuccess) {
    result = captured ? add_child(instance, stream) : cudaGraphLaunch(instance->capture.exec, stream);
  }
  result = result == cudaSuccess ? mark(run->ended, captured, stream) : result;
  if (result == cudaSuccess && instance->chosen == MODEL_ALL) {
    result = cudaMemcpyAsync(instance->places.output, instance->outputs, sizeof instance->model->parts,
                             cudaMemcpyDeviceToDevice, stream);
  }
  return result;
}

/* The output, or all of them with their table, within the memory of a shared instance. */
static const void *find_result(const struct cuda_instance *instance, int chosen, size_t *bytes) {
  const struct parts *parts = &instance->model->parts;
  *bytes = chosen == MODEL_ALL ? parts_bytes(parts) : parts->parts[chosen].bytes;
  return instance->outputs + (chosen == MODEL_ALL ? 0 : parts->parts[chosen].offset);
}

static cudaError_t pass_through(struct cuda_instance *instance, const struct stage_call *call, int chosen,
                                cudaStream_t stream) {
  size_t bytes;
  const void *result = find_result(instance, chosen, &bytes);
  const size_t input_bytes = instance->model->input.bytes;
  cudaError_t status = cudaEventRecord(instance->entered, stream);
  status = status == cudaSuccess ? cudaStreamWaitEvent(instance->stream, instance->entered, 0) : status;
  status = status == cudaSuccess ? mark(call->run->began, false, instance->stream) : status;
  status = status == cudaSuccess
               ? cudaMemcpyAsync(instance->input, call->input, input_bytes, cudaMemcpyDeviceToDevice, instance->stream)
               : status;
  status = status == cudaSuccess ? cudaGraphLaunch(instance->capture.exec, instance->stream) : status;
  status =
      status == cudaSuccess ? cudaMemcpyAsync(call->output, result, bytes, cudaMemcpyDeviceToDevice, instance->stream) : status;
  status = status == cudaSuccess ? mark(call->run->ended, false, instance->stream) : status;
  status = status == cudaSuccess ? cudaEventRecord(instance->done, instance->stream) : status;
  return status == cudaSuccess ? cudaStreamWaitEvent(stream, instance->done, 0) : status;
}

cudaError_t cuda_instance_run_shared(struct cuda_instance *instance, const struct stage_call *call, int chosen,
                                     cudaStream_t stream) {
  cuda_instance_tell(instance, call->run);
  pool_take_lock(&instance->lock);
  cudaError_t status = pass_through(instance, call, chosen, stream);
  pthread_mutex_unlock(&instance->lock);
  return status;
}
