#include "tools/link/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/suggest.h"

/* What a key holds: a text, a file beside the configuration, a value of one of the daemon's types, or links, read elsewhere. */
enum row_kind { ROW_TEXT, ROW_PATH, ROW_VALUE, ROW_LINKS };

struct row {
  struct config_key key;
  enum row_kind kind;
};

static const char *const overloads[] = {"block", "drop", NULL};

#define SECOND INT64_C(1000000000)
#define MIB    (INT64_C(1) << 20)
#define ROW(name_, kind_, type_, structure_, member_, ...)                                                                     \
  { .key = {.name = (name_), .type = (type_), .offset = offsetof(struct structure_, member_), __VA_ARGS__}, .kind = (kind_) }

/* clang-format off */
static const struct row tls_rows[] = {
    ROW("ca", ROW_PATH, KEY_FILE, settings, ca, .help = "certificates of who signs the servers'"),
    ROW("certificate", ROW_PATH, KEY_FILE, settings, certificate, .help = "this client's"),
    ROW("key", ROW_PATH, KEY_FILE, settings, key, .help = "this client's private key"),
    {.key = {.name = NULL}}};

static const struct row status_row =
    ROW("status", ROW_VALUE, KEY_SOCKET, settings, status, .help = "the daemon's status socket");

static const struct row limits_rows[] = {
    ROW("memory", ROW_VALUE, KEY_SIZE, settings, memory, .minimum = MIB, .maximum = MIB << 20),
    {.key = {.name = NULL}}};

static const struct row sink_rows[] = {
    ROW("socket", ROW_VALUE, KEY_SOCKET, link_settings, socket, .help = "the native socket of the pipeline"),
    ROW("subject", ROW_TEXT, KEY_FILE, link_settings, subject, .help = "of the messages"),
    ROW("stream", ROW_TEXT, KEY_FILE, link_settings, stream, .required = true, .help = "the stream that stores the results"),
    ROW("overload", ROW_VALUE, KEY_CHOICE, link_settings, overload, .choices = overloads),
    ROW("queue", ROW_VALUE, KEY_FLAG, link_settings, is_queue, .help = "whether boxes take frames out of the stream"),
    {.key = {.name = NULL}}};

static const struct row source_rows[] = {
    ROW("socket", ROW_VALUE, KEY_SOCKET, link_settings, socket, .help = "the native socket of the pipeline"),
    ROW("subject", ROW_TEXT, KEY_FILE, link_settings, subject, .help = "of the messages"),
    ROW("stream", ROW_TEXT, KEY_FILE, link_settings, stream, .required = true, .help = "the work queue that frames come from"),
    ROW("consumer", ROW_TEXT, KEY_FILE, link_settings, consumer, .required = true, .help = "all boxes that share the queue say the same"),
    ROW("ack_wait", ROW_VALUE, KEY_DURATION, link_settings, ack_wait_ns, .minimum = SECOND / 2, .maximum = 3600 * SECOND),
    ROW("deliver", ROW_VALUE, KEY_COUNT, link_settings, deliver, .minimum = 1, .maximum = 1000),
    ROW("dead", ROW_TEXT, KEY_FILE, link_settings, dead, .help = "the subject of frames that nobody can compute"),
    {.key = {.name = NULL}}};

static const struct row mqtt_rows[] = {
    ROW("prefix", ROW_TEXT, KEY_FILE, settings, mqtt_prefix, .help = "of Home Assistant's topics"),
    ROW("node", ROW_TEXT, KEY_FILE, settings, mqtt_node, .help = "this box in topics"),
    {.key = {.name = "pipelines"}, .kind = ROW_LINKS},
    {.key = {.name = NULL}}};

static const struct row detections_rows[] = {
    ROW("socket", ROW_VALUE, KEY_SOCKET, link_settings, socket, .help = "the socket of the pipeline's sink with protocol: json"),
    ROW("hold", ROW_VALUE, KEY_DURATION, link_settings, hold_ns, .minimum = SECOND / 10, .maximum = 3600 * SECOND),
    {.key = {.name = NULL}}};
/* clang-format on */

/* -- life -------------------------------------------------------------------------------------------------------------- */

struct settings *settings_free(struct settings *settings) {
  if (!settings) {
    return NULL;
  }
  for (unsigned i = 0; i < settings->link_count; i++) {
    struct link_settings *link = &settings->links[i];
    char *const texts[] = {link->name, link->socket, link->subject, link->stream, link->consumer, link->dead};
    for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
      free(texts[j]);
    }
  }
  for (unsigned i = 0; i < settings->server_count; i++) {
    free(settings->servers[i]);
  }
  char *const texts[] = {settings->file,    settings->credentials, settings->ca,        settings->certificate, settings->key,
                         settings->metrics, settings->mqtt_prefix, settings->mqtt_node, settings->status};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    free(texts[i]);
  }
  free(settings);
  return NULL;
}

