/*
 * Says where the time goes when a process comes to a GPU: one line, with milliseconds for each phase.
 *
 *   start-bare|start-whole [--programs N] [--then healthy|illegal|hang] [--keep nothing|nodes]
 *
 * With --then the process, once it has done all, lets a frame fail in that way and executes itself in place, so that a
 * second line tells what the start costs there; it has the memory of the first. With --keep nodes it has descriptors of the
 * device nodes too, which matters where no persistence mode keeps the device up.
 *
 * START_NS in the environment is the CLOCK_MONOTONIC at which the process was started. start_times.py runs all this.
 */
#include "tests/gpu/start_times.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY_BYTES = 32 << 20, EVENTS = 80 };

static double since, began;

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void start_begin(void) { since = now_ms(); }

void start_phase(const char *name) {
  printf(" %s=%.1f", name, now_ms() - since);
  start_begin();
}

void start_require(bool good, const char *what, const char *why) {
  if (!good) {
    printf(" FAILED %s: %s\n", what, why);
    exit(1);
  }
}

void start_check(int status, const char *what) {
  start_require(status == cudaSuccess, what, cudaGetErrorString((cudaError_t)status));
}

/* A number that another one of our processes or our caller wrote. */
static unsigned number_in(const char *text, const char *what) {
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  start_require(*text >= '0' && *text <= '9' && !*end && number <= INT_MAX, what, text);
  return (unsigned)number;
}

#define CHECK(function, ...) start_check((int)function(__VA_ARGS__), #function)

/* -- phases ------------------------------------------------------------------------------------------------------- */

static unsigned char *map(void) {
  const char *inherited = getenv("START_MEMORY");
  int fd = inherited ? (int)number_in(inherited, "START_MEMORY") : memfd_create("start", 0);
  start_require(fd >= 0 && ftruncate(fd, MEMORY_BYTES) == 0, "memory", "no memfd");
  void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  start_require(memory != MAP_FAILED, "memory", "no mapping");
  char text[16];
  snprintf(text, sizeof text, "%d", fd);
  setenv("START_MEMORY", text, 1);
  start_phase(inherited ? "map" : "make_memory");
  return memory;
}

static void open_context(void) {
  int count = 0, value = 0;
  struct cudaDeviceProp properties;
  cudaStream_t stream;
  CHECK(cudaGetDeviceCount, &count);
  start_phase("driver");
  CHECK(cudaSetDevice, 0);
  CHECK(cudaFree, NULL);
  start_phase("context");
  CHECK(cudaDeviceGetAttribute, &value, cudaDevAttrMultiProcessorCount, 0);
  start_phase("attribute");
  CHECK(cudaGetDeviceProperties, &properties, 0);
  start_phase("properties");
  CHECK(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
  start_phase("stream");
  for (int i = 0; i < EVENTS; i++) {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags, &event, i % 5 ? cudaEventDisableTiming : cudaEventDefault);
  }
  start_phase("events");
}

/* -- executing itself --------------------------------------------------------------------------------------------- */

static void keep(const char *what) {
  static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0"};
  const char *number = getenv("START_MEMORY");
  int memory = (int)number_in(number ? number : "", "START_MEMORY");
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0 || fcntl(memory, F_SETFD, 0) != 0) {
    start_require(false, "close_range", "refused");
  }
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0] && strcmp(what, "nodes") == 0; i++) {
    start_require(open(nodes[i], O_RDWR) >= 0, "open", nodes[i]);
  }
  start_phase("keep");
}

static void execute_again(char **argv) {
  struct timespec now;
  char text[32];
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(text, sizeof text, "%lld", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
  setenv("START_NS", text, 1);
  printf("\n");
  fflush(stdout);
  char *again[] = {argv[0], "--programs", "1", NULL};
  for (int i = 1; argv[i] && argv[i + 1]; i += 2) {
    if (strcmp(argv[i], "--programs") == 0) {
      again[2] = argv[i + 1];
    }
  }
  execv("/proc/self/exe", again);
  start_require(false, "exec", "refused");
}

int main(int argc, char **argv) {
  const char *then = NULL, *kept = "nothing";
  unsigned programs = 1;
  const char *started = getenv("START_NS");
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--then") == 0) {
      then = argv[i + 1];
    } else if (strcmp(argv[i], "--keep") == 0) {
      kept = argv[i + 1];
    } else if (strcmp(argv[i], "--programs") == 0) {
      programs = number_in(argv[i + 1], "--programs");
    }
  }
  start_begin();
  char *end = NULL;
  began = started ? strtod(started, &end) / 1e6 : since;
  start_require(!started || (end != started && !*end), "START_NS", started);
  printf("%s: exec=%.1f", start_program, since - began);
  unsigned char *memory = map();
  open_context();
  start_work(memory, MEMORY_BYTES, programs);
  printf(" | total=%.1f", now_ms() - began);
  if (then) {
    start_begin();
    start_fail(then);
    keep(kept);
    execute_again(argv);
  }
  printf("\n");
  fflush(stdout);
  _exit(0); /* as a daemon that executes itself, without giving anything back */
}
