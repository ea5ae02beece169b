/* library: descriptor, and users' libraries opened and called; see library.h and framed-stage.h. */
#include "gpu/stages/library/library.h"
#include "gpu/stages/prepare.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

_Static_assert((int)FRAMED_STAGE_GRAYF32LE == (int)PIXELS_GRAYF32LE && (int)FRAMED_STAGE_GRAYF32LE + 1 == (int)PIXELS_COUNT &&
                   (int)FRAMED_STAGE_TENSOR == (int)PIXELS_NONE,
               "the public header names all pixel formats");
_Static_assert((int)FRAMED_STAGE_INT64 == (int)ELEMENT_INT64 && (int)FRAMED_STAGE_INT64 + 1 == (int)ELEMENT_COUNT,
               "the public header names all element types");

struct library {
  void *handle;
  const struct framed_stage *table;
  struct framed_stage_plan plan;
  struct framed_stage_setting settings[]; /* gone after prepare() */
};

const struct framed_stage *library_table(const struct library *library) { return library->table; }

const struct framed_stage_plan *library_plan(const struct library *library) { return &library->plan; }

/* -- opening ------------------------------------------------------------------------------------------------------ */

const char *library_path(const char *file, char *path, size_t size) {
  snprintf(path, size, "%s%s", strchr(file, '/') ? "" : "./", file);
  return path;
}

static bool refuse(struct stage_plan *plan, const char *remedy) {
  plan->remedy = remedy;
  return false;
}

/* What the loader says, without the path that it begins with. */
static const char *loader_says(const char *path) {
  const char *why = dlerror();
  size_t length = strlen(path);
  bool begins = why && strncmp(why, path, length) == 0 && strncmp(why + length, ": ", 2) == 0;
  return begins ? why + length + 2 : why ? why : "for an unknown reason";
}

/* The same file by a name that nothing was loaded by: the loader takes another file of the same name for the one that it has,
 * and finds out by itself that it has the same one by another name. */
static void rename_path(char *path, size_t size) {
  static _Atomic unsigned times;
  const char *slash = strrchr(path, '/');
  const size_t before = (size_t)(slash - path);
  char copy[4096];
  snprintf(copy, sizeof copy, "%s", path);
  size_t length = before;
  for (unsigned number = ++times; number > 0 && length + 2 < size; number /= 2) {
    length += (size_t)snprintf(path + length, size - length, number % 2 ? "/." : "/");
  }
  snprintf(path + length, size - length, "%s", copy + before);
}

/* Keeps the file, and turns its path into a name to open it by: that of the library that was opened first, if another file has
 * taken its place since. */
static void keep(struct kept_file *kept, char *path, size_t size) {
  struct stat opened, there;
  int descriptor = kept_open(path, 0, NULL, 0);
  bool is_kept = descriptor >= 0 && kept_hold(kept, path, descriptor);
  if (is_kept && fstat(descriptor, &opened) == 0 &&
      (stat(path, &there) != 0 || there.st_dev != opened.st_dev || there.st_ino != opened.st_ino)) {
    snprintf(path, size, "/proc/self/fd/%d", descriptor);
  }
  rename_path(path, size);
}

static bool open_file(struct stage_plan *plan, struct library *library, const char *file, char problem[STAGE_TEXT]) {
  char path[4096];
  library_path(file, path, sizeof path);
  keep(stage_file(plan), path, sizeof path);
  library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library->handle) {
    return true;
  }
  snprintf(problem, STAGE_TEXT, "%s cannot be loaded: %s", file, loader_says(path));
  return refuse(plan, "build it for this machine: cc -shared -fPIC -o NAME.so NAME.c, with -l for what it needs");
}

static bool check_table(struct stage_plan *plan, const struct framed_stage *table, const char *file, char problem[STAGE_TEXT]) {
  if (!table) {
    snprintf(problem, STAGE_TEXT, "%s: framed_stage() gives NULL", file);
  } else if (table->abi != FRAMED_STAGE_ABI) {
    snprintf(problem, STAGE_TEXT, "%s was built for version %u of framed-stage.h, and this program knows version %d", file,
             table->abi, FRAMED_STAGE_ABI);
    return refuse(plan, "build it again with the framed-stage.h of this version");
  } else if (table->size < sizeof *table) {
    snprintf(problem, STAGE_TEXT, "%s: the table of framed_stage() has %u bytes, and needs %zu", file, table->size,
             sizeof *table);
  } else if (!table->name || !table->prepare || (!table->run && !table->enqueue)) {
    snprintf(problem, STAGE_TEXT, "%s: the table of framed_stage() has no %s", file,
             !table->name      ? "name"
             : !table->prepare ? "prepare()"
                               : "run() and no enqueue(): one of them must be there");
  } else {
    return true;
  }
  return refuse(plan, "framed-stage(3) says what a table holds");
}

static bool find_table(struct stage_plan *plan, struct library *library, const char *file, char problem[STAGE_TEXT]) {
  void *symbol = dlsym(library->handle, "framed_stage");
  if (!symbol) {
    snprintf(problem, STAGE_TEXT, "%s has no function framed_stage()", file);
    return refuse(plan, "include framed-stage.h and define it; in C++ the header makes it extern \"C\"");
  }
  const struct framed_stage *(*get)(void);
  memcpy(&get, &symbol, sizeof get);
  library->table = get();
  return check_table(plan, library->table, file, problem);
}

