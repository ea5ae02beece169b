/*
 * Detections of a pipeline for Home Assistant, over the MQTT port of a NATS server: for it, plain messages of NATS are those of
 * MQTT, though none that it retains.
 *
 * So everything is told again when it may be missing: entities whenever Home Assistant says that it is there and on each new
 * connection, the state every few seconds. A state that is not told again expires there, which is how a link that was killed is
 * noticed. Where there is no broker, lines are read as ever, and what is told then is what holds then.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/link/homeassistant.h"
#include "tools/link/lines.h"
#include "tools/link/link.h"

#define TELL_EVERY  (1000 * MS)  /* counts and boxes; that it is occupied or not is told at once */
#define AGAIN_EVERY (10000 * MS) /* a third of what a state is good for */

enum { SEEKING_MS = 50 }; /* how often it is looked whether there is a broker now */
enum attempt { ATTEMPT_LASTS, ATTEMPT_FAILED, ATTEMPT_CONNECTED };

struct mqtt {
  struct lines lines;
  pthread_t seeker; /* connects to the broker, while `seeks`: then it alone has that */
  bool seeks;
  _Atomic int attempt;     /* enum attempt */
  natsSubscription *birth; /* of Home Assistant */
  json_t *labels;
  struct detections latest;
  int64_t seen, told; /* when there was a detection, and when the state was published; 0: never */
  bool occupied;      /* as was published */
  bool changed;       /* the state, since then */
  bool described, useless;
};

static bool mqtt_open(struct link *link) {
  struct mqtt *mqtt = link->state = calloc(1, sizeof *mqtt);
  if (mqtt) {
    mqtt->labels = json_object();
  }
  return mqtt && mqtt->labels && lines_init(&mqtt->lines);
}

static void mqtt_close(struct link *link) {
  struct mqtt *mqtt = link->state;
  natsSubscription_Destroy(mqtt->birth);
  lines_free(&mqtt->lines);
  json_decref(mqtt->labels);
  json_decref(mqtt->latest.state);
  free(mqtt);
}

/* -- out --------------------------------------------------------------------------------------------------------------- */

static void publish(struct link *link, const char *subject, const char *text) {
  if (natsConnection_Publish(link->broker.connection, subject, text, (int)strlen(text)) == NATS_OK) {
    link_count(link, COUNT_PUBLISHED, 1);
  }
}

static void publish_document(void *context, const char *subject, const json_t *document) {
  char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9));
  if (text) {
    publish(context, subject, text);
  }
  free(text);
}

static void tell_availability(struct link *link) {
  const struct mqtt *mqtt = link->state;
  char subject[TOPIC];
  homeassistant_topic(link->broker.settings, link->settings, "availability", subject);
  publish(link, subject, mqtt->lines.fd >= 0 && !link->stopping ? "online" : "offline");
}

static bool is_occupied(const struct link *link, int64_t now) {
  const struct mqtt *mqtt = link->state;
  return mqtt->seen != 0 && now - mqtt->seen < link->settings->hold_ns;
}

static void tell_state(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  char subject[TOPIC];
  mqtt->occupied = is_occupied(link, now);
  mqtt->told = now;
  mqtt->changed = false;
  json_object_set_new(mqtt->latest.state, "occupied", json_string(mqtt->occupied ? "ON" : "OFF"));
  homeassistant_topic(link->broker.settings, link->settings, "state", subject);
  publish_document(link, subject, mqtt->latest.state);
}

/* Tells what is due; returns when something is next. */
static int64_t mqtt_turn(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  if (mqtt->seeks || !link->broker.connection || !mqtt->latest.state) {
    return INT64_MAX;
  }
  if (!mqtt->described) {
    mqtt->described = true;
    mqtt->told = 0;
    homeassistant_describe(link->broker.settings, link->settings, mqtt->latest.kind, mqtt->labels, publish_document, link);
    tell_availability(link);
  }
  if (mqtt->lines.fd < 0) {
    return INT64_MAX;
  }
  int64_t due = mqtt->told + (mqtt->changed ? TELL_EVERY : AGAIN_EVERY);
  if (mqtt->told == 0 || now >= due || is_occupied(link, now) != mqtt->occupied) {
    tell_state(link, now);
    due = now + AGAIN_EVERY;
  }
  int64_t free = mqtt->occupied ? mqtt->seen + link->settings->hold_ns : INT64_MAX;
  return free < due ? free : due;
}

/* -- in ---------------------------------------------------------------------------------------------------------------- */

static void say_useless(struct link *link) {
  struct mqtt *mqtt = link->state;
  if (!mqtt->useless) {
    link_say(link, "nothing is seen in what %s gives: it takes boxes, motion and classes of a sink with protocol: json",
             link->settings->socket);
  }
  mqtt->useless = true;
}

static void take_line(struct link *link, const char *line, size_t length, int64_t now) {
  struct mqtt *mqtt = link->state;
  struct detections detections;
  size_t labels = json_object_size(mqtt->labels);
  link_count(link, COUNT_RESULTS, 1);
  if (!detections_read(line, length, mqtt->labels, &detections) || detections.kind == DETECTIONS_NONE) {
    say_useless(link);
    json_decref(detections.state);
    return;
  }
  json_decref(mqtt->latest.state);
  mqtt->described = mqtt->described && mqtt->latest.kind == detections.kind && labels == json_object_size(mqtt->labels);
  mqtt->latest = detections;
  mqtt->seen = detections.count > 0 ? now : mqtt->seen;
  mqtt->changed = true;
}

