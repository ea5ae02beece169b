/*
 * The configuration of framed-link as plain data. settings_load() reports each mistake with its place, like the daemon's
 * loader. framed-link(1) describes the keys.
 */
#ifndef FRAMED_TOOLS_LINK_SETTINGS_H
#define FRAMED_TOOLS_LINK_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

enum { SETTINGS_SERVERS = 16, SETTINGS_LINKS = 256 };
#define SETTINGS_HOLD_NS INT64_C(5000000000)

enum link_overload { LINK_BLOCK, LINK_DROP };

/* An entry of `sinks`, of `sources`, or of the pipelines of `mqtt`. */
struct link_settings {
  struct config_mark at;
  bool is_source, is_mqtt;
  char *name;             /* the pipeline's */
  char *socket;           /* of its sink, or of its source */
  char *subject, *stream; /* NULL for mqtt */
  unsigned overload;      /* enum link_overload; a sink's */
  /* Properties of the stream. Links of one stream share them; the largest values apply. */
  bool is_queue;     /* boxes consume its frames */
  unsigned replicas; /* when the link creates it; 0: 3 if the servers can hold so many */
  int64_t most;      /* size limit in bytes; 0: none */
  int64_t keep_ns;   /* how long it keeps messages; 0: no limit */
  char *consumer, *dead;
  int64_t ack_wait_ns;
  unsigned deliver;
  int64_t hold_ns; /* mqtt: how long it stays occupied after the last detection */
  char *queue;     /* of a sink whose pipeline has a source here: that source's stream, which the source owns */
};

struct settings {
  unsigned users; /* used only by the main thread */
  char *file;     /* its name, which marks share */
  char *servers[SETTINGS_SERVERS + 1];
  unsigned server_count;
  char *credentials, *ca, *certificate, *key;
  int64_t memory;                /* bytes of unanswered messages, for all links together */
  char *metrics;                 /* NULL: no metrics file */
  char *mqtt_server, *mqtt_user; /* NULL: no mqtt; no user */
  char *mqtt_password;           /* the file with the password */
  char *mqtt_ca, *mqtt_certificate, *mqtt_key;
  char *mqtt_topic, *mqtt_prefix;
  char *mqtt_node; /* accepted and ignored, since published data does not depend on the machine */
  bool mqtt_old;   /* no `server`: the NATS server's MQTT port, which speaks only 3.1.1 */
  bool mqtt_all;   /* all pipelines of the daemon with a socket for lines of JSON: see fleet.h */
  char *status;    /* the daemon's status socket */
  struct link_settings links[SETTINGS_LINKS];
  unsigned link_count;
};

/* NULL with errors added. */
struct settings *settings_load(const char *path, struct config_errors *errors);
/* Adds a reference, which settings_free() drops. */
struct settings *settings_use(struct settings *settings);
/* Drops a reference, and frees the settings with the last one. Returns NULL. */
struct settings *settings_free(struct settings *settings);

/* Whether a link can keep running under new settings, because all settings it uses are equal. */
bool settings_keep_link(const struct settings *settings, const struct link_settings *link, const struct settings *next,
                        const struct link_settings *other);
/* Compares the settings that all pipelines of `mqtt` share. */
bool settings_keep_mqtt(const struct settings *settings, const struct settings *next);

/* Whether a pipeline's name can be part of a topic. */
bool settings_is_topic(const char *name);
/* "sink", "source" or "mqtt". */
const char *settings_role(const struct link_settings *link);

#endif
