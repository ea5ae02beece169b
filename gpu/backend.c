/*
 * What both backends stand on: errors as values, the death of a device, what every program begins with, and what the kernel
 * says of devices. Nothing here calls a backend, so that a backend may call all of it.
 *
 * The first reason for which a device is dead stays its reason.
 */
#include "gpu/backend.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* -- errors and death ---------------------------------------------------------------------------------------------- */

bool gpu_error_set(struct gpu_error *error, int code, const char *remedy, const char *format, ...) {
  *error = (struct gpu_error){.code = code, .stage = -1};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  snprintf(error->remedy, sizeof error->remedy, "%s", remedy ? remedy : "");
  return false;
}

static void (*on_death)(const struct gpu_error *error);

void gpu_on_death(void (*told)(const struct gpu_error *error)) { on_death = told; }

void gpu_device_die(struct gpu_device *device, const struct gpu_error *error) {
  enum gpu_condition alive = GPU_ALIVE;
  if (atomic_compare_exchange_strong(&device->condition, &alive, GPU_DYING)) {
    device->cause = *error;
    atomic_store(&device->condition, GPU_LOST);
    if (on_death) {
      on_death(error);
    }
  }
}

bool gpu_is_lost(const struct gpu_device *device) { return gpu_device_is_dead(device, NULL); }

void gpu_abandon(struct gpu_device *device, const char *reason) {
  struct gpu_error error;
  gpu_error_set(&error, 0, NULL, "%s", reason);
  gpu_device_die(device, &error);
}

/* -- programs ----------------------------------------------------------------------------------------------------- */

static atomic_bool library_expected;

void gpu_expect_library(void) { atomic_store(&library_expected, true); }

bool gpu_expects_library(void) { return atomic_load(&library_expected); }

static atomic_bool hurried;

void gpu_hurry(bool hurries) { atomic_store(&hurried, hurries); }

bool gpu_hurries(void) { return atomic_load(&hurried); }

int gpu_thread_new(pthread_t *thread, const char *name, void *(*work)(void *context), void *context) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(thread, NULL, work, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code == 0) {
    pthread_setname_np(*thread, name);
  }
  return code;
}

static struct {
  gpu_new_thread *told;
  void *context;
} listener;

void gpu_on_thread(gpu_new_thread *told, void *context) {
  listener.told = told;
  listener.context = context;
}

void gpu_tell_of_thread(pthread_t thread) {
  if (listener.told) {
    listener.told(listener.context, thread);
  }
}

void gpu_program_init(struct gpu_program *program, struct gpu_device *device, const struct gpu_chain *chain, unsigned count,
                      const struct gpu_options *options) {
  unsigned one_in = options->timed_one_in > 0 ? (unsigned)options->timed_one_in : 1;
  *program = (struct gpu_program){
      .device = device,
      .chain = chain,
      .slot_count = count,
      .options = *options,
      .timed_one_in = options->timed_one_in == GPU_TIMED_NEVER ? 0 : one_in,
      .share = {.why = "the cpu backend divides no device"},
  };
}

/* -- what was opened ----------------------------------------------------------------------------------------------- */

static _Atomic int opened_architecture;

void gpu_set_architecture(int architecture) { atomic_store(&opened_architecture, architecture); }

int gpu_architecture(void) { return atomic_load(&opened_architecture); }

/* -- what the kernel says ------------------------------------------------------------------------------------------ */

bool gpu_nvidia_present(const char *directory) {
  static const char *const nodes[] = {"nvidiactl", "nvidia0"};
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, nodes[i]);
    if (access(path, F_OK) == 0) {
      return true;
    }
  }
  return false;
}

int gpu_pci_node(const char *directory, const char *address) {
  char path[512], line[32] = "";
  snprintf(path, sizeof path, "%s/%s/numa_node", directory, address);
  FILE *file = fopen(path, "re");
  if (!file) {
    return GPU_NO_NODE;
  }
  char *end = line;
  long node = fgets(line, sizeof line, file) ? strtol(line, &end, 10) : GPU_NO_NODE;
  fclose(file);
  return end == line || node < 0 || node > INT_MAX ? GPU_NO_NODE : (int)node;
}
