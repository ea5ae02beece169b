/*
 * A model in ONNX Runtime on the CPU: one session, which any number of threads may run at once, so that its weights are in
 * memory once.
 *
 * With one thread a run computes within the thread that calls it; with more the session has helpers, which all runs share.
 * Helpers do not spin while they wait: processors are for the lanes.
 */
#include "gpu/backend.h"
#include "gpu/model/private.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(model, error, function, ...)                                                                                     \
  onnxruntime_check((model)->runtime, (model)->runtime->function(__VA_ARGS__), (model)->path, (error))

/* -- errors of opening -------------------------------------------------------------------------------------------------- */

/* What stands in `text` behind `before` and until `after`; false if it does not. */
static bool find_between(const char *text, const char *before, const char *after, char found[64]) {
  const char *begin = strstr(text, before);
  size_t length = begin ? strcspn(begin + strlen(before), after) : 0;
  snprintf(found, 64, "%.*s", (int)(length < 64 ? length : 63), begin ? begin + strlen(before) : "");
  return length > 0;
}

static bool explain_operator(const struct model *model, const struct gpu_error *why, struct gpu_error *error) {
  const char *version = model->runtime->version;
  char name[64], opset[64];
  if (find_between(why->text, "No Op registered for ", " ", name)) {
    bool has_opset = find_between(why->text, "with domain_version of ", " ", opset);
    return gpu_error_set(error, 0, "export it with standard operators, or for an opset that has it",
                         "%s uses an operator `%s` that %s%s%sONNX Runtime %s does not have", model->path, name,
                         has_opset ? "opset " : "", opset, has_opset ? " of " : "", version);
  }
  if (find_between(why->text, "No opset import for domain '", "'", name)) {
    return gpu_error_set(error, 0, "export it once more", "%s uses operators of `%s`, and does not say of which opset",
                         model->path, name);
  }
  if (strstr(why->text, "is not a registered function/op") && find_between(why->text, "Fatal error: ", "(", name)) {
    return gpu_error_set(error, 0, "export it with standard operators",
                         "%s uses an operator `%s` that ONNX Runtime %s does not have", model->path, name, version);
  }
  if (find_between(why->text, "Could not find an implementation for ", "(", name)) {
    return gpu_error_set(error, 0, "export it with other types there",
                         "%s: ONNX Runtime %s cannot compute its operator `%s` with these types", model->path, version, name);
  }
  return true;
}

static bool explain_version(const struct model *model, const struct gpu_error *why, struct gpu_error *error) {
  const char *version = model->runtime->version;
  char domain[64], is[64], most[64], remedy[GPU_TEXT];
  snprintf(remedy, sizeof remedy, "export it for an earlier opset, or install a newer ONNX Runtime than %s", version);
  if (find_between(why->text, "Opset ", " ", is) && strstr(why->text, "is under development")) {
    bool says_most = find_between(why->text, "support for domain ", " ", domain) &&
                     find_between(why->text, "is till opset ", " .", most); /* at the end, which may be cut off */
    return gpu_error_set(error, 0, remedy, "%s is too new, with opset %s%s%s: ONNX Runtime %s %s%s", model->path, is,
                         says_most ? " of " : "", says_most ? domain : "", version,
                         says_most ? "has those up to " : "does not know it", says_most ? most : "");
  }
  if (find_between(why->text, "max supported IR version: ", " .", most)) {
    return gpu_error_set(error, 0, remedy, "%s is too new, with IR version %lld: ONNX Runtime %s has those up to %s",
                         model->path, (long long)model->ir_version, version, most);
  }
  return true;
}

/* Says what users meet in our words; of other reasons the library's are all there is. */
bool session_explain(const struct model *model, struct gpu_error *error) {
  const struct gpu_error why = *error;
  const size_t path = strlen(model->path);
  if (!explain_operator(model, &why, error) || !explain_version(model, &why, error)) {
    return false;
  }
  const bool begins = strncmp(why.text, model->path, path) == 0 && strncmp(why.text + path, ": ", 2) == 0;
  char remedy[GPU_TEXT];
  snprintf(remedy, sizeof remedy, "export it once more, or try it in Python's onnxruntime %s", model->runtime->version);
  return gpu_error_set(error, why.code, remedy, "%s: ONNX Runtime %s does not open it: %.300s", model->path,
                       model->runtime->version, why.text + (begins ? path + 2 : 0));
}

