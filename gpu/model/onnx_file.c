/*
 * A walk over the fields of an ONNX file, which is a message of Protocol Buffers: each field has a number and either a value or
 * bytes, and bytes may be a message again. Only the fields that are asked for are looked into.
 *
 * Weights in files beside it are taken where they are initial values of the main graph, and those files must lie in its own
 * folder: ONNX Runtime itself would follow any path from anywhere in the file.
 */
#include "gpu/model/onnx_file.h"
#include "gpu/model/fields.h"
#include "gpu/model/onnxruntime.h"
#include "gpu/model/operators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8 };

/* Numbers of fields, by message. */
enum { MODEL_IR = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_FUNCTION = 25, OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_WEIGHT = 5, GRAPH_INPUT = 11, GRAPH_SPARSE = 15, FUNCTION_NODE = 7 };
enum { NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_TENSOR = 5, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_TENSORS = 10, ATTRIBUTE_GRAPHS = 11 };
enum { ATTRIBUTE_SPARSE = 22, ATTRIBUTE_SPARSES = 23, SPARSE_VALUES = 1, SPARSE_INDICES = 2 };
enum { TENSOR_DATA_TYPE = 2, TENSOR_NAME = 8, TENSOR_EXTERNAL = 13, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_TYPE = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_SIDE = 1, SIDE_SIZE = 1, SIDE_NAME = 2 };

struct walk {
  struct onnx_file *file;
  char *problem;
  struct onnx_text *weights; /* names of initial values */
  size_t weight_count, weight_room;
  unsigned depth;
};

/* -- fields ------------------------------------------------------------------------------------------------------- */

/* Calls `each` for every field of the message until one says false. */
typedef bool visit(struct walk *walk, const struct field *field, void *result);

static bool for_each(struct walk *walk, struct fields message, visit *each, void *result) {
  while (message.at < message.end) {
    struct field field;
    if (!field_read(&message, &field)) {
      snprintf(walk->problem, ONNX_PROBLEM, "it is cut off, or not an ONNX model");
      return false;
    }
    if (!each(walk, &field, result)) {
      return false;
    }
  }
  return true;
}

/* The same for a field that must be a message. */
static bool for_each_in(struct walk *walk, const struct field *field, visit *each, void *result) {
  if (!field_has_bytes(field)) {
    snprintf(walk->problem, ONNX_PROBLEM, "it is not an ONNX model");
    return false;
  }
  return for_each(walk, field->bytes, each, result);
}

/* -- files beside it ---------------------------------------------------------------------------------------------- */

struct external {
  struct onnx_text key, value, location;
  uint64_t offset, length;
  uint64_t type; /* of its elements */
};

static bool is_plain_name(struct onnx_text name) {
  return name.length > 0 && name.length <= NAME_MAX && !memchr(name.text, '/', name.length) &&
         !memchr(name.text, '\0', name.length) && !text_is(name, ".") && !text_is(name, "..");
}

static bool add_file(struct walk *walk, const struct external *external) {
  struct onnx_file *file = walk->file;
  if (!is_plain_name(external->location)) {
    snprintf(walk->problem, ONNX_PROBLEM, "its weights are in `%.*s`, which is not a file of its own folder",
             ONNX_PRINT(external->location));
    return false;
  }
  unsigned i = 0;
  while (i < file->file_count && !text_is(external->location, file->files[i])) {
    i++;
  }
  if (i == ONNX_MOST_FILES || external->offset + external->length < external->offset) {
    snprintf(walk->problem, ONNX_PROBLEM, "its weights are in more than %d files, or in files too large", ONNX_MOST_FILES);
    return false;
  }
  if (i == file->file_count) {
    memcpy(file->files[i], external->location.text, external->location.length);
    file->file_count++;
  }
  uint64_t end = external->offset + external->length;
  file->file_bytes[i] = end > file->file_bytes[i] ? end : file->file_bytes[i];
  file->weight_bytes += external->length;
  return true;
}

static bool visit_entry(struct walk *walk, const struct field *field, void *result) {
  (void)walk;
  struct external *external = result;
  external->key = field->number == ENTRY_KEY ? field_text(field) : external->key;
  external->value = field->number == ENTRY_VALUE ? field_text(field) : external->value;
  return true;
}

static uint64_t number_of(struct onnx_text text) {
  uint64_t number = 0;
  for (size_t i = 0; i < text.length && i < 18 && text.text[i] >= '0' && text.text[i] <= '9'; i++) {
    number = number * 10 + (uint64_t)(text.text[i] - '0');
  }
  return number;
}

static bool visit_tensor(struct walk *walk, const struct field *field, void *result) {
  struct external *external = result;
  external->type = field->number == TENSOR_DATA_TYPE ? field->value : external->type;
  if (field->number != TENSOR_EXTERNAL) {
    walk->file->weight_bytes += walk->depth == 1 && field->number != TENSOR_NAME ? field_text(field).length : 0;
    return true;
  }
  external->key = external->value = (struct onnx_text){"", 0};
  if (!for_each_in(walk, field, visit_entry, external)) {
    return false;
  }
  if (text_is(external->key, "location")) {
    external->location = external->value;
  } else if (text_is(external->key, "offset")) {
    external->offset = number_of(external->value);
  } else if (text_is(external->key, "length")) {
    external->length = number_of(external->value);
  }
  return true;
}

