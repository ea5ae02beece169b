/*
 * The JSON schema (draft 2020-12) of the file, from the table of keys and the vocabulary.
 *
 * Sections with variants become a choice of closed objects. So an editor knows as well as the reader which keys belong
 * together.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "config/keys.h"
#include "config/stream.h"
#include "config/units.h"

struct schema {
  FILE *out;
  const struct config_vocabulary *vocabulary;
  int depth;
  bool follows; /* this depth already has a member */
};

/* -- JSON -------------------------------------------------------------------------------------------------------- */

static void put_name(struct schema *schema, const char *name) {
  fprintf(schema->out, "%s\n%*s", schema->follows ? "," : "", 2 * schema->depth, "");
  schema->follows = true;
  if (name) {
    stream_quote(schema->out, name);
    fputs(": ", schema->out);
  }
}

static void open_with(struct schema *schema, const char *name, char bracket) {
  put_name(schema, name);
  fputc(bracket, schema->out);
  schema->depth++;
  schema->follows = false;
}

static void close_with(struct schema *schema, char bracket) {
  schema->depth--;
  fprintf(schema->out, "\n%*s%c", 2 * schema->depth, "", bracket);
  schema->follows = true;
}

static void put(struct schema *schema, const char *name, const char *text) {
  put_name(schema, name);
  stream_quote(schema->out, text);
}

/* For numbers, truth values, and texts that are JSON already. */
static void put_raw(struct schema *schema, const char *name, const char *json) {
  put_name(schema, name);
  fputs(json, schema->out);
}

static void put_whole(struct schema *schema, const char *name, int64_t value) {
  put_name(schema, name);
  fprintf(schema->out, "%" PRId64, value);
}

static void put_words(struct schema *schema, const char *const *words) {
  open_with(schema, "enum", '[');
  for (; *words; words++) {
    if (**words) {
      put(schema, NULL, *words);
    }
  }
  close_with(schema, ']');
}

/* -- values ------------------------------------------------------------------------------------------------------ */

static void put_bounds(struct schema *schema, const struct config_key *key) {
  put_whole(schema, "minimum", key->minimum);
  put_whole(schema, "maximum", key->maximum);
}

static void put_string(struct schema *schema, const char *pattern) {
  put(schema, "type", "string");
  put(schema, "pattern", pattern);
}

static void put_path(struct schema *schema, int64_t longest) {
  put(schema, "type", "string");
  put_whole(schema, "minLength", 1);
  put_whole(schema, "maxLength", longest);
}

static void put_id(struct schema *schema) {
  put_raw(schema, "type", "[\"string\", \"integer\"]");
  put_whole(schema, "minimum", 0);
}

static void put_list(struct schema *schema, const struct config_key *key) {
  const bool has_numbers = key->type == KEY_SHAPE || key->type == KEY_PROCESSORS;
  const int most = key->type == KEY_SHAPE ? CONFIG_MAX_RANK : has_numbers ? CONFIG_MAX_PROCESSORS : KEYS_MOST_IDS;
  put_raw(schema, "type", has_numbers ? "\"array\"" : "[\"array\", \"null\"]");
  open_with(schema, "items", '{');
  if (has_numbers) {
    put(schema, "type", "integer");
    put_bounds(schema, key);
  } else {
    put_id(schema);
  }
  close_with(schema, '}');
  put_whole(schema, "minItems", has_numbers ? 1 : 0);
  put_whole(schema, "maxItems", most);
}

static void put_shapes(struct schema *schema, const struct config_key *key) {
  put(schema, "type", "object");
  put_whole(schema, "maxProperties", CONFIG_MAX_SHAPES);
  open_with(schema, "additionalProperties", '{');
  put(schema, "type", "array");
  open_with(schema, "items", '{');
  put(schema, "type", "integer");
  put_bounds(schema, key);
  close_with(schema, '}');
  put_whole(schema, "minItems", 1);
  put_whole(schema, "maxItems", CONFIG_MAX_SIDES);
  close_with(schema, '}');
}

