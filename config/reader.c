#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "config/camera.h"
#include "config/errors.h"
#include "config/foreign.h"
#include "config/memory.h"
#include "config/suggest.h"

enum { NAME_LENGTH = 64, MOST_PIPELINES = 1024, MOST_MODELS = 1024 };

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

/* Writes "'source' of pipeline 'cam0'" to `text`. */
static const char *reader_where(const struct reader *reader, enum key_section section, char text[READER_WHERE]) {
  const char *kind = reader->model ? "model" : "pipeline";
  const char *name = reader->model ? reader->model : reader->pipeline;
  if (!name) {
    snprintf(text, READER_WHERE, "%s", keys_section_name(section));
  } else if (section == SECTION_PIPELINE || section == SECTION_MODEL) {
    snprintf(text, READER_WHERE, "%s '%.64s'", kind, name);
  } else {
    snprintf(text, READER_WHERE, "%s of %s '%.64s'", keys_section_name(section), kind, name);
  }
  return text;
}

/* -- defaults ---------------------------------------------------------------------------------------------------- */

static void set_default(struct reader *reader, const struct config_key *key, void *target) {
  if (key->fallback) {
    char fallback[64];
    snprintf(fallback, sizeof fallback, "%s", key->fallback);
    struct node node = {.kind = NODE_TEXT, .text = fallback, .quoted = key->type == KEY_MODE};
    value_read(reader, key, &node, target);
  } else if (key->type == KEY_USER) {
    *(uid_t *)target = (uid_t)-1;
  } else if (key->type == KEY_GROUP) {
    *(gid_t *)target = (gid_t)-1;
  } else if (key->type == KEY_DEVICE) {
    *(unsigned *)target = KEYS_NO_DEVICE;
  }
}

static void set_defaults(struct reader *reader, enum key_section section, void *structure) {
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    void *target = (char *)structure + key->offset;
    if (key->type == KEY_SECTION) {
      set_defaults(reader, key->child, target);
    } else {
      set_default(reader, key, target);
    }
  }
}

bool reader_set_defaults(struct reader *reader) {
  unsigned errors = config_errors_count(reader->errors);
  set_defaults(reader, SECTION_ROOT, reader->config);
  return config_errors_count(reader->errors) == errors;
}

/* -- sections ---------------------------------------------------------------------------------------------------- */

/* Lists in `text` the sections that have the key. False if no section has it. */
static bool list_homes(const char *name, char text[READER_WHERE * 2]) {
  int used = 0;
  for (const struct config_key *key = config_keys; key->name && used < READER_WHERE * 2; key++) {
    if (strcmp(key->name, name) == 0) {
      const char *home = keys_section_name(key->section);
      size_t room = (size_t)(READER_WHERE * 2 - used);
      used += used == 0 ? snprintf(text, room, "'%s' is a key of %s", name, home) : snprintf(text + used, room, ", %s", home);
    }
  }
  return used > 0;
}

static void list_keys(enum key_section section, char text[READER_WHERE * 2]) {
  int used = snprintf(text, READER_WHERE * 2, "keys are ");
  for (const struct config_key *key = keys_first(section); key && used < READER_WHERE * 2; key = keys_next(key)) {
    used += snprintf(text + used, (size_t)(READER_WHERE * 2 - used), "%s%s", key->name, keys_next(key) ? ", " : "");
  }
}

/* The key that a misspelt name may mean, or NULL. */
static const struct config_key *nearest_key(const struct reader *reader, enum key_section section, const char *name) {
  struct suggestion suggestion = suggest_begin(name);
  for (const struct config_key *key = keys_first(section); key && !errors_are_full(reader->errors); key = keys_next(key)) {
    suggest_offer(&suggestion, key->name);
  }
  return suggestion.best ? keys_find(section, suggestion.best) : NULL;
}

/* The key of a child, even if it is misspelt, so that a misspelt key is not also reported as missing. */
static const struct config_key *meant_key(const struct reader *reader, enum key_section section, const struct node *child) {
  const struct config_key *key = keys_find(section, child->name);
  return key ? key : nearest_key(reader, section, child->name);
}

/* Keys of earlier releases, and their replacements. */
static const struct {
  enum key_section section;
  const char *name, *remedy;
} removed_keys[] = {
    {SECTION_PIPELINE, "split", "write spread: frames, which divides the frames of each session among the devices"},
    {SECTION_MODEL, "shadow", "compare two models on a recording: framectl replay RECORDING --against NEW.yaml"},
};

