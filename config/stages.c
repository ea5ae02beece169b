/*
 * Reads the list of stages. Each item is a name, or a mapping of one name to its parameters. The vocabulary defines names and
 * parameters.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/suggest.h"
#include "config/units.h"

struct stage_reading {
  struct reader *reader;
  const struct config_stage_type *type;
  struct config_stage *stage;
};

static void report_unknown_stage(struct reader *reader, const char *name, struct config_mark at) {
  if (strcmp(name, "frei0r") == 0) {
    config_errors_add(reader->errors, at, "build the example frei0r.c, and use it as a stage library",
                      "the stage 'frei0r' was removed");
    return;
  }
  const struct config_vocabulary *vocabulary = reader->vocabulary;
  struct suggestion suggestion = suggest_begin(name);
  char list[READER_WHERE * 2];
  int used = snprintf(list, sizeof list, "stages are ");
  for (unsigned i = 0; i < vocabulary->stage_count; i++) {
    suggest_offer(&suggestion, vocabulary->stages[i].name);
    if (used < (int)sizeof list) {
      used += snprintf(list + used, sizeof list - (size_t)used, "%s%s", i > 0 ? ", " : "", vocabulary->stages[i].name);
    }
  }
  char near[SUGGEST_TEXT];
  config_errors_add(reader->errors, at, suggest_text(&suggestion, list, near), "unknown stage '%.80s' in pipeline '%s'", name,
                    reader->pipeline);
}

static const struct config_stage_type *find_type(struct reader *reader, const char *name, struct config_mark at,
                                                 unsigned *index) {
  const struct config_vocabulary *vocabulary = reader->vocabulary;
  for (*index = 0; *index < vocabulary->stage_count; ++*index) {
    if (strcmp(vocabulary->stages[*index].name, name) == 0) {
      return &vocabulary->stages[*index];
    }
  }
  report_unknown_stage(reader, name, at);
  return NULL;
}

/* -- parameters -------------------------------------------------------------------------------------------------- */

static bool read_number(const struct stage_reading *reading, const struct config_parameter *parameter, const struct node *node,
                        double *number) {
  if (node->kind == NODE_INVALID ||
      !value_read_number(reading->reader, parameter->name, node, parameter->type == CONFIG_INTEGER, number)) {
    return false;
  }
  if (*number >= parameter->minimum && *number <= parameter->maximum) {
    return true;
  }
  char least[UNITS_TEXT];
  char most[UNITS_TEXT];
  config_errors_add(reading->reader->errors, node->at, parameter->help, "'%s' must be between %s and %s, not %.80s",
                    parameter->name, units_describe_number(parameter->minimum, least),
                    units_describe_number(parameter->maximum, most), node->text);
  return false;
}

/* Reads the numbers of a list. `count` is their number, or 0 if one is wrong. */
static void read_numbers(const struct stage_reading *reading, const struct config_parameter *parameter, const struct node *node,
                         double *numbers, unsigned *read) {
  unsigned count = 0;
  for (const struct node *child = node->first; child; child = child->next) {
    if (count == CONFIG_MAX_NUMBERS) {
      config_errors_add(reading->reader->errors, child->at, NULL, "'%s' has more than %d numbers", parameter->name,
                        CONFIG_MAX_NUMBERS);
      return;
    }
    if (!read_number(reading, parameter, child, &numbers[count])) {
      return;
    }
    count++;
  }
  if (count == 0) {
    config_errors_add(reading->reader->errors, node->at, parameter->help, "'%s' has no number", parameter->name);
  }
  *read = count;
}

static void read_choice(const struct stage_reading *reading, const struct config_parameter *parameter, const struct node *node,
                        double *number) {
  unsigned index;
  if (value_read_word(reading->reader, parameter->name, node, parameter->choices, NULL, &index)) {
    *number = index;
  }
}

static void read_setting(const struct stage_reading *reading, const struct node *node, struct config_setting *setting) {
  const struct config_parameter any = {.name = node->name, .type = CONFIG_NUMBER, .minimum = -HUGE_VAL, .maximum = HUGE_VAL};
  double number;
  setting->name = memory_copy(node->name, strlen(node->name));
  if (!setting->name) {
    errors_set_exhausted(reading->reader->errors);
  }
  if (node->kind == NODE_LIST) {
    read_numbers(reading, &any, node, setting->numbers, &setting->count);
  } else if (node->kind == NODE_TEXT && !node->quoted && units_number(node->text, &number) != UNITS_MALFORMED) {
    setting->count = read_number(reading, &any, node, &setting->numbers[0]);
  } else {
    setting->text = value_read_text(reading->reader, node->name, node);
  }
}

static void read_settings(const struct stage_reading *reading, const struct config_parameter *parameter,
                          const struct node *node, struct config_value *value) {
  char text[READER_WHERE];
  if (node->kind != NODE_MAPPING) {
    config_errors_add(reading->reader->errors, node->at, "write it as {name: value}", "'%s' must be a mapping, not %s",
                      parameter->name, value_describe(node, text));
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    struct config_setting *grown = memory_grow(value->settings, value->setting_count, sizeof *grown);
    if (!grown) {
      errors_set_exhausted(reading->reader->errors);
      return;
    }
    value->settings = grown;
    read_setting(reading, child, &grown[value->setting_count++]);
  }
}