/* -- mappings ---------------------------------------------------------------------------------------------------------- */

static bool is_mapping(struct reader *reader, const char *name, const struct node *node) {
  char text[READER_WHERE];
  if (node->kind == NODE_MAPPING || node_is_nothing(node)) {
    return true;
  }
  if (node->kind != NODE_INVALID) {
    config_errors_add(reader->errors, node->at, NULL, "'%.80s' must be a mapping of keys, not %s", name,
                      value_describe(node, text));
  }
  return false;
}

static void report_unknown(struct reader *reader, const char *where, const struct node *node, const char *const *names) {
  char remedy[SUGGEST_TEXT], list[SUGGEST_TEXT] = "keys are ";
  struct suggestion suggestion = suggest_begin(node->name);
  for (unsigned i = 0; names[i]; i++) {
    size_t used = strlen(list);
    suggest_offer(&suggestion, names[i]);
    snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  config_errors_add(reader->errors, node->name_at, suggest_text(&suggestion, list, remedy), "unknown key '%.80s' in %s",
                    node->name, where);
}

static void replace(char **target, char *text) {
  free(*target);
  *target = text;
}

static void read_row(struct reader *reader, const struct row *row, const struct node *node, void *structure) {
  void *target = (char *)structure + row->key.offset;
  if (node->kind == NODE_INVALID) {
    return;
  }
  if (row->kind == ROW_TEXT) {
    replace(target, value_read_text(reader, row->key.name, node));
  } else if (row->kind == ROW_PATH) {
    replace(target, value_read_path(reader, row->key.name, node));
  } else if (row->kind == ROW_VALUE) {
    value_read(reader, &row->key, node, target);
  }
}

static const struct row *find_row(const struct row *rows, const char *name) {
  while (rows->key.name && strcmp(rows->key.name, name) != 0) {
    rows++;
  }
  return rows->key.name ? rows : NULL;
}

/* A mapping of the keys of `rows` into `structure`; `where` is its name in messages. */
static void read_rows(struct reader *reader, const struct row *rows, const char *where, const struct node *node,
                      void *structure) {
  const char *names[16] = {NULL};
  if (!is_mapping(reader, where, node)) {
    return;
  }
  for (unsigned i = 0; rows[i].key.name; i++) {
    names[i] = rows[i].key.name;
    if (rows[i].key.required && !node_find(node, rows[i].key.name)) {
      config_errors_add(reader->errors, node->name_at, rows[i].key.help, "%s needs '%s'", where, rows[i].key.name);
    }
  }
  for (const struct node *child = node->first; child; child = child->next) {
    const struct row *row = find_row(rows, child->name);
    if (row) {
      read_row(reader, row, child, structure);
    } else {
      report_unknown(reader, where, child, names);
    }
  }
}

/* -- servers ----------------------------------------------------------------------------------------------------------- */

static void read_server(struct reader *reader, struct settings *settings, const struct node *node) {
  static const char *const schemes[] = {"nats://", "tls://"};
  char *text = node->kind == NODE_INVALID ? NULL : value_read_text(reader, "servers", node);
  if (!text) {
    return;
  }
  if (strncmp(text, schemes[0], strlen(schemes[0])) != 0 && strncmp(text, schemes[1], strlen(schemes[1])) != 0) {
    config_errors_add(reader->errors, node->at, "write nats://HOST:4222, or tls://HOST:4222",
                      "'%.80s' is not the address of a server", text);
    free(text);
    return;
  }
  if (settings->server_count == SETTINGS_SERVERS) {
    config_errors_add(reader->errors, node->at, NULL, "more than %d servers", SETTINGS_SERVERS);
    free(text);
    return;
  }
  settings->servers[settings->server_count++] = text;
}

static void read_nats(struct reader *reader, struct settings *settings, const struct node *node) {
  static const char *const names[] = {"servers", "credentials", "tls", NULL};
  const struct node *servers = node_find(node, "servers");
  for (const struct node *child = node->first; child; child = child->next) {
    if (strcmp(child->name, "credentials") == 0) {
      replace(&settings->credentials, value_read_path(reader, child->name, child));
    } else if (strcmp(child->name, "tls") == 0) {
      read_rows(reader, tls_rows, "'tls'", child, settings);
    } else if (child != servers) {
      report_unknown(reader, "'nats'", child, names);
    }
  }
  if (!servers || servers->kind != NODE_LIST || !servers->first) {
    config_errors_add(reader->errors, servers ? servers->at : node->at, "write it in brackets: [nats://127.0.0.1:4222]",
                      "'nats' needs 'servers', a list of addresses");
    return;
  }
  for (const struct node *child = servers->first; child; child = child->next) {
    read_server(reader, settings, child);
  }
}

/* -- sinks, sources and detections ------------------------------------------------------------------------------------- */

enum { LONGEST_NAME = 100 }; /* two of them have room in a subject of JetStream */
#define TOKEN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

static void set_default(char **target, const char *format, const char *name) {
  if (!*target && asprintf(target, format, name) < 0) {
    *target = NULL;
  }
}

static void check_text(struct reader *reader, const struct node *node, const char *key, const char *text, const char *allowed) {
  const struct node *child = node_find(node, key);
  size_t length = text ? strspn(text, allowed) : 0;
  bool fine = !text || (length > 0 && length <= LONGEST_NAME && text[length] == '\0' && text[0] != '.' &&
                        text[length - 1] != '.' && !strstr(text, ".."));
  if (!fine) {
    config_errors_add(reader->errors, child ? child->at : node->name_at,
                      "use letters, digits, '_', '-', and '.' in subjects, 100 at most",
                      "'%.80s' is not a name that '%s' can have", text, key);
  }
}

bool settings_is_topic(const char *name) { return name[strspn(name, TOKEN)] == '\0'; }

const char *settings_role(const struct link_settings *link) {
  return link->is_mqtt ? "mqtt" : link->is_source ? "source" : "sink";
}

static void check_names(struct reader *reader, const struct node *node, const struct link_settings *link) {
  check_text(reader, node, "name", link->name, link->is_mqtt ? TOKEN : TOKEN ".");
  check_text(reader, node, "stream", link->stream, TOKEN);
  check_text(reader, node, "consumer", link->consumer, TOKEN);
  check_text(reader, node, "subject", link->subject, TOKEN ".");
  check_text(reader, node, "dead", link->dead, TOKEN ".");
}

/* `rows` say what kind of link it is. */
static void read_link(struct reader *reader, struct settings *settings, const struct node *node, const struct row *rows) {
  char where[READER_WHERE];
  if (settings->link_count == SETTINGS_LINKS) {
    config_errors_add(reader->errors, node->name_at, NULL, "more than %d sinks, sources and pipelines of mqtt", SETTINGS_LINKS);
    return;
  }
  struct link_settings *link = &settings->links[settings->link_count++];
  *link = (struct link_settings){.at = node->name_at,
                                 .is_source = rows == source_rows,
                                 .is_mqtt = rows == detections_rows,
                                 .name = memory_copy(node->name, strlen(node->name)),
                                 .ack_wait_ns = 30 * SECOND,
                                 .deliver = 5,
                                 .hold_ns = SETTINGS_HOLD_NS};
  snprintf(where, sizeof where, "%s '%.64s'", settings_role(link), node->name);
  read_rows(reader, rows, where, node, link);
  set_default(&link->socket, link->is_source ? "/run/framed/%s.sock" : "/run/framed/%s.out.sock", node->name);
  set_default(&link->subject, link->is_source ? "frames.%s" : "results.%s", node->name);
  set_default(&link->dead, "dead.%s", node->name);
  check_names(reader, node, link);
  if (!link->name || !link->socket || !link->subject || !link->dead) {
    errors_set_exhausted(reader->errors);
  }
}

static void read_links(struct reader *reader, struct settings *settings, const struct node *node, const struct row *rows) {
  if (!is_mapping(reader, node->name, node)) {
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    read_link(reader, settings, child, rows);
  }
}

/* This machine's name as far as its first dot, of characters that topics may have. */
static char *default_node(void) {
  char name[65] = "";
  gethostname(name, sizeof name - 1);
  name[strcspn(name, ".")] = '\0';
  for (size_t i = 0; name[i]; i++) {
    name[i] = strchr(TOKEN, name[i]) ? name[i] : '_';
  }
  const char *text = name[0] ? name : "framed";
  return memory_copy(text, strlen(text));
}

static void read_mqtt(struct reader *reader, struct settings *settings, const struct node *node) {
  const struct node *pipelines = node_find(node, "pipelines");
  read_rows(reader, mqtt_rows, "'mqtt'", node, settings);
  set_default(&settings->mqtt_prefix, "%s", "homeassistant");
  settings->mqtt_node = settings->mqtt_node ? settings->mqtt_node : default_node();
  check_text(reader, node, "prefix", settings->mqtt_prefix, TOKEN);
  check_text(reader, node, "node", settings->mqtt_node, TOKEN);
  settings->mqtt_all = !pipelines;
  if (pipelines && pipelines->kind != NODE_INVALID) {
    read_links(reader, settings, pipelines, detections_rows);
  }
  if (!settings->mqtt_prefix || !settings->mqtt_node) {
    errors_set_exhausted(reader->errors);
  }
}

/* A frame from a queue may be computed twice, and its result is to be stored once: the queue's number names it. */
static void join_links(struct settings *settings) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    for (unsigned j = 0; j < settings->link_count; j++) {
      struct link_settings *sink = &settings->links[i], *source = &settings->links[j];
      if (!sink->is_source && source->is_source && strcmp(sink->name, source->name) == 0) {
        sink->queue = source->stream;
      }
    }
  }
}

