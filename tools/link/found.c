#include "tools/link/found.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tools/framectl/common/daemon.h"

enum { PATIENCE_MS = 1000 };
#define LOOK_EVERY (2000 * MS)

struct fleet *fleet_new(const struct settings *settings) {
  struct fleet *fleet = calloc(1, sizeof *fleet);
  json_t *left_out = json_object();
  if (!fleet || !left_out) {
    free(fleet);
    json_decref(left_out);
    return NULL;
  }
  fleet->settings = settings;
  fleet->left_out = left_out;
  fleet->count = settings->link_count;
  return fleet;
}

static bool runs(const struct fleet *fleet, unsigned place) { return fleet->links[place].settings != NULL; }

/* What is left of a link that has ended. */
static void clear_found(struct fleet *fleet, unsigned place) {
  free(fleet->found[place].name);
  free(fleet->found[place].socket);
  if (fleet->stops[place] >= 0) {
    close(fleet->stops[place]);
  }
  link_free(&fleet->links[place]);
}

void fleet_free(struct fleet *fleet) {
  for (unsigned i = 0; i < fleet->count; i++) {
    if (i >= fleet->settings->link_count) {
      clear_found(fleet, i);
    } else if (runs(fleet, i)) {
      link_free(&fleet->links[i]);
    }
  }
  json_decref(fleet->left_out);
  free(fleet);
}

/* -- ends -------------------------------------------------------------------------------------------------------------- */

static void stop_found(struct fleet *fleet, unsigned place) {
  const uint64_t one = 1;
  (void)!write(fleet->stops[place], &one, sizeof one);
}

/* The memory and descriptors of a link that ended stay until its place is used again: a thread of the library may still tell of
 * its connection. */
static void join_found(struct fleet *fleet, unsigned place) {
  link_join(&fleet->links[place]);
  fleet->links[place].settings = NULL;
}

void fleet_end_found(struct fleet *fleet) {
  for (unsigned i = fleet->settings->link_count; i < fleet->count; i++) {
    if (runs(fleet, i)) {
      stop_found(fleet, i);
    }
  }
  for (unsigned i = fleet->settings->link_count; i < fleet->count; i++) {
    if (runs(fleet, i)) {
      join_found(fleet, i);
    }
  }
}

/* -- what the daemon has ----------------------------------------------------------------------------------------------- */

/* The socket that gives lines of what a pipeline sees; NULL: it has none. */
static const char *lines_of(const json_t *pipeline) {
  const json_t *sink = json_object_get(pipeline, "sink");
  const char *protocol = json_string_value(json_object_get(sink, "protocol"));
  return protocol && strcmp(protocol, "json") == 0 ? json_string_value(json_object_get(sink, "socket")) : NULL;
}

static bool is_running(const struct fleet *fleet, const char *name) {
  for (unsigned i = fleet->settings->link_count; i < fleet->count; i++) {
    if (runs(fleet, i) && strcmp(fleet->found[i].name, name) == 0) {
      return true;
    }
  }
  return false;
}

/* Says once why a pipeline is left out. */
static void leave_out(struct fleet *fleet, const char *name, const char *why) {
  if (!json_object_get(fleet->left_out, name)) {
    fprintf(stderr, "framed-link: mqtt %s: left out: %s\n", name, why);
    json_object_set_new(fleet->left_out, name, json_true());
  }
}

/* A place that a link may have; SETTINGS_LINKS: none. */
static unsigned take_place(struct fleet *fleet) {
  for (unsigned i = fleet->settings->link_count; i < fleet->count; i++) {
    if (!runs(fleet, i)) {
      clear_found(fleet, i);
      return i;
    }
  }
  return fleet->count < SETTINGS_LINKS ? fleet->count++ : SETTINGS_LINKS;
}

static bool start_at(struct fleet *fleet, unsigned place, const char *name, const char *socket) {
  struct link_settings *which = &fleet->found[place];
  struct link *link = &fleet->links[place];
  *which = (struct link_settings){.is_mqtt = true, .name = strdup(name), .socket = strdup(socket), .hold_ns = SETTINGS_HOLD_NS};
  *link = (struct link){.broker = {.event = -1}};
  fleet->stops[place] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bool fine = which->name && which->socket && fleet->stops[place] >= 0 &&
              link_start(link, &mqtt_kind, fleet->settings, which, fleet->stops[place]);
  if (!fine) {
    link->settings = NULL;
  }
  return fine;
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
    unsigned place = take_place(fleet);
    if (place == SETTINGS_LINKS) {
      leave_out(fleet, name, "there are too many links");
    } else if (!start_at(fleet, place, name, socket)) {
      leave_out(fleet, name, "not enough memory, threads or descriptors; it tries again");
    }
  }
}

static void end_missing(struct fleet *fleet, const json_t *pipelines) {
  for (unsigned i = fleet->settings->link_count; i < fleet->count; i++) {
    struct link *link = &fleet->links[i];
    const char *socket = runs(fleet, i) ? lines_of(json_object_get(pipelines, fleet->found[i].name)) : NULL;
    if (runs(fleet, i) && (!socket || strcmp(socket, fleet->found[i].socket) != 0)) {
      link_say(link, "its pipeline gives no lines at %s any more", fleet->found[i].socket);
      atomic_store(&link->gone, true);
      stop_found(fleet, i);
      join_found(fleet, i);
    }
  }
}

static void say_none(struct fleet *fleet) {
  bool some = false;
  for (unsigned i = fleet->settings->link_count; i < fleet->count; i++) {
    some = some || runs(fleet, i);
  }
  if (!some && !fleet->none) {
    fprintf(stderr,
            "framed-link: mqtt: no pipeline has a sink with a socket and protocol: json, so that Home Assistant is shown "
            "nothing\n");
  }
  fleet->none = !some;
}

/* New ones first: the place of one that ends is used two seconds later at the earliest. */
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
    fprintf(stderr, "framed-link: mqtt: it is not known which pipelines there are: %s; it asks again\n", problem.text);
  }
  fleet->silent = !pipelines;
  fleet->due = link_clock() + LOOK_EVERY;
  json_decref(document);
  problem_clear(&problem);
}