static void put_lanes(struct schema *schema, const struct config_key *key) {
  open_with(schema, "oneOf", '[');
  open_with(schema, NULL, '{');
  put(schema, "const", key->fallback);
  close_with(schema, '}');
  open_with(schema, NULL, '{');
  put(schema, "type", "integer");
  put_bounds(schema, key);
  close_with(schema, '}');
  close_with(schema, ']');
}

static void put_devices(struct schema *schema, const struct config_key *key) {
  open_with(schema, "oneOf", '[');
  open_with(schema, NULL, '{');
  put(schema, "const", "all");
  close_with(schema, '}');
  open_with(schema, NULL, '{');
  put(schema, "type", "array");
  open_with(schema, "items", '{');
  put(schema, "type", "integer");
  put_bounds(schema, key);
  close_with(schema, '}');
  put_whole(schema, "minItems", 1);
  close_with(schema, '}');
  close_with(schema, ']');
}

static void put_number_type(struct schema *schema, const struct config_key *key, const char *type) {
  put(schema, "type", type);
  put_bounds(schema, key);
}

static void put_section(struct schema *schema, enum key_section section);
static void put_entries(struct schema *schema, enum key_section section);
static void put_stages(struct schema *schema);

/* Types that are written as a text of a fixed form. */
static const char *const type_patterns[] = {
    [KEY_DURATION] = "^[0-9]+(\\.[0-9]+)? *(ns|us|ms|s|min|m|h|d)$",
    [KEY_WAIT] = "^(auto|[0-9]+(\\.[0-9]+)? *(ns|us|ms|s|min|m|h|d))$",
    [KEY_SIZE] = "^[0-9]+(\\.[0-9]+)? *(B|KiB|MiB|GiB|TiB)$",
    [KEY_FREQUENCY] = "^[0-9]+ */ *min$",
    [KEY_PACE] = "^(recorded|asap|[0-9]+(\\.[0-9]+)?x)$",
    [KEY_ADDRESS] = "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[0-9]+$",
    [KEY_MODE] = "^0?[0-7]{3}$",
};

static void put_number_or_flag(struct schema *schema, const struct config_key *key) {
  if (key->type == KEY_TRUE) {
    put_raw(schema, "const", "true");
  } else if (key->type == KEY_FLAG) {
    put(schema, "type", "boolean");
  } else {
    put_number_type(schema, key, key->type == KEY_RATE ? "number" : "integer");
  }
}

static void put_type(struct schema *schema, const struct config_key *key) {
  switch ((int)key->type) {
  case KEY_SECTION:
    put_section(schema, key->child);
    break;
  case KEY_MODELS:
  case KEY_PIPELINES:
    put_entries(schema, key->child);
    break;
  case KEY_SHAPES:
    put_shapes(schema, key);
    break;
  case KEY_STAGES:
    put_stages(schema);
    break;
  case KEY_CHOICE:
    put_words(schema, key->choices);
    break;
  case KEY_PIXELS:
  case KEY_DTYPE:
    put_words(schema, key->type == KEY_PIXELS ? schema->vocabulary->pixels : schema->vocabulary->dtypes);
    break;
  case KEY_DEVICES:
    put_devices(schema, key);
    break;
  case KEY_LANES:
    put_lanes(schema, key);
    break;
  case KEY_COUNT:
  case KEY_DEVICE:
  case KEY_RATE:
  case KEY_FLAG:
  case KEY_TRUE:
    put_number_or_flag(schema, key);
    break;
  case KEY_TEXT:
  case KEY_URL:
    put(schema, "type", "string");
    put_whole(schema, "minLength", 1);
    break;
  case KEY_SOCKET:
    put_path(schema, KEYS_SOCKET_PATH);
    break;
  case KEY_PATH:
  case KEY_FILE:
    put_path(schema, KEYS_FILE_PATH);
    break;
  case KEY_USER:
  case KEY_GROUP:
    put_id(schema);
    break;
  case KEY_USERS:
  case KEY_GROUPS:
  case KEY_SHAPE:
  case KEY_PROCESSORS:
    put_list(schema, key);
    break;
  default:
    put_string(schema, type_patterns[key->type]);
  }
}