/* -- the file ---------------------------------------------------------------------------------------------------------- */

static void read_root(struct reader *reader, struct settings *settings, const struct node *root) {
  static const char *const names[] = {"nats", "sinks", "sources", "mqtt", "limits", "metrics", "status", NULL};
  const struct config_mark top = {.file = settings->file};
  for (const struct node *child = root->first; child; child = child->next) {
    if (strcmp(child->name, "nats") == 0 && is_mapping(reader, "nats", child)) {
      read_nats(reader, settings, child);
    } else if (strcmp(child->name, "sinks") == 0 || strcmp(child->name, "sources") == 0) {
      read_links(reader, settings, child, strcmp(child->name, "sources") == 0 ? source_rows : sink_rows);
    } else if (strcmp(child->name, "mqtt") == 0) {
      read_mqtt(reader, settings, child);
    } else if (strcmp(child->name, "limits") == 0) {
      read_rows(reader, limits_rows, "'limits'", child, settings);
    } else if (strcmp(child->name, "metrics") == 0) {
      replace(&settings->metrics, value_read_path(reader, child->name, child));
    } else if (strcmp(child->name, "status") == 0) {
      read_row(reader, &status_row, child, settings);
    } else if (strcmp(child->name, "nats") != 0) {
      report_unknown(reader, "the file", child, names);
    }
  }
  if (!node_find(root, "nats")) {
    config_errors_add(reader->errors, top, "write nats: {servers: [nats://127.0.0.1:4222]}", "there is no 'nats'");
  }
  if (settings->link_count == 0 && !settings->mqtt_all) {
    config_errors_add(reader->errors, top, "write sinks: {cam0: {stream: RESULTS}}",
                      "there are no 'sinks', 'sources' or pipelines of 'mqtt'");
  }
}

