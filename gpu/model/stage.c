/*
 * The stage `model`: a frame goes through a model. The caller may have opened it, and passes it as the plan's resource; a stage
 * that names a file of its own opens that.
 *
 * A frame fits where its samples are the model's input, in its order and of its type. Nothing is converted here: a message
 * names the stages that do.
 *
 * The stage and its part for a GPU, cuda_stage.c, form a circle: the descriptor here names the functions there, and they ask
 * here what a stage was prepared with.
 */
#include "gpu/model/stage.h"
#include "gpu/model/batches.h"
#include "gpu/stages/prepare.h"

#include <stdio.h>
#include <string.h>

struct model_constants {
  int chosen; /* output, or MODEL_ALL */
};

/* -- which model, and what of it ---------------------------------------------------------------------------------------- */

static bool open_file(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct model_shape shapes[STAGE_MAX_PARAMETERS];
  struct model_settings settings = {.file = values[MODEL_FILE].text, .shapes = shapes};
  struct gpu_error error;
  for (unsigned i = 0; i < values[MODEL_SHAPE].setting_count && i < STAGE_MAX_PARAMETERS; i++) {
    const struct stage_setting *setting = &values[MODEL_SHAPE].settings[i];
    struct model_shape *shape = &shapes[settings.shape_count++];
    *shape = (struct model_shape){.input = setting->name, .rank = setting->count};
    for (unsigned k = 0; k < setting->count; k++) {
      shape->sides[k] = (int64_t)setting->numbers[k];
    }
  }
  plan->object = model_open(&settings, &error);
  if (!plan->object) {
    snprintf(problem, STAGE_TEXT, "%.230s%s%.160s", error.text, *error.remedy ? "; " : "", error.remedy);
  }
  return plan->object != NULL;
}

static bool find_model(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->resource) {
    plan->object = model_hold(plan->resource);
    return true;
  }
  if (!values[MODEL_FILE].text || values[MODEL_NAMED].text) {
    snprintf(problem, STAGE_TEXT, "a model is given by its `name` in the section `models`, or by its `file`");
    return false;
  }
  return open_file(plan, values, problem);
}

static bool choose(const struct model *model, const struct stage_value *value, struct stage_plan *plan,
                   char problem[STAGE_TEXT]) {
  struct model_constants constants = {.chosen = 0};
  bool all = value->text && strcmp(value->text, "all") == 0;
  if (all) {
    constants.chosen = MODEL_ALL;
  } else if (value->text) {
    constants.chosen = model_find_output(model, value->text);
  }
  if (!all && (constants.chosen == MODEL_ALL || (!value->text && model->output_count > 1))) {
    size_t length = (size_t)snprintf(problem, STAGE_TEXT, "the model has %s; give as `output` one of: all",
                                     value->text ? "no output of that name" : "several outputs");
    for (unsigned i = 0; i < model->output_count && length < STAGE_TEXT; i++) {
      length += (size_t)snprintf(problem + length, STAGE_TEXT - length, ", %s", model->outputs[i].name);
    }
    return false;
  }
  const uint64_t bytes = parts_bytes(&model->parts);
  plan->output = all ? format_tensor(ELEMENT_UINT8, &bytes, 1) : model->outputs[constants.chosen].format;
  STAGE_SET_CONSTANTS(plan, &constants);
  return true;
}

/* -- whether frames fit ------------------------------------------------------------------------------------------------- */

/* The sides of an image in memory, or those of a tensor, without leading sides of 1. */
static uint32_t bare_shape(const struct frame_format *format, uint64_t shape[FORMAT_MAX_RANK]) {
  uint64_t all[FORMAT_MAX_RANK] = {format->height, format->width, stage_channels(format)};
  uint32_t rank = all[2] == 0 ? 0 : 3, skipped = 0;
  if (format->pixels == PIXELS_NONE) {
    rank = format->rank;
    memcpy(all, format->shape, sizeof all);
  }
  while (skipped < rank && all[skipped] == 1) {
    skipped++;
  }
  memcpy(shape, all + skipped, (rank - skipped) * sizeof shape[0]);
  return rank - skipped;
}

