/* Chains: formats negotiated from stage to stage, and where a program's memory lies. Nothing touches a device. */
#include "gpu/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(const struct gpu_chain *chain, unsigned index, const char *problem, struct gpu_error *error) {
  const struct stage_plan *plan = &chain->plans[index];
  char format[FORMAT_TEXT];
  format_describe(&plan->input, format);
  if (plan->remedy) {
    gpu_error_set(error, 0, plan->remedy, "stages[%u] (%s): %s", index, plan->stage->about->name, problem);
  } else if (index == 0) {
    gpu_error_set(error, 0, "change this stage, or the source's format", "stages[0] (%s), given %s by the source: %s",
                  plan->stage->about->name, format, problem);
  } else {
    gpu_error_set(error, 0, "change one of the two, or put a stage between them that gives what the later one takes",
                  "stages[%u] (%s), given %s by stages[%u] (%s): %s", index, plan->stage->about->name, format, index - 1,
                  plan[-1].stage->about->name, problem);
  }
  error->stage = (int)index;
  return false;
}

static bool takes_elements(const struct stage_about *stage, const struct frame_format *input) {
  return stage->any_element || input->dtype == ELEMENT_UINT8 || input->dtype == ELEMENT_FLOAT32;
}

/* Of what a stage gave without saying how it shows its input: an image shows all of it, a tensor was made of it. */
static void follow_view(struct stage_plan *plan) {
  const struct frame_format *out = &plan->output;
  if (out->view.width != 0) {
    return;
  }
  const struct frame_window all = {.width = out->width, .height = out->height};
  plan->output.view =
      out->pixels == PIXELS_NONE ? plan->input.view : format_view_in(&plan->input.view, &all, out->width, out->height);
}

/* Fills the plan at `index` for a frame of `input`, whose size is known to be good. */
static bool negotiate(struct gpu_chain *chain, unsigned index, const struct frame_format *input,
                      const struct gpu_stage_request *request, struct gpu_error *error) {
  struct stage_plan *plan = &chain->plans[index];
  char problem[STAGE_TEXT] = "";
  *plan = (struct stage_plan){.stage = request->own ? request->own : stage_of(request->stage),
                              .input = *input,
                              .output = *input,
                              .resource = request->resource,
                              .users = request->users};
  plan->source = chain->input;
  plan->output.meaning = MEANING_NONE;
  plan->output.parts = NULL;
  if (index > 0) {
    plan->labels = plan[-1].labels;
    plan->label_count = plan[-1].label_count;
  }
  if (!takes_elements(plan->stage->about, input)) {
    return refuse(chain, index, "it takes samples of uint8 and float32", error);
  }
  if (!plan->stage->prepare(plan, request->values, problem)) {
    return refuse(chain, index, problem, error);
  }
  chain->prepared = index + 1;
  if (!format_bytes(&plan->input, &plan->input_bytes) || !format_bytes(&plan->output, &plan->output_bytes)) {
    return refuse(chain, index, "its result would be too large", error);
  }
  follow_view(plan);
  chain->takes_source = chain->takes_source || plan->takes_source;
  if (plan->state_bytes > 0) {
    chain->last_stateful = (int)index;
    chain->first_stateful = chain->first_stateful < 0 ? (int)index : chain->first_stateful;
  }
  return true;
}

static bool negotiate_all(struct gpu_chain *chain, const struct gpu_stage_request *requests, struct gpu_error *error) {
  struct frame_format format = chain->input;
  for (unsigned i = 0; i < chain->length; i++) {
    if (!negotiate(chain, i, &format, &requests[i], error)) {
      return false;
    }
    format = chain->plans[i].output;
  }
  return format_bytes(&format, &chain->output_bytes);
}

struct gpu_chain *gpu_chain_new(const struct frame_format *input, const struct gpu_stage_request *requests, unsigned count,
                                struct gpu_error *error) {
  char text[FORMAT_TEXT];
  size_t input_bytes;
  if (!format_bytes(input, &input_bytes)) {
    gpu_error_set(error, 0, "give sides of 1 to 65536 pixels, or a smaller shape", "a frame of %s is empty or too large",
                  format_describe(input, text));
    return NULL;
  }
  if (count > GPU_MAX_STAGES) {
    gpu_error_set(error, 0, "split the pipeline in two", "%u stages are more than the %d that a pipeline takes", count,
                  GPU_MAX_STAGES);
    return NULL;
  }
  struct gpu_chain *chain = calloc(1, sizeof *chain + count * sizeof chain->plans[0]);
  if (!chain) {
    gpu_error_set(error, 0, NULL, "no memory for a chain of %u stages", count);
    return NULL;
  }
  chain->input = *input;
  if (input->pixels != PIXELS_NONE) {
    chain->input.view = format_view(input);
  }
  chain->input_bytes = input_bytes;
  chain->length = count;
  chain->first_stateful = chain->last_stateful = -1;
  return negotiate_all(chain, requests, error) ? chain : gpu_chain_free(chain);
}

/* Between two stages with state frames follow each other on a GPU, where none can wait for those of other sessions. */
static bool passes_state_by(const struct gpu_chain *chain, unsigned index, struct gpu_error *error) {
  const struct stage_plan *plan = &chain->plans[index];
  bool is_between = (int)index > chain->first_stateful && (int)index < chain->last_stateful && chain->first_stateful >= 0;
  if (!is_between || !plan->stage->joins || !plan->stage->joins(plan)) {
    return true;
  }
  gpu_error_set(error, 0, "leave `batch` out of the model, or put the stages with state on one side of it",
                "stages[%u] (%s) computes batches, and there are stages with state before it and after it", index,
                plan->stage->about->name);
  error->stage = (int)index;
  return false;
}