static bool report_removed(struct reader *reader, enum key_section section, const struct node *node) {
  for (size_t i = 0; i < sizeof removed_keys / sizeof removed_keys[0]; i++) {
    if (removed_keys[i].section == section && strcmp(removed_keys[i].name, node->name) == 0) {
      config_errors_add(reader->errors, node->name_at, removed_keys[i].remedy, "the key '%s' was removed", node->name);
      return true;
    }
  }
  return false;
}

static void report_unknown(struct reader *reader, enum key_section section, const struct node *node) {
  char where[READER_WHERE];
  char remedy[READER_WHERE * 2];
  if (report_removed(reader, section, node)) {
    return;
  }
  bool is_stream = section == SECTION_SOURCE || section == SECTION_SINK || section == SECTION_FORMAT;
  const char *foreign = is_stream ? foreign_word_remedy(node->name, section == SECTION_SINK) : NULL;
  const struct config_key *near = nearest_key(reader, section, node->name);
  if (foreign) {
    snprintf(remedy, sizeof remedy, "%s", foreign);
  } else if (near) {
    snprintf(remedy, sizeof remedy, "did you mean '%s'?", near->name);
  } else if (!list_homes(node->name, remedy)) {
    list_keys(section, remedy);
  }
  config_errors_add(reader->errors, node->name_at, remedy, "unknown key '%.80s' in %s", node->name,
                    reader_where(reader, section, where));
}

/* Lists the keys that select a variant among `applies` (0: any), as "'socket' or 'file'". */
static const char *list_selectors(enum key_section section, unsigned applies, char text[READER_WHERE]) {
  int used = 0;
  text[0] = '\0';
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    if (key->selects && (applies == 0 || (applies & key->applies) != 0)) {
      used += snprintf(text + used, (size_t)(READER_WHERE - used), "%s'%s'", used > 0 ? " or " : "", key->name);
    }
  }
  return text;
}

/* The child that selects the variant. NULL if no child does, or if several do, which is an error. */
static const struct config_key *find_selector(struct reader *reader, enum key_section section, const struct node *node) {
  const struct config_key *found = NULL;
  char where[READER_WHERE];
  char selectors[READER_WHERE];
  for (const struct node *child = node->first; child; child = child->next) {
    const struct config_key *key = meant_key(reader, section, child);
    if (!key || !key->selects || key == found) {
      continue;
    }
    if (found) {
      config_errors_add(reader->errors, child->name_at, "keep one of the two", "'%s' and '%s' exclude each other in %s",
                        found->name, key->name, reader_where(reader, section, where));
      return NULL;
    }
    found = key;
  }
  if (!found) {
    config_errors_add(reader->errors, node->at, NULL, "%s needs %s", reader_where(reader, section, where),
                      list_selectors(section, 0, selectors));
  }
  return found;
}

static bool is_there(const struct reader *reader, const struct config_key *key, const struct node *node) {
  const struct node *child = node->first;
  while (child && meant_key(reader, key->section, child) != key) {
    child = child->next;
  }
  return child != NULL;
}

static void check_required(struct reader *reader, enum key_section section, const struct node *node, unsigned variant) {
  char where[READER_WHERE];
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    if (keys_requires(key, variant) && keys_applies(key, variant) && !is_there(reader, key, node)) {
      bool is_entry = section == SECTION_PIPELINE || section == SECTION_MODEL;
      config_errors_add(reader->errors, is_entry ? node->name_at : node->at, key->help, "%s needs '%s'",
                        reader_where(reader, section, where), key->name);
    }
  }
}

static void check_applies(struct reader *reader, enum key_section section, const struct node *node, unsigned variant) {
  char where[READER_WHERE];
  char selectors[READER_WHERE];
  for (const struct node *child = node->first; child; child = child->next) {
    const struct config_key *key = keys_find(section, child->name);
    if (key && !keys_applies(key, variant)) {
      config_errors_add(reader->errors, child->name_at, "remove it", "'%s' goes only with %s in %s", key->name,
                        list_selectors(section, key->applies, selectors), reader_where(reader, section, where));
    }
  }
}