static bool fits(const struct frame_format *frame, const struct frame_format *input) {
  uint64_t given[FORMAT_MAX_RANK], wanted[FORMAT_MAX_RANK];
  uint32_t given_rank = bare_shape(frame, given), wanted_rank = bare_shape(input, wanted);
  if (frame->dtype != input->dtype) {
    return false;
  }
  /* Of gray images the one channel need not be a side. */
  if (frame->pixels != PIXELS_NONE && given_rank > 1 && given[given_rank - 1] == 1 &&
      (wanted_rank == 0 || wanted[wanted_rank - 1] != 1)) {
    given_rank--;
  }
  return given_rank == wanted_rank && memcmp(given, wanted, given_rank * sizeof given[0]) == 0 &&
         (frame->pixels == PIXELS_NONE || stage_channels(frame) > 0);
}

/* An image as a tensor has it: in planes, or one pixel after the other. */
struct model_image {
  bool planes;
  uint64_t channels, height, width;
};

/* False if it is none. */
static bool find_image(const struct frame_format *tensor, struct model_image *image) {
  if (tensor->rank < 3) {
    return false;
  }
  const uint64_t *sides = tensor->shape + tensor->rank - 3;
  image->planes = sides[0] == 1 || sides[0] == 3;
  image->channels = image->planes ? sides[0] : sides[2];
  image->height = image->planes ? sides[1] : sides[0];
  image->width = image->planes ? sides[2] : sides[1];
  return image->channels == 1 || image->channels == 3;
}

static void write_resize(const struct model_image *image, char text[64]) {
  snprintf(text, 64, "`resize: {width: %llu, height: %llu}`", (unsigned long long)image->width,
           (unsigned long long)image->height);
}

static bool is_real(const struct frame_format *format) {
  return format->dtype == ELEMENT_FLOAT32 || format->dtype == ELEMENT_FLOAT16;
}

/* "`normalize: {dtype: float16, layout: hwc}`", as far as that is not what it gives anyway. */
static void write_normalize(const struct frame_format *input, bool planes, char text[64]) {
  const char *half = input->dtype == ELEMENT_FLOAT16 ? "dtype: float16" : "", *layout = planes ? "" : "layout: hwc";
  snprintf(text, 64, "`normalize: {%s%s%s}`", half, *half && *layout ? ", " : "", layout);
}

/* "put `convert: {to: rgb24}`, `resize: {width: 224, height: 224}`, `normalize: {}` before it", as far as they are needed. */
static void advise_image(const struct frame_format *frame, const struct model_image *image, const struct frame_format *input,
                         char advice[STAGE_TEXT]) {
  char convert[32] = "", resize[64] = "", normalize[64] = "";
  if (!is_real(input) && (image->planes || input->dtype != ELEMENT_UINT8)) {
    return; /* which no stage makes of an image */
  }
  if (stage_channels(frame) != image->channels || frame->dtype != ELEMENT_UINT8) {
    snprintf(convert, sizeof convert, "`convert: {to: %s}`", image->channels == 1 ? "gray" : "rgb24");
  }
  if (frame->width != image->width || frame->height != image->height) {
    write_resize(image, resize);
  }
  if (is_real(input)) {
    write_normalize(input, image->planes, normalize);
  }
  snprintf(advice, STAGE_TEXT, "; put %s%s%s%s%s before it", convert, *convert && (*resize || *normalize) ? ", " : "", resize,
           *resize && *normalize ? ", " : "", normalize);
}

/* Of samples that a stage before it has made of an image already, as a rule. */
static void advise_tensor(const struct frame_format *frame, const struct model_image *image, const struct frame_format *input,
                          char advice[STAGE_TEXT]) {
  struct model_image given;
  char stage[64];
  if (!is_real(frame) || !is_real(input) || !find_image(frame, &given) || given.channels != image->channels) {
    return;
  }
  if (given.width != image->width || given.height != image->height) {
    write_resize(image, stage);
    snprintf(advice, STAGE_TEXT, "; put %s before the `normalize` that gives them", stage);
  } else {
    write_normalize(input, image->planes, stage);
    snprintf(advice, STAGE_TEXT, "; let %s give them", stage);
  }
}

