/*
 * The configuration of framed-link: plain data, read by settings_load() with every mistake at its place, as the daemon reads
 * its own. framed-link(1) says what the keys mean.
 */
#ifndef FRAMED_TOOLS_LINK_SETTINGS_H
#define FRAMED_TOOLS_LINK_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

enum { SETTINGS_SERVERS = 16, SETTINGS_LINKS = 256 };
#define SETTINGS_HOLD_NS INT64_C(5000000000)

enum link_overload { LINK_BLOCK, LINK_DROP };

/* One entry of `sinks`, of `sources`, or of the pipelines of `mqtt`. */
struct link_settings {
  struct config_mark at;
  bool is_source, is_mqtt;
  char *name;             /* the pipeline's */
  char *socket;           /* of its sink, or of its source */
  char *subject, *stream; /* of mqtt NULL */
  unsigned overload;      /* enum link_overload; a sink's */
  /* Of its stream. Links with one stream have the same: the largest that any of them says. */
  bool is_queue;     /* boxes take frames out of it */
  unsigned replicas; /* if the link makes it; 0: 3 where the servers can keep so many */
  int64_t most;      /* bytes that it may have; 0: any */
  int64_t keep_ns;   /* how long it keeps messages; 0: for ever */
  char *consumer, *dead;
  int64_t ack_wait_ns;
  unsigned deliver;
  int64_t hold_ns; /* mqtt: how long it stays occupied after the last detection */
  char *queue;     /* of a sink whose pipeline has a source here: that one's stream; owned by the source */
};

struct settings {
  unsigned users; /* the main thread's alone */
  char *file;     /* its name, to which marks point */
  char *servers[SETTINGS_SERVERS + 1];
  unsigned server_count;
  char *credentials, *ca, *certificate, *key;
  int64_t memory;                /* bytes of messages that wait for an answer, all links together */
  char *metrics;                 /* NULL: no file */
  char *mqtt_server, *mqtt_user; /* NULL: no mqtt; it wants no user */
  char *mqtt_password;           /* the file that it is in */
  char *mqtt_ca, *mqtt_certificate, *mqtt_key;
  char *mqtt_topic, *mqtt_prefix;
  char *mqtt_node; /* accepted, and not used: what is told does not depend on the machine */
  bool mqtt_old;   /* no server is named: the NATS server's MQTT port, which speaks 3.1.1 only */
  bool mqtt_all;   /* every pipeline of the daemon with a socket that gives lines of JSON: see fleet.h */
  char *status;    /* the daemon's status socket */
  struct link_settings links[SETTINGS_LINKS];
  unsigned link_count;
};

/* NULL with errors added. */
struct settings *settings_load(const char *path, struct config_errors *errors);
/* For another user, who ends that with settings_free(). */
struct settings *settings_use(struct settings *settings);
/* Frees them with their last user. NULL. */
struct settings *settings_free(struct settings *settings);

/* Whether a link by the one can stay as it is under the other: all that it goes by is the same. */
bool settings_keep_link(const struct settings *settings, const struct link_settings *link, const struct settings *next,
                        const struct link_settings *other);
/* The same for what all pipelines of `mqtt` share. */
bool settings_keep_mqtt(const struct settings *settings, const struct settings *next);

/* Whether a pipeline's name can be part of a topic. */
bool settings_is_topic(const char *name);
/* "sink", "source" or "mqtt". */
const char *settings_role(const struct link_settings *link);

#endif
