/*
 * Publishes a pipeline's detections to Home Assistant, over the user's MQTT broker.
 *
 * The description of the device and its availability are retained, so Home Assistant finds them whenever it starts. If this
 * process or its machine dies, the broker publishes that the pipeline is offline. The state is not retained; it is repeated
 * every few seconds and expires.
 *
 * A pipeline that moves to another box stays the same device, so two boxes may publish for it for a while. Each box listens to
 * the messages on its pipeline. A box that has the pipeline corrects another box that reports it offline or removes the device.
 *
 * Lines are read with or without a broker, since the pipeline may wait for its readers. So a separate thread connects to the
 * broker. After an outage the link publishes only the current state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/link/homeassistant.h"
#include "tools/link/lines.h"
#include "tools/link/link.h"
#include "tools/link/mqtt_client.h"

#define PUBLISH_EVERY (1000 * MS)  /* counts and boxes; a change of `occupied` is published at once */
#define AGAIN_EVERY   (10000 * MS) /* a third of a state's lifetime */
#define OBJECTION     (1000 * MS)  /* how long it waits for another box that has the pipeline */

enum { SEEKING_MS = 50, WAIT_MS = 1000 }; /* poll intervals: for a new connection, and for a lost one */
enum attempt { ATTEMPT_LASTS, ATTEMPT_FAILED, ATTEMPT_CONNECTED };

struct mqtt {
  struct lines lines;
  struct mqtt_client client;
  pthread_t seeker; /* connects the client while `seeks`; nobody else uses the client then */
  bool seeks;
  _Atomic int attempt; /* enum attempt */
  char state[TOPIC], availability[TOPIC], device[TOPIC], birth[TOPIC];
  json_t *labels;
  struct detections latest;
  int64_t seen, published_at; /* when something was detected, and when the state was published; 0: never */
  bool occupied;              /* as published */
  bool changed;               /* the state changed since then */
  bool described, useless;
  bool elsewhere; /* another box has the pipeline */
};

static void take_word(void *context, const char *topic, const char *payload, size_t length);

static bool mqtt_open(struct link *link) {
  struct mqtt *mqtt = link->state = calloc(1, sizeof *mqtt);
  if (mqtt) {
    const struct settings *settings = link->broker.settings;
    mqtt->labels = json_object();
    mqtt->client.take = take_word;
    mqtt->client.context = link;
    homeassistant_topic(settings, link->settings, "state", mqtt->state);
    homeassistant_topic(settings, link->settings, "availability", mqtt->availability);
    homeassistant_device_topic(settings, link->settings, mqtt->device);
    homeassistant_birth_topic(settings, mqtt->birth);
  }
  return mqtt && mqtt->labels && lines_init(&mqtt->lines);
}

static void mqtt_close(struct link *link) {
  struct mqtt *mqtt = link->state;
  lines_free(&mqtt->lines);
  json_decref(mqtt->labels);
  json_decref(mqtt->latest.state);
  free(mqtt);
}

/* -- out --------------------------------------------------------------------------------------------------------------- */

static void publish(struct link *link, const char *topic, const char *text, bool retained) {
  struct mqtt *mqtt = link->state;
  if (mqtt_client_publish(&mqtt->client, topic, text, retained)) {
    link_count(link, COUNT_PUBLISHED, 1);
  }
}

static void publish_document(struct link *link, const char *topic, const json_t *document, bool retained) {
  char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9));
  if (text) {
    publish(link, topic, text, retained);
  }
  free(text);
}

/* Whether this box has the pipeline. */
static bool is_there(const struct link *link) {
  const struct mqtt *mqtt = link->state;
  return mqtt->lines.fd >= 0 && !link->stopping;
}

static void publish_availability(struct link *link) {
  const struct mqtt *mqtt = link->state;
  publish(link, mqtt->availability, is_there(link) ? "online" : "offline", true);
}

static void publish_device(struct link *link) {
  const struct mqtt *mqtt = link->state;
  json_t *document = homeassistant_device(link->broker.settings, link->settings, mqtt->latest.kind, mqtt->labels);
  if (document) {
    publish_document(link, mqtt->device, document, true);
  }
  json_decref(document);
}

static bool is_occupied(const struct link *link, int64_t now) {
  const struct mqtt *mqtt = link->state;
  return mqtt->seen != 0 && now - mqtt->seen < link->settings->hold_ns;
}

static void publish_state(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  mqtt->occupied = is_occupied(link, now);
  mqtt->published_at = now;
  mqtt->changed = false;
  json_object_set_new(mqtt->latest.state, "occupied", json_string(mqtt->occupied ? "ON" : "OFF"));
  publish_document(link, mqtt->state, mqtt->latest.state, false);
}

/* Publishes what is due. Returns when the next message is due. */
static int64_t mqtt_turn(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  if (mqtt->seeks || !mqtt->client.library || !mqtt->latest.state) {
    return INT64_MAX;
  }
  if (!mqtt->described) {
    mqtt->described = true;
    mqtt->published_at = 0;
    publish_device(link);
    publish_availability(link);
  }
  if (mqtt->lines.fd < 0) {
    return INT64_MAX;
  }
  int64_t due = mqtt->published_at + (mqtt->changed ? PUBLISH_EVERY : AGAIN_EVERY);
  if (mqtt->published_at == 0 || now >= due || is_occupied(link, now) != mqtt->occupied) {
    publish_state(link, now);
    due = now + AGAIN_EVERY;
  }
  int64_t free = mqtt->occupied ? mqtt->seen + link->settings->hold_ns : INT64_MAX;
  return free < due ? free : due;
}

/* -- in ---------------------------------------------------------------------------------------------------------------- */