static void put_key(struct schema *schema, const struct config_key *key) {
  bool is_json = key->type == KEY_COUNT || key->type == KEY_RATE || key->type == KEY_FLAG;
  open_with(schema, key->name, '{');
  put(schema, "description", key->help);
  put_type(schema, key);
  if (key->fallback && is_json) {
    put_raw(schema, "default", key->fallback);
  } else if (key->fallback) {
    put(schema, "default", key->fallback);
  }
  close_with(schema, '}');
}

/* -- sections ---------------------------------------------------------------------------------------------------- */

/* Whether the section needs no key, so that all its keys may be commented out. */
static bool may_be_empty(enum key_section section) {
  const struct config_key *key = keys_first(section);
  while (key && !key->required && !key->selects) {
    key = keys_next(key);
  }
  return section != SECTION_ROOT && !key;
}

/* The members of a closed object: the keys of the section that apply to the variant. */
static void put_object(struct schema *schema, enum key_section section, unsigned variant) {
  put_raw(schema, "type", may_be_empty(section) ? "[\"object\", \"null\"]" : "\"object\"");
  open_with(schema, "properties", '{');
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    if (keys_applies(key, variant)) {
      put_key(schema, key);
    }
  }
  close_with(schema, '}');
  open_with(schema, "required", '[');
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    if (keys_applies(key, variant) && (keys_requires(key, variant) || key->selects)) {
      put(schema, NULL, key->name);
    }
  }
  close_with(schema, ']');
  put_raw(schema, "additionalProperties", "false");
}

static void put_section(struct schema *schema, enum key_section section) {
  if (!keys_has_variants(section)) {
    put_object(schema, section, 0);
    return;
  }
  open_with(schema, "oneOf", '[');
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    if (key->selects) {
      open_with(schema, NULL, '{');
      put_object(schema, section, keys_variant_of(key));
      close_with(schema, '}');
    }
  }
  close_with(schema, ']');
}

/* Entries with arbitrary names. */
static void put_entries(struct schema *schema, enum key_section section) {
  put_raw(schema, "type", "[\"object\", \"null\"]");
  open_with(schema, "patternProperties", '{');
  open_with(schema, "^[A-Za-z0-9_.-]{1,64}$", '{');
  put_section(schema, section);
  close_with(schema, '}');
  close_with(schema, '}');
  put_raw(schema, "additionalProperties", "false");
}

/* -- stages ------------------------------------------------------------------------------------------------------ */

static void put_double(struct schema *schema, const char *name, double value) {
  char text[UNITS_TEXT];
  if (isfinite(value)) {
    put_raw(schema, name, units_describe_number(value, text));
  }
}

static void put_number(struct schema *schema, const struct config_parameter *parameter) {
  put(schema, "type", parameter->type == CONFIG_INTEGER ? "integer" : "number");
  put_double(schema, "minimum", parameter->minimum);
  put_double(schema, "maximum", parameter->maximum);
}

static void put_numbers(struct schema *schema, const struct config_parameter *parameter) {
  open_with(schema, "oneOf", '[');
  open_with(schema, NULL, '{');
  put_number(schema, parameter);
  close_with(schema, '}');
  open_with(schema, NULL, '{');
  put(schema, "type", "array");
  open_with(schema, "items", '{');
  put_number(schema, parameter);
  close_with(schema, '}');
  put_whole(schema, "minItems", 1);
  put_whole(schema, "maxItems", CONFIG_MAX_NUMBERS);
  close_with(schema, '}');
  close_with(schema, ']');
}

static bool is_text(const struct config_parameter *parameter) {
  return parameter->type == CONFIG_WORD || parameter->type == CONFIG_PATH || parameter->type == CONFIG_SETTINGS;
}

