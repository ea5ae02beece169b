/*
 * frei0r: descriptor, and one instance of the filter for each session.
 *
 * A filter's instance is no two threads' at once and may keep pictures, so frames pass in their order, as with state; the byte
 * of state is there for that alone. At a session's first frame the instance is made anew.
 */
#include "gpu/stages/frei0r/frei0r.h"
#include "gpu/stages/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { NAME, SETTINGS, RATE };
enum { PIXEL = 4, MULTIPLE = 8 };

static const struct stage_parameter parameters[] = {
    [NAME] = {.name = "name",
              .type = STAGE_WORD,
              .required = true,
              .help =
                  "The filter, as `framectl stages` lists it, in pictures whose sides are multiples of 8; of frei0r-plugins "
                  "1.8, 3dflippo ends the process and curves never ends."},
    [SETTINGS] = {.name = "settings",
                  .type = STAGE_SETTINGS,
                  .help = "The filter's parameters, as `framectl stages NAME` lists them: numbers from 0 to 1, [red, green, "
                          "blue], [x, y] or texts."},
    [RATE] = {.name = "rate",
              .type = STAGE_NUMBER,
              .minimum = 0.001,
              .maximum = 100000,
              .fallback = 25,
              .help = "Frames a second, for filters in which time passes."},
};

struct value {
  int index;
  double numbers[3];
  float colour[3];
  char *text;
  const void *pointer; /* to what the filter takes */
};

struct filter {
  struct frei0r_plugin plugin;
  double rate;
  unsigned count;
  struct value values[];
};

/* -- settings ----------------------------------------------------------------------------------------------------- */

static bool refuse(struct stage_plan *plan) {
  plan->remedy = "`framectl stages NAME` lists what a filter takes";
  return false;
}

static int find_parameter(const struct frei0r_plugin *plugin, const char *name, struct frei0r_parameter *parameter) {
  for (int i = 0; i < plugin->info.parameters; i++) {
    *parameter = (struct frei0r_parameter){0};
    plugin->parameter_info(parameter, i);
    if (parameter->name && strcasecmp(parameter->name, name) == 0) {
      return i;
    }
  }
  return -1;
}

static bool is_within_one(const struct stage_setting *setting) {
  for (unsigned i = 0; i < setting->count; i++) {
    if (!(setting->numbers[i] >= 0 && setting->numbers[i] <= 1)) {
      return false;
    }
  }
  return true;
}

static bool take_numbers(const struct stage_setting *setting, unsigned count, struct value *value) {
  if (setting->text || setting->count != count || !is_within_one(setting)) {
    return false;
  }
  for (unsigned i = 0; i < count; i++) {
    value->numbers[i] = setting->numbers[i];
    value->colour[i] = (float)setting->numbers[i];
  }
  return true;
}

static bool take_text(const struct stage_setting *setting, struct value *value) {
  value->text = setting->text ? strdup(setting->text) : NULL;
  return value->text != NULL;
}

/* Whether the setting is what a parameter of that kind takes; what it takes instead is in `takes`. */
static bool take_value(const struct stage_setting *setting, int kind, struct value *value, const char **takes) {
  value->pointer = value->numbers;
  switch (kind) {
  case FREI0R_COLOUR:
    *takes = "[red, green, blue], each from 0 to 1";
    value->pointer = value->colour;
    return take_numbers(setting, 3, value);
  case FREI0R_POSITION:
    *takes = "[x, y], each from 0 to 1";
    return take_numbers(setting, 2, value);
  case FREI0R_STRING:
    *takes = "a text";
    value->pointer = &value->text;
    return take_text(setting, value);
  default:
    *takes = kind == FREI0R_BOOL ? "0 or 1" : "a number from 0 to 1";
    return take_numbers(setting, 1, value);
  }
}