/* -- opening ------------------------------------------------------------------------------------------------------------ */

/* Sides of the input that have a name get their value, so that those of the outputs follow. */
static bool set_sides(const struct model *model, struct ort_options *options, const struct onnx_file *file,
                      struct gpu_error *error) {
  const struct onnx_input *input = &file->inputs[0];
  for (unsigned i = 0; i < input->rank; i++) {
    char name[MODEL_NAME];
    struct onnx_text side = input->names[i];
    bool is_open = input->shape[i] < 0 && !(i == 0 && model->batch.most > 1); /* as many as there are frames */
    if (!is_open || side.length == 0 || side.length >= sizeof name) {
      continue;
    }
    snprintf(name, sizeof name, "%.*s", (int)side.length, side.text);
    if (!CHECK(model, error, set_dimension, options, name, model->input.shape[i])) {
      return false;
    }
  }
  return true;
}

static bool add_files(const struct model *model, struct ort_options *options, const struct model_bytes *bytes,
                      const struct onnx_file *file, struct gpu_error *error) {
  const char *names[ONNX_MOST_FILES];
  for (unsigned i = 0; i < file->file_count; i++) {
    names[i] = file->files[i];
  }
  return file->file_count == 0 ||
         CHECK(model, error, add_external, options, names, (char *const *)bytes->files, bytes->file_counts, file->file_count);
}

struct ort_options *session_options(const struct model *model, const struct model_bytes *bytes, const struct onnx_file *file,
                                    struct gpu_error *error) {
  struct ort_options *options = NULL;
  if (CHECK(model, error, create_options, &options) && CHECK(model, error, set_optimization, options, ORT_OPTIMIZE_ALL) &&
      CHECK(model, error, set_log_severity, options, ORT_LOG_FATAL) &&
      CHECK(model, error, configure, options, "session.intra_op.allow_spinning", "0") &&
      set_sides(model, options, file, error) && add_files(model, options, bytes, file, error)) {
    return options;
  }
  if (options) {
    model->runtime->release_options(options);
  }
  return NULL;
}

static bool create(struct model *model, const struct model_bytes *bytes, const struct onnx_file *file,
                   struct gpu_error *error) {
  struct ort_options *options = session_options(model, bytes, file, error);
  if (!options) {
    return false;
  }
  bool good = CHECK(model, error, set_threads, options, (int)model->threads);
  if (good && !CHECK(model, error, create_session, model->runtime->env, bytes->bytes, bytes->count, options, &model->session)) {
    good = session_explain(model, error);
  }
  model->runtime->release_options(options);
  return good;
}

/* -- outputs ------------------------------------------------------------------------------------------------------------ */

static bool read_tensor(const struct model *model, const struct ort_tensor_info *info, struct model_tensor *tensor,
                        struct gpu_error *error) {
  size_t rank;
  if (!CHECK(model, error, element_type, info, &tensor->type) || !CHECK(model, error, rank, info, &rank)) {
    return false;
  }
  if (rank > MODEL_MOST_RANK) {
    return gpu_error_set(error, 0, "reshape it within the model", "%s: its output `%s` has %zu sides", model->path,
                         tensor->name, rank);
  }
  tensor->rank = (unsigned)rank;
  return CHECK(model, error, shape, info, tensor->shape, rank);
}

static bool read_name(const struct model *model, size_t index, struct model_tensor *tensor, struct gpu_error *error) {
  const struct onnxruntime *runtime = model->runtime;
  struct ort_allocator *allocator;
  char *name;
  if (!CHECK(model, error, allocator, &allocator) ||
      !CHECK(model, error, output_name, model->session, index, allocator, &name)) {
    return false;
  }
  bool fits = (size_t)snprintf(tensor->name, sizeof tensor->name, "%s", name) < sizeof tensor->name;
  runtime->release_status(runtime->give_back(allocator, name));
  return fits || gpu_error_set(error, 0, "export it with shorter names", "%s: an output has a name of more than %d bytes",
                               model->path, MODEL_NAME - 1);
}

