/* The end of a worker, and its shared memory: what every other module of the room needs. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/serve/serve.h"

static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;

void serve_end(const struct gpu_error *error) {
  struct worker_last_words words = {.version = WORKER_VERSION, .error = *error};
  pthread_mutex_lock(&ending); /* never unlocked: what comes first is said */
  (void)send(WORKER_CONTROL, &words, sizeof words, MSG_NOSIGNAL);
  _exit(EXIT_FAILURE);
}

void serve_end_if_lost(const struct gpu_device *device) {
  struct gpu_error error;
  if (gpu_device_is_dead(device, &error)) {
    serve_end(&error);
  }
}

void *serve_map(int descriptor, size_t bytes) {
  struct stat status;
  void *base = MAP_FAILED;
  if (fstat(descriptor, &status) == 0 && status.st_size >= (off_t)bytes) {
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
  return base == MAP_FAILED ? NULL : base;
}