static bool take_setting(struct stage_plan *plan, struct filter *filter, const struct stage_setting *setting,
                         char problem[STAGE_TEXT]) {
  struct frei0r_parameter parameter;
  struct value *value = &filter->values[filter->count];
  const char *takes;
  value->index = find_parameter(&filter->plugin, setting->name, &parameter);
  if (value->index < 0) {
    snprintf(problem, STAGE_TEXT, "the filter has no parameter '%.80s'", setting->name);
    return refuse(plan);
  }
  filter->count++;
  if (!take_value(setting, parameter.kind, value, &takes)) {
    snprintf(problem, STAGE_TEXT, "'%.80s' takes %s", setting->name, takes);
    return refuse(plan);
  }
  return true;
}

static void release_filter(struct filter *filter) {
  for (unsigned i = 0; i < filter->count; i++) {
    free(filter->values[i].text);
  }
  free(filter);
}

/* -- preparing ---------------------------------------------------------------------------------------------------- */

static bool check_format(const struct stage_plan *plan, char problem[STAGE_TEXT]) {
  const struct frame_format *input = &plan->input;
  unsigned channels = stage_channels(input);
  if (channels == 0 || input->dtype != ELEMENT_UINT8) {
    return stage_refuse(plan, problem, "gray, rgb24 and bgr24", "put `convert: {to: rgb24}` before it");
  }
  if (input->width % MULTIPLE == 0 && input->height % MULTIPLE == 0) {
    return true;
  }
  snprintf(problem, STAGE_TEXT,
           "its filters take widths and heights that are multiples of %d; put `resize: {width: %u, height: %u}` before it",
           MULTIPLE, (input->width + MULTIPLE - 1) / MULTIPLE * MULTIPLE, (input->height + MULTIPLE - 1) / MULTIPLE * MULTIPLE);
  return false;
}

static bool take_all(struct stage_plan *plan, struct filter *filter, const struct stage_value *values,
                     char problem[STAGE_TEXT]) {
  if (!frei0r_open(&filter->plugin, values[NAME].text ? values[NAME].text : "", stage_file(plan), problem, &plan->remedy)) {
    return false;
  }
  for (unsigned i = 0; i < values[SETTINGS].setting_count; i++) {
    if (!take_setting(plan, filter, &values[SETTINGS].settings[i], problem)) {
      return false;
    }
  }
  return true;
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (!check_format(plan, problem)) {
    return false;
  }
  struct filter *filter = calloc(1, sizeof *filter + values[SETTINGS].setting_count * sizeof filter->values[0]);
  if (!filter) {
    snprintf(problem, STAGE_TEXT, "no memory for the filter");
    return false;
  }
  filter->rate = values[RATE].numbers[0];
  if (!take_all(plan, filter, values, problem)) {
    release_filter(filter);
    return false;
  }
  plan->object = filter;
  plan->state_bytes = 1;
  plan->scratch_bytes = 2 * (size_t)plan->input.width * plan->input.height * PIXEL;
  plan->not_on_cuda = "runs on the CPU backend alone; set gpu.backend to cpu, or leave the stage out";
  return stage_keep_format(plan, problem);
}

static void release(struct stage_plan *plan) { release_filter(plan->object); }

/* -- a session's instance ----------------------------------------------------------------------------------------- */

struct session {
  void *instance;
  bool used;
};

static void *make_instance(const struct stage_plan *plan) {
  const struct filter *filter = plan->object;
  void *instance = filter->plugin.construct(plan->input.width, plan->input.height);
  for (unsigned i = 0; instance && i < filter->count; i++) {
    filter->plugin.set(instance, filter->values[i].pointer, filter->values[i].index);
  }
  return instance;
}

static void *begin(const struct stage_plan *plan, bool on_cuda, char problem[STAGE_TEXT]) {
  (void)on_cuda;
  struct session *session = calloc(1, sizeof *session);
  if (session && !(session->instance = make_instance(plan))) {
    free(session);
    session = NULL;
  }
  if (!session) {
    snprintf(problem, STAGE_TEXT, "the filter makes no instance for %ux%u pixels", plan->input.width, plan->input.height);
  }
  return session;
}

