/*
 * Several devices of one backend as one, so that each computes a band of the rows of every frame: see bands.c. Slot i of a
 * program is slot i of one program a device, which takes its band from the slot's input, and brings its rows to their place in
 * the slot's output. A frame is done once all bands are.
 *
 * Results that are no rows are merged here, by whoever asks first whether the frame is done: a few bytes a device, which the
 * host adds up in less time than devices take to tell each other.
 */
#include "gpu/joint.h"

#include <errno.h>
#include <stdlib.h>

struct split_part {
  struct gpu_chain *chain;
  struct gpu_program *program;
};

struct split_program {
  struct gpu_program base;
  unsigned count; /* of bands: no more than devices */
  void (*merge)(const struct stage_plan *plan, const void *const *bands, unsigned count, void *output); /* or NULL */
  unsigned char *results; /* pinned, of the bands of each slot, where they are merged */
  size_t result_stride, results_bytes;
  void *outputs[GPU_MAX_SLOTS];
  bool merged[GPU_MAX_SLOTS];
  struct split_part parts[];
};

/* -- frames ------------------------------------------------------------------------------------------------------- */

static bool split_submit(struct gpu_program *base, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error) {
  struct split_program *program = (struct split_program *)base;
  program->merged[slot] = false;
  for (unsigned i = 0; i < program->count; i++) {
    if (!gpu_submit(program->parts[i].program, slot, frame, error)) {
      return false;
    }
  }
  return true;
}

static unsigned char *result_of(const struct split_program *program, unsigned slot, unsigned band) {
  return program->results + (slot * program->count + band) * program->result_stride;
}

static enum gpu_progress finish(struct split_program *program, unsigned slot) {
  const struct gpu_chain *chain = program->base.chain;
  const void *bands[JOINT_MOST];
  if (program->merge && !program->merged[slot]) {
    for (unsigned i = 0; i < program->count; i++) {
      bands[i] = result_of(program, slot, i);
    }
    program->merge(&chain->plans[chain->length - 1], bands, program->count, program->outputs[slot]);
    program->merged[slot] = true;
  }
  return GPU_DONE;
}

static enum gpu_progress split_told(struct gpu_program *base, unsigned slot) {
  struct split_program *program = (struct split_program *)base;
  for (unsigned i = 0; i < program->count; i++) {
    if (gpu_told(program->parts[i].program, slot) != GPU_DONE) {
      return GPU_PENDING;
    }
  }
  return finish(program, slot);
}

static enum gpu_progress split_ask(struct gpu_program *base, unsigned slot, struct gpu_error *error) {
  struct split_program *program = (struct split_program *)base;
  bool pending = false;
  for (unsigned i = 0; i < program->count; i++) {
    enum gpu_progress progress = gpu_ask(program->parts[i].program, slot, error);
    if (progress == GPU_DEAD) {
      return GPU_DEAD;
    }
    pending = pending || progress == GPU_PENDING;
  }
  return pending ? GPU_PENDING : finish(program, slot);
}

static bool split_arm(struct gpu_program *base, unsigned slot, struct gpu_error *error) {
  struct split_program *program = (struct split_program *)base;
  for (unsigned i = 0; i < program->count; i++) {
    if (!gpu_arm(program->parts[i].program, slot, error)) {
      return false;
    }
  }
  return true;
}

static unsigned split_undone(struct gpu_program *base, unsigned slot) {
  struct split_program *program = (struct split_program *)base;
  struct gpu_error error;
  unsigned undone = 0;
  for (unsigned i = program->count; i-- > 0;) {
    undone = gpu_ask(program->parts[i].program, slot, &error) != GPU_DONE ? i : undone;
  }
  for (unsigned i = program->count; i-- > 0;) { /* it may never have had its band */
    undone = gpu_is_lost(program->parts[i].program->device) ? i : undone;
  }
  return undone;
}

static void raise_to(int64_t *most, int64_t value) { *most = value > *most ? value : *most; }

/* Of the band that took longest for each step, since all go at once. */
static bool split_times(struct gpu_program *base, unsigned slot, struct gpu_times *result) {
  struct split_program *program = (struct split_program *)base;
  struct gpu_times times;
  if (!gpu_times(program->parts[0].program, slot, result)) {
    return false;
  }
  for (unsigned i = 1; i < program->count; i++) {
    if (gpu_times(program->parts[i].program, slot, &times)) {
      result->begin = times.begin < result->begin ? times.begin : result->begin;
      raise_to(&result->copied_in, times.copied_in);
      raise_to(&result->computed, times.computed);
      raise_to(&result->copied_out, times.copied_out);
      raise_to(&result->h2d, times.h2d);
      raise_to(&result->kernel, times.kernel);
      raise_to(&result->d2h, times.d2h);
      raise_to(&result->told, times.told);
    }
  }
  result->wait = 0;
  raise_to(&result->wait, result->copied_out - result->begin - result->h2d - result->kernel - result->d2h);
  return true;
}

