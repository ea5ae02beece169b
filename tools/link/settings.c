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
#include "tools/link/mqtt_address.h"
#include "tools/link/mqtt_client.h"
#include "tools/link/rows.h"

static const char *const overloads[] = {"block", "drop", NULL};

#define SECOND INT64_C(1000000000)
#define MIB    (INT64_C(1) << 20)
/* clang-format off */
static const struct row nats_rows[] = {
    {.key = {.name = "servers"}, .kind = ROW_LINKS},
    ROW("credentials", ROW_PATH, KEY_FILE, settings, credentials, .help = "the file of the account's user"),
    {.key = {.name = "tls"}, .kind = ROW_LINKS},
    {.key = {.name = NULL}}};

static const struct row tls_rows[] = {
    ROW("ca", ROW_PATH, KEY_FILE, settings, ca, .help = "certificates of who signs the servers'"),
    ROW("certificate", ROW_PATH, KEY_FILE, settings, certificate, .help = "this client's"),
    ROW("key", ROW_PATH, KEY_FILE, settings, key, .help = "this client's private key"),
    {.key = {.name = NULL}}};

static const struct row mqtt_tls_rows[] = {
    ROW("ca", ROW_PATH, KEY_FILE, settings, mqtt_ca, .help = "certificates of who signs the broker's"),
    ROW("certificate", ROW_PATH, KEY_FILE, settings, mqtt_certificate, .help = "this client's"),
    ROW("key", ROW_PATH, KEY_FILE, settings, mqtt_key, .help = "this client's private key"),
    {.key = {.name = NULL}}};

static const struct row status_row =
    ROW("status", ROW_VALUE, KEY_SOCKET, settings, status, .help = "the daemon's status socket");

static const struct row limits_rows[] = {
    ROW("memory", ROW_VALUE, KEY_SIZE, settings, memory, .minimum = MIB, .maximum = MIB << 20),
    {.key = {.name = NULL}}};

#define STREAM_ROWS \
    ROW("replicas", ROW_VALUE, KEY_COUNT, link_settings, replicas, .minimum = 1, .maximum = 5, .help = "copies of a stream that is made"), \
    ROW("most", ROW_VALUE, KEY_SIZE, link_settings, most, .minimum = MIB, .maximum = MIB << 30, .help = "bytes of a stream that is made"), \
    ROW("keep", ROW_VALUE, KEY_DURATION, link_settings, keep_ns, .minimum = SECOND, .maximum = 10 * 365 * 86400 * SECOND, .help = "age of messages of a stream that is made")

static const struct row sink_rows[] = {
    ROW("socket", ROW_VALUE, KEY_SOCKET, link_settings, socket, .help = "the native socket of the pipeline"),
    ROW("subject", ROW_TEXT, KEY_FILE, link_settings, subject, .help = "of the messages"),
    ROW("stream", ROW_TEXT, KEY_FILE, link_settings, stream, .required = true, .help = "the stream that stores the results"),
    ROW("overload", ROW_VALUE, KEY_CHOICE, link_settings, overload, .choices = overloads),
    ROW("queue", ROW_VALUE, KEY_FLAG, link_settings, is_queue, .help = "whether boxes take frames out of the stream"),
    STREAM_ROWS,
    {.key = {.name = NULL}}};

static const struct row source_rows[] = {
    ROW("socket", ROW_VALUE, KEY_SOCKET, link_settings, socket, .help = "the native socket of the pipeline"),
    ROW("subject", ROW_TEXT, KEY_FILE, link_settings, subject, .help = "of the messages"),
    ROW("stream", ROW_TEXT, KEY_FILE, link_settings, stream, .required = true, .help = "the work queue that frames come from"),
    ROW("consumer", ROW_TEXT, KEY_FILE, link_settings, consumer, .required = true, .help = "all boxes that share the queue say the same"),
    ROW("ack_wait", ROW_VALUE, KEY_DURATION, link_settings, ack_wait_ns, .minimum = SECOND / 2, .maximum = 3600 * SECOND),
    ROW("deliver", ROW_VALUE, KEY_COUNT, link_settings, deliver, .minimum = 1, .maximum = 1000),
    ROW("dead", ROW_TEXT, KEY_FILE, link_settings, dead, .help = "the subject of frames that nobody can compute"),
    STREAM_ROWS,
    {.key = {.name = NULL}}};