static void advise(const struct frame_format *frame, const struct frame_format *input, char advice[STAGE_TEXT]) {
  struct model_image image;
  advice[0] = '\0';
  if (find_image(input, &image)) {
    (frame->pixels == PIXELS_NONE ? advise_tensor : advise_image)(frame, &image, input, advice);
  }
}

static bool check_fit(struct stage_plan *plan, const struct model *model, char problem[STAGE_TEXT]) {
  if (fits(&plan->input, &model->input.format)) {
    return true;
  }
  char wanted[FORMAT_TEXT], given[FORMAT_TEXT], advice[STAGE_TEXT];
  advise(&plan->input, &model->input.format, advice);
  snprintf(problem, STAGE_TEXT, "the model takes %s as `%.40s`, not %s%.160s", format_describe(&model->input.format, wanted),
           model->input.name, format_describe(&plan->input, given), advice);
  return false;
}

static void count_users(struct stage_plan *plan, unsigned users) {
  struct model *model = plan->object;
  atomic_fetch_add(&model->users, users);
  atomic_fetch_sub(&model->users, plan->users);
  plan->users = users;
}

static void release(struct stage_plan *plan) {
  struct model *model = plan->object;
  atomic_fetch_sub(&model->users, plan->users);
  plan->object = model_release(model);
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (!find_model(plan, values, problem)) {
    return false;
  }
  struct model *model = plan->object;
  atomic_fetch_add(&model->users, plan->users);
  bool good =
      check_fit(plan, model, problem) && choose(model, &values[MODEL_OUTPUT], plan, problem) && stage_fill_sizes(plan, problem);
  if (!good) {
    release(plan);
  }
  return good;
}

int model_stage_chosen(const struct stage_plan *plan) {
  struct model_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  return constants.chosen;
}

/* -- running it --------------------------------------------------------------------------------------------------------- */

/* Of the frames that are computed at this moment each has a number, the lowest that is free. */
static unsigned take_number(struct model *model) {
  uint64_t taken = atomic_load(&model->running);
  unsigned number;
  do {
    number = ~taken ? (unsigned)__builtin_ctzll(~taken) : MODEL_MOST_INSTANCES;
  } while (number < MODEL_MOST_INSTANCES &&
           !atomic_compare_exchange_weak(&model->running, &taken, taken | UINT64_C(1) << number));
  return number;
}

static void give_number(struct model *model, unsigned number) {
  if (number < MODEL_MOST_INSTANCES) {
    atomic_fetch_and(&model->running, ~(UINT64_C(1) << number));
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct gpu_error error;
  struct model *model = plan->object;
  unsigned instance = take_number(model);
  call->run->instance = instance + 1;
  call->run->served = instance < MODEL_MOST_INSTANCES ? &model->served[instance] : NULL;
  if (!model_run(model, call->input, call->output, model_stage_chosen(plan), &error)) {
    snprintf(call->problem, STAGE_TEXT, "%.390s", error.text);
  }
  give_number(model, instance);
}

static bool joins(const struct stage_plan *plan) { return ((const struct model *)plan->object)->batch.most > 0; }

static void *join(struct gpu_device *device, const struct stage_plan *plan, struct gpu_error *error) {
  return batches_join(&batch_cpu, device, plan, error);
}

static void leave(void *joined) { batches_leave(joined); }

static void hand(struct stage_call *call) {
  void (*const on_cuda)(struct stage_call * call) = STAGE_ENQUEUE(model_hand);
  if (on_cuda && call->stream) {
    on_cuda(call);
  } else {
    batches_hand(call->attached, call);
  }
}

const struct stage_descriptor model_stage = {
    .about = &model_about,
    .prepare = prepare,
    .release = release,
    .count_users = count_users,
    .run = run,
    .enqueue = STAGE_ENQUEUE(model_enqueue),
    .attach = STAGE_ENQUEUE(model_attach),
    .detach = STAGE_ENQUEUE(model_detach),
    .joins = joins,
    .join = join,
    .leave = leave,
    .hand = hand,
};
