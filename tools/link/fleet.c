#include "tools/link/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/framectl/common/daemon.h"

enum { PATIENCE_MS = 1000 };
#define LOOK_EVERY (2000 * MS)

struct fleet *fleet_new(void) {
  struct fleet *fleet = calloc(1, sizeof *fleet);
  json_t *left_out = json_object();
  if (!fleet || !left_out) {
    free(fleet);
    json_decref(left_out);
    return NULL;
  }
  fleet->left_out = left_out;
  return fleet;
}

/* Whether the link at `place` was started for a discovered pipeline. */
static bool is_found(const struct fleet *fleet, unsigned place) { return fleet->links[place].settings == &fleet->found[place]; }

/* The index of a free entry; SETTINGS_LINKS: none. */
static unsigned free_place(const struct fleet *fleet) {
  unsigned place = 0;
  while (place < SETTINGS_LINKS && fleet->links[place].settings) {
    place++;
  }
  return place;
}

/* Clears the entry of a stopped link. */
static void clear(struct fleet *fleet, unsigned place) {
  pthread_mutex_destroy(&fleet->links[place].standing.lock);
  fleet->links[place] = (struct link){0};
  fleet->ended[place] = false;
  fleet->by[place] = settings_free(fleet->by[place]);
  free(fleet->found[place].name);
  free(fleet->found[place].socket);
  fleet->found[place] = (struct link_settings){0};
}

static void clear_ended(struct fleet *fleet) {
  for (unsigned i = 0; i < fleet->count; i++) {
    if (fleet->ended[i]) {
      clear(fleet, i);
    }
  }
}

void fleet_free(struct fleet *fleet) {
  clear_ended(fleet);
  settings_free(fleet->settings);
  json_decref(fleet->left_out);
  free(fleet);
}

/* -- links of the configuration ----------------------------------------------------------------------------------------- */

/* The running link that matches the entry `which` of `next`; SETTINGS_LINKS: no link matches. */
static unsigned place_of(const struct fleet *fleet, const struct settings *next, const struct link_settings *which) {
  unsigned place = 0;
  while (place < fleet->count && (!fleet->links[place].settings || is_found(fleet, place) ||
                                  !settings_keep_link(fleet->by[place], fleet->links[place].settings, next, which))) {
    place++;
  }
  return place < fleet->count ? place : SETTINGS_LINKS;
}

/* The source of a sink's pipeline; NULL: the program has none. */
static const struct link_settings *source_of(const struct settings *settings, const struct link_settings *sink) {
  for (unsigned i = 0; sink->queue && i < settings->link_count; i++) {
    if (settings->links[i].is_source && strcmp(settings->links[i].name, sink->name) == 0) {
      return &settings->links[i];
    }
  }
  return NULL;
}

/* Chooses which links keep running. A sink refers to its pipeline's source, so both keep running only together. */
static void choose(const struct fleet *fleet, const struct settings *next, bool stays[SETTINGS_LINKS]) {
  for (unsigned i = 0; next && i < next->link_count; i++) {
    const struct link_settings *which = &next->links[i], *source = source_of(next, which);
    unsigned place = place_of(fleet, next, which);
    if (place < SETTINGS_LINKS && (!source || place_of(fleet, next, source) < SETTINGS_LINKS)) {
      stays[place] = true;
    }
  }
  for (unsigned i = 0; next && next->mqtt_all && i < fleet->count; i++) {
    stays[i] |= is_found(fleet, i) && settings_keep_mqtt(fleet->by[i], next);
  }
}

/* Stops either sources, or all other links. */
static unsigned stop_part(struct fleet *fleet, const bool stays[SETTINGS_LINKS], bool sources) {
  bool stops[SETTINGS_LINKS] = {false};
  unsigned count = 0;
  for (unsigned i = 0; i < fleet->count; i++) {
    stops[i] = fleet->links[i].settings && !stays[i] && fleet->links[i].settings->is_source == sources;
    if (stops[i]) {
      link_stop(&fleet->links[i]);
    }
  }
  for (unsigned i = 0; i < fleet->count; i++) {
    if (stops[i]) {
      link_join(&fleet->links[i]);
      fleet->ended[i] = true;
      count++;
    }
  }
  return count;
}

unsigned fleet_stop(struct fleet *fleet, const struct settings *next) {
  bool stays[SETTINGS_LINKS] = {false};
  choose(fleet, next, stays);
  unsigned sources = stop_part(fleet, stays, true);
  return sources + stop_part(fleet, stays, false);
}

static size_t share_of_memory(const struct settings *settings) {
  return (size_t)settings->memory / (settings->link_count > 0 ? settings->link_count : 1);
}

/* `which` belongs to `by`, or to the entry itself. */
static bool start_at(struct fleet *fleet, unsigned place, struct settings *by, const struct link_settings *which) {
  struct link *link = &fleet->links[place];
  const struct link_kind *kind = which->is_mqtt ? &mqtt_kind : which->is_source ? &source_kind : &sink_kind;
  const struct link_settings *source = source_of(by, which);
  *link = (struct link){.source = source ? &fleet->links[place_of(fleet, by, source)] : NULL, .memory = share_of_memory(by)};
  fleet->by[place] = settings_use(by);
  fleet->count = place >= fleet->count ? place + 1 : fleet->count;
  if (link_start(link, kind, by, which)) {
    return true;
  }
  clear(fleet, place);
  return false;
}