/* False, with an error, if the node is neither a mapping nor empty. */
static bool is_mapping(struct reader *reader, const char *name, const struct node *node) {
  if (node->kind == NODE_MAPPING) {
    return true;
  }
  if (node->kind != NODE_INVALID && !node_is_nothing(node)) {
    char text[READER_WHERE];
    const char *remedy = node->kind == NODE_TEXT ? foreign_word_remedy(node->text, strcmp(name, "sink") == 0) : NULL;
    config_errors_add(reader->errors, node->at, remedy, "'%.80s' must be a mapping of keys, not %s", name,
                      value_describe(node, text));
  }
  return false;
}

static void read_section(struct reader *reader, enum key_section section, const struct node *node, void *structure);
static void read_pipelines(struct reader *reader, const struct node *node);
static void read_models(struct reader *reader, const struct node *node);

static void read_key(struct reader *reader, const struct config_key *key, const struct node *node, void *structure) {
  void *target = (char *)structure + key->offset;
  switch (key->type) {
  case KEY_SECTION:
    if (is_mapping(reader, key->name, node) || (key->required && node_is_nothing(node))) {
      read_section(reader, key->child, node, target);
    }
    break;
  case KEY_PIPELINES:
    read_pipelines(reader, node);
    break;
  case KEY_MODELS:
    read_models(reader, node);
    break;
  case KEY_SHAPES:
    models_read_shapes(reader, key, node, structure);
    break;
  case KEY_STAGES:
    stages_read(reader, node, structure);
    break;
  default:
    value_read(reader, key, node, target);
    break;
  }
}

/* Stores the places of sockets' and files' paths, for errors that are found later. */
static void note_place(enum key_section section, const struct config_key *key, const struct node *node, void *structure) {
  if (section == SECTION_MODEL && key->type == KEY_PATH) {
    ((struct config_model *)structure)->file_at = node->at;
  } else if (section == SECTION_RECORD && key->type == KEY_PATH) {
    ((struct config_record *)structure)->file_at = node->at;
  }
  if (section == SECTION_SOURCE && key->selects) {
    ((struct config_source *)structure)->path_at = node->at;
  } else if (section == SECTION_SINK && key->selects) {
    ((struct config_sink *)structure)->path_at = node->at;
  } else if (section == SECTION_STATUS && key->type == KEY_SOCKET) {
    ((struct config *)structure)->status.socket_at = node->at;
  } else if (section == SECTION_STATUS && key->type == KEY_ADDRESS) {
    ((struct config *)structure)->status.http_at = node->at;
  } else if (key->child == SECTION_REALTIME) {
    ((struct config *)structure)->realtime.at = node->name_at;
  } else if (key->child == SECTION_SOURCE) {
    ((struct config_pipeline *)structure)->source.at = node->name_at;
  } else if (key->child == SECTION_SINK) {
    ((struct config_pipeline *)structure)->sink.at = node->name_at;
  } else if (key->child == SECTION_FORMAT) {
    ((struct config_source *)structure)->format.at = node->at;
  }
}

static void read_section(struct reader *reader, enum key_section section, const struct node *node, void *structure) {
  for (const struct node *child = node->first; child; child = child->next) {
    const struct config_key *key = keys_find(section, child->name);
    if (key) {
      note_place(section, key, child, structure);
      read_key(reader, key, child, structure);
    } else {
      report_unknown(reader, section, child);
    }
  }
  unsigned variant = 0;
  if (keys_has_variants(section)) {
    const struct config_key *selector = find_selector(reader, section, node);
    if (!selector) {
      return;
    }
    variant = keys_variant_of(selector);
    keys_set_variant(section, structure, variant);
    check_applies(reader, section, node, variant);
  }
  check_required(reader, section, node, variant);
}

/* -- pipelines --------------------------------------------------------------------------------------------------- */

static const struct config_pipeline *find_pipeline(const struct config *config, const char *name) {
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    if (strcmp(config->pipelines[i].name, name) == 0) {
      return &config->pipelines[i];
    }
  }
  return NULL;
}

/* `other`: the place of another entry of that name, or NULL. */
static bool is_name_free(struct reader *reader, const struct node *node, const char *kind, const struct config_mark *other) {
  size_t length = strlen(node->name);
  if (length == 0 || length > NAME_LENGTH || strspn(node->name, NAME_CHARACTERS) != length) {
    config_errors_add(reader->errors, node->name_at, "use 1 to 64 letters, digits, '_', '-' and '.'",
                      "'%.80s' is not a name for a %s", node->name, kind);
    return false;
  }
  if (other) {
    config_errors_add(reader->errors, node->name_at, "remove or rename one of the two",
                      "%s '%s' is defined twice; the first is at %s:%u:%u", kind, node->name, other->file, other->line,
                      other->column);
  }
  return !other;
}

