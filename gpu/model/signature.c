/*
 * What a model takes and gives, as frames have it. A frame has up to four sides and no open one; a model's leading sides of 1,
 * such as that of a batch of one, may be left out.
 */
#include "gpu/backend.h"
#include "gpu/model/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHAPE_TEXT = 128 };

static bool find_type(int type, enum element_type *element) {
  static const int types[ELEMENT_COUNT] = {
      [ELEMENT_UINT8] = ONNX_UINT8, [ELEMENT_FLOAT32] = ONNX_FLOAT, [ELEMENT_FLOAT16] = ONNX_FLOAT16,
      [ELEMENT_INT32] = ONNX_INT32, [ELEMENT_INT64] = ONNX_INT64,
  };
  *element = ELEMENT_UINT8;
  while (*element < ELEMENT_COUNT && types[*element] != type) {
    (*element)++;
  }
  return *element < ELEMENT_COUNT;
}

/* Names of ONNX's types by number, for messages. */
static const char *type_name(int type) {
  static const char *const names[] = {"no type", "float32", "uint8",     "int8",       "uint16",  "int16",
                                      "int32",   "int64",   "strings",   "bool",       "float16", "float64",
                                      "uint32",  "uint64",  "complex64", "complex128", "bfloat16"};
  return type >= 0 && (size_t)type < sizeof names / sizeof names[0] ? names[type] : "an unusual type";
}

bool signature_set_format(const struct model *model, struct model_tensor *tensor, const char *what, struct gpu_error *error) {
  enum element_type element;
  uint64_t shape[MODEL_MOST_RANK] = {1};
  unsigned skipped = 0;
  if (!find_type(tensor->type, &element)) {
    return gpu_error_set(error, 0, "export it with uint8, float16, float32, int32 or int64 there", "%s: its %s `%s` is of %s",
                         model->path, what, tensor->name, type_name(tensor->type));
  }
  while (tensor->rank - skipped > FORMAT_MAX_RANK && tensor->shape[skipped] == 1) {
    skipped++;
  }
  unsigned rank = tensor->rank - skipped;
  for (unsigned i = 0; i < rank; i++) {
    shape[i] = (uint64_t)tensor->shape[skipped + i];
  }
  tensor->format = format_tensor(element, shape, rank > 0 ? rank : 1);
  if (rank > FORMAT_MAX_RANK || !format_bytes(&tensor->format, &tensor->bytes)) {
    return gpu_error_set(error, 0, "reshape it within the model", "%s: its %s `%s` has %u sides, or is too large or empty",
                         model->path, what, tensor->name, tensor->rank);
  }
  return true;
}

/* "1, 3, height?, ?": what the file leaves open has a question mark. */
static void describe(const struct onnx_input *input, const char *open, char text[SHAPE_TEXT]) {
  int length = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < input->rank && length < SHAPE_TEXT; i++) {
    const char *comma = i > 0 ? ", " : "";
    size_t room = (size_t)(SHAPE_TEXT - length);
    length += input->shape[i] >= 0 ? snprintf(text + length, room, "%s%" PRId64, comma, input->shape[i])
                                   : snprintf(text + length, room, "%s%.*s%s", comma, ONNX_PRINT(input->names[i]), open);
  }
}

/* A shape that would do for what is left open: a batch of one, three channels, and sides as most models have them. */
static void propose(const struct onnx_input *input, char text[SHAPE_TEXT]) {
  static const int64_t usual[] = {1, 3, 640, 640};
  struct onnx_input closed = *input;
  for (unsigned i = 0; i < closed.rank; i++) {
    bool is_image = closed.rank == 4;
    closed.shape[i] = closed.shape[i] >= 0 ? closed.shape[i] : is_image ? usual[i] : 1;
  }
  describe(&closed, "", text);
}

static const struct model_shape *find_shape(const struct model_settings *settings, struct onnx_text name) {
  for (unsigned i = 0; i < settings->shape_count; i++) {
    const struct model_shape *shape = &settings->shapes[i];
    if (strlen(shape->input) == name.length && memcmp(shape->input, name.text, name.length) == 0) {
      return shape;
    }
  }
  return NULL;
}

static bool refuse_shape(const struct model *model, const struct onnx_input *input, const char *problem,
                         struct gpu_error *error) {
  char is[SHAPE_TEXT], may_be[SHAPE_TEXT], remedy[GPU_TEXT];
  describe(input, "?", is);
  propose(input, may_be);
  snprintf(remedy, sizeof remedy, "give it as `shape: {%.*s: [%s]}`, with the sides that you want", ONNX_PRINT(input->name),
           may_be);
  return gpu_error_set(error, 0, remedy, "%s: its input `%.*s` is [%s]; %s", model->path, ONNX_PRINT(input->name), is, problem);
}