/* A tensor somewhere in the file; `usual`: it is an initial value of the main graph. */
static bool read_tensor(struct walk *walk, const struct field *field, bool usual) {
  struct external external = {.key = {"", 0}, .value = {"", 0}};
  const uint64_t before = walk->file->weight_bytes;
  if (!for_each_in(walk, field, visit_tensor, &external)) {
    return false;
  }
  if (external.location.text && !usual) {
    snprintf(walk->problem, ONNX_PROBLEM, "a value inside of an operator is in another file (`%.*s`)",
             ONNX_PRINT(external.location));
    return false;
  }
  bool good = !external.location.text || add_file(walk, &external);
  walk->file->single_bytes += external.type == ONNX_FLOAT ? walk->file->weight_bytes - before : 0;
  return good;
}

/* -- graphs ------------------------------------------------------------------------------------------------------- */

static visit visit_graph;

static bool visit_sparse(struct walk *walk, const struct field *field, void *result) {
  (void)result;
  return (field->number != SPARSE_VALUES && field->number != SPARSE_INDICES) || read_tensor(walk, field, false);
}

static bool visit_attribute(struct walk *walk, const struct field *field, void *result) {
  (void)result;
  switch (field->number) {
  case ATTRIBUTE_TENSOR:
  case ATTRIBUTE_TENSORS:
    return read_tensor(walk, field, false);
  case ATTRIBUTE_SPARSE:
  case ATTRIBUTE_SPARSES:
    return for_each_in(walk, field, visit_sparse, NULL);
  case ATTRIBUTE_GRAPH:
  case ATTRIBUTE_GRAPHS:
    return for_each_in(walk, field, visit_graph, NULL);
  default:
    return true;
  }
}

struct node {
  struct onnx_text operator, domain;
};

static bool visit_node(struct walk *walk, const struct field *field, void *result) {
  struct node *node = result;
  node->operator= field->number == NODE_OPERATOR ? field_text(field) : node->operator;
  node->domain = field->number == NODE_DOMAIN ? field_text(field) : node->domain;
  return field->number != NODE_ATTRIBUTE || for_each_in(walk, field, visit_attribute, NULL);
}

static bool is_standard(struct onnx_text domain) { return text_is(domain, "") || text_is(domain, "ai.onnx"); }

static bool read_node(struct walk *walk, const struct field *field) {
  struct node node = {{"", 0}, {"", 0}};
  bool good = for_each_in(walk, field, visit_node, &node);
  if (is_standard(node.domain) || text_is(node.domain, OPERATORS_LEARNING)) {
    walk->file->off_gpu |= operators_off_gpu(!is_standard(node.domain), node.operator.text, node.operator.length);
  }
  return good;
}

static bool visit_name(struct walk *walk, const struct field *field, void *result) {
  (void)walk;
  if (field->number == TENSOR_NAME) {
    *(struct onnx_text *)result = field_text(field);
  }
  return true;
}

static bool note_weight(struct walk *walk, const struct field *field) {
  if (walk->weight_count == walk->weight_room) {
    size_t room = 2 * walk->weight_room + 64;
    struct onnx_text *weights = realloc(walk->weights, room * sizeof *weights);
    if (!weights) {
      snprintf(walk->problem, ONNX_PROBLEM, "there is no memory for its %zu weights", room);
      return false;
    }
    walk->weights = weights;
    walk->weight_room = room;
  }
  struct onnx_text *name = &walk->weights[walk->weight_count++];
  *name = (struct onnx_text){"", 0};
  return for_each_in(walk, field, visit_name, name) && read_tensor(walk, field, true);
}

static bool visit_graph(struct walk *walk, const struct field *field, void *result) {
  (void)result;
  if (field->number != GRAPH_NODE && field->number != GRAPH_WEIGHT && field->number != GRAPH_SPARSE) {
    return true;
  }
  if (walk->depth == MOST_DEPTH) {
    snprintf(walk->problem, ONNX_PROBLEM, "its graphs lie too deep within each other");
    return false;
  }
  walk->depth++;
  bool is_main = walk->depth == 1, good = true;
  if (field->number == GRAPH_NODE) {
    walk->file->nodes++;
    good = read_node(walk, field);
  } else if (field->number == GRAPH_WEIGHT) {
    good = is_main ? note_weight(walk, field) : read_tensor(walk, field, false);
  } else {
    good = for_each_in(walk, field, visit_sparse, NULL);
  }
  walk->depth--;
  return good;
}

static bool visit_function(struct walk *walk, const struct field *field, void *result) {
  (void)result;
  return field->number != FUNCTION_NODE || read_node(walk, field);
}

/* -- inputs ------------------------------------------------------------------------------------------------------- */

