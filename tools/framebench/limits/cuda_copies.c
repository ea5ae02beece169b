/* Measures copies between host and device by size, direction and kind of memory. */
#include "tools/framebench/common/cuda_try.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/limits/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct section copies_section = {"copies", "Copies between host and device, GB/s",
                                              (const struct column[]){{"memory", "MEMORY", COLUMN_TEXT},
                                                                      {"bytes", "SIZE", COLUMN_SIZE},
                                                                      {"to", "TO", COLUMN_BANDWIDTH},
                                                                      {"from", "FROM", COLUMN_BANDWIDTH},
                                                                      {"both", "BOTH, EACH WAY", COLUMN_BANDWIDTH},
                                                                      {0}}};

enum memory_kind { MEMORY_PINNED, MEMORY_MEMFD, MEMORY_PAGEABLE, MEMORY_KINDS };
static const char *const memory_names[MEMORY_KINDS] = {"pinned", "memfd, registered", "pageable"};

struct copier {
  enum memory_kind kind;
  size_t bytes;        /* of each half */
  unsigned char *host; /* the first half goes to the device, the second half receives */
  void *device[2];     /* for each direction */
  cudaStream_t stream[2];
  bool registered;
};

static bool map_host(struct copier *copier, struct problem *problem) {
  size_t bytes = 2 * copier->bytes;
  if (copier->kind == MEMORY_PINNED) {
    return CUDA_TRY(problem, cudaMallocHost, (void **)&copier->host, bytes);
  }
  int file = copier->kind == MEMORY_MEMFD ? memfd_create("framebench", MFD_CLOEXEC) : -1;
  int flags = (file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_POPULATE;
  void *memory =
      file < 0 || ftruncate(file, (off_t)bytes) == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0) : MAP_FAILED;
  if (file >= 0) {
    close(file);
  }
  if (memory == MAP_FAILED) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%zu bytes to copy: %s", bytes, strerror(errno));
  }
  copier->host = memory;
  copier->registered =
      copier->kind == MEMORY_MEMFD && CUDA_TRY(problem, cudaHostRegister, memory, bytes, cudaHostRegisterDefault);
  return copier->registered || copier->kind == MEMORY_PAGEABLE;
}

static bool open_copier(struct copier *copier, struct problem *problem) {
  if (!map_host(copier, problem)) {
    return false;
  }
  memset(copier->host, 1, 2 * copier->bytes);
  for (int i = 0; i < 2; i++) {
    if (!CUDA_TRY(problem, cudaMalloc, &copier->device[i], copier->bytes) ||
        !CUDA_TRY(problem, cudaStreamCreateWithFlags, &copier->stream[i], cudaStreamNonBlocking)) {
      return false;
    }
  }
  return true;
}

static void close_copier(struct copier *copier) {
  for (int i = 0; i < 2; i++) {
    if (copier->stream[i]) {
      (void)cudaStreamSynchronize(copier->stream[i]);
      (void)cudaStreamDestroy(copier->stream[i]);
    }
    (void)cudaFree(copier->device[i]);
  }
  if (copier->kind == MEMORY_PINNED) {
    (void)cudaFreeHost(copier->host);
  } else if (copier->host) {
    if (copier->registered) {
      (void)cudaHostUnregister(copier->host);
    }
    munmap(copier->host, 2 * copier->bytes);
  }
}

static bool enqueue_copy(const struct copier *copier, int back, size_t bytes, struct problem *problem) {
  return back ? CUDA_TRY(problem, cudaMemcpyAsync, copier->host + copier->bytes, copier->device[1], bytes,
                         cudaMemcpyDeviceToHost, copier->stream[1])
              : CUDA_TRY(problem, cudaMemcpyAsync, copier->device[0], copier->host, bytes, cudaMemcpyHostToDevice,
                         copier->stream[0]);
}

/* `directions`: bit 0 is host to device, bit 1 device to host. `rate`: GB/s in each direction. */
static bool time_copies(const struct copier *copier, unsigned directions, size_t bytes, uint64_t count, double *rate,
                        struct problem *problem) {
  int64_t start = 0;
  for (uint64_t i = 0; i < count + 2; i++) {
    if (i == 2) { /* the first two are a warm-up */
      if (!CUDA_TRY(problem, cudaStreamSynchronize, copier->stream[0]) ||
          !CUDA_TRY(problem, cudaStreamSynchronize, copier->stream[1])) {
        return false;
      }
      start = samples_now();
    }
    if (((directions & 1) && !enqueue_copy(copier, 0, bytes, problem)) ||
        ((directions & 2) && !enqueue_copy(copier, 1, bytes, problem))) {
      return false;
    }
  }
  if (!CUDA_TRY(problem, cudaStreamSynchronize, copier->stream[0]) ||
      !CUDA_TRY(problem, cudaStreamSynchronize, copier->stream[1])) {
    return false;
  }
  *rate = (double)count * (double)bytes / (double)(samples_now() - start);
  return true;
}

static bool copies_row(struct results *results, const struct copier *copier, size_t bytes, bool quick,
                       struct problem *problem) {
  const size_t budget = quick ? 4 << 20 : copier->kind == MEMORY_PAGEABLE ? 256 << 20 : 1 << 30;
  uint64_t count = budget / bytes < 4 ? 4 : budget / bytes > 4000 ? 4000 : budget / bytes;
  double to = 0, from = 0, both = 0;
  if (!time_copies(copier, 1, bytes, count, &to, problem) || !time_copies(copier, 2, bytes, count, &from, problem) ||
      (copier->kind != MEMORY_PAGEABLE && !time_copies(copier, 3, bytes, count, &both, problem))) {
    return false;
  }
  json_t *row = json_pack("{s:s, s:I, s:f, s:f}", "memory", memory_names[copier->kind], "bytes", (json_int_t)bytes, "to", to,
                          "from", from);
  if (both > 0) {
    json_object_set_new(row, "both", json_real(both));
  }
  results_row(results, row);
  return true;
}

bool limits_copies(struct results *results, const struct options *options, struct problem *problem) {
  const size_t largest = options->quick ? 1 << 20 : 256 << 20;
  bool done = true;
  results_section(results, &copies_section);
  for (enum memory_kind kind = MEMORY_PINNED; kind < MEMORY_KINDS && done; kind++) {
    struct copier copier = {.kind = kind, .bytes = largest};
    done = open_copier(&copier, problem);
    for (size_t bytes = 4096; bytes <= largest && done; bytes *= 4) {
      done = copies_row(results, &copier, bytes, options->quick, problem);
    }
    close_copier(&copier);
  }
  return done;
}

bool limits_both_ways(size_t bytes, double *rate, struct problem *problem) {
  enum { COPIES = 500 };
  struct copier copier = {.kind = MEMORY_PINNED, .bytes = bytes};
  bool done = open_copier(&copier, problem) && time_copies(&copier, 3, bytes, COPIES, rate, problem);
  close_copier(&copier);
  return done;
}
