#include "tests/unit/cuda/fake_cuda.h"
#include "gpu/backend.h"
#include "gpu/cuda_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

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
  struct fake_graph *capture; /* what is enqueued goes there */
};

struct fake_event {
  unsigned recorded, happened; /* how often it was put on a stream, and reached */
  int64_t at;
  bool timed;
};

enum { MAX_OBJECTS = 1024, FEW_BYTES = 8 };

static int current_device = -1; /* of the one thread there is; the backend remembers it too */

static struct {
  struct fake_stream *streams;
  struct fake_graph *graphs;
  void *objects[MAX_OBJECTS]; /* streams, events, allocations */
  unsigned alive, calls, functions, launches, records, kernel_copies;
  unsigned seed;
  bool polling, late_records, blind;
  int64_t now, copy_ns, event_ns;
  int64_t host_now, host_step, engine_cost, kernel_cost;
  unsigned fail_in;
  cudaError_t fail_with;
  bool sticky;
  cudaError_t dead, last_error;
  void *pinned;
} fake;

static void *keep(void *object) {
  unsigned i = 0;
  require(object, "no memory");
  while (fake.objects[i]) {
    i++;
    require(i < MAX_OBJECTS, "too many objects are alive");
  }
  fake.objects[i] = object;
  fake.alive++;
  return object;
}

static void release(void *object) {
  unsigned i = 0;
  while (fake.objects[i] != object) {
    i++;
    require(i < MAX_OBJECTS, "an object ends twice");
  }
  fake.objects[i] = NULL;
  fake.alive--;
  free(object);
}

static void free_operations(struct operation **first) {
  while (*first) {
    struct operation *operation = *first;
    *first = operation->next;
    free(operation);
  }
}

void fake_reset(void) {
  for (struct fake_stream *stream = fake.streams; stream; stream = stream->next) {
    free_operations(&stream->first);
  }
  for (struct fake_graph *graph = fake.graphs; graph; graph = graph->next) {
    free_operations(&graph->first);
  }
  for (unsigned i = 0; i < MAX_OBJECTS; i++) {
    free(fake.objects[i]);
  }
  memset(&fake, 0, sizeof fake);
  fake.polling = true;
  fake.now = 1000000;
  fake.copy_ns = 1000;
}

void fake_set_polling(bool runs) { fake.polling = runs; }

void fake_set_late_records(bool late) { fake.late_records = late; }

void fake_set_blind(bool blind) { fake.blind = blind; }

int64_t fake_host_now(void) {
  fake.host_now += fake.host_step;
  return fake.host_step > 0 ? fake.host_now : gpu_now();
}

void fake_set_host_step(int64_t ns) { fake.host_step = ns; }

void fake_set_copy_costs(int64_t engine_ns, int64_t kernel_ns) {
  fake.engine_cost = engine_ns;
  fake.kernel_cost = kernel_ns;
}

void fake_set_copy_ns(int64_t ns) { fake.copy_ns = ns; }
void fake_set_event_ns(int64_t ns) { fake.event_ns = ns; }
unsigned fake_calls(void) { return fake.calls; }
unsigned fake_alive(void) { return fake.alive; }
unsigned fake_host_functions(void) { return fake.functions; }
unsigned fake_graph_launches(void) { return fake.launches; }
unsigned fake_records(void) { return fake.records; }
unsigned fake_kernel_copies(void) { return fake.kernel_copies; }

void fake_fail(unsigned calls, cudaError_t status, bool sticky) {
  fake.fail_in = calls + 1;
  fake.fail_with = status;
  fake.sticky = sticky;
}

bool fake_heal(void) {
  bool to_come = fake.fail_in > 0;
  fake.fail_in = 0;
  return to_come;
}

void fake_set_seed(unsigned seed) { fake.seed = seed; }

void fake_die(cudaError_t status) { fake.dead = status; }

static cudaError_t failed(cudaError_t status) {
  fake.last_error = status;
  return status;
}

