/*
 * Shares of a device: multiprocessors that the kernels of one owner's programs keep to, by the driver's green contexts. Streams
 * are all that comes from such a context; memory, events and kernels are those of the device.
 *
 * The driver gives multiprocessors out in groups. A share has those that the fewest others have, so that shares have nothing in
 * common as long as they are no more than the whole. Where the driver or the toolkit of the build knows no green contexts,
 * programs have the whole device, and say why.
 */
#include "gpu/cuda/cuda.h"

#include <stdio.h>

#if CUDART_VERSION >= 12050

#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/driver.h"

enum { MOST_GROUPS = 64, SINCE = 12050 /* the driver of CUDA 12.5 */ };

/* Functions of the driver, which is not linked. */
struct driver {
  CUresult (*resource)(CUdevice device, CUdevResource *resource, CUdevResourceType type);
  CUresult (*split)(CUdevResource *groups, unsigned *count, const CUdevResource *whole, CUdevResource *rest, unsigned flags,
                    unsigned least);
  CUresult (*describe)(CUdevResourceDesc *description, CUdevResource *resources, unsigned count);
  CUresult (*create)(CUgreenCtx *context, CUdevResourceDesc description, CUdevice device, unsigned flags);
  CUresult (*destroy)(CUgreenCtx context);
  CUresult (*stream)(CUstream *stream, CUgreenCtx context, unsigned flags, int priority);
};

struct cuda_share {
  struct cuda_share *next;
  char *owner;
  unsigned percent, programs, processors;
  bool has[MOST_GROUPS];
  CUgreenCtx context;
};