/* Whether the words are YAML's words for no and yes. */
static bool is_flag(const char *const *words) { return strcmp(words[0], "false") == 0; }

static void put_parameter(struct schema *schema, const struct config_parameter *parameter) {
  open_with(schema, parameter->name, '{');
  put(schema, "description", parameter->help);
  bool flag = parameter->type == CONFIG_CHOICE && is_flag(parameter->choices);
  if (flag) {
    put(schema, "type", "boolean");
  } else if (parameter->type == CONFIG_CHOICE) {
    put_words(schema, parameter->choices);
  } else if (parameter->type == CONFIG_NUMBERS) {
    put_numbers(schema, parameter);
  } else if (is_text(parameter)) {
    put(schema, "type", parameter->type == CONFIG_SETTINGS ? "object" : "string");
  } else {
    put_number(schema, parameter);
  }
  if (!parameter->required && flag) {
    put_raw(schema, "default", parameter->choices[(size_t)parameter->fallback]);
  } else if (!parameter->required && parameter->type == CONFIG_CHOICE) {
    put(schema, "default", parameter->choices[(size_t)parameter->fallback]);
  } else if (!parameter->required && !is_text(parameter)) {
    put_double(schema, "default", parameter->fallback);
  }
  close_with(schema, '}');
}

static bool needs_parameters(const struct config_stage_type *type) {
  unsigned i = 0;
  while (i < type->parameter_count && !type->parameters[i].required) {
    i++;
  }
  return i < type->parameter_count || type->runs_model;
}

static void put_stage(struct schema *schema, const struct config_stage_type *type) {
  open_with(schema, type->name, '{');
  put(schema, "description", type->help);
  put_raw(schema, "type", needs_parameters(type) ? "\"object\"" : "[\"object\", \"null\"]");
  open_with(schema, "properties", '{');
  for (unsigned i = 0; i < type->parameter_count; i++) {
    put_parameter(schema, &type->parameters[i]);
  }
  close_with(schema, '}');
  open_with(schema, "required", '[');
  for (unsigned i = 0; i < type->parameter_count; i++) {
    if (type->parameters[i].required) {
      put(schema, NULL, type->parameters[i].name);
    }
  }
  close_with(schema, ']');
  put_raw(schema, "additionalProperties", "false");
  close_with(schema, '}');
}

/* Names without parameters, for stages that need none. */
static void put_bare_stages(struct schema *schema) {
  open_with(schema, NULL, '{');
  open_with(schema, "enum", '[');
  for (unsigned i = 0; i < schema->vocabulary->stage_count; i++) {
    if (!needs_parameters(&schema->vocabulary->stages[i])) {
      put(schema, NULL, schema->vocabulary->stages[i].name);
    }
  }
  close_with(schema, ']');
  close_with(schema, '}');
}

static void put_stages(struct schema *schema) {
  put_raw(schema, "type", "[\"array\", \"null\"]");
  put_whole(schema, "maxItems", CONFIG_MAX_STAGES);
  open_with(schema, "items", '{');
  open_with(schema, "oneOf", '[');
  put_bare_stages(schema);
  open_with(schema, NULL, '{');
  put(schema, "type", "object");
  open_with(schema, "properties", '{');
  for (unsigned i = 0; i < schema->vocabulary->stage_count; i++) {
    put_stage(schema, &schema->vocabulary->stages[i]);
  }
  close_with(schema, '}');
  put_whole(schema, "minProperties", 1);
  put_whole(schema, "maxProperties", 1);
  put_raw(schema, "additionalProperties", "false");
  close_with(schema, '}');
  close_with(schema, ']');
  close_with(schema, '}');
}

void config_print_schema(FILE *out, const struct config_vocabulary *vocabulary) {
  struct schema schema = {.out = out, .vocabulary = vocabulary};
  open_with(&schema, NULL, '{');
  put(&schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
  put(&schema, "title", "Configuration of framed");
  put_section(&schema, SECTION_ROOT);
  close_with(&schema, '}');
  fputc('\n', out);
}
