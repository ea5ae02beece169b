/* Green contexts of a device that has 132 multiprocessors and gives them out by eights. */
#include "tests/unit/cuda/fake_world.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

enum { PROCESSORS = 132, EACH = 8, GROUPS = PROCESSORS / EACH };

struct fake_context {
  unsigned groups; /* a bit for each */
};

static struct fake_context described; /* by the last description */

static CUresult get_resource(CUdevice device, CUdevResource *resource, CUdevResourceType type) {
  ck_assert(device >= 0 && type == CU_DEV_RESOURCE_TYPE_SM);
  *resource = (CUdevResource){.type = type, .sm = {.smCount = PROCESSORS}};
  return (CUresult)fake_begin_on_device();
}

static CUresult split(CUdevResource *groups, unsigned *count, const CUdevResource *whole, CUdevResource *rest, unsigned flags,
                      unsigned least) {
  ck_assert(*count >= GROUPS && whole->sm.smCount == PROCESSORS && !rest && flags == 0 && least == 1);
  for (*count = 0; *count < GROUPS; ++*count) {
    groups[*count] = (CUdevResource){.type = whole->type, .sm.smCount = EACH, .number = *count};
  }
  return (CUresult)fake_begin_on_device();
}

static CUresult describe(CUdevResourceDesc *description, CUdevResource *resources, unsigned count) {
  described.groups = 0;
  for (unsigned i = 0; i < count; i++) {
    ck_assert_uint_eq(described.groups >> resources[i].number & 1, 0);
    described.groups |= 1U << resources[i].number;
  }
  *description = NULL;
  return (CUresult)fake_begin_on_device();
}

static CUresult create(CUgreenCtx *context, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  ck_assert(!description && device >= 0 && flags == CU_GREEN_CTX_DEFAULT_STREAM && described.groups != 0);
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    *context = fake_keep(malloc(sizeof described));
    **context = described;
  }
  return (CUresult)status;
}

static CUresult destroy(CUgreenCtx context) {
  for (const struct fake_stream *stream = fake.streams; stream; stream = stream->next) {
    ck_assert_ptr_ne(stream->context, context);
  }
  cudaError_t status = fake_begin_on_device();
  if (status == cudaSuccess) {
    fake_release(context);
  }
  return (CUresult)status;
}

static CUresult make_stream(CUstream *stream, CUgreenCtx context, unsigned flags, int priority) {
  ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
  cudaError_t status = cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority);
  if (status == cudaSuccess) {
    (*stream)->context = context;
  }
  return (CUresult)status;
}

unsigned fake_groups(cudaStream_t stream) { return stream->context ? stream->context->groups : 0; }

void fake_set_ungreen(void) { fake.ungreen = true; }

void fake_set_driver(int version) { fake.driver = version; }

cudaError_t cudaDriverGetVersion(int *version) {
  *version = fake.driver;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
  static const struct {
    const char *name;
    void (*function)(void);
  } functions[] = {
      {"cuDeviceGetDevResource", (void (*)(void))get_resource}, {"cuDevSmResourceSplitByCount", (void (*)(void))split},
      {"cuDevResourceGenerateDesc", (void (*)(void))describe},  {"cuGreenCtxCreate", (void (*)(void))create},
      {"cuGreenCtxDestroy", (void (*)(void))destroy},           {"cuGreenCtxStreamCreate", (void (*)(void))make_stream}};
  size_t i = 0;
  ck_assert(version == 12050 && flags == cudaEnableDefault);
  while (i < sizeof functions / sizeof functions[0] && strcmp(functions[i].name, symbol) != 0) {
    i++;
  }
  *function = NULL;
  *found = cudaDriverEntryPointSymbolNotFound;
  if (!fake.ungreen) {
    ck_assert_uint_lt(i, sizeof functions / sizeof functions[0]);
    memcpy(function, &functions[i].function, sizeof *function);
    *found = cudaDriverEntryPointSuccess;
  }
  return fake_begin();
}
