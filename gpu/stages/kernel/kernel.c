/* kernel: descriptor, and what a configuration says of a user's kernel. Its parts are listed in private.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/stages/kernel/private.h"
#include "gpu/stages/prepare.h"

_Static_assert((int)FRAMED_GRAYF32LE == (int)PIXELS_GRAYF32LE && (int)FRAMED_GRAYF32LE + 1 == (int)PIXELS_COUNT &&
                   (int)FRAMED_INT64 == (int)ELEMENT_INT64 && (int)FRAMED_INT64 + 1 == (int)ELEMENT_COUNT,
               "the public header names all formats");

#define NO_COMPILER                                                                                                            \
  "install CUDA's toolkit or `pip install nvidia-cuda-nvrtc`, name its libnvrtc.so.13 in FRAMED_NVRTC, or give a cubin made "  \
  "by nvcc"

enum { DEFAULT_WIDTH = 32, DEFAULT_HEIGHT = 8 };

/* -- the result's format ------------------------------------------------------------------------------------------ */

static bool refuse_output(const struct stage_setting *setting, char problem[STAGE_TEXT]) {
  snprintf(problem, STAGE_TEXT,
           "`output` does not take '%.40s%s%.40s'; write {pixels: gray, width: 640, height: 480} or {dtype: float32, "
           "shape: [3, 480, 640]}",
           setting->name, setting->text ? ": " : "", setting->text ? setting->text : "");
  return false;
}

static bool find_word(const char *const *words, int count, const char *text, int *index) {
  for (*index = 0; *index < count; ++*index) {
    if (text && words[*index] && strcmp(words[*index], text) == 0) {
      return true;
    }
  }
  return false;
}

static bool is_size(double number) { return number >= 1 && number <= UINT32_MAX && number == (double)(uint32_t)number; }

static bool read_sizes(const struct stage_setting *setting, struct frame_format *format) {
  for (unsigned i = 0; i < setting->count; i++) {
    if (!is_size(setting->numbers[i])) {
      return false;
    }
    format->shape[i] = (uint64_t)setting->numbers[i];
  }
  format->rank = setting->count;
  return !setting->text;
}

static bool read_side(const struct stage_setting *setting, uint32_t *side) {
  bool good = !setting->text && setting->count == 1 && is_size(setting->numbers[0]);
  *side = good ? (uint32_t)setting->numbers[0] : 0;
  return good;
}

static bool read_output_key(const struct stage_setting *setting, struct frame_format *format, char problem[STAGE_TEXT]) {
  int index = 0;
  bool good = false;
  if (strcmp(setting->name, "pixels") == 0) {
    good = find_word(pixel_format_names, PIXELS_COUNT, setting->text, &index);
    *format = format_image((enum pixel_format)index, format->width, format->height);
  } else if (strcmp(setting->name, "dtype") == 0) {
    good = find_word(element_type_names, ELEMENT_COUNT, setting->text, &index);
    format->pixels = PIXELS_NONE;
    format->dtype = (enum element_type)index;
  } else if (strcmp(setting->name, "shape") == 0) {
    format->pixels = PIXELS_NONE;
    good = read_sizes(setting, format);
  } else if (strcmp(setting->name, "width") == 0) {
    good = read_side(setting, &format->width);
  } else if (strcmp(setting->name, "height") == 0) {
    good = read_side(setting, &format->height);
  }
  return good || refuse_output(setting, problem);
}

static bool read_output(struct stage_plan *plan, const struct stage_value *value, char problem[STAGE_TEXT]) {
  struct frame_format format = plan->input;
  for (unsigned i = 0; i < value->setting_count; i++) {
    if (!read_output_key(&value->settings[i], &format, problem)) {
      return false;
    }
  }
  plan->output = format.pixels != PIXELS_NONE ? format_image(format.pixels, format.width, format.height)
                                              : format_tensor(format.dtype, format.shape, format.rank);
  return stage_fill_sizes(plan, problem);
}

/* -- what the kernel sees ----------------------------------------------------------------------------------------- */

static struct framed_in describe_image(const struct frame_format *format) {
  int bytes = (int)format_element_bytes(format->dtype), width = (int)format->width;
  int channels = format->pixels == PIXELS_YUYV422 ? 2 : (int)stage_channels(format);
  int samples = channels > 1 ? channels : 1; /* of a pixel */
  return (struct framed_in){.width = width,
                            .height = (int)format->height,
                            .channels = samples,
                            .pitch =
                                (long long)(format->pixels == PIXELS_YUYV422 ? (width + 1) / 2 * 2 : width) * samples * bytes,
                            .step = samples * bytes,
                            .plane = bytes,
                            .type = (int)format->dtype,
                            .pixels = (int)format->pixels};
}