struct cuda_shares {
  struct driver driver;
  unsigned processors, count; /* of the device, and groups of them */
  CUdevResource groups[MOST_GROUPS];
  unsigned holders[MOST_GROUPS];
  struct cuda_share *first;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the shares of all devices */

#define DRIVER_CALL(device, error, what, call) cuda_check(&(device)->base, (cudaError_t)(call), what, error)

/* -- what the device can give ------------------------------------------------------------------------------------------- */

static bool find_functions(struct driver *driver) {
  return cuda_driver_find("cuDeviceGetDevResource", SINCE, &driver->resource) &&
         cuda_driver_find("cuDevSmResourceSplitByCount", SINCE, &driver->split) &&
         cuda_driver_find("cuDevResourceGenerateDesc", SINCE, &driver->describe) &&
         cuda_driver_find("cuGreenCtxCreate", SINCE, &driver->create) &&
         cuda_driver_find("cuGreenCtxDestroy", SINCE, &driver->destroy) &&
         cuda_driver_find("cuGreenCtxStreamCreate", SINCE, &driver->stream);
}

static bool divide(struct cuda_device *device, struct cuda_shares *shares, struct gpu_error *error) {
  CUdevResource whole;
  shares->count = MOST_GROUPS;
  if (!find_functions(&shares->driver)) {
    gpu_error_set(error, 0, NULL, "the driver is older than that of CUDA 12.5");
    return false;
  }
  if (!DRIVER_CALL(device, error, "cuDeviceGetDevResource",
                   shares->driver.resource(device->index, &whole, CU_DEV_RESOURCE_TYPE_SM)) ||
      !DRIVER_CALL(device, error, "cuDevSmResourceSplitByCount",
                   shares->driver.split(shares->groups, &shares->count, &whole, NULL, 0, 1 /* the driver rounds it up */))) {
    return false;
  }
  shares->processors = whole.sm.smCount;
  if (shares->count == 0) {
    gpu_error_set(error, 0, NULL, "the device cannot be divided");
    return false;
  }
  return true;
}

static struct cuda_shares *shares_of(struct cuda_device *device, struct gpu_error *error) {
  if (!device->shares) {
    struct cuda_shares *shares = calloc(1, sizeof *shares);
    if (shares && divide(device, shares, error)) {
      device->shares = shares;
    } else {
      free(shares);
    }
  }
  return device->shares;
}

/* -- shares ------------------------------------------------------------------------------------------------------------- */

static unsigned least_held(const struct cuda_shares *shares, const struct cuda_share *share) {
  unsigned best = MOST_GROUPS;
  for (unsigned i = 0; i < shares->count; i++) {
    if (!share->has[i] && (best == MOST_GROUPS || shares->holders[i] < shares->holders[best])) {
      best = i;
    }
  }
  return best;
}

static bool create(struct cuda_device *device, struct cuda_share *share, struct gpu_error *error) {
  const struct cuda_shares *shares = device->shares;
  CUdevResource chosen[MOST_GROUPS];
  CUdevResourceDesc description;
  unsigned wanted = (share->percent * shares->count + 50) / 100, count = 0;
  while (count < (wanted > 0 ? wanted : 1)) {
    unsigned group = least_held(shares, share);
    share->has[group] = true;
    share->processors += shares->groups[group].sm.smCount;
    chosen[count++] = shares->groups[group];
  }
  return DRIVER_CALL(device, error, "cuDevResourceGenerateDesc", shares->driver.describe(&description, chosen, count)) &&
         DRIVER_CALL(device, error, "cuGreenCtxCreate",
                     shares->driver.create(&share->context, description, device->index, CU_GREEN_CTX_DEFAULT_STREAM));
}

static struct cuda_share *find_share(const struct cuda_shares *shares, const struct gpu_options *options) {
  struct cuda_share *share = shares->first;
  while (share && (share->percent != options->share || strcmp(share->owner, options->owner) != 0)) {
    share = share->next;
  }
  return share;
}

static void count_holders(struct cuda_shares *shares, const struct cuda_share *share, unsigned change) {
  for (unsigned i = 0; i < shares->count; i++) {
    shares->holders[i] += share->has[i] ? change : 0;
  }
}

static struct cuda_share *make_share(struct cuda_device *device, const struct gpu_options *options, struct gpu_error *error) {
  struct cuda_share *share = calloc(1, sizeof *share);
  char *owner = strdup(options->owner);
  if (!share || !owner) {
    gpu_error_set(error, 0, NULL, "there is no memory");
  } else {
    *share = (struct cuda_share){.owner = owner, .percent = options->share};
    if (create(device, share, error)) {
      count_holders(device->shares, share, 1);
      share->next = device->shares->first;
      device->shares->first = share;
      return share;
    }
  }
  free(owner);
  free(share);
  return NULL;
}

struct cuda_share *cuda_share_take(struct cuda_device *device, struct gpu_program *program) {
  struct gpu_error error = {.text = "there is no memory"};
  pthread_mutex_lock(&lock);
  struct cuda_share *share = shares_of(device, &error) ? find_share(device->shares, &program->options) : NULL;
  share = share || !device->shares ? share : make_share(device, &program->options, &error);
  if (share) {
    share->programs++;
    program->share = (struct gpu_share){.processors = share->processors, .of = device->shares->processors};
  } else {
    snprintf(program->share.why, sizeof program->share.why, "%s", error.text);
  }
  pthread_mutex_unlock(&lock);
  return share;
}

static void free_share(struct cuda_device *device, struct cuda_share *share) {
  struct gpu_error error;
  if (!gpu_device_is_dead(&device->base, NULL)) {
    (void)DRIVER_CALL(device, &error, "cuGreenCtxDestroy", device->shares->driver.destroy(share->context));
  }
  free(share->owner);
  free(share);
}

void cuda_share_give_back(struct cuda_device *device, struct cuda_share *share) {
  pthread_mutex_lock(&lock);
  if (share && --share->programs == 0) {
    struct cuda_share **link = &device->shares->first;
    while (*link != share) {
      link = &(*link)->next;
    }
    *link = share->next;
    count_holders(device->shares, share, -1U);
    free_share(device, share);
  }
  pthread_mutex_unlock(&lock);
}

bool cuda_share_stream(struct cuda_device *device, const struct cuda_share *share, int priority, cudaStream_t *stream,
                       struct gpu_error *error) {
  return DRIVER_CALL(device, error, "cuGreenCtxStreamCreate",
                     device->shares->driver.stream(stream, share->context, CU_STREAM_NON_BLOCKING, priority));
}

void cuda_shares_free(struct cuda_device *device) {
  while (device->shares && device->shares->first) {
    struct cuda_share *share = device->shares->first;
    device->shares->first = share->next;
    free_share(device, share);
  }
  free(device->shares);
}

#else

struct cuda_share *cuda_share_take(struct cuda_device *device, struct gpu_program *program) {
  (void)device;
  snprintf(program->share.why, sizeof program->share.why, "framed was built with CUDA %d.%d; build it with CUDA 12.5 or later",
           CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  return NULL;
}

void cuda_share_give_back(struct cuda_device *device, struct cuda_share *share) {
  (void)device;
  (void)share;
}

bool cuda_share_stream(struct cuda_device *device, const struct cuda_share *share, int priority, cudaStream_t *stream,
                       struct gpu_error *error) {
  (void)share;
  (void)priority;
  (void)stream;
  return cuda_check(&device->base, cudaErrorNotSupported, "cuGreenCtxStreamCreate", error);
}

void cuda_shares_free(struct cuda_device *device) { (void)device; }

#endif
