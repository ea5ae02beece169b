/*
 * A stage for framed that runs a filter of frei0r on the CPU. framed-stage(3) explains custom stages.
 *
 *   cc -O3 -shared -fPIC -o frei0r.so frei0r.c
 *
 *   stages:
 *     - convert: {to: rgb24}
 *     - library: {file: frei0r.so, settings: {filter: /usr/lib/frei0r-1/cartoon.so, set: [0, 0.4]}}
 *
 * Filters are in Debian's package frei0r-plugins. They accept pictures whose sides are multiples of 8. `set: [index, value]`
 * sets a parameter of the filter: its index counts from 0, and its value is a number from 0 to 1. Further parameters use names
 * that begin with set: set1, set2 and so on.
 */
#include <framed-stage.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXEL = 4, SESSIONS = 64, PARAMETERS = 16 };
enum { FILTER = 0, BOOL = 0, DOUBLE = 1 }; /* of frei0r: the type of plugin, and the kinds of parameters with one number */

struct info { /* declared like frei0r's f0r_plugin_info */
  const char *name, *author;
  int type, colours, version, major, minor, parameters;
  const char *explanation;
};

struct parameter { /* declared like frei0r's f0r_param_info */
  const char *name;
  int kind;
  const char *explanation;
};

struct filter {
  void *handle;
  struct info info;
  void (*about)(struct parameter *parameter, int index);
  void *(*construct)(unsigned width, unsigned height);
  void (*destruct)(void *instance);
  void (*set)(void *instance, const void *value, int index);
  void (*update)(void *instance, double seconds, const uint32_t *in, uint32_t *out);
  struct {
    int index;
    double value;
  } values[PARAMETERS];
  unsigned value_count;
  pthread_mutex_t lock; /* of the sessions: each has an instance, since instances keep pictures */
  struct {
    const void *state;
    void *instance;
  } sessions[SESSIONS];
};

static int refuse(struct framed_stage_plan *plan, struct filter *filter, const char *why) {
  snprintf(plan->problem, plan->problem_size, "%s", why);
  if (filter && filter->handle) {
    dlclose(filter->handle);
  }
  free(filter);
  return 1;
}