static struct framed_in describe_tensor(const struct frame_format *format) {
  int bytes = (int)format_element_bytes(format->dtype);
  int width = (int)format->shape[format->rank - 1];
  int height = format->rank > 1 ? (int)format->shape[format->rank - 2] : 1;
  long long plane = (long long)width * height * bytes;
  return (struct framed_in){.width = width,
                            .height = height,
                            .channels = (int)((long long)format_samples(format) * bytes / plane),
                            .pitch = (long long)width * bytes,
                            .step = bytes,
                            .plane = plane,
                            .type = (int)format->dtype};
}

static struct framed_in describe(const struct frame_format *format) {
  return format->pixels != PIXELS_NONE ? describe_image(format) : describe_tensor(format);
}

static void describe_both(const struct stage_plan *plan, struct kernel *kernel) {
  struct framed_in out = describe(&plan->output);
  kernel->in = describe(&plan->input);
  kernel->out = (struct framed_out){.pitch = out.pitch,
                                    .step = out.step,
                                    .plane = out.plane,
                                    .width = out.width,
                                    .height = out.height,
                                    .channels = out.channels,
                                    .type = out.type,
                                    .pixels = out.pixels};
}

/* -- blocks ------------------------------------------------------------------------------------------------------- */

static bool read_sides(const struct stage_value *value, const char *name, unsigned sides[KERNEL_DIMENSIONS],
                       char problem[STAGE_TEXT]) {
  unsigned count = value->given ? value->count : 0;
  for (unsigned i = 0; i < count; i++) {
    if (i == KERNEL_DIMENSIONS || value->numbers[i] != (double)(unsigned)value->numbers[i]) {
      snprintf(problem, STAGE_TEXT, "`%s` takes one to three whole numbers", name);
      return false;
    }
    sides[i] = (unsigned)value->numbers[i];
  }
  for (unsigned i = count; i < KERNEL_DIMENSIONS && count > 0; i++) {
    sides[i] = 1;
  }
  return true;
}

static unsigned blocks_for(int side, unsigned threads) { return ((unsigned)side + threads - 1) / threads; }

static bool read_blocks(struct kernel *kernel, const struct stage_value *values, char problem[STAGE_TEXT]) {
  kernel->block[0] = DEFAULT_WIDTH;
  kernel->block[1] = DEFAULT_HEIGHT;
  kernel->block[2] = kernel->grid[2] = 1;
  if (!read_sides(&values[KERNEL_BLOCK], "block", kernel->block, problem)) {
    return false;
  }
  kernel->grid[0] = blocks_for(kernel->out.width, kernel->block[0]);
  kernel->grid[1] = blocks_for(kernel->out.height, kernel->block[1]);
  kernel->shared = (unsigned)values[KERNEL_SHARED].numbers[0];
  return read_sides(&values[KERNEL_GRID], "grid", kernel->grid, problem);
}

static bool check_block(const struct kernel *kernel, char problem[STAGE_TEXT]) {
  unsigned long threads = (unsigned long)kernel->block[0] * kernel->block[1] * kernel->block[2];
  unsigned most = kernel_most_threads(&kernel->code, kernel->signature.symbol);
  most = most == KERNEL_UNKNOWN || most > KERNEL_THREADS ? KERNEL_THREADS : most;
  if (threads > most || kernel->block[2] > 64) {
    snprintf(problem, STAGE_TEXT, "`block` makes %lu threads, and a block of this kernel may have %u, of which 64 in z",
             threads, most);
    return false;
  }
  return true;
}

/* -- preparing ---------------------------------------------------------------------------------------------------- */

static bool refuse(struct stage_plan *plan, const char *remedy) {
  plan->remedy = remedy;
  return false;
}

/* Without a compiler the library for the CPU will do, unless a GPU is asked for. */
static bool compile(struct stage_plan *plan, struct kernel *kernel, char problem[STAGE_TEXT]) {
  if (!kernel_has_compiler()) {
    plan->not_on_cuda = "needs the compiler libnvrtc.so, which is not found; " NO_COMPILER;
    snprintf(problem, STAGE_TEXT, "the compiler libnvrtc.so is not found");
    return kernel->cpu || refuse(plan, NO_COMPILER);
  }
  return kernel_compile(kernel->file, &kernel->source, kernel->architecture, &kernel->code, problem) ||
         refuse(plan, "correct the source; framed-kernel.h says what a kernel takes");
}