/* Left out on one device, it is of no use on the others. */
static bool split_late(struct gpu_program *base, unsigned slot) {
  struct split_program *program = (struct split_program *)base;
  bool late = false;
  for (unsigned i = 0; i < program->count; i++) {
    late = late || gpu_late(program->parts[i].program, slot);
  }
  return late;
}

/* -- programs ----------------------------------------------------------------------------------------------------- */

static bool is_lost(const struct joint_device *device) {
  bool lost = false;
  for (unsigned i = 0; i < device->count; i++) {
    lost = lost || gpu_is_lost(device->members[i]);
  }
  return lost;
}

/* What runs on a dead device may still write results: then they go with the process. */
static void split_free(struct gpu_program *base) {
  struct split_program *program = (struct split_program *)base;
  for (unsigned i = 0; i < program->count; i++) {
    gpu_program_free(program->parts[i].program);
    gpu_chain_free(program->parts[i].chain);
  }
  if (program->results && !is_lost((struct joint_device *)base->device)) {
    gpu_unpin(base->device, program->results, program->results_bytes);
    free(program->results);
  }
  free(program);
}

static bool make_results(struct split_program *program, struct gpu_error *error) {
  const size_t page = 4096;
  program->result_stride = (program->parts[0].chain->output_bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
  program->results_bytes = program->base.slot_count * program->count * program->result_stride;
  program->results_bytes = (program->results_bytes + page - 1) / page * page;
  unsigned char *results = aligned_alloc(page, program->results_bytes);
  if (!results) {
    return gpu_error_set(error, ENOMEM, NULL, "no memory for the results of %u bands", program->count);
  }
  if (!gpu_pin(program->base.device, results, program->results_bytes, error)) {
    free(results);
    return false;
  }
  program->results = results;
  return true;
}

static bool make_part(struct split_program *program, unsigned number, const struct chain_band *band,
                      const struct gpu_buffers *slots, struct gpu_error *error) {
  const struct gpu_chain *whole = program->base.chain;
  const struct joint_device *device = (struct joint_device *)program->base.device;
  const size_t skipped = whole->input_bytes / whole->input.height * band->from;
  struct split_part *part = &program->parts[number];
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  struct gpu_options options = program->base.options;
  part->chain = chain_again(whole, band, error);
  if (!part->chain || (program->merge && !program->results && !make_results(program, error))) {
    return false;
  }
  options.resident = false; /* the kernel that stays knows whole results alone */
  if (!program->merge) {
    options.cut = chain_cut(whole, part->chain, band);
  }
  for (unsigned slot = 0; slot < program->base.slot_count; slot++) {
    buffers[slot] = (struct gpu_buffers){.input = (const unsigned char *)slots[slot].input + skipped,
                                         .output = program->merge ? result_of(program, slot, number) : slots[slot].output};
  }
  part->program = gpu_program_new(device->members[number], part->chain, buffers, program->base.slot_count, &options, error);
  return part->program != NULL;
}

static struct gpu_program *split_new(struct gpu_device *base, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                     unsigned count, const struct gpu_options *options, struct gpu_error *error) {
  const struct joint_device *device = (const struct joint_device *)base;
  struct chain_band bands[JOINT_MOST];
  if (!gpu_chain_splits(chain, error)) {
    return NULL;
  }
  struct split_program *program = calloc(1, sizeof *program + device->count * sizeof program->parts[0]);
  if (!program) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a program of %u slots", count);
    return NULL;
  }
  gpu_program_init(&program->base, base, chain, count, options);
  program->count = chain_divide(chain, device->count, bands);
  program->merge = chain->plans[chain->length - 1].stage->merge;
  for (unsigned i = 0; i < count; i++) {
    program->outputs[i] = slots[i].output;
  }
  for (unsigned i = 0; i < program->count; i++) {
    if (!make_part(program, i, &bands[i], slots, error)) {
      split_free(&program->base);
      return NULL;
    }
  }
  return &program->base;
}

/* A lane hands over all bands, one after the other. */
static bool split_warm_up(struct gpu_program *base, struct gpu_error *error) {
  struct split_program *program = (struct split_program *)base;
  const struct gpu_program *first = program->parts[0].program;
  for (unsigned i = 0; i < program->count; i++) {
    if (i > 0) {
      joint_choose_alike(program->parts[i].program, first);
    }
    if (!gpu_program_warm_up(program->parts[i].program, error)) {
      return false;
    }
  }
  joint_take_choices(base, first);
  base->costs.alone += base->costs.lane * (program->count - 1);
  base->costs.lane *= program->count;
  return true;
}

static const struct gpu_backend split_backend = {
    .program_new = split_new,
    .warm_up = split_warm_up,
    .program_free = split_free,
    .submit = split_submit,
    .told = split_told,
    .ask = split_ask,
    .arm = split_arm,
    .times = split_times,
    .late = split_late,
    .undone = split_undone,
};

struct gpu_device *gpu_join_rows(struct gpu_device *const *members, unsigned count, struct gpu_error *error) {
  return joint_new(&split_backend, members, count, error);
}