static const struct row mqtt_rows[] = {
    ROW("server", ROW_TEXT, KEY_FILE, settings, mqtt_server, .help = "the address of the broker"),
    ROW("user", ROW_TEXT, KEY_FILE, settings, mqtt_user, .help = "what the broker knows framed-link as"),
    ROW("password", ROW_PATH, KEY_FILE, settings, mqtt_password, .help = "the file whose first line is the user's password"),
    {.key = {.name = "tls"}, .kind = ROW_LINKS},
    ROW("topic", ROW_TEXT, KEY_FILE, settings, mqtt_topic, .help = "what the topics of states begin with"),
    ROW("prefix", ROW_TEXT, KEY_FILE, settings, mqtt_prefix, .help = "of Home Assistant's topics"),
    ROW("node", ROW_TEXT, KEY_FILE, settings, mqtt_node, .help = "not used any more"),
    {.key = {.name = "pipelines"}, .kind = ROW_LINKS},
    {.key = {.name = NULL}}};

static const struct row detections_rows[] = {
    ROW("socket", ROW_VALUE, KEY_SOCKET, link_settings, socket, .help = "the socket of the pipeline's sink with protocol: json"),
    ROW("hold", ROW_VALUE, KEY_DURATION, link_settings, hold_ns, .minimum = SECOND / 10, .maximum = 3600 * SECOND),
    {.key = {.name = NULL}}};
/* clang-format on */

/* -- life -------------------------------------------------------------------------------------------------------------- */

struct settings *settings_use(struct settings *settings) {
  settings->users++;
  return settings;
}

static const struct row *rows_of(const struct link_settings *link) {
  return link->is_mqtt ? detections_rows : link->is_source ? source_rows : sink_rows;
}