static int find(struct filter *filter, const char *name, void *function) {
  void *symbol = dlsym(filter->handle, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static const char *open_filter(struct filter *filter, const char *path) {
  int (*init)(void);
  void (*about)(struct info * info);
  filter->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!filter->handle || !find(filter, "f0r_init", &init) || !find(filter, "f0r_get_plugin_info", &about) ||
      !find(filter, "f0r_get_param_info", &filter->about) || !find(filter, "f0r_construct", &filter->construct) ||
      !find(filter, "f0r_destruct", &filter->destruct) || !find(filter, "f0r_set_param_value", &filter->set) ||
      !find(filter, "f0r_update", &filter->update)) {
    return "`filter` names no plugin of frei0r";
  }
  init();
  about(&filter->info);
  return filter->info.type == FILTER ? NULL : "this plugin of frei0r is no filter of one picture";
}

static const char *take_value(struct filter *filter, const struct framed_stage_setting *setting) {
  struct parameter parameter = {0};
  int index = setting->text || setting->count != 2 ? -1 : (int)setting->numbers[0];
  if (index < 0 || index >= filter->info.parameters || filter->value_count == PARAMETERS) {
    return "`set` takes [index, value] of a parameter of the filter";
  }
  filter->about(&parameter, index);
  if ((parameter.kind != BOOL && parameter.kind != DOUBLE) || !(setting->numbers[1] >= 0 && setting->numbers[1] <= 1)) {
    return "`set` takes parameters that are a number from 0 to 1";
  }
  filter->values[filter->value_count].index = index;
  filter->values[filter->value_count++].value = setting->numbers[1];
  return NULL;
}

static int prepare(struct framed_stage_plan *plan) {
  const char *path = "", *why;
  struct filter *filter = calloc(1, sizeof *filter);
  if (plan->input.pixels != FRAMED_STAGE_RGB24 || plan->input.width % 8 != 0 || plan->input.height % 8 != 0) {
    return refuse(plan, filter, "frei0r takes rgb24 with sides that are multiples of 8; use convert and resize before it");
  }
  for (uint32_t i = 0; i < plan->setting_count; i++) {
    path = strcmp(plan->settings[i].name, "filter") == 0 && plan->settings[i].text ? plan->settings[i].text : path;
  }
  why = filter ? open_filter(filter, path) : "no memory for the filter";
  for (uint32_t i = 0; i < plan->setting_count && !why; i++) {
    why = strncmp(plan->settings[i].name, "set", 3) == 0 ? take_value(filter, &plan->settings[i]) : NULL;
  }
  if (why) {
    return refuse(plan, filter, why);
  }
  pthread_mutex_init(&filter->lock, NULL);
  plan->object = filter;
  plan->state_bytes = 1; /* keeps a session's frames in order, and its address identifies the session */
  plan->scratch_bytes = 2 * (size_t)plan->input.width * plan->input.height * PIXEL;
  return 0;
}

/* The instance of the call's session. A new session gets a new one. NULL on failure. */
static void *instance_of(const struct framed_stage_plan *plan, struct filter *filter, const struct framed_stage_call *call) {
  unsigned at = 0;
  void *instance = NULL;
  pthread_mutex_lock(&filter->lock);
  while (at < SESSIONS && filter->sessions[at].state && filter->sessions[at].state != call->state) {
    at++;
  }
  if (at < SESSIONS) {
    if (filter->sessions[at].instance && call->restart) {
      filter->destruct(filter->sessions[at].instance);
      filter->sessions[at].instance = NULL;
    }
    if (!filter->sessions[at].instance) {
      filter->sessions[at].instance = filter->construct(plan->input.width, plan->input.height);
      for (unsigned i = 0; i < filter->value_count && filter->sessions[at].instance; i++) {
        filter->set(filter->sessions[at].instance, &filter->values[i].value, filter->values[i].index);
      }
    }
    filter->sessions[at].state = call->state;
    instance = filter->sessions[at].instance;
  }
  pthread_mutex_unlock(&filter->lock);
  return instance;
}

static int run(const struct framed_stage_plan *plan, const struct framed_stage_call *call) {
  struct filter *filter = plan->object;
  const size_t pixels = (size_t)plan->input.width * plan->input.height;
  uint8_t *in = call->scratch, *out = in + pixels * PIXEL;
  void *instance = instance_of(plan, filter, call);
  const int swap = filter->info.colours == 0 ? 2 : 0; /* BGRA has blue where RGBA has red */
  if (!instance) {
    return 1;
  }
  for (size_t i = 0; i < pixels; i++) {
    const uint8_t *from = (const uint8_t *)call->input + i * 3;
    in[i * PIXEL] = from[swap];
    in[i * PIXEL + 1] = from[1];
    in[i * PIXEL + 2] = from[2 - swap];
    in[i * PIXEL + 3] = 255;
  }
  filter->update(instance, (double)call->sequence / 25, (const uint32_t *)(const void *)in, (uint32_t *)(void *)out);
  for (size_t i = 0; i < pixels; i++) {
    uint8_t *to = (uint8_t *)call->output + i * 3;
    to[swap] = out[i * PIXEL];
    to[1] = out[i * PIXEL + 1];
    to[2 - swap] = out[i * PIXEL + 2];
  }
  return 0;
}

static void release(struct framed_stage_plan *plan) {
  struct filter *filter = plan->object;
  for (unsigned i = 0; i < SESSIONS; i++) {
    if (filter->sessions[i].instance) {
      filter->destruct(filter->sessions[i].instance);
    }
  }
  pthread_mutex_destroy(&filter->lock);
  dlclose(filter->handle);
  free(filter);
}

const struct framed_stage *framed_stage(void) {
  static const struct framed_stage table = {.abi = FRAMED_STAGE_ABI,
                                            .size = sizeof(struct framed_stage),
                                            .name = "frei0r",
                                            .prepare = prepare,
                                            .run = run,
                                            .release = release};
  return &table;
}