static bool read_code(struct stage_plan *plan, struct kernel *kernel, char problem[STAGE_TEXT]) {
  struct kernel_code file;
  enum kernel_kind kind;
  if (!kernel_read(kernel->file, stage_file(plan), &file, &kind, problem)) {
    return refuse(plan, "name a file with CUDA C, or a cubin, fatbin or PTX made by nvcc");
  }
  if (kind == KERNEL_CODE) {
    kernel->code = file;
    return true;
  }
  kernel->source = file;
  kernel->architecture = gpu_architecture();
  if (!kernel_find_compiled(kernel->file, &kernel->architecture, &kernel->code) && !compile(plan, kernel, problem)) {
    return false;
  }
  if (kernel->code.bytes) {
    kernel_keep_compiled(kernel->file, kernel->architecture, &kernel->code, stage_file(plan));
  }
  return true;
}

static bool match(struct stage_plan *plan, struct kernel *kernel, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (!kernel->code.bytes) {
    return true;
  }
  if (!kernel_match(&kernel->code, kernel->file, values[KERNEL_NAME].text, &values[KERNEL_PARAMETERS], &kernel->signature,
                    problem)) {
    return refuse(plan,
                  "declare it as __global__ void NAME(framed_in in, framed_out out, ...), not extern \"C\", with an argument "
                  "for each parameter");
  }
  return check_block(kernel, problem) || refuse(plan, "make `block` smaller, or the kernel's __launch_bounds__ larger");
}

static bool open_cpu(struct stage_plan *plan, struct kernel *kernel, const struct stage_value *values,
                     char problem[STAGE_TEXT]) {
  const struct frame_format output = plan->output;
  plan->not_on_cpu =
      "runs on CUDA alone; give a library under `cpu:` that stands in for the kernel, or set gpu.backend to cuda";
  if (!values[KERNEL_CPU].text) {
    return true;
  }
  kernel->cpu = library_open(plan, values[KERNEL_CPU].text, &values[KERNEL_PARAMETERS], problem);
  if (!kernel->cpu) {
    return false;
  }
  bool runs = library_table(kernel->cpu)->run;
  bool same = format_equal(&output, &plan->output);
  plan->output = output;
  plan->not_on_cpu = runs ? NULL : plan->not_on_cpu;
  plan->state_bytes = library_plan(kernel->cpu)->state_bytes;
  plan->scratch_bytes = library_plan(kernel->cpu)->scratch_bytes;
  if (!same) {
    snprintf(problem, STAGE_TEXT, "%s gives another format than the kernel", values[KERNEL_CPU].text);
    return refuse(plan, "make `output` and what the library's prepare() says agree");
  }
  return true;
}

static struct kernel *kernel_free(struct kernel *kernel) {
  kernel_unload(kernel);
  library_close(kernel->cpu);
  pthread_mutex_destroy(&kernel->lock);
  free(kernel->source.bytes);
  free(kernel->code.bytes);
  free(kernel->file);
  free(kernel);
  return NULL;
}

static struct kernel *kernel_new(const struct stage_value *values) {
  char path[4096];
  struct kernel *kernel = calloc(1, sizeof *kernel);
  if (kernel) {
    pthread_mutex_init(&kernel->lock, NULL);
    kernel->file = strdup(library_path(values[KERNEL_FILE].text, path, sizeof path));
  }
  return !kernel || kernel->file ? kernel : kernel_free(kernel);
}

static bool fill(struct stage_plan *plan, struct kernel *kernel, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (!read_output(plan, &values[KERNEL_OUTPUT], problem)) {
    return false;
  }
  describe_both(plan, kernel);
  return read_blocks(kernel, values, problem) && open_cpu(plan, kernel, values, problem) && read_code(plan, kernel, problem) &&
         match(plan, kernel, values, problem);
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (!values[KERNEL_FILE].text || !values[KERNEL_NAME].text) {
    snprintf(problem, STAGE_TEXT, "a kernel has a `source` and a `name`");
    return false;
  }
  struct kernel *kernel = kernel_new(values);
  if (!kernel) {
    snprintf(problem, STAGE_TEXT, "no memory for the kernel");
    return false;
  }
  if (!fill(plan, kernel, values, problem)) {
    kernel_free(kernel);
    return false;
  }
  plan->object = kernel;
  return true;
}

static void release(struct stage_plan *plan) { kernel_free(plan->object); }

/* -- running ------------------------------------------------------------------------------------------------------ */

static void *begin(const struct stage_plan *plan, bool on_cuda, char problem[STAGE_TEXT]) {
  return on_cuda ? (void *)kernel_load(plan->object, problem) : plan->object;
}

/* What lies on the device serves all sessions, until the plan is released. */
static void end(const struct stage_plan *plan, void *session) {
  (void)plan;
  (void)session;
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  const struct kernel *kernel = plan->object;
  library_run(kernel->cpu, call);
}

const struct stage_descriptor kernel_stage = {
    .about = &kernel_about,
    .prepare = prepare,
    .release = release,
    .begin = begin,
    .end = end,
    .run = run,
    .enqueue = STAGE_ENQUEUE(kernel_enqueue),
};