static bool make_room(struct reader *reader) {
  struct config *config = reader->config;
  bool *valid = memory_grow(reader->valid, config->pipeline_count, sizeof *valid);
  reader->valid = valid ? valid : reader->valid;
  struct config_pipeline *pipelines = memory_grow(config->pipelines, config->pipeline_count, sizeof *pipelines);
  config->pipelines = pipelines ? pipelines : config->pipelines;
  return valid && pipelines;
}

static struct config_pipeline *add_pipeline(struct reader *reader, const struct node *node) {
  char *name = make_room(reader) ? memory_copy(node->name, strlen(node->name)) : NULL;
  if (!name) {
    errors_set_exhausted(reader->errors);
    return NULL;
  }
  struct config_pipeline *pipeline = &reader->config->pipelines[reader->config->pipeline_count++];
  *pipeline = (struct config_pipeline){.at = node->name_at, .name = name};
  return pipeline;
}

/*
 * With drop-oldest one slot holds the waiting frame and one is filled. At least two more are needed to overlap work on the
 * device.
 */
static void choose_slots(const struct node *node, struct config_pipeline *pipeline) {
  enum { SLOTS_TO_OVERLAP = 4 };
  if (pipeline->source.pace > 0) {
    pipeline->overload = CONFIG_OVERLOAD_BLOCK; /* otherwise results would depend on the machine's speed */
  }
  if (pipeline->overload == CONFIG_OVERLOAD_DROP_OLDEST && !node_find(node, "slots")) {
    pipeline->slots = SLOTS_TO_OVERLAP;
  }
}

static void read_pipeline(struct reader *reader, const struct node *node) {
  const struct config_pipeline *other = find_pipeline(reader->config, node->name);
  bool usable = node->kind != NODE_INVALID && is_name_free(reader, node, "pipeline", other ? &other->at : NULL);
  struct config_pipeline *pipeline = usable ? add_pipeline(reader, node) : NULL;
  if (!pipeline) {
    return;
  }
  unsigned errors = config_errors_count(reader->errors);
  reader->pipeline = pipeline->name;
  set_defaults(reader, SECTION_PIPELINE, pipeline);
  if (is_mapping(reader, node->name, node) || node_is_nothing(node)) {
    read_section(reader, SECTION_PIPELINE, node, pipeline);
  }
  if (pipeline->sink.endpoint != CONFIG_SOCKET) {
    pipeline->sink.overload = CONFIG_SINK_BLOCK;
  }
  camera_set_defaults(reader, node, pipeline);
  choose_slots(node, pipeline);
  bool whole = reader->sound && config_errors_count(reader->errors) == errors;
  reader->valid[pipeline - reader->config->pipelines] = whole && validate_pipeline(reader, node, pipeline);
  reader->pipeline = NULL;
}

static void read_pipelines(struct reader *reader, const struct node *node) {
  reader->saw_pipelines = true;
  if (!is_mapping(reader, "pipelines", node)) {
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    if (reader->config->pipeline_count == MOST_PIPELINES) {
      config_errors_add(reader->errors, child->name_at, NULL, "more than %d pipelines", MOST_PIPELINES);
      return;
    }
    read_pipeline(reader, child);
  }
}

/* -- models ------------------------------------------------------------------------------------------------------ */

static void read_model(struct reader *reader, const struct node *node) {
  struct config_model *model = models_add(reader, node->name, node->name_at);
  if (!model) {
    return;
  }
  reader->model = model->name;
  set_defaults(reader, SECTION_MODEL, model);
  if (is_mapping(reader, node->name, node) || node_is_nothing(node)) {
    read_section(reader, SECTION_MODEL, node, model);
  }
  reader->model = NULL;
}

static void read_models(struct reader *reader, const struct node *node) {
  if (!is_mapping(reader, "models", node)) {
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    const struct config_model *other = models_find(reader->config, child->name);
    if (reader->config->model_count == MOST_MODELS) {
      config_errors_add(reader->errors, child->name_at, NULL, "more than %d models", MOST_MODELS);
      return;
    }
    if (child->kind != NODE_INVALID && is_name_free(reader, child, "model", other ? &other->at : NULL)) {
      read_model(reader, child);
    }
  }
}

void reader_read_file(struct reader *reader, const struct node *root) {
  if (is_mapping(reader, "the file", root)) {
    read_section(reader, SECTION_ROOT, root, reader->config);
  }
}