static void seek_lines(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  if (mqtt->lines.fd >= 0 || now < link->to_daemon.next || link->stopping) {
    return;
  }
  if (!lines_open(&mqtt->lines, link->settings->socket)) {
    link_miss_daemon(link, strerror(errno));
    return;
  }
  link_say(link, "connected to %s", link->settings->socket);
  link->to_daemon = (struct pause){0};
  atomic_store(&link->has_daemon, true);
  mqtt->described = false;
}

static void lose_lines(struct link *link, const char *why) {
  struct mqtt *mqtt = link->state;
  lines_close(&mqtt->lines);
  link_miss_daemon(link, why);
  mqtt->described = false;
}

static void read_lines(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  size_t length;
  bool there = lines_read(&mqtt->lines);
  int error = errno;
  for (const char *line; (line = lines_next(&mqtt->lines, &length));) {
    take_line(link, line, length, now);
  }
  if (mqtt->lines.skips) {
    say_useless(link);
  }
  if (!there) {
    lose_lines(link, error ? strerror(error) : "the daemon closed the connection");
  }
}

/* Home Assistant says "online" when it has started, and then knows nothing. */
static void take_birth(struct mqtt *mqtt) {
  natsMsg *message = NULL;
  while (mqtt->birth && natsSubscription_NextMsg(&message, mqtt->birth, 0) == NATS_OK) {
    if (natsMsg_GetDataLength(message) == 6 && memcmp(natsMsg_GetData(message), "online", 6) == 0) {
      mqtt->described = false;
    }
    natsMsg_Destroy(message);
  }
}

static void mqtt_broker_there(struct link *link) {
  struct mqtt *mqtt = link->state;
  char subject[128];
  natsSubscription_Destroy(mqtt->birth);
  mqtt->birth = NULL;
  mqtt->described = false;
  snprintf(subject, sizeof subject, "%.64s.status", link->broker.settings->mqtt_prefix);
  if (natsConnection_SubscribeSync(&mqtt->birth, link->broker.connection, subject) != NATS_OK) {
    link_say(link, "cannot subscribe to %s: %s", subject, nats_GetLastError(NULL));
  }
}

static void *seek_broker(void *closure) {
  struct link *link = closure;
  struct mqtt *mqtt = link->state;
  bool connected = broker_connect(&link->broker, link->settings);
  atomic_store(&mqtt->attempt, connected ? ATTEMPT_CONNECTED : ATTEMPT_FAILED);
  return NULL;
}

static void end_seeking(struct link *link) {
  struct mqtt *mqtt = link->state;
  pthread_join(mqtt->seeker, NULL);
  mqtt->seeks = false;
  link_meet_broker(link, atomic_load(&mqtt->attempt) == ATTEMPT_CONNECTED);
}

/* A thread of its own connects: that takes seconds where a server's machine is off, and a pipeline may wait for who reads its
 * lines. */
static void keep_broker(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  if (mqtt->seeks && atomic_load(&mqtt->attempt) != ATTEMPT_LASTS) {
    end_seeking(link);
  } else if (!mqtt->seeks && link_seeks_broker(link, now)) {
    atomic_store(&mqtt->attempt, ATTEMPT_LASTS);
    mqtt->seeks = pthread_create(&mqtt->seeker, NULL, seek_broker, link) == 0;
    if (!mqtt->seeks) {
      snprintf(link->broker.why, sizeof link->broker.why, "no memory for a thread that connects");
      link_meet_broker(link, false);
    }
  }
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

static void wait_and_move(struct link *link, int64_t until) {
  struct mqtt *mqtt = link->state;
  struct pollfd polls[BROKER_POLLS + 2] = {{.fd = -1}, {.fd = -1}};
  if (!mqtt->seeks) {
    broker_arm(&link->broker, polls);
  }
  polls[BROKER_POLLS] = (struct pollfd){.fd = mqtt->lines.fd, .events = POLLIN};
  polls[BROKER_POLLS + 1] = (struct pollfd){.fd = link->stop, .events = POLLIN};
  poll(polls, BROKER_POLLS + 2, mqtt->seeks ? SEEKING_MS : link_patience_ms(link, until));
  if (!mqtt->seeks) {
    link_turn_broker(link, polls);
  }
  if (polls[BROKER_POLLS].revents != 0) {
    read_lines(link, link_clock());
  }
  take_birth(mqtt);
  link->stopping = polls[BROKER_POLLS + 1].revents != 0;
}

static void publish_nothing(void *context, const char *subject, const json_t *document) {
  (void)document;
  publish(context, subject, "");
}

/* Home Assistant forgets an entity whose description is empty. */
static void tell_gone(struct link *link) {
  const struct mqtt *mqtt = link->state;
  homeassistant_describe(link->broker.settings, link->settings, mqtt->latest.kind, mqtt->labels, publish_nothing, link);
}

static void mqtt_run(struct link *link) {
  struct mqtt *mqtt = link->state;
  while (!link->stopping) {
    int64_t now = link_clock();
    keep_broker(link, now);
    seek_lines(link, now);
    wait_and_move(link, mqtt_turn(link, link_clock()));
  }
  if (mqtt->seeks) {
    end_seeking(link);
  }
  if (link->broker.connection) {
    tell_availability(link);
    if (atomic_load(&link->gone)) {
      tell_gone(link);
    }
  }
  broker_disconnect(&link->broker);
}

const struct link_kind mqtt_kind = {
    .open = mqtt_open,
    .close = mqtt_close,
    .broker_there = mqtt_broker_there,
    .run = mqtt_run,
};