/* What every call that may fail begins with. */
static cudaError_t begin(void) {
  fake.calls++;
  if (fake.fail_in > 0 && --fake.fail_in == 0) {
    fake.dead = fake.sticky ? fake.fail_with : cudaSuccess;
    return failed(fake.fail_with);
  }
  return fake.dead ? failed(fake.dead) : cudaSuccess;
}

static cudaError_t begin_on_device(void) {
  require(current_device >= 0, "a call without a current device");
  return begin();
}

static cudaError_t begin_on_stream(const struct fake_stream *stream) {
  require(stream != NULL, "a call on the default stream");
  return begin_on_device();
}

/* -- running ------------------------------------------------------------------------------------------------------ */

static bool may_run(const struct operation *operation) {
  return operation->kind != OPERATION_WAIT || operation->event->happened >= operation->generation;
}

static void execute(const struct operation *operation) {
  fake.now += operation->ns;
  switch (operation->kind) {
  case OPERATION_KERNEL_COPY:
    fake.kernel_copies++;
    fake.host_now += fake.kernel_cost;
    memcpy(operation->to, operation->from, operation->bytes);
    break;
  case OPERATION_COPY:
    fake.host_now += fake.engine_cost;
    memcpy(operation->to, operation->from, operation->bytes);
    break;
  case OPERATION_SET:
    memset(operation->to, operation->value, operation->bytes);
    break;
  case OPERATION_RECORD:
    operation->event->happened = operation->generation;
    operation->event->at = fake.now;
    break;
  case OPERATION_WAIT:
    break;
  case OPERATION_FUNCTION:
  case OPERATION_KERNEL:
    operation->run(operation->argument);
    break;
  }
}

unsigned fake_run_stream(cudaStream_t stream, unsigned count) {
  unsigned done = 0;
  while (done < count && !fake.dead && stream->first && may_run(stream->first)) {
    struct operation *operation = stream->first;
    stream->first = operation->next;
    stream->last = stream->first ? stream->last : &stream->first;
    execute(operation);
    free(operation);
    done++;
  }
  return done;
}

void fake_run_all(void) {
  bool left, progress;
  do {
    left = progress = false;
    for (struct fake_stream *stream = fake.streams; stream; stream = stream->next) {
      progress = fake_run_stream(stream, 1) > 0 || progress;
      left = left || stream->first;
    }
    require(progress || !left || fake.dead, "streams wait for each other");
  } while (left && !fake.dead);
}

static unsigned pick(unsigned below) { return below ? (unsigned)rand_r(&fake.seed) % below : 0; }

/* Late records are those that have nothing behind them, for as long as another stream has. */
static bool run_streams(bool late) {
  bool any = false;
  for (struct fake_stream *stream = fake.streams; fake.polling && stream; stream = stream->next) {
    const struct operation *first = stream->first;
    bool waits = first && first->kind == OPERATION_RECORD && !first->next && fake.late_records;
    if (first && waits == late) {
      fake_run_stream(stream, pick(3));
      any = true;
    }
  }
  return any;
}

static void run_some(void) {
  if (!run_streams(false)) {
    run_streams(true);
  }
}

static struct operation *push(struct fake_stream *stream, enum operation_kind kind) {
  struct operation *operation = calloc(1, sizeof *operation);
  struct operation ***last = stream->capture ? &stream->capture->last : &stream->last;
  require(operation, "no memory");
  operation->kind = kind;
  **last = operation;
  *last = &operation->next;
  return operation;
}

void fake_launch(cudaStream_t stream, void (*run)(void *argument), void *argument, int64_t ns) {
  require(stream, "a launch on the default stream");
  require(fake.last_error == cudaSuccess, "a launch would be blamed for an earlier error");
  struct operation *operation = push(stream, OPERATION_KERNEL);
  operation->run = run;
  operation->argument = argument;
  operation->ns = ns;
}

static void push_copy(struct fake_stream *stream, enum operation_kind kind, void *to, const void *from, size_t bytes) {
  struct operation *operation = push(stream, kind);
  operation->to = to;
  operation->from = from;
  operation->bytes = bytes;
  operation->ns = bytes <= FEW_BYTES ? 0 : fake.copy_ns;
}

