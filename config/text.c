#include "config/text.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"
#include "config/stream.h"
#include "config/units.h"

enum { STEP = 2 };

struct writer {
  FILE *out;
  const struct config_vocabulary *vocabulary;
  bool without_stages;
};

/* -- texts ------------------------------------------------------------------------------------------------------- */

static bool is_word(const char *text) {
  static const char *const reserved[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", NULL};
  for (const char *const *word = reserved; *word; word++) {
    if (strcasecmp(text, *word) == 0) {
      return false;
    }
  }
  return (text[0] >= 'A' && text[0] <= 'Z') || (text[0] >= 'a' && text[0] <= 'z');
}

/* Paths and names that every YAML reader takes for a text are written plain, all others in quotes. */
static void write_text(const struct writer *writer, const char *text) {
  static const char *const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
  if (strspn(text, plain) == strlen(text) && (text[0] == '/' || is_word(text))) {
    fputs(text, writer->out);
    return;
  }
  stream_quote(writer->out, text);
}

static void write_indent(const struct writer *writer, int indent) { fprintf(writer->out, "%*s", indent, ""); }

/* -- values ------------------------------------------------------------------------------------------------------ */

static void write_ids(const struct writer *writer, const unsigned *ids, unsigned count) {
  fputc('[', writer->out);
  for (unsigned i = 0; i < count; i++) {
    fprintf(writer->out, "%s%u", i > 0 ? ", " : "", ids[i]);
  }
  fputc(']', writer->out);
}

static void write_shape(const struct writer *writer, const struct config_format *format) {
  for (unsigned i = 0; i < format->rank; i++) {
    fprintf(writer->out, "%s%" PRIu64, i > 0 ? ", " : "[", format->shape[i]);
  }
  fputc(']', writer->out);
}

static void write_shapes(const struct writer *writer, const struct config_model *model) {
  for (unsigned i = 0; i < model->shape_count; i++) {
    const struct config_shape *shape = &model->shapes[i];
    fputs(i > 0 ? ", " : "{", writer->out);
    write_text(writer, shape->input);
    for (unsigned j = 0; j < shape->rank; j++) {
      fprintf(writer->out, "%s%" PRId64, j > 0 ? ", " : ": [", shape->sides[j]);
    }
    fputc(']', writer->out);
  }
  fputc('}', writer->out);
}

static bool has_processors(const struct config_processors *processors) {
  static const struct config_processors none;
  return memcmp(processors, &none, sizeof none) != 0;
}

static void write_processors(const struct writer *writer, const struct config_processors *processors) {
  unsigned ids[CONFIG_MAX_PROCESSORS], count = 0;
  for (unsigned i = 0; i < CONFIG_MAX_PROCESSORS; i++) {
    ids[count] = i;
    count += config_has_processor(processors, i);
  }
  write_ids(writer, ids, count);
}

static void write_devices(const struct writer *writer, uint64_t devices) {
  if (devices == CONFIG_ALL_DEVICES) {
    fputs("all", writer->out);
    return;
  }
  unsigned ids[CONFIG_MAX_DEVICES], count = 0;
  for (unsigned i = 0; i < CONFIG_MAX_DEVICES; i++) {
    ids[count] = i;
    count += (unsigned)(devices >> i & 1);
  }
  write_ids(writer, ids, count);
}

static void write_pace(const struct writer *writer, double pace) {
  char text[UNITS_TEXT];
  if (pace == 1 || isinf(pace)) {
    fputs(pace == 1 ? "recorded" : "asap", writer->out);
  } else {
    fprintf(writer->out, "%sx", units_describe_number(pace, text));
  }
}

static void write_number(const struct writer *writer, const struct config_key *key, const void *value) {
  char text[UNITS_TEXT];
  switch ((int)key->type) {
  case KEY_WAIT:
  case KEY_DURATION:
    fputs(key->type == KEY_WAIT && *(const int64_t *)value == 0 ? "auto"
                                                                : units_describe_duration(*(const int64_t *)value, text),
          writer->out);
    break;
  case KEY_SIZE:
    fputs(units_describe_size(*(const int64_t *)value, text), writer->out);
    break;
  case KEY_FREQUENCY:
    fprintf(writer->out, "%u/min", *(const unsigned *)value);
    break;
  case KEY_PACE:
    write_pace(writer, *(const double *)value);
    break;
  case KEY_RATE:
    fputs(units_describe_number(*(const double *)value, text), writer->out);
    break;
  case KEY_MODE:
    fprintf(writer->out, "\"%04o\"", (unsigned)*(const mode_t *)value);
    break;
  default:
    fprintf(writer->out, key->type == KEY_LANES && *(const unsigned *)value == 0 ? "auto" : "%u", *(const unsigned *)value);
  }
}

static void write_word(const struct writer *writer, const struct config_key *key, const void *value) {
  if (key->type == KEY_FLAG || key->type == KEY_TRUE) {
    fputs(key->type == KEY_TRUE || *(const bool *)value ? "true" : "false", writer->out);
    return;
  }
  const char *const *words = key->type == KEY_PIXELS  ? writer->vocabulary->pixels
                             : key->type == KEY_DTYPE ? writer->vocabulary->dtypes
                                                      : key->choices;
  fputs(words[*(const unsigned *)value], writer->out);
}

static void write_value(const struct writer *writer, const struct config_key *key, const void *value) {
  const struct config_allow *allow = value;
  switch (key->type) {
  case KEY_CHOICE:
  case KEY_PIXELS:
  case KEY_DTYPE:
  case KEY_FLAG:
  case KEY_TRUE:
    write_word(writer, key, value);
    break;
  case KEY_LANES:
  case KEY_COUNT:
  case KEY_DEVICE:
  case KEY_USER:
  case KEY_GROUP:
  case KEY_DURATION:
  case KEY_WAIT:
  case KEY_SIZE:
  case KEY_FREQUENCY:
  case KEY_PACE:
  case KEY_RATE:
  case KEY_MODE:
    write_number(writer, key, value);
    break;
  case KEY_SOCKET:
  case KEY_FILE:
  case KEY_PATH:
  case KEY_TEXT:
  case KEY_URL:
  case KEY_ADDRESS:
    write_text(writer, *(char *const *)value);
    break;
  case KEY_USERS:
    write_ids(writer, allow->users, allow->user_count);
    break;
  case KEY_GROUPS:
    write_ids(writer, allow->groups, allow->group_count);
    break;
  case KEY_DEVICES:
    write_devices(writer, *(const uint64_t *)value);
    break;
  case KEY_SHAPE:
    write_shape(writer, value);
    break;
  case KEY_SHAPES:
    write_shapes(writer, value);
    break;
  case KEY_PROCESSORS:
    write_processors(writer, value);
    break;
  case KEY_MODELS:
  case KEY_SECTION:
  case KEY_PIPELINES:
  case KEY_STAGES:
    break;
  }
}

/* Whether the key must be written. Some values can only be expressed by leaving the key out. */
static bool is_present(const struct config_key *key, const void *value) {
  const struct config_allow *allow = value;
  const struct config_rotate *rotate = value;
  const struct config *config = value;
  switch (key->type) {
  case KEY_MODELS:
    return config->model_count > 0 && config->models[0]->name;
  case KEY_SHAPES:
    return ((const struct config_model *)value)->shape_count > 0;
  case KEY_PROCESSORS:
    return has_processors(value);
  case KEY_COUNT:
    return key->fallback || *(const unsigned *)value != 0;
  case KEY_TEXT:
  case KEY_PATH:
  case KEY_ADDRESS:
    return *(char *const *)value != NULL;
  case KEY_USER:
    return *(const uid_t *)value != (uid_t)-1;
  case KEY_GROUP:
    return *(const gid_t *)value != (gid_t)-1;
  case KEY_DEVICE: /* left out when `devices` names other devices */
    return ((const struct config_pipeline *)(const void *)((const char *)value - offsetof(struct config_pipeline, device)))
               ->devices == 0;
  case KEY_DEVICES:
    return *(const uint64_t *)value != 0;
  case KEY_PACE:
    return *(const double *)value != 0;
  case KEY_DURATION:
  case KEY_SIZE:
    return key->fallback || *(const int64_t *)value != 0;
  case KEY_SECTION:
    return key->child == SECTION_RECORD     ? ((const struct config_record *)value)->file != NULL
           : key->child == SECTION_ROTATE   ? rotate->every_ns != 0 || rotate->size != 0
           : key->child == SECTION_BATCH    ? ((const struct config_batch *)value)->most > 0
           : key->child == SECTION_SHARE    ? ((const struct config_pipeline *)value)->share > 0
           : key->child == SECTION_ALLOW    ? allow->user_count + allow->group_count > 0
           : key->child == SECTION_REALTIME ? config->realtime.policy != CONFIG_POLICY_OTHER || config->realtime.lock ||
                                                  has_processors(&config->realtime.processors)
                                            : true;
  default:
    return true;
  }
}

/* -- stages ------------------------------------------------------------------------------------------------------ */

static void write_numbers(const struct writer *writer, const double *numbers, unsigned count) {
  char text[UNITS_TEXT];
  for (unsigned i = 0; i < count; i++) {
    fprintf(writer->out, "%s%s", i > 0 ? ", " : count > 1 ? "[" : "", units_describe_number(numbers[i], text));
  }
  fputs(count > 1 ? "]" : "", writer->out);
}

static void write_settings(const struct writer *writer, const struct config_value *value) {
  fputc('{', writer->out);
  for (unsigned i = 0; i < value->setting_count; i++) {
    const struct config_setting *setting = &value->settings[i];
    fputs(i > 0 ? ", " : "", writer->out);
    write_text(writer, setting->name);
    fputs(": ", writer->out);
    if (setting->text) {
      write_text(writer, setting->text);
    } else {
      write_numbers(writer, setting->numbers, setting->count);
    }
  }
  fputc('}', writer->out);
}

static void write_parameter(const struct writer *writer, const struct config_parameter *parameter,
                            const struct config_value *value) {
  fprintf(writer->out, "%s: ", parameter->name);
  if (parameter->type == CONFIG_CHOICE) {
    fputs(parameter->choices[(size_t)value->numbers[0]], writer->out);
  } else if (parameter->type == CONFIG_SETTINGS) {
    write_settings(writer, value);
  } else if (parameter->type == CONFIG_WORD || parameter->type == CONFIG_PATH) {
    write_text(writer, value->text);
  } else {
    write_numbers(writer, value->numbers, value->count);
  }
}

/* Writes only parameters that were set, since some stages distinguish them from absent ones. */
static void write_stage(const struct writer *writer, const struct config_stage *stage) {
  const struct config_stage_type *type = &writer->vocabulary->stages[stage->type];
  const char *separator = "";
  fprintf(writer->out, "- %s: {", type->name);
  for (unsigned i = 0; i < type->parameter_count; i++) {
    if (stage->values[i].given) {
      fputs(separator, writer->out);
      write_parameter(writer, &type->parameters[i], &stage->values[i]);
      separator = ", ";
    }
  }
  fputs("}\n", writer->out);
}

static void write_stages(const struct writer *writer, const struct config_pipeline *pipeline, int indent) {
  fputs(pipeline->stage_count > 0 ? "stages:\n" : "stages: []\n", writer->out);
  for (unsigned i = 0; i < pipeline->stage_count; i++) {
    write_indent(writer, indent + STEP);
    write_stage(writer, &pipeline->stages[i]);
  }
}

/* -- sections ---------------------------------------------------------------------------------------------------- */

static void write_section(const struct writer *writer, enum key_section section, const void *structure, int indent);

static void write_inline(const struct writer *writer, enum key_section section, const void *structure) {
  unsigned variant = keys_variant(section, structure);
  const char *separator = "{";
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    const void *value = (const char *)structure + key->offset;
    if (keys_applies(key, variant) && is_present(key, value)) {
      fprintf(writer->out, "%s%s: ", separator, key->name);
      write_value(writer, key, value);
      separator = ", ";
    }
  }
  fputs("}\n", writer->out);
}