struct settings *settings_free(struct settings *settings) {
  if (!settings || --settings->users > 0) {
    return NULL;
  }
  for (unsigned i = 0; i < settings->link_count; i++) {
    struct link_settings *link = &settings->links[i];
    rows_free(rows_of(link), link);
    free(link->name);
  }
  for (unsigned i = 0; i < settings->server_count; i++) {
    free(settings->servers[i]);
  }
  rows_free(nats_rows, settings);
  rows_free(tls_rows, settings);
  rows_free(mqtt_rows, settings);
  rows_free(mqtt_tls_rows, settings);
  free(settings->file);
  free(settings->metrics);
  free(settings->status);
  free(settings);
  return NULL;
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
  const struct node *servers = node_find(node, "servers"), *tls = node_find(node, "tls");
  rows_read(reader, nats_rows, "'nats'", node, settings);
  if (tls) {
    rows_read(reader, tls_rows, "'tls'", tls, settings);
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

enum { LONGEST_NAME = 100 }; /* two names must fit into a subject of JetStream */
#define TOKEN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

static void set_default(struct config_errors *errors, char **target, const char *format, const char *name) {
  if (!*target && asprintf(target, format, name) < 0) {
    *target = NULL;
    errors_set_exhausted(errors);
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

/* `rows` select the kind of link. */
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
  rows_read(reader, rows, where, node, link);
  set_default(reader->errors, &link->socket, link->is_source ? "/run/framed/%s.sock" : "/run/framed/%s.out.sock", node->name);
  if (!link->is_mqtt) {
    set_default(reader->errors, &link->subject, link->is_source ? "frames.%s" : "results.%s", node->name);
  }
  if (link->is_source) {
    set_default(reader->errors, &link->dead, "dead.%s", node->name);
  }
  check_names(reader, node, link);
  if (!link->name) {
    errors_set_exhausted(reader->errors);
  }
}

static void read_links(struct reader *reader, struct settings *settings, const struct node *node, const struct row *rows) {
  if (!rows_is_mapping(reader, node->name, node)) {
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    read_link(reader, settings, child, rows);
  }
}

/* The address of a NATS server's MQTT port at its default number, from "SCHEME://[USER@]HOST[:PORT]". */
static char *address_beside(const char *server) {
  const char *host = strstr(server, "://");
  host = host ? host + 3 : server;
  const char *user = strrchr(host, '@');
  host = user ? user + 1 : host;
  size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
  char *address = NULL;
  return asprintf(&address, "mqtt://%.*s:1883", (int)length, host) < 0 ? NULL : address;
}

/* Without `server`, mqtt uses the NATS server's MQTT port, as earlier versions did. */
static void finish_mqtt(struct reader *reader, struct settings *settings, const struct node *node) {
  const struct node *server = node_find(node, "server");
  const struct node *password = node_find(node, "password"), *tls = node_find(node, "tls");
  struct mqtt_address address;
  if (password && !settings->mqtt_user) {
    config_errors_add(reader->errors, password->name_at, "name the user: mqtt: {user: framed, …}", "'password' needs 'user'");
  }
  if (tls && settings->mqtt_server && strncmp(settings->mqtt_server, "mqtts:", 6) != 0) {
    config_errors_add(reader->errors, tls->name_at, "write server: mqtts://HOST:8883", "'tls' needs a server with TLS");
  }
  if (!mqtt_client_is_built()) {
    config_errors_add(reader->errors, node->name_at, "install libmosquitto-dev before building, or remove 'mqtt'",
                      "this framed-link is built without MQTT");
  } else if (settings->mqtt_server && !mqtt_address_read(settings->mqtt_server, &address)) {
    config_errors_add(reader->errors, server->at, "write mqtt://HOST:1883, or mqtts://HOST:8883",
                      "'%.80s' is not the address of a broker", settings->mqtt_server);
  } else if (!settings->mqtt_server && settings->server_count > 0) {
    settings->mqtt_old = true;
    settings->mqtt_server = address_beside(settings->servers[0]);
  } else if (!settings->mqtt_server && !server) {
    config_errors_add(reader->errors, node->name_at, "write mqtt: {server: mqtt://HOST:1883}", "'mqtt' needs 'server'");
  }
}

static void read_mqtt(struct reader *reader, struct settings *settings, const struct node *node) {
  const struct node *pipelines = node_find(node, "pipelines"), *tls = node_find(node, "tls");
  rows_read(reader, mqtt_rows, "'mqtt'", node, settings);
  if (tls) {
    rows_read(reader, mqtt_tls_rows, "'tls'", tls, settings);
  }
  set_default(reader->errors, &settings->mqtt_topic, "%s", "framed");
  set_default(reader->errors, &settings->mqtt_prefix, "%s", "homeassistant");
  check_text(reader, node, "topic", settings->mqtt_topic, TOKEN);
  check_text(reader, node, "prefix", settings->mqtt_prefix, TOKEN);
  settings->mqtt_all = !pipelines;
  if (pipelines && pipelines->kind != NODE_INVALID) {
    read_links(reader, settings, pipelines, detections_rows);
  }
}

/*
 * A frame of a queue may be computed twice, but its result must be stored once. So the queue and the frame's number there name
 * the result.
 */
static void join_pipeline(struct link_settings *sink, const struct link_settings *source) {
  if (!sink->is_source && !sink->is_mqtt && source->is_source && strcmp(sink->name, source->name) == 0) {
    sink->queue = source->stream;
  }
}

/* All links of a stream get the same settings, since any of them may create it. */
static void join_stream(struct link_settings *link, const struct link_settings *other) {
  if (link->stream && other->stream && strcmp(link->stream, other->stream) == 0) {
    link->is_queue |= other->is_queue || other->is_source;
    link->replicas = other->replicas > link->replicas ? other->replicas : link->replicas;
    link->most = other->most > link->most ? other->most : link->most;
    link->keep_ns = other->keep_ns > link->keep_ns ? other->keep_ns : link->keep_ns;
  }
}

static void join_links(struct settings *settings) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    for (unsigned j = 0; j < settings->link_count; j++) {
      join_pipeline(&settings->links[i], &settings->links[j]);
      join_stream(&settings->links[i], &settings->links[j]);
    }
  }
}

/* -- reloads ----------------------------------------------------------------------------------------------------------- */

static bool keeps_nats(const struct settings *settings, const struct settings *next) {
  bool same = settings->server_count == next->server_count && rows_are_same(nats_rows, settings, next) &&
              rows_are_same(tls_rows, settings, next);
  for (unsigned i = 0; same && i < settings->server_count; i++) {
    same = strcmp(settings->servers[i], next->servers[i]) == 0;
  }
  return same;
}

bool settings_keep_mqtt(const struct settings *settings, const struct settings *next) {
  return rows_are_same(mqtt_rows, settings, next) && rows_are_same(mqtt_tls_rows, settings, next) &&
         settings->mqtt_old == next->mqtt_old;
}

bool settings_keep_link(const struct settings *settings, const struct link_settings *link, const struct settings *next,
                        const struct link_settings *other) {
  if (link->is_mqtt != other->is_mqtt || link->is_source != other->is_source || strcmp(link->name, other->name) != 0) {
    return false;
  }
  if (link->is_mqtt) {
    return settings_keep_mqtt(settings, next) && rows_are_same(rows_of(link), link, other);
  }
  return keeps_nats(settings, next) && rows_are_same_text(link->queue, other->queue) && link->is_queue == other->is_queue &&
         rows_are_same(rows_of(link), link, other);
}

/* -- the file ---------------------------------------------------------------------------------------------------------- */

static void read_root(struct reader *reader, struct settings *settings, const struct node *root) {
  static const char *const names[] = {"nats", "sinks", "sources", "mqtt", "limits", "metrics", "status", NULL};
  const struct config_mark top = {.file = settings->file};
  for (const struct node *child = root->first; child; child = child->next) {
    if (strcmp(child->name, "nats") == 0 && rows_is_mapping(reader, "nats", child)) {
      read_nats(reader, settings, child);
    } else if (strcmp(child->name, "sinks") == 0 || strcmp(child->name, "sources") == 0) {
      read_links(reader, settings, child, strcmp(child->name, "sources") == 0 ? source_rows : sink_rows);
    } else if (strcmp(child->name, "mqtt") == 0) {
      read_mqtt(reader, settings, child);
    } else if (strcmp(child->name, "limits") == 0) {
      rows_read(reader, limits_rows, "'limits'", child, settings);
    } else if (strcmp(child->name, "metrics") == 0) {
      rows_replace(&settings->metrics, value_read_path(reader, child->name, child));
    } else if (strcmp(child->name, "status") == 0) {
      rows_read_one(reader, &status_row, child, settings);
    } else if (strcmp(child->name, "nats") != 0) {
      rows_report_unknown(reader, "the file", child, names);
    }
  }
  const struct node *mqtt = node_find(root, "mqtt");
  if (!node_find(root, "nats") && (node_find(root, "sinks") || node_find(root, "sources") || !mqtt)) {
    config_errors_add(reader->errors, top, "write nats: {servers: [nats://127.0.0.1:4222]}", "there is no 'nats'");
  } else if (mqtt) {
    finish_mqtt(reader, settings, mqtt);
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

static struct settings *settings_new(const char *path, struct config_errors *errors) {
  struct settings *settings = memory_new(1, sizeof *settings);
  if (settings) {
    settings->users = 1;
    settings->memory = 256 * MIB;
    settings->file = memory_copy(path, strlen(path));
    const char *named = getenv("FRAMED_SOCKET"); /* framectl uses it, too */
    set_default(errors, &settings->status, "%s", named && named[0] ? named : "/run/framed/status.sock");
  }
  return settings && settings->file && settings->status ? settings : settings_free(settings);
}

struct settings *settings_load(const char *path, struct config_errors *errors) {
  struct settings *settings = settings_new(path, errors);
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
    if ((root || config_errors_count(errors) == 0) && rows_is_mapping(&reader, "the file", root ? root : &nothing)) {
      read_root(&reader, settings, root ? root : &nothing);
      join_links(settings);
    }
    node_free(root);
  }
  free(text);
  return config_errors_count(errors) == 0 ? settings : settings_free(settings);
}