static void say_useless(struct link *link) {
  struct mqtt *mqtt = link->state;
  if (!mqtt->useless) {
    link_say(link, "no detections in the results at %s: connect a sink with protocol: json that has boxes, motion or classes",
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

/* Handles a message of Home Assistant, which knows nothing after its start, or of another box on this pipeline. */
static void take_word(void *context, const char *topic, const char *payload, size_t length) {
  struct link *link = context;
  struct mqtt *mqtt = link->state;
  bool online = length == 6 && memcmp(payload, "online", length) == 0;
  if (strcmp(topic, mqtt->availability) == 0) {
    mqtt->elsewhere = online;
  }
  bool again = strcmp(topic, mqtt->birth) == 0          ? online
               : strcmp(topic, mqtt->availability) == 0 ? !online && is_there(link)
                                                        : length == 0 && is_there(link);
  mqtt->described = mqtt->described && !again;
}

/* -- the broker -------------------------------------------------------------------------------------------------------- */

static void mqtt_broker_there(struct link *link) {
  struct mqtt *mqtt = link->state;
  const char *const topics[] = {mqtt->birth, mqtt->availability, mqtt->device};
  for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
    mqtt_client_subscribe(&mqtt->client, topics[i]);
  }
  mqtt->described = false;
}

static void lose_broker(struct link *link) {
  struct mqtt *mqtt = link->state;
  mqtt_client_disconnect(&mqtt->client);
  snprintf(link->broker.why, sizeof link->broker.why, "%s", mqtt->client.why);
  link_meet_broker(link, false);
}

static void *seek_broker(void *closure) {
  struct link *link = closure;
  struct mqtt *mqtt = link->state;
  bool connected = mqtt_client_connect(&mqtt->client, link->broker.settings, mqtt->availability, link->stop);
  atomic_store(&mqtt->attempt, connected ? ATTEMPT_CONNECTED : ATTEMPT_FAILED);
  return NULL;
}

static void end_seeking(struct link *link) {
  struct mqtt *mqtt = link->state;
  pthread_join(mqtt->seeker, NULL);
  mqtt->seeks = false;
  if (atomic_load(&mqtt->attempt) == ATTEMPT_CONNECTED) {
    link_meet_broker(link, true);
  } else {
    lose_broker(link);
  }
}

static void keep_broker(struct link *link, int64_t now) {
  struct mqtt *mqtt = link->state;
  if (mqtt->seeks && atomic_load(&mqtt->attempt) != ATTEMPT_LASTS) {
    end_seeking(link);
  } else if (!mqtt->seeks && !mqtt->client.library && now >= link->to_broker.next && !link->stopping) {
    atomic_store(&mqtt->attempt, ATTEMPT_LASTS);
    mqtt->seeks = pthread_create(&mqtt->seeker, NULL, seek_broker, link) == 0;
    if (!mqtt->seeks) {
      snprintf(mqtt->client.why, sizeof mqtt->client.why, "no memory for the connecting thread");
      lose_broker(link);
    }
  }
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

static int patience_ms(const struct link *link, int64_t until) {
  const struct mqtt *mqtt = link->state;
  int64_t now = link_clock(), latest = now + WAIT_MS * MS < until ? now + WAIT_MS * MS : until;
  if (!mqtt->client.library && link->to_broker.next < latest) {
    latest = link->to_broker.next;
  }
  if (mqtt->lines.fd < 0 && link->to_daemon.next < latest) {
    latest = link->to_daemon.next;
  }
  return latest > now ? (int)((latest - now + MS - 1) / MS) : 0;
}

/* The first entry of `polls` is the broker's. */
static void turn_broker(struct link *link, struct pollfd *polls, nfds_t count, int wait_ms) {
  struct mqtt *mqtt = link->state;
  polls[0] = (struct pollfd){.fd = -1};
  if (!mqtt->seeks) {
    mqtt_client_arm(&mqtt->client, &polls[0]);
  }
  poll(polls, count, wait_ms);
  if (!mqtt->seeks && !mqtt_client_turn(&mqtt->client, &polls[0])) {
    lose_broker(link);
  }
}

static void wait_and_move(struct link *link, int64_t until) {
  struct mqtt *mqtt = link->state;
  struct pollfd polls[3] = {[1] = {.fd = mqtt->lines.fd, .events = POLLIN}, [2] = {.fd = link->stop, .events = POLLIN}};
  turn_broker(link, polls, 3, mqtt->seeks ? SEEKING_MS : patience_ms(link, until));
  if (polls[1].revents != 0) {
    read_lines(link, link_clock());
  }
  link->stopping = polls[2].revents != 0;
}

/*
 * The pipeline was removed here. Another box that has it objects to the offline message. Without an objection the device is
 * removed from Home Assistant, and nothing remains at the broker.
 */
static void publish_removal(struct link *link) {
  struct mqtt *mqtt = link->state;
  struct pollfd broker;
  int64_t end = link_clock() + OBJECTION;
  for (int64_t now = link_clock(); now < end && !mqtt->elsewhere && mqtt->client.library; now = link_clock()) {
    turn_broker(link, &broker, 1, (int)((end - now) / MS) + 1);
  }
  if (mqtt->client.library && !mqtt->elsewhere) {
    publish(link, mqtt->device, "", true);
    publish(link, mqtt->availability, "", true);
  }
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
  if (mqtt->client.library) {
    mqtt->elsewhere = false;
    publish_availability(link);
    if (atomic_load(&link->gone)) {
      publish_removal(link);
    }
  }
  mqtt_client_disconnect(&mqtt->client);
}

const struct link_kind mqtt_kind = {
    .open = mqtt_open,
    .close = mqtt_close,
    .broker_there = mqtt_broker_there,
    .run = mqtt_run,
};