/* -- preparing ---------------------------------------------------------------------------------------------------- */

static struct framed_stage_format to_public(const struct frame_format *format) {
  struct framed_stage_format result = {.pixels = (uint32_t)format->pixels,
                                       .width = format->width,
                                       .height = format->height,
                                       .dtype = (uint32_t)format->dtype,
                                       .rank = format->rank};
  memcpy(result.shape, format->shape, sizeof result.shape);
  return result;
}

static bool from_public(const struct framed_stage_format *format, struct frame_format *result) {
  if (format->pixels >= PIXELS_COUNT || format->dtype >= ELEMENT_COUNT) {
    return false;
  }
  *result = format->pixels != PIXELS_NONE ? format_image((enum pixel_format)format->pixels, format->width, format->height)
                                          : format_tensor((enum element_type)format->dtype, format->shape, format->rank);
  size_t bytes;
  return format_bytes(result, &bytes);
}

static void fill_settings(struct library *library, const struct stage_value *value) {
  for (unsigned i = 0; i < value->setting_count; i++) {
    const struct stage_setting *setting = &value->settings[i];
    library->settings[i] = (struct framed_stage_setting){
        .name = setting->name, .text = setting->text, .numbers = setting->numbers, .count = setting->count};
  }
  library->plan.settings = library->settings;
  library->plan.setting_count = value->setting_count;
}

static bool prepare_plan(struct stage_plan *plan, struct library *library, const char *file, const struct stage_value *settings,
                         char problem[STAGE_TEXT]) {
  char said[STAGE_TEXT / 2] = "";
  library->plan = (struct framed_stage_plan){.size = sizeof library->plan,
                                             .input = to_public(&plan->input),
                                             .output = to_public(&plan->input),
                                             .problem = said,
                                             .problem_size = sizeof said};
  fill_settings(library, settings);
  int status = library->table->prepare(&library->plan);
  said[sizeof said - 1] = '\0';
  library->plan.problem = NULL;
  library->plan.settings = NULL;
  library->plan.problem_size = library->plan.setting_count = 0;
  if (status != 0) {
    snprintf(problem, STAGE_TEXT, "%s", *said ? said : "its prepare() failed and does not say why");
    return false;
  }
  if (!from_public(&library->plan.output, &plan->output)) {
    snprintf(problem, STAGE_TEXT, "%s: its prepare() gives a format that no frame can have", file);
    if (library->table->release) {
      library->table->release(&library->plan);
    }
    return refuse(plan, "set `output` of the plan to an image's or a tensor's format");
  }
  return true;
}

struct library *library_open(struct stage_plan *plan, const char *file, const struct stage_value *settings,
                             char problem[STAGE_TEXT]) {
  struct library *library = calloc(1, sizeof *library + settings->setting_count * sizeof library->settings[0]);
  if (!library) {
    snprintf(problem, STAGE_TEXT, "no memory for %s", file);
    return NULL;
  }
  if (open_file(plan, library, file, problem) && find_table(plan, library, file, problem) &&
      prepare_plan(plan, library, file, settings, problem)) {
    return library;
  }
  if (library->handle) {
    dlclose(library->handle);
  }
  free(library);
  return NULL;
}

struct library *library_close(struct library *library) {
  if (library) {
    if (library->table->release) {
      library->table->release(&library->plan);
    }
    dlclose(library->handle);
    free(library);
  }
  return NULL;
}

/* -- running ------------------------------------------------------------------------------------------------------ */

static struct framed_stage_call public_call(const struct stage_call *call) {
  return (struct framed_stage_call){.size = sizeof(struct framed_stage_call),
                                    .restart = call->restart,
                                    .input = call->input,
                                    .output = call->output,
                                    .state = call->state,
                                    .scratch = call->scratch,
                                    .sequence = call->sequence};
}

void library_run(const struct library *library, const struct stage_call *call) {
  const struct framed_stage_call frame = public_call(call);
  int status = library->table->run(&library->plan, &frame);
  if (status != 0) {
    snprintf(call->problem, STAGE_TEXT, "run() of '%.80s' failed with %d", library->table->name, status);
  }
}

/* -- the stage ---------------------------------------------------------------------------------------------------- */

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct library *library =
      library_open(plan, values[LIBRARY_FILE].text ? values[LIBRARY_FILE].text : "", &values[LIBRARY_SETTINGS], problem);
  if (!library) {
    return false;
  }
  plan->object = library;
  plan->state_bytes = library->plan.state_bytes;
  plan->scratch_bytes = library->plan.scratch_bytes;
  plan->not_on_cpu = library->table->run ? NULL : "has no run() for the CPU backend; add one, or set gpu.backend to cuda";
  plan->not_on_cuda = library->table->enqueue ? NULL : "has no enqueue() for CUDA; add one, or set gpu.backend to cpu";
  return true;
}

static void release(struct stage_plan *plan) { library_close(plan->object); }

static void run(const struct stage_plan *plan, const struct stage_call *call) { library_run(plan->object, call); }

#ifdef FRAMED_CUDA
static int enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  const struct library *library = plan->object;
  const struct framed_stage_call frame = public_call(call);
  return library->table->enqueue(&library->plan, &frame, stream);
}
#endif

const struct stage_descriptor library_stage = {
    .about = &library_about, .prepare = prepare, .release = release, .run = run, .enqueue = STAGE_ENQUEUE(enqueue)};