/* The first side of a model that takes batches counts frames: of each it is 1. */
static bool close_batch(struct model *model, struct onnx_input *input, struct gpu_error *error) {
  const unsigned most = model->batch.most;
  const int64_t first = input->rank > 0 ? input->shape[0] : 0;
  char is[SHAPE_TEXT], remedy[GPU_TEXT];
  model->is_padded = most > 1 && first == most;
  if (most > 0 && (first < 0 || model->is_padded)) {
    input->shape[0] = 1;
  } else if (most > 1) {
    describe(input, "?", is);
    snprintf(remedy, sizeof remedy, "export it with an open first side (dynamic_axes), or set batch.most to %lld",
             first > 1 ? (long long)first : 1LL);
    return gpu_error_set(error, 0, remedy,
                         "%s: its input `%.*s` is [%s]; frames go through it together only if the first side is open or %u",
                         model->path, ONNX_PRINT(input->name), is, most);
  }
  return true;
}

/* Puts the sides that are given where the file leaves them open. */
static bool close_shape(const struct model *model, const struct onnx_input *input, const struct model_shape *shape,
                        int64_t sides[MODEL_MOST_RANK], struct gpu_error *error) {
  if (shape && shape->rank != input->rank) {
    return refuse_shape(model, input, "the shape that is given has another number of sides", error);
  }
  for (unsigned i = 0; i < input->rank; i++) {
    bool is_open = input->shape[i] < 0;
    if (is_open && (!shape || shape->sides[i] <= 0)) {
      return refuse_shape(model, input, "a side that is open must be given", error);
    }
    if (!is_open && shape && shape->sides[i] != input->shape[i]) {
      return refuse_shape(model, input, "the shape that is given has another side there", error);
    }
    sides[i] = is_open ? shape->sides[i] : input->shape[i];
  }
  return true;
}

static bool check_inputs(const struct model *model, const struct onnx_file *file, struct gpu_error *error) {
  const struct onnx_input *input = &file->inputs[0];
  if (file->input_count != 1) {
    return gpu_error_set(error, 0, "make all inputs but that for the frame constants of the model",
                         "%s has %u inputs%s%.*s%s%.*s; a stage gives it one", model->path, file->input_count,
                         file->input_count > 0 ? ": " : "", ONNX_PRINT(file->inputs[0].name), file->input_count > 1 ? ", " : "",
                         ONNX_PRINT(file->inputs[1].name));
  }
  if (!input->is_tensor || !input->is_ranked || input->name.length == 0 || input->name.length >= MODEL_NAME ||
      memchr(input->name.text, '\0', input->name.length)) {
    return gpu_error_set(error, 0, "export it with a tensor of a known number of sides as input",
                         "%s: its input `%.*s` is not a tensor with a name and a number of sides", model->path,
                         ONNX_PRINT(input->name));
  }
  return true;
}

static bool check_shapes(const struct model *model, const struct onnx_file *file, const struct model_settings *settings,
                         struct gpu_error *error) {
  for (unsigned i = 0; i < settings->shape_count; i++) {
    struct onnx_text name = file->inputs[0].name;
    const char *given = settings->shapes[i].input;
    if (strlen(given) != name.length || memcmp(given, name.text, name.length) != 0) {
      char remedy[GPU_TEXT];
      snprintf(remedy, sizeof remedy, "its input is `%.*s`", ONNX_PRINT(name));
      return gpu_error_set(error, 0, remedy, "%s: a shape is given for an input `%s`, which it does not have", model->path,
                           given);
    }
  }
  return true;
}

bool signature_read_input(struct model *model, const struct onnx_file *file, const struct model_settings *settings,
                          struct gpu_error *error) {
  if (!check_inputs(model, file, error) || !check_shapes(model, file, settings, error)) {
    return false;
  }
  struct onnx_input closed = file->inputs[0], *input = &closed;
  struct model_tensor *tensor = &model->input;
  if (!close_batch(model, input, error)) {
    return false;
  }
  memcpy(tensor->name, input->name.text, input->name.length);
  tensor->type = input->type;
  tensor->rank = input->rank;
  return close_shape(model, input, find_shape(settings, input->name), tensor->shape, error) &&
         signature_set_format(model, tensor, "input", error);
}