static void end(const struct stage_plan *plan, void *object) {
  struct session *session = object;
  const struct filter *filter = plan->object;
  if (session->instance) {
    filter->plugin.destruct(session->instance);
  }
  free(session);
}

static bool renew(const struct stage_plan *plan, struct session *session, const struct stage_call *call) {
  const struct filter *filter = plan->object;
  if (call->restart && session->used) {
    filter->plugin.destruct(session->instance);
    session->instance = make_instance(plan);
  }
  session->used = true;
  if (!session->instance) {
    snprintf(call->problem, STAGE_TEXT, "the filter makes no further instance");
  }
  return session->instance != NULL;
}

/* -- pictures ----------------------------------------------------------------------------------------------------- */

/* Where red and blue lie in the filter's pixels, if it says. */
struct places {
  unsigned red, blue;
};

static struct places places_in_frame(const struct stage_plan *plan) {
  switch (plan->input.pixels) {
  case PIXELS_RGB24:
    return (struct places){0, 2};
  case PIXELS_BGR24:
    return (struct places){2, 0};
  default:
    return (struct places){0, 0};
  }
}

static struct places places_in_filter(const struct filter *filter) {
  return filter->plugin.info.colours == FREI0R_BGRA ? (struct places){2, 0} : (struct places){0, 2};
}

static void widen(const uint8_t *in, uint8_t *out, size_t pixels, unsigned channels, struct places from, struct places to) {
  for (size_t i = 0; i < pixels; i++) {
    const uint8_t *pixel = in + i * channels;
    out[i * PIXEL + to.red] = pixel[from.red];
    out[i * PIXEL + 1] = pixel[channels / 2];
    out[i * PIXEL + to.blue] = pixel[from.blue];
    out[i * PIXEL + 3] = 255;
  }
}

static void narrow(const uint8_t *in, uint8_t *out, size_t pixels, struct places from, struct places to) {
  for (size_t i = 0; i < pixels; i++) {
    out[i * 3 + to.red] = in[i * PIXEL + from.red];
    out[i * 3 + 1] = in[i * PIXEL + 1];
    out[i * 3 + to.blue] = in[i * PIXEL + from.blue];
  }
}

/* Brightness as BT.601 has it, in 256ths. */
static void narrow_to_gray(const uint8_t *in, uint8_t *out, size_t pixels, struct places from) {
  for (size_t i = 0; i < pixels; i++) {
    const uint8_t *pixel = in + i * PIXEL;
    out[i] = (uint8_t)((77 * pixel[from.red] + 150 * pixel[1] + 29 * pixel[from.blue] + 128) >> 8);
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  const struct filter *filter = plan->object;
  struct session *session = call->session;
  size_t pixels = (size_t)plan->input.width * plan->input.height;
  uint8_t *in = call->scratch, *out = in + pixels * PIXEL;
  unsigned channels = stage_channels(&plan->input);
  struct places own = places_in_filter(filter), frame = places_in_frame(plan);
  double seconds = call->sequence == STAGE_WARM_UP ? 0 : (double)call->sequence / filter->rate;
  if (!renew(plan, session, call)) {
    return;
  }
  widen(call->input, in, pixels, channels, frame, own);
  filter->plugin.update(session->instance, seconds, (const uint32_t *)(const void *)in, (uint32_t *)(void *)out);
  if (channels == 1) {
    narrow_to_gray(out, call->output, pixels, own);
  } else {
    narrow(out, call->output, pixels, own, frame);
  }
}

const struct stage_descriptor frei0r_stage = {
    .name = "frei0r",
    .is_foreign = true,
    .help = "Runs a filter of frei0r, on the CPU backend; takes gray, rgb24 and bgr24 and gives the same format.",
    .parameters = parameters,
    .parameter_count = STAGE_PARAMETER_COUNT(parameters),
    .prepare = prepare,
    .release = release,
    .begin = begin,
    .end = end,
    .run = run,
};