static void read_parameter(const struct stage_reading *reading, unsigned slot, const struct node *node) {
  const struct config_parameter *parameter = &reading->type->parameters[slot];
  struct config_value *value = &reading->stage->values[slot];
  value->given = true;
  if (node->kind == NODE_INVALID) {
    return;
  }
  if (parameter->type == CONFIG_CHOICE) {
    read_choice(reading, parameter, node, &value->numbers[0]);
  } else if (parameter->type == CONFIG_NUMBERS && node->kind == NODE_LIST) {
    read_numbers(reading, parameter, node, value->numbers, &value->count);
  } else if (parameter->type == CONFIG_WORD) {
    value->text = value_read_text(reading->reader, parameter->name, node);
  } else if (parameter->type == CONFIG_PATH) {
    value->text = value_read_path(reading->reader, parameter->name, node);
  } else if (parameter->type == CONFIG_SETTINGS) {
    read_settings(reading, parameter, node, value);
  } else {
    read_number(reading, parameter, node, &value->numbers[0]);
  }
}

static void report_unknown_parameter(const struct stage_reading *reading, const struct node *node) {
  const struct config_stage_type *type = reading->type;
  struct suggestion suggestion = suggest_begin(node->name);
  char list[READER_WHERE * 2];
  int used = snprintf(list, sizeof list, type->parameter_count > 0 ? "parameters are " : "it takes no parameters");
  for (unsigned i = 0; i < type->parameter_count; i++) {
    suggest_offer(&suggestion, type->parameters[i].name);
    if (used < (int)sizeof list) {
      used += snprintf(list + used, sizeof list - (size_t)used, "%s%s", i > 0 ? ", " : "", type->parameters[i].name);
    }
  }
  char near[SUGGEST_TEXT];
  config_errors_add(reading->reader->errors, node->name_at, suggest_text(&suggestion, list, near),
                    "unknown parameter '%.80s' of stage '%s' in pipeline '%s'", node->name, type->name,
                    reading->reader->pipeline);
}

static void set_defaults(const struct stage_reading *reading) {
  for (unsigned i = 0; i < reading->type->parameter_count; i++) {
    reading->stage->values[i].count = 1;
    for (unsigned j = 0; j < CONFIG_MAX_NUMBERS; j++) {
      reading->stage->values[i].numbers[j] = reading->type->parameters[i].fallback;
    }
  }
}

static void read_parameters(const struct stage_reading *reading, const struct node *node) {
  for (const struct node *child = node ? node->first : NULL; child; child = child->next) {
    unsigned slot = 0;
    while (slot < reading->type->parameter_count && strcmp(reading->type->parameters[slot].name, child->name) != 0) {
      slot++;
    }
    if (slot < reading->type->parameter_count) {
      read_parameter(reading, slot, child);
    } else {
      report_unknown_parameter(reading, child);
    }
  }
  for (unsigned i = 0; i < reading->type->parameter_count; i++) {
    if (reading->type->parameters[i].required && !reading->stage->values[i].given) {
      config_errors_add(reading->reader->errors, reading->stage->at, reading->type->parameters[i].help, "stage '%s' needs '%s'",
                        reading->type->name, reading->type->parameters[i].name);
    }
  }
}

/* -- the list ---------------------------------------------------------------------------------------------------- */

static void add_stage(struct reader *reader, struct config_pipeline *pipeline, const char *name, struct config_mark at,
                      const struct node *parameters) {
  struct config_stage *stage = &pipeline->stages[pipeline->stage_count];
  *stage = (struct config_stage){.at = at};
  struct stage_reading reading = {.reader = reader, .stage = stage, .type = find_type(reader, name, at, &stage->type)};
  if (reading.type) {
    pipeline->stage_count++;
    set_defaults(&reading);
    read_parameters(&reading, parameters);
  }
}

static void read_stage(struct reader *reader, const struct node *item, struct config_pipeline *pipeline) {
  char text[READER_WHERE];
  const struct node *child = item->first;
  if (item->kind == NODE_INVALID) {
    return;
  }
  if (item->kind == NODE_TEXT && !node_is_nothing(item)) {
    add_stage(reader, pipeline, item->text, item->at, NULL);
  } else if (item->kind != NODE_MAPPING || !child) {
    config_errors_add(reader->errors, item->at, "write for example - affine: {scale: 2}",
                      "a stage must be a name with parameters, not %s", value_describe(item, text));
  } else if (child->next) {
    config_errors_add(reader->errors, child->next->name_at, "begin each stage with '- ', and write parameters in {}",
                      "'%.80s' beside stage '%.80s' in one item", child->next->name, child->name);
  } else if (child->kind != NODE_MAPPING && child->kind != NODE_INVALID && !node_is_nothing(child)) {
    config_errors_add(reader->errors, child->at, "write them as {name: value}",
                      "the parameters of '%.80s' must be a mapping, not %s", child->name, value_describe(child, text));
  } else {
    add_stage(reader, pipeline, child->name, child->name_at, child);
  }
}

void stages_read(struct reader *reader, const struct node *list, struct config_pipeline *pipeline) {
  char text[READER_WHERE];
  if (list->kind != NODE_LIST) {
    if (list->kind != NODE_INVALID && !node_is_nothing(list)) {
      config_errors_add(reader->errors, list->at, "begin each stage with '- '", "'stages' must be a list, not %s",
                        value_describe(list, text));
    }
    return;
  }
  unsigned count = 0;
  for (const struct node *item = list->first; item; item = item->next) {
    if (count++ == CONFIG_MAX_STAGES) {
      config_errors_add(reader->errors, item->at, NULL, "more than %d stages in pipeline '%s'", CONFIG_MAX_STAGES,
                        reader->pipeline);
      return;
    }
    read_stage(reader, item, pipeline);
  }
}