static bool read_output(struct model *model, size_t index, struct gpu_error *error) {
  struct model_tensor *tensor = &model->outputs[index];
  struct ort_type_info *type = NULL;
  const struct ort_tensor_info *info = NULL;
  if (!read_name(model, index, tensor, error) || !CHECK(model, error, output_type, model->session, index, &type)) {
    return false;
  }
  bool good = CHECK(model, error, as_tensor, type, &info);
  if (good && !info) {
    good = gpu_error_set(error, 0, "export it with tensors as outputs (of scikit-learn: zipmap: False)",
                         "%s: its output `%s` is not a tensor", model->path, tensor->name);
  }
  good = good && read_tensor(model, info, tensor, error);
  model->runtime->release_type(type);
  return good;
}

static bool is_open(const struct model *model) {
  for (unsigned i = 0; i < model->output_count; i++) {
    for (unsigned k = 0; k < model->outputs[i].rank; k++) {
      if (model->outputs[i].shape[k] < 0) {
        return true;
      }
    }
  }
  return false;
}

/* Of `rows` frames, one after the other. */
static bool create_tensor(const struct model *model, const struct model_tensor *tensor, unsigned rows, void *memory,
                          struct ort_value **value, struct gpu_error *error) {
  int64_t shape[MODEL_MOST_RANK];
  memcpy(shape, tensor->shape, sizeof shape);
  shape[0] = rows > 1 ? rows : shape[0];
  return CHECK(model, error, create_tensor, model->runtime->host, memory, rows * tensor->bytes, shape, tensor->rank,
               tensor->type, value);
}

static bool run_values(const struct model *model, const struct ort_value *input, const char *const *names, unsigned count,
                       struct ort_value **values, struct gpu_error *error) {
  const char *input_names[] = {model->input.name};
  const struct ort_value *inputs[] = {input};
  return CHECK(model, error, run, model->session, NULL, input_names, inputs, 1, names, count, values);
}

/* A run with zeros tells the sides of the outputs. */
static bool try_outputs(struct model *model, unsigned rows, struct gpu_error *error) {
  const struct onnxruntime *runtime = model->runtime;
  const char *names[MODEL_MOST_OUTPUTS];
  struct ort_value *input = NULL, *values[MODEL_MOST_OUTPUTS] = {NULL};
  void *zeros = calloc(rows, model->input.bytes);
  for (unsigned i = 0; i < model->output_count; i++) {
    names[i] = model->outputs[i].name;
  }
  bool good = zeros ? create_tensor(model, &model->input, rows, zeros, &input, error) &&
                          run_values(model, input, names, model->output_count, values, error)
                    : gpu_error_set(error, 0, NULL, "no memory for an input of %zu bytes", rows * model->input.bytes);
  for (unsigned i = 0; good && i < model->output_count; i++) {
    struct ort_tensor_info *info = NULL;
    good = CHECK(model, error, tensor_of, values[i], &info) && read_tensor(model, info, &model->outputs[i], error);
    runtime->release_tensor(info);
  }
  for (unsigned i = 0; i < model->output_count; i++) {
    runtime->release_value(values[i]);
  }
  runtime->release_value(input);
  free(zeros);
  return good;
}

static bool learn_sides(struct model *model, struct gpu_error *error) {
  if (!try_outputs(model, 1, error)) {
    snprintf(error->remedy, sizeof error->remedy,
             "export it so that it computes any frame, or so that its outputs have known sides");
    return false;
  }
  return true;
}

static bool refuse_batch(const struct model *model, const char *name, struct gpu_error *error) {
  return gpu_error_set(error, 0,
                       "export it so that all sides but the first stay as they are (dynamic_axes), or set batch.most to 1",
                       "%s: of %u frames together its output `%s` is not %u results in a row", model->path, model->batch.most,
                       name, model->batch.most);
}