static bool visit_side(struct walk *walk, const struct field *field, void *result) {
  (void)walk;
  struct onnx_input *input = result;
  if (field->number == SIDE_SIZE && field->value > 0 && field->value <= INT64_MAX) {
    input->shape[input->rank - 1] = (int64_t)field->value;
  } else if (field->number == SIDE_NAME) {
    input->names[input->rank - 1] = field_text(field);
  }
  return true;
}

static bool visit_shape(struct walk *walk, const struct field *field, void *result) {
  struct onnx_input *input = result;
  if (field->number != SHAPE_SIDE) {
    return true;
  }
  if (input->rank == ONNX_MOST_RANK) {
    snprintf(walk->problem, ONNX_PROBLEM, "its input `%.*s` has more than %d sides", ONNX_PRINT(input->name), ONNX_MOST_RANK);
    return false;
  }
  input->shape[input->rank] = -1;
  input->names[input->rank] = (struct onnx_text){"", 0};
  input->rank++;
  return for_each_in(walk, field, visit_side, input);
}

static bool visit_tensor_type(struct walk *walk, const struct field *field, void *result) {
  struct onnx_input *input = result;
  if (field->number == TENSOR_TYPE) {
    input->type = (int)(field->value & INT_MAX);
  }
  if (field->number != TENSOR_SHAPE) {
    return true;
  }
  input->is_ranked = true;
  return for_each_in(walk, field, visit_shape, input);
}

static bool visit_type(struct walk *walk, const struct field *field, void *result) {
  struct onnx_input *input = result;
  if (field->number != TYPE_TENSOR) {
    return true;
  }
  input->is_tensor = true;
  return for_each_in(walk, field, visit_tensor_type, input);
}

/* The name comes before the type in every file that is written by a library. */
static bool visit_input(struct walk *walk, const struct field *field, void *result) {
  struct onnx_input *input = result;
  if (field->number == VALUE_NAME) {
    input->name = field_text(field);
  }
  return field->number != VALUE_TYPE || for_each_in(walk, field, visit_type, input);
}

static int compare(const void *a, const void *b) {
  const struct onnx_text *one = a, *other = b;
  size_t length = one->length < other->length ? one->length : other->length;
  int order = memcmp(one->text, other->text, length);
  return order ? order : (one->length > other->length) - (one->length < other->length);
}

/* Files of before 2019 name each weight among the inputs too. */
static bool visit_graph_input(struct walk *walk, const struct field *field, void *result) {
  struct onnx_file *file = result;
  struct onnx_input input = {.name = {"", 0}};
  if (field->number != GRAPH_INPUT) {
    return true;
  }
  if (!for_each_in(walk, field, visit_input, &input)) {
    return false;
  }
  if (walk->weight_count > 0 && bsearch(&input.name, walk->weights, walk->weight_count, sizeof input.name, compare)) {
    return true;
  }
  if (file->input_count < ONNX_MOST_INPUTS) {
    file->inputs[file->input_count] = input;
  }
  file->input_count++;
  return true;
}

/* -- the whole ---------------------------------------------------------------------------------------------------- */

struct opset {
  struct onnx_text domain;
  int64_t version;
};

static bool visit_opset(struct walk *walk, const struct field *field, void *result) {
  (void)walk;
  struct opset *opset = result;
  opset->domain = field->number == OPSET_DOMAIN ? field_text(field) : opset->domain;
  opset->version = field->number == OPSET_VERSION ? (int64_t)field->value : opset->version;
  return true;
}

static bool visit_model(struct walk *walk, const struct field *field, void *result) {
  struct onnx_file *file = walk->file;
  struct fields *graph = result;
  struct opset opset = {.domain = {"", 0}};
  switch (field->number) {
  case MODEL_IR:
    file->ir_version = (int64_t)field->value;
    return true;
  case MODEL_OPSET:
    if (!for_each_in(walk, field, visit_opset, &opset)) {
      return false;
    }
    file->opset = is_standard(opset.domain) ? opset.version : file->opset;
    return true;
  case MODEL_FUNCTION:
    return for_each_in(walk, field, visit_function, NULL);
  case MODEL_GRAPH:
    if (graph->at) { /* a library would take both for one */
      snprintf(walk->problem, ONNX_PROBLEM, "it is not an ONNX model");
      return false;
    }
    *graph = field->bytes;
    return for_each_in(walk, field, visit_graph, NULL);
  default:
    return true;
  }
}

bool onnx_file_read(const void *bytes, size_t count, struct onnx_file *file, char problem[ONNX_PROBLEM]) {
  struct walk walk = {.file = file, .problem = problem};
  struct fields graph = {0}, whole = {bytes, (const unsigned char *)bytes + count};
  *file = (struct onnx_file){0};
  bool good = for_each(&walk, whole, visit_model, &graph);
  if (good && (!graph.at || file->ir_version <= 0 || file->ir_version > 1000)) {
    snprintf(problem, ONNX_PROBLEM, "it is not an ONNX model");
    good = false;
  }
  if (good && walk.weight_count > 0) {
    qsort(walk.weights, walk.weight_count, sizeof walk.weights[0], compare);
  }
  good = good && for_each(&walk, graph, visit_graph_input, file);
  free(walk.weights);
  return good;
}