static char *read_file(const char *path, size_t *length) {
  char *text = memory_new(YAML_MAX_BYTES + 1, 1);
  FILE *file = text ? fopen(path, "re") : NULL;
  *length = file ? fread(text, 1, YAML_MAX_BYTES + 1, file) : 0;
  bool read = file && !ferror(file);
  int error = errno;
  if (file) {
    fclose(file);
  }
  if (!read) {
    free(text);
    errno = error;
    return NULL;
  }
  return text;
}

static struct settings *settings_new(const char *path) {
  struct settings *settings = memory_new(1, sizeof *settings);
  if (settings) {
    settings->memory = 256 * MIB;
    settings->file = memory_copy(path, strlen(path));
    set_default(&settings->status, "%s", "/run/framed/status.sock");
  }
  return settings && settings->file && settings->status ? settings : settings_free(settings);
}

struct settings *settings_load(const char *path, struct config_errors *errors) {
  struct settings *settings = settings_new(path);
  struct reader reader = {.errors = errors};
  size_t length;
  char *text = settings ? read_file(path, &length) : NULL;
  if (!settings) {
    errors_set_exhausted(errors);
  } else if (!text) {
    config_errors_add(errors, (struct config_mark){.file = settings->file}, "name another file with -c FILE",
                      "cannot read it: %s", strerror(errno));
  } else if (errors_add_file(errors, settings->file, text, length)) {
    struct node *root = yaml_read(settings->file, text, length, errors);
    const struct node nothing = {.kind = NODE_MAPPING};
    if ((root || config_errors_count(errors) == 0) && is_mapping(&reader, "the file", root ? root : &nothing)) {
      read_root(&reader, settings, root ? root : &nothing);
      join_links(settings);
    }
    node_free(root);
  }
  free(text);
  return config_errors_count(errors) == 0 ? settings : settings_free(settings);
}