/* Whether so many frames together give so many results in a row, each as that of one frame. */
static bool try_batch(struct model *model, struct gpu_error *error) {
  struct model_tensor one[MODEL_MOST_OUTPUTS];
  const unsigned most = model->batch.most;
  if (!model->is_padded && !try_outputs(model, 1, error)) {
    return false;
  }
  memcpy(one, model->outputs, sizeof one);
  if (!try_outputs(model, most, error)) {
    snprintf(error->remedy, sizeof error->remedy,
             "export it with an open first side in all that it computes, or set batch.most to 1");
    return false;
  }
  for (unsigned i = 0; i < model->output_count; i++) {
    struct model_tensor *tensor = &model->outputs[i];
    if (tensor->rank == 0 || tensor->shape[0] != most) {
      return refuse_batch(model, tensor->name, error);
    }
    tensor->shape[0] = 1;
    if (!model->is_padded &&
        (one[i].rank != tensor->rank || memcmp(one[i].shape, tensor->shape, tensor->rank * sizeof tensor->shape[0]) != 0)) {
      return refuse_batch(model, tensor->name, error);
    }
  }
  return true;
}

static bool read_outputs(struct model *model, struct gpu_error *error) {
  size_t count;
  if (!CHECK(model, error, output_count, model->session, &count)) {
    return false;
  }
  if (count == 0 || count > MODEL_MOST_OUTPUTS) {
    return gpu_error_set(error, 0, "export it with fewer outputs", "%s has %zu outputs; 1 to %d can be used", model->path,
                         count, MODEL_MOST_OUTPUTS);
  }
  for (model->output_count = 0; model->output_count < count; model->output_count++) {
    if (!read_output(model, model->output_count, error)) {
      return false;
    }
  }
  if (model->batch.most > 1 ? !try_batch(model, error) : is_open(model) && !learn_sides(model, error)) {
    return false;
  }
  for (unsigned i = 0; i < model->output_count; i++) {
    if (!signature_set_format(model, &model->outputs[i], "output", error)) {
      return false;
    }
    parts_add(&model->parts, &model->outputs[i].format, model->outputs[i].bytes);
  }
  return true;
}

/* Helpers take no signals: those belong to the threads of the daemon. */
bool session_open(struct model *model, const struct model_bytes *bytes, const struct onnx_file *file, struct gpu_error *error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool good = create(model, bytes, file, error) && read_outputs(model, error);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return good;
}

void session_close(struct model *model) {
  if (model->session) {
    model->runtime->release_session(model->session);
  }
}

/* -- running ------------------------------------------------------------------------------------------------------------ */

/* Computes so many frames, which lie one after the other; `outputs` are those from `first` on. */
static bool run_rows(const struct model *model, unsigned rows, const void *input, unsigned first, unsigned count,
                     void *const *outputs, struct gpu_error *error) {
  const struct onnxruntime *runtime = model->runtime;
  const char *names[MODEL_MOST_OUTPUTS];
  struct ort_value *in = NULL, *out[MODEL_MOST_OUTPUTS] = {NULL};
  /* The library does not write to an input. */
  bool good = create_tensor(model, &model->input, rows, (void *)(uintptr_t)input, &in, error);
  for (unsigned i = 0; i < count && good; i++) {
    names[i] = model->outputs[first + i].name;
    good = create_tensor(model, &model->outputs[first + i], rows, outputs[i], &out[i], error);
  }
  good = good && run_values(model, in, names, count, out, error);
  for (unsigned i = 0; i < count; i++) {
    runtime->release_value(out[i]);
  }
  runtime->release_value(in);
  return good;
}

bool model_run(const struct model *model, const void *input, void *output, int chosen, struct gpu_error *error) {
  void *outputs[MODEL_MOST_OUTPUTS] = {output};
  if (chosen != MODEL_ALL) {
    return run_rows(model, 1, input, (unsigned)chosen, 1, outputs, error);
  }
  for (unsigned i = 0; i < model->output_count; i++) {
    outputs[i] = (unsigned char *)output + model->parts.parts[i].offset;
  }
  if (!run_rows(model, 1, input, 0, model->output_count, outputs, error)) {
    return false;
  }
  memcpy(output, &model->parts, sizeof model->parts);
  return true;
}

bool model_run_batch(const struct model *model, unsigned count, const void *input, void *const *outputs,
                     struct gpu_error *error) {
  return run_rows(model, model->is_padded ? model->batch.most : count, input, 0, model->output_count, outputs, error);
}
