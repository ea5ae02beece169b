/*
 * Several devices of one backend as one, so that the frames of one session are dealt over them: slot i of a program belongs to
 * device i modulo their number, and is a slot of that device's own program. Whoever takes results in the order of frames need
 * not know of it. A device that dies says so for its own slots alone.
 *
 * Frames on one device see nothing of those on another, so that no stage may keep a state from frame to frame.
 */
#include "gpu/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct joint_device {
  struct gpu_device base;
  struct gpu_backend backend; /* with the name of theirs */
  unsigned count;
  struct gpu_device *members[];
};

struct joint_program {
  struct gpu_program base;
  unsigned count; /* of the devices; those beyond the last slot have no program */
  struct gpu_program *members[];
};

static struct gpu_program *member_of(struct gpu_program *base, unsigned slot) {
  struct joint_program *program = (struct joint_program *)base;
  return program->members[slot % program->count];
}

static unsigned slot_of(const struct gpu_program *base, unsigned slot) {
  return slot / ((const struct joint_program *)base)->count;
}

/* -- frames ------------------------------------------------------------------------------------------------------- */

static bool submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error) {
  return gpu_submit(member_of(program, slot), slot_of(program, slot), frame, error);
}

static enum gpu_progress told(struct gpu_program *program, unsigned slot) {
  return gpu_told(member_of(program, slot), slot_of(program, slot));
}

static enum gpu_progress ask(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  return gpu_ask(member_of(program, slot), slot_of(program, slot), error);
}

static bool arm(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  return gpu_arm(member_of(program, slot), slot_of(program, slot), error);
}

static bool times(struct gpu_program *program, unsigned slot, struct gpu_times *result) {
  return gpu_times(member_of(program, slot), slot_of(program, slot), result);
}

static const char *refusal(struct gpu_program *program, unsigned slot) {
  return gpu_refusal(member_of(program, slot), slot_of(program, slot));
}

static bool late(struct gpu_program *program, unsigned slot) {
  return gpu_late(member_of(program, slot), slot_of(program, slot));
}

/* -- programs ----------------------------------------------------------------------------------------------------- */

static void program_free(struct gpu_program *base) {
  struct joint_program *program = (struct joint_program *)base;
  for (unsigned i = 0; i < program->count; i++) {
    gpu_program_free(program->members[i]);
  }
  free(program);
}

/* The program of device `number`: it gets slots number, number + count, number + 2 * count and so on. */
static struct gpu_program *make_member(const struct joint_device *device, unsigned number, const struct gpu_chain *chain,
                                       const struct gpu_buffers *slots, unsigned count, const struct gpu_options *options,
                                       struct gpu_error *error) {
  struct gpu_buffers own[GPU_MAX_SLOTS];
  struct gpu_options own_options = *options;
  unsigned own_count = 0;
  own_options.spared = 0;
  for (unsigned slot = number; slot < count; slot += device->count) {
    own_options.spared |= (options->spared >> slot & 1U) << own_count;
    own[own_count++] = slots[slot];
  }
  return gpu_program_new(device->members[number], chain, own, own_count, &own_options, error);
}

static struct gpu_program *program_new(struct gpu_device *base, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                       unsigned count, const struct gpu_options *options, struct gpu_error *error) {
  const struct joint_device *device = (const struct joint_device *)base;
  if (!gpu_chain_spreads(chain, error)) {
    return NULL;
  }
  struct joint_program *program = calloc(1, sizeof *program + device->count * sizeof program->members[0]);
  if (!program) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a program of %u slots", count);
    return NULL;
  }
  gpu_program_init(&program->base, base, chain, count, options);
  program->count = device->count;
  for (unsigned i = 0; i < device->count && i < count; i++) {
    program->members[i] = make_member(device, i, chain, slots, count, options, error);
    if (!program->members[i]) {
      program_free(&program->base);
      return NULL;
    }
  }
  return &program->base;
}

/* The members are alike: the others do what the first found better. */
static void choose_alike(struct gpu_program *program, const struct gpu_program *first) {
  program->options.graph = first->graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  program->options.copy = first->copies_by_kernel ? GPU_COPY_KERNEL : GPU_COPY_ENGINE;
  program->options.timed_one_in = first->timed_one_in > 0 ? (int)first->timed_one_in : GPU_TIMED_NEVER;
  program->options.weigh = false;
}

static void take_choices(struct gpu_program *program, const struct gpu_program *first) {
  program->graph = first->graph;
  program->copies_by_kernel = first->copies_by_kernel;
  program->timed_one_in = first->timed_one_in;
  program->measured = first->measured;
  program->costs = first->costs;
  program->share = first->share;
}

static bool warm_up(struct gpu_program *base, struct gpu_error *error) {
  struct joint_program *program = (struct joint_program *)base;
  const struct gpu_program *first = program->members[0];
  for (unsigned i = 0; i < program->count && i < base->slot_count; i++) {
    if (i > 0) {
      choose_alike(program->members[i], first);
    }
    if (!gpu_program_warm_up(program->members[i], error)) {
      return false;
    }
  }
  take_choices(base, first);
  return true;
}

/* -- the device --------------------------------------------------------------------------------------------------- */

/* What one of them has registered, all of them can use. */
static bool pin(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error) {
  return gpu_pin(((struct joint_device *)device)->members[0], base, bytes, error);
}

static void unpin(struct gpu_device *device, void *base, size_t bytes) {
  gpu_unpin(((struct joint_device *)device)->members[0], base, bytes);
}

static int node(const struct gpu_device *base, unsigned slot) {
  const struct joint_device *device = (const struct joint_device *)base;
  return device->members[slot % device->count]->node;
}

static void close_device(struct gpu_device *device) { free(device); }

static const struct gpu_backend joint_backend = {
    .close = close_device,
    .pin = pin,
    .unpin = unpin,
    .node = node,
    .program_new = program_new,
    .warm_up = warm_up,
    .program_free = program_free,
    .submit = submit,
    .told = told,
    .ask = ask,
    .arm = arm,
    .times = times,
    .refusal = refusal,
    .late = late,
};

/* Where all of them are near to one node, that. */
static int common_node(struct gpu_device *const *devices, unsigned count) {
  int node = devices[0]->node;
  for (unsigned i = 1; i < count; i++) {
    node = devices[i]->node == node ? node : GPU_NO_NODE;
  }
  return node;
}

struct gpu_device *gpu_join(struct gpu_device *const *devices, unsigned count, struct gpu_error *error) {
  struct joint_device *joint = calloc(1, sizeof *joint + count * sizeof(struct gpu_device *));
  if (!joint) {
    gpu_error_set(error, ENOMEM, NULL, "no memory to join %u devices", count);
    return NULL;
  }
  joint->backend = joint_backend;
  joint->backend.name = devices[0]->backend->name;
  joint->base.backend = &joint->backend;
  joint->base.workers = devices[0]->workers;
  joint->base.node = common_node(devices, count);
  memcpy(joint->base.name, devices[0]->name, sizeof joint->base.name);
  joint->count = count;
  memcpy(joint->members, devices, count * sizeof(struct gpu_device *));
  return &joint->base;
}