static bool start_part(struct fleet *fleet, bool sources) {
  struct settings *settings = fleet->settings;
  bool fine = true;
  for (unsigned i = 0; fine && i < settings->link_count; i++) {
    const struct link_settings *which = &settings->links[i];
    unsigned place = free_place(fleet);
    if (which->is_source == sources && place_of(fleet, settings, which) == SETTINGS_LINKS) {
      fine = place < SETTINGS_LINKS && start_at(fleet, place, settings, which);
    }
  }
  return fine;
}

bool fleet_start(struct fleet *fleet, struct settings *next) {
  clear_ended(fleet);
  settings_free(fleet->settings);
  fleet->settings = settings_use(next);
  for (unsigned i = 0; i < fleet->count; i++) {
    atomic_store(&fleet->links[i].memory, share_of_memory(next));
  }
  return start_part(fleet, true) && start_part(fleet, false);
}

/* -- links of discovered pipelines -------------------------------------------------------------------------------------- */

/* The socket with a pipeline's lines of JSON; NULL: it has none. */
static const char *lines_of(const json_t *pipeline) {
  const json_t *sink = json_object_get(pipeline, "sink");
  const char *protocol = json_string_value(json_object_get(sink, "protocol"));
  return protocol && strcmp(protocol, "json") == 0 ? json_string_value(json_object_get(sink, "socket")) : NULL;
}

static bool is_running(const struct fleet *fleet, const char *name) {
  for (unsigned i = 0; i < fleet->count; i++) {
    if (is_found(fleet, i) && strcmp(fleet->found[i].name, name) == 0) {
      return true;
    }
  }
  return false;
}

/* Reports once why a pipeline is left out. */
static void leave_out(struct fleet *fleet, const char *name, const char *why) {
  if (!json_object_get(fleet->left_out, name)) {
    fprintf(stderr, "framed-link: mqtt %s: left out: %s\n", name, why);
    json_object_set_new(fleet->left_out, name, json_true());
  }
}

static bool start_found(struct fleet *fleet, unsigned place, const char *name, const char *socket) {
  struct link_settings *which = &fleet->found[place];
  *which = (struct link_settings){.is_mqtt = true, .name = strdup(name), .socket = strdup(socket), .hold_ns = SETTINGS_HOLD_NS};
  if (which->name && which->socket) {
    return start_at(fleet, place, fleet->settings, which);
  }
  clear(fleet, place);
  return false;
}

static void start_new(struct fleet *fleet, json_t *pipelines) {
  const char *name;
  json_t *pipeline;
  json_object_foreach(pipelines, name, pipeline) {
    const char *socket = lines_of(pipeline);
    if (!socket || is_running(fleet, name)) {
      continue;
    }
    if (!settings_is_topic(name)) {
      leave_out(fleet, name, "its name cannot be part of a topic: use letters, digits, '_' and '-'");
      continue;
    }
    unsigned place = free_place(fleet);
    if (place == SETTINGS_LINKS) {
      leave_out(fleet, name, "there are too many links");
    } else if (!start_found(fleet, place, name, socket)) {
      leave_out(fleet, name, "not enough memory, threads or descriptors; it tries again");
    }
  }
}

static void end_missing(struct fleet *fleet, const json_t *pipelines) {
  for (unsigned i = 0; i < fleet->count; i++) {
    struct link *link = &fleet->links[i];
    bool found = is_found(fleet, i);
    const char *socket = found ? lines_of(json_object_get(pipelines, fleet->found[i].name)) : NULL;
    if (found && (!socket || strcmp(socket, fleet->found[i].socket) != 0)) {
      link_say(link, "its pipeline no longer sends lines at %s", fleet->found[i].socket);
      atomic_store(&link->gone, true);
      link_stop(link);
      link_join(link);
      clear(fleet, i);
    }
  }
}

static void say_none(struct fleet *fleet) {
  bool some = false;
  for (unsigned i = 0; i < fleet->count; i++) {
    some |= is_found(fleet, i);
  }
  if (!some && !fleet->none) {
    fprintf(stderr, "framed-link: mqtt: no pipeline has a sink with a socket and protocol: json, so Home Assistant gets "
                    "nothing\n");
  }
  fleet->none = !some;
}

void fleet_look(struct fleet *fleet) {
  struct problem problem = {0};
  int64_t now = link_clock();
  if (!fleet->settings->mqtt_all || now < fleet->due) {
    return;
  }
  json_t *document = daemon_status(fleet->settings->status, PATIENCE_MS, &problem);
  json_t *pipelines = json_object_get(document, "pipelines");
  if (pipelines) {
    start_new(fleet, pipelines);
    end_missing(fleet, pipelines);
    say_none(fleet);
  } else if (!fleet->silent) {
    fprintf(stderr, "framed-link: mqtt: cannot list the daemon's pipelines: %s; it asks again\n", problem.text);
  }
  fleet->silent = !pipelines;
  fleet->due = link_clock() + LOOK_EVERY;
  json_decref(document);
  problem_clear(&problem);
}