bool chain_runs(const struct gpu_chain *chain, bool on_cuda, struct gpu_error *error) {
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    if (on_cuda && !passes_state_by(chain, i, error)) {
      return false;
    }
    const char *why = on_cuda ? plan->not_on_cuda : plan->not_on_cpu;
    if (why) {
      const char *remedy = strstr(why, "; ");
      gpu_error_set(error, 0, remedy ? remedy + 2 : NULL, "stages[%u] (%s) %.*s", i, plan->stage->about->name,
                    remedy ? (int)(remedy - why) : -1, why);
      error->stage = (int)i;
      return false;
    }
  }
  return true;
}

bool gpu_chain_spreads(const struct gpu_chain *chain, struct gpu_error *error) {
  if (chain->first_stateful < 0) {
    return true;
  }
  gpu_error_set(error, 0, "leave `spread: frames` out of the pipeline, or the stage",
                "stages[%d] (%s) goes from each frame to the next one, which would be on another device", chain->first_stateful,
                chain->plans[chain->first_stateful].stage->about->name);
  error->stage = chain->first_stateful;
  return false;
}

struct gpu_chain *gpu_chain_free(struct gpu_chain *chain) {
  for (unsigned i = 0; chain && i < chain->length; i++) {
    struct stage_plan *plan = &chain->plans[i];
    if (i < chain->prepared && plan->stage->release) {
      plan->stage->release(plan);
    }
    for (unsigned k = 0; k < STAGE_MAX_FILES; k++) {
      kept_close(&plan->files[k]);
    }
  }
  free(chain);
  return NULL;
}

enum gpu_resident_step gpu_resident_step(const struct stage_about *stage) {
  static const char *const names[] = {"", "affine", "work", "threshold", "fault"};
  enum gpu_resident_step step = RESIDENT_FAULT;
  while (step != RESIDENT_NONE && strcmp(names[step], stage->name) != 0) {
    step--;
  }
  return step;
}

bool gpu_chain_resides(const struct gpu_chain *chain, struct gpu_error *error) {
  static const char remedy[] = "write `completion: spin`";
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_about *stage = chain->plans[i].stage->about;
    if (gpu_resident_step(stage) == RESIDENT_NONE) {
      gpu_error_set(error, 0, remedy, "stages[%u] (%s) cannot be part of a kernel that stays on the device", i, stage->name);
      error->stage = (int)i;
      return false;
    }
  }
  return chain->input_bytes <= GPU_MOST_RESIDENT ||
         gpu_error_set(error, 0, remedy, "frames of %zu bytes are too large for a kernel that stays on the device: it takes %d",
                       chain->input_bytes, GPU_MOST_RESIDENT);
}

bool gpu_chain_is_foreign(const struct gpu_chain *chain) {
  bool is_foreign = false;
  for (unsigned i = 0; i < chain->length; i++) {
    is_foreign |= chain->plans[i].stage->about->is_foreign;
  }
  return is_foreign;
}

const struct frame_format *gpu_chain_input(const struct gpu_chain *chain) { return &chain->input; }

const struct frame_format *gpu_chain_output(const struct gpu_chain *chain) {
  return chain->length == 0 ? &chain->input : &chain->plans[chain->length - 1].output;
}

void gpu_chain_count_users(struct gpu_chain *chain, unsigned users) {
  for (unsigned i = 0; i < chain->length; i++) {
    struct stage_plan *plan = &chain->plans[i];
    if (plan->stage->count_users) {
      plan->stage->count_users(plan, users);
    }
  }
}

const struct stage_plan *gpu_chain_stage(const struct gpu_chain *chain, unsigned index) {
  return index < chain->length ? &chain->plans[index] : NULL;
}

unsigned gpu_chain_files(const struct gpu_chain *chain, struct kept_file *list, unsigned count, unsigned most) {
  for (unsigned i = 0; i < chain->length * STAGE_MAX_FILES; i++) {
    count = kept_list(&chain->plans[i / STAGE_MAX_FILES].files[i % STAGE_MAX_FILES], list, count, most);
  }
  return count;
}

const char *const *gpu_chain_labels(const struct gpu_chain *chain, unsigned *count) {
  const struct stage_plan *last = chain->length > 0 ? &chain->plans[chain->length - 1] : NULL;
  *count = last ? last->label_count : 0;
  return last ? last->labels : NULL;
}

static size_t align(size_t bytes) { return (bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT; }

static void grow(size_t *size, size_t needed) { *size = *size > needed ? *size : needed; }

void chain_layout(const struct gpu_chain *chain, bool ends, unsigned slots, struct chain_layout *layout) {
  size_t input = ends ? chain->input_bytes : 0;
  size_t sizes[2] = {chain->takes_source ? 0 : input, 0};
  size_t scratch = 0;
  *layout = (struct chain_layout){0};
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    if (ends || i + 1 < chain->length) {
      grow(&sizes[(i + 1) % 2], plan->output_bytes);
    }
    grow(&scratch, plan->scratch_bytes);
    layout->state[i] = layout->state_bytes;
    layout->state_bytes += align(plan->state_bytes);
  }
  layout->buffer[1] = align(sizes[0]);
  layout->scratch = layout->buffer[1] + align(sizes[1]);
  layout->input = chain->takes_source ? layout->scratch + align(scratch) : layout->buffer[0];
  layout->slot_bytes = layout->scratch + align(scratch) + (chain->takes_source ? align(input) : 0);
  layout->total_bytes = slots * layout->slot_bytes + layout->state_bytes;
}

size_t gpu_chain_device_bytes(const struct gpu_chain *chain, unsigned slots) {
  struct chain_layout layout;
  chain_layout(chain, true, slots, &layout);
  return layout.total_bytes;
}
