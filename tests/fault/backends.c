/* The faults of the CPU backend, and the devices that both backends cannot open. */
#include "gpu/cpu/private.h"
#include "tests/fault/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool gpu_fault_has_lost(unsigned device) {
  const char *path = getenv("FRAMED_FAULT_DEVICES");
  FILE *file = path ? fopen(path, "re") : NULL;
  unsigned number = device + 1;
  bool found = false;
  while (file && !found && fscanf(file, "%u", &number) == 1) {
    found = number == device;
  }
  if (file) {
    fclose(file);
  }
  return found;
}

_Thread_local struct cpu_slot *cpu_fault_slot;

void cpu_fault_illegal(void) {
  if (cpu_fault_slot) {
    struct gpu_error error;
    gpu_error_set(&error, EFAULT, "unless the stage is under test, report it",
                  "stages[%u] (fault) made an illegal memory access", cpu_fault_slot->next_stage);
    error.stage = (int)cpu_fault_slot->next_stage;
    gpu_device_die(cpu_fault_slot->program->base.device, &error);
  }
}

void cpu_fault_lost(void) {
  const struct cpu_device *device = cpu_fault_slot ? (struct cpu_device *)cpu_fault_slot->program->base.device : NULL;
  if (device && gpu_fault_has_lost(device->number)) {
    cpu_fault_illegal();
  }
}

void cpu_fault_hang(void) {
  if (cpu_fault_slot) {
    struct cpu_program *program = cpu_fault_slot->program;
    pool_take_lock(&program->lock);
    while (!program->freeing) {
      pthread_cond_wait(&program->changed, &program->lock);
    }
    atomic_store(&program->lost, true);
    pthread_mutex_unlock(&program->lock);
  }
}