static void do_nothing(void *argument) { (void)argument; }

/* Stands in for the backend's own kernel. */
int cuda_nothing(void *stream);
int cuda_nothing(void *stream) {
  fake_launch(stream, do_nothing, NULL, 0);
  return cudaSuccess;
}

/* The same for the one that copies. */
int cuda_copy(void *to, const void *from, size_t bytes, void *stream) {
  cudaError_t status = begin_on_stream(stream);
  if (status == cudaSuccess) {
    push_copy(stream, OPERATION_KERNEL_COPY, to, from, bytes);
  }
  return (int)status;
}

/* -- errors and devices ------------------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void) {
  cudaError_t status = fake.last_error;
  fake.last_error = cudaSuccess;
  return status;
}

const char *cudaGetErrorName(cudaError_t status) {
  static char name[32];
  snprintf(name, sizeof name, "cudaError%d", (int)status);
  return name;
}

const char *cudaGetErrorString(cudaError_t status) { return status == cudaSuccess ? "no error" : "as the test wants it"; }

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 2;
  return begin();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  snprintf(properties->name, sizeof properties->name, "Fake %d", device);
  properties->pciDomainID = 1;
  properties->pciBusID = 0xc8;
  properties->pciDeviceID = device;
  properties->canUseHostPointerForRegisteredMem = !fake.blind;
  return begin();
}

int fake_pci_node(const char *directory, const char *address) {
  ck_assert_str_eq(directory, "/sys/bus/pci/devices");
  return strcmp(address, "0001:c8:01.0") == 0 ? 3 : -1;
}

cudaError_t cudaSetDevice(int device) {
  cudaError_t status = begin();
  current_device = status == cudaSuccess ? device : current_device;
  return status;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  *available = 1000;
  *total = 2000;
  return begin_on_device();
}

cudaError_t cudaHostRegister(void *base, size_t bytes, unsigned flags) {
  cudaError_t status = begin_on_device();
  (void)flags;
  if (status == cudaSuccess) {
    ck_assert_uint_gt(bytes, 0);
    fake.pinned = base;
    fake.alive++;
  }
  return status;
}

cudaError_t cudaHostUnregister(void *base) {
  cudaError_t status = begin_on_device();
  if (status == cudaSuccess) {
    ck_assert_ptr_eq(base, fake.pinned);
    fake.alive--;
  }
  return status;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
  cudaError_t status = begin_on_device();
  if (status == cudaSuccess) {
    ck_assert_int_eq(posix_memalign(memory, 256, bytes), 0);
    memset(keep(*memory), 0xaa, bytes);
  }
  return status;
}

cudaError_t cudaFree(void *memory) {
  cudaError_t status = begin_on_device();
  if (status == cudaSuccess) {
    release(memory);
  }
  return status;
}

/* -- streams ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  cudaError_t status = begin_on_device();
  ck_assert_uint_eq(flags, cudaStreamNonBlocking);
  if (status == cudaSuccess) {
    *stream = keep(calloc(1, sizeof **stream));
    (*stream)->last = &(*stream)->first;
    (*stream)->next = fake.streams;
    fake.streams = *stream;
  }
  return status;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaError_t status = begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct fake_stream **link = &fake.streams;
    fake_run_all(); /* what is on a stream outlives it */
    while (*link != stream) {
      link = &(*link)->next;
    }
    *link = stream->next;
    release(stream);
  }
  return status;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cudaError_t status = begin_on_stream(stream);
  if (status == cudaSuccess) {
    fake_run_all();
  }
  return fake.dead ? failed(fake.dead) : status;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  cudaError_t status = begin_on_stream(stream);
  require(!stream->capture, "a query during a capture");
  run_some();
  return status == cudaSuccess && stream->first ? failed(fake.dead ? fake.dead : cudaErrorNotReady) : status;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  cudaError_t status = begin_on_stream(stream);
  (void)flags;
  if (status == cudaSuccess) {
    struct operation *operation = push(stream, OPERATION_WAIT);
    require(!stream->capture, "what waits within a graph is not known to wait for the right record");
    require(event->recorded > 0, "a wait for an event that was never recorded waits for nothing");
    operation->event = event;
    operation->generation = event->recorded;
  }
  return status;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  cudaError_t status = begin_on_stream(stream);
  (void)kind;
  if (status == cudaSuccess) {
    push_copy(stream, OPERATION_COPY, to, from, bytes);
  }
  return status;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  cudaError_t status = begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct operation *operation = push(stream, OPERATION_SET);
    operation->to = memory;
    operation->value = value;
    operation->bytes = bytes;
  }
  return status;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
  cudaError_t status = begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct operation *operation = push(stream, OPERATION_FUNCTION);
    operation->run = function;
    operation->argument = argument;
    fake.functions += stream->capture ? 0 : 1;
  }
  return status;
}

