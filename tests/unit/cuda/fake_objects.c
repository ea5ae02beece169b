/* CUDA's calls of devices, memory, streams and events, as the fake runtime has them. */
#include "tests/unit/cuda/fake_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

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
  return fake_begin();
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *address) {
  *device = address[0] ? 0 : 1;
  return fake_begin();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  snprintf(properties->name, sizeof properties->name, "Fake %d", device);
  properties->pciDomainID = 1;
  properties->pciBusID = 0xc8;
  properties->pciDeviceID = device;
  properties->canUseHostPointerForRegisteredMem = !fake.blind;
  properties->major = 7;
  properties->minor = fake.old ? 0 : 5;
  return fake_begin();
}

int fake_pci_node(const char *directory, const char *address) {
  ck_assert_str_eq(directory, "/sys/bus/pci/devices");
  return strcmp(address, "0001:c8:01.0") == 0 ? 3 : -1;
}

cudaError_t cudaSetDevice(int device) {
  cudaError_t status = fake_begin();
  current_device = status == cudaSuccess ? device : current_device;
  return status;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  *available = 1000;
  *total = 2000;
  return fake_begin_on_device();
}

cudaError_t cudaHostRegister(void *base, size_t bytes, unsigned flags) {
  cudaError_t status = fake_begin_on_device();
  (void)flags;
  if (status == cudaSuccess) {
    ck_assert_uint_gt(bytes, 0);
    fake.pinned = base;
    fake.alive++;
  }
  return status;
}

cudaError_t cudaHostUnregister(void *base) {
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    ck_assert_ptr_eq(base, fake.pinned);
    fake.alive--;
  }
  return status;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    ck_assert_int_eq(posix_memalign(memory, 256, bytes), 0);
    memset(fake_keep(*memory), 0xaa, bytes);
  }
  return status;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
  ck_assert_uint_eq(flags, cudaHostAllocDefault);
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeHost(void *memory) { return cudaFree(memory); }

cudaError_t cudaFree(void *memory) {
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    fake_release(memory);
  }
  return status;
}

/* -- streams ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return fake_begin_on_device();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  cudaError_t status = fake_begin_on_device();
  ck_assert_uint_eq(flags, cudaStreamNonBlocking);
  if (status == cudaSuccess) {
    *stream = fake_keep(calloc(1, sizeof **stream));
    (*stream)->last = &(*stream)->first;
    (*stream)->priority = priority;
    (*stream)->next = fake.streams;
    fake.streams = *stream;
  }
  return status;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct fake_stream **link = &fake.streams;
    fake_run_all(); /* what is on a stream outlives it */
    while (*link != stream) {
      link = &(*link)->next;
    }
    *link = stream->next;
    fake_release(stream);
  }
  return status;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    fake_run_all();
  }
  return fake.dead ? fake_failed(fake.dead) : status;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  require(!stream->capture, "a query during a capture");
  fake_run_some();
  return status == cudaSuccess && stream->first ? fake_failed(fake.dead ? fake.dead : cudaErrorNotReady) : status;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  cudaError_t status = fake_begin_on_stream(stream);
  (void)flags;
  if (status == cudaSuccess) {
    struct operation *operation = fake_push(stream, OPERATION_WAIT);
    require(!stream->capture, "what waits within a graph is not known to wait for the right record");
    require(event->recorded > 0, "a wait for an event that was never recorded waits for nothing");
    operation->event = event;
    operation->generation = event->recorded;
  }
  return status;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  (void)kind;
  if (status == cudaSuccess) {
    fake_push_copy(stream, OPERATION_COPY, to, from, bytes);
  }
  return status;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct operation *operation = fake_push(stream, OPERATION_SET);
    operation->to = memory;
    operation->value = value;
    operation->bytes = bytes;
  }
  return status;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct operation *operation = fake_push(stream, OPERATION_FUNCTION);
    operation->run = function;
    operation->argument = argument;
    fake.functions += stream->capture ? 0 : 1;
  }
  return status;
}

/* -- events ------------------------------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    *event = fake_keep(calloc(1, sizeof **event));
    (*event)->timed = flags != cudaEventDisableTiming;
  }
  return status;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    fake_release(event);
  }
  return status;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    struct operation *operation = fake_push(stream, OPERATION_RECORD);
    require((stream->capture != NULL) == (flags == cudaEventRecordExternal), "an event is external in graphs, and there alone");
    operation->event = event;
    operation->ns = event->timed ? fake.event_ns : 0;
    if (!stream->capture) {
      fake_enqueue_record(operation);
    }
    if (fake.polling && !fake.late_records && event->timed && stream->first == operation) {
      fake_run_stream(stream, 1);
    }
  }
  return status;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }

cudaError_t cudaEventQuery(cudaEvent_t event) {
  cudaError_t status = fake_begin_on_device();
  fake_run_some();
  if (status == cudaSuccess && event->happened < event->recorded) {
    return fake_failed(fake.dead ? fake.dead : cudaErrorNotReady);
  }
  return status;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  cudaError_t status = fake_begin_on_device();
  require(start->timed && end->timed, "the time of an event that takes none");
  require(start->recorded > 0 && start->happened == start->recorded, "the time of an event that has not happened");
  require(end->recorded > 0 && end->happened == end->recorded, "the time of an event that has not happened");
  *ms = (float)((double)(end->at - start->at) / 1e6);
  return status;
}