static void write_models(const struct writer *writer, const struct config *config, int indent) {
  fputs("models:\n", writer->out);
  for (unsigned i = 0; i < config->model_count && config->models[i]->name; i++) {
    write_indent(writer, indent + STEP);
    write_text(writer, config->models[i]->name);
    fputs(":\n", writer->out);
    write_section(writer, SECTION_MODEL, config->models[i], indent + 2 * STEP);
  }
}

static void write_pipelines(const struct writer *writer, const struct config *config, int indent) {
  fputs(config->pipeline_count > 0 ? "pipelines:\n" : "pipelines: {}\n", writer->out);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    write_indent(writer, indent + STEP);
    write_text(writer, config->pipelines[i].name);
    fputs(":\n", writer->out);
    write_section(writer, SECTION_PIPELINE, &config->pipelines[i], indent + 2 * STEP);
  }
}

static void write_key(const struct writer *writer, const struct config_key *key, const void *structure, int indent) {
  const void *value = (const char *)structure + key->offset;
  write_indent(writer, indent);
  if (key->type == KEY_STAGES) {
    write_stages(writer, structure, indent);
  } else if (key->type == KEY_MODELS) {
    write_models(writer, structure, indent);
  } else if (key->type == KEY_PIPELINES) {
    write_pipelines(writer, structure, indent);
  } else if (key->type == KEY_SECTION && key->on_one_line) {
    fprintf(writer->out, "%s: ", key->name);
    write_inline(writer, key->child, value);
  } else if (key->type == KEY_SECTION) {
    fprintf(writer->out, "%s:\n", key->name);
    write_section(writer, key->child, value, indent + STEP);
  } else {
    fprintf(writer->out, "%s: ", key->name);
    write_value(writer, key, value);
    fputc('\n', writer->out);
  }
}