/* -- events ------------------------------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  cudaError_t status = begin_on_device();
  if (status == cudaSuccess) {
    *event = keep(calloc(1, sizeof **event));
    (*event)->timed = flags != cudaEventDisableTiming;
  }
  return status;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaError_t status = begin_on_device();
  if (status == cudaSuccess) {
    release(event);
  }
  return status;
}

/* A record takes its number where it is put on a stream: for one in a graph, at each launch. */
static void enqueue_record(struct operation *operation) {
  fake.records++;
  operation->generation = ++operation->event->recorded;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  cudaError_t status = begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct operation *operation = push(stream, OPERATION_RECORD);
    require((stream->capture != NULL) == (flags == cudaEventRecordExternal), "an event is external in graphs, and there alone");
    operation->event = event;
    operation->ns = event->timed ? fake.event_ns : 0;
    if (!stream->capture) {
      enqueue_record(operation);
    }
    if (fake.polling && !fake.late_records && event->timed && stream->first == operation) {
      fake_run_stream(stream, 1);
    }
  }
  return status;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }

/* -- graphs ------------------------------------------------------------------------------------------------------- */

static cudaGraph_t new_graph(void) {
  cudaGraph_t graph = keep(calloc(1, sizeof *graph));
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
  free_operations(&graph->first);
  release(graph);
}

static void copy_operations(const struct fake_graph *graph, struct fake_stream *stream) {
  for (const struct operation *from = graph->first; from; from = from->next) {
    struct operation *operation = push(stream, from->kind);
    struct operation *next = operation->next;
    *operation = *from;
    operation->next = next;
    if (!stream->capture && operation->kind == OPERATION_RECORD) {
      enqueue_record(operation);
    }
    fake.functions += !stream->capture && operation->kind == OPERATION_FUNCTION;
  }
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  cudaError_t status = begin_on_stream(stream);
  ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
  if (status == cudaSuccess) {
    ck_assert_ptr_null(stream->capture);
    stream->capture = new_graph();
  }
  return status;
}

/* Ends the capture whether it fails or not, as CUDA does. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  cudaError_t status = begin_on_stream(stream);
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
  cudaError_t status = begin_on_device();
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
  return begin_on_stream(stream);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  cudaError_t status = begin_on_stream(stream);
  require(graph, "a launch of no graph");
  if (status == cudaSuccess) {
    fake.launches++;
    copy_operations(graph, stream);
  }
  return status;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  cudaError_t status = begin_on_device();
  free_graph(graph); /* also where it fails: nobody can try again */
  return status;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }

cudaError_t cudaEventQuery(cudaEvent_t event) {
  cudaError_t status = begin_on_device();
  run_some();
  if (status == cudaSuccess && event->happened < event->recorded) {
    return failed(fake.dead ? fake.dead : cudaErrorNotReady);
  }
  return status;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  cudaError_t status = begin_on_device();
  require(start->timed && end->timed, "the time of an event that takes none");
  require(start->recorded > 0 && start->happened == start->recorded, "the time of an event that has not happened");
  require(end->recorded > 0 && end->happened == end->recorded, "the time of an event that has not happened");
  *ms = (float)((double)(end->at - start->at) / 1e6);
  return status;
}
