#include "tests/unit/cuda/fake_world.h"

#include "gpu/backend.h"
#include "gpu/cuda/copy.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

int current_device = -1;
struct fake_world fake;

void *fake_keep(void *object) {
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

void fake_release(void *object) {
  unsigned i = 0;
  while (fake.objects[i] != object) {
    i++;
    require(i < MAX_OBJECTS, "an object ends twice");
  }
  fake.objects[i] = NULL;
  fake.alive--;
  free(object);
}

void fake_free_operations(struct operation **first) {
  while (*first) {
    struct operation *operation = *first;
    *first = operation->next;
    free(operation);
  }
}

void fake_reset(void) {
  for (struct fake_stream *stream = fake.streams; stream; stream = stream->next) {
    fake_free_operations(&stream->first);
  }
  for (struct fake_graph *graph = fake.graphs; graph; graph = graph->next) {
    fake_free_operations(&graph->first);
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

void fake_set_old(void) { fake.old = true; }

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

cudaError_t fake_failed(cudaError_t status) {
  fake.last_error = status;
  return status;
}

cudaError_t fake_begin(void) {
  fake.calls++;
  if (fake.fail_in > 0 && --fake.fail_in == 0) {
    fake.dead = fake.sticky ? fake.fail_with : cudaSuccess;
    return fake_failed(fake.fail_with);
  }
  return fake.dead ? fake_failed(fake.dead) : cudaSuccess;
}

cudaError_t fake_begin_on_device(void) {
  require(current_device >= 0, "a call without a current device");
  return fake_begin();
}

cudaError_t fake_begin_on_stream(const struct fake_stream *stream) {
  require(stream != NULL, "a call on the default stream");
  return fake_begin_on_device();
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

void fake_run_some(void) {
  if (!run_streams(false)) {
    run_streams(true);
  }
}

struct operation *fake_push(struct fake_stream *stream, enum operation_kind kind) {
  struct operation *operation = calloc(1, sizeof *operation);
  struct operation ***last = stream->capture ? &stream->capture->last : &stream->last;
  require(operation, "no memory");
  operation->kind = kind;
  **last = operation;
  *last = &operation->next;
  return operation;
}

void fake_enqueue_record(struct operation *operation) {
  fake.records++;
  operation->generation = ++operation->event->recorded;
}

void fake_launch(cudaStream_t stream, void (*run)(void *argument), void *argument, int64_t ns) {
  require(stream, "a launch on the default stream");
  require(fake.last_error == cudaSuccess, "a launch would be blamed for an earlier error");
  struct operation *operation = fake_push(stream, OPERATION_KERNEL);
  operation->run = run;
  operation->argument = argument;
  operation->ns = ns;
}

void fake_push_copy(struct fake_stream *stream, enum operation_kind kind, void *to, const void *from, size_t bytes) {
  struct operation *operation = fake_push(stream, kind);
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
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    fake_push_copy(stream, OPERATION_KERNEL_COPY, to, from, bytes);
  }
  return (int)status;
}