static void write_section(const struct writer *writer, enum key_section section, const void *structure, int indent) {
  unsigned variant = keys_variant(section, structure);
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    bool is_left_out = writer->without_stages && key->type == KEY_STAGES;
    if (!is_left_out && keys_applies(key, variant) && is_present(key, (const char *)structure + key->offset)) {
      write_key(writer, key, structure, indent);
    }
  }
}

/* -- identities of files ----------------------------------------------------------------------------------------------- */

static void write_identities(const struct writer *writer, const struct config_stage *stage) {
  const struct config_stage_type *type = &writer->vocabulary->stages[stage->type];
  for (unsigned i = 0; i < type->parameter_count; i++) {
    if (type->parameters[i].type == CONFIG_PATH && !stage->model) {
      stream_identify(writer->out, stage->values[i].text);
    }
  }
  fputs(stage->model ? stage->model->text : "", writer->out);
}

static void write_credentials(const struct writer *writer, const struct config_source *source) {
  char path[PATH_MAX];
  if (source->credentials) {
    config_credentials_path(source->credentials, path, sizeof path);
    stream_identify(writer->out, path);
  }
}

char *text_of_config(const struct config *config, const struct config_vocabulary *vocabulary) {
  struct stream stream;
  if (!stream_open(&stream)) {
    return NULL;
  }
  const struct writer writer = {.out = stream.out, .vocabulary = vocabulary};
  write_section(&writer, SECTION_ROOT, config, 0);
  return stream_close(&stream);
}

char *text_of_model(const struct config_model *model, const struct config_vocabulary *vocabulary) {
  struct stream stream;
  if (!stream_open(&stream)) {
    return NULL;
  }
  const struct writer writer = {.out = stream.out, .vocabulary = vocabulary};
  write_section(&writer, SECTION_MODEL, model, 0);
  fprintf(stream.out, "# contents: %016" PRIx64 "\n", model->contents);
  return stream_close(&stream);
}

static char *text_of_parts(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary,
                           bool without_stages) {
  struct stream stream;
  if (!stream_open(&stream)) {
    return NULL;
  }
  const struct writer writer = {.out = stream.out, .vocabulary = vocabulary, .without_stages = without_stages};
  write_section(&writer, SECTION_PIPELINE, pipeline, 0);
  write_credentials(&writer, &pipeline->source);
  for (unsigned i = 0; i < pipeline->stage_count && !without_stages; i++) {
    write_identities(&writer, &pipeline->stages[i]);
  }
  return stream_close(&stream);
}

char *text_of_pipeline(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary) {
  return text_of_parts(pipeline, vocabulary, false);
}

char *text_of_ends(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary) {
  return text_of_parts(pipeline, vocabulary, true);
}
