/* `framectl health`: whether all is well, in the daemon's own judgement; the exit status says it too. */
#include <stdio.h>

#include "tools/framectl/command.h"
#include "tools/framectl/daemon.h"
#include "tools/framectl/text.h"

static const char *why(const json_t *item) {
  const char *text = json_string_value(json_object_get(item, "why"));
  return text ? text : "";
}

static bool is_ok(const json_t *item) { return json_is_true(json_object_get(item, "ok")); }

static void print_canaries(json_t *document) {
  const char *number;
  json_t *device;
  json_object_foreach(json_object_get(document, "devices"), number, device) {
    char trip[TEXT_ROOM];
    printf("; device %s: the last canary took %s, %.1f s ago", number,
           text_duration(trip, json_number_value(json_object_get(device, "canary_us"))),
           json_number_value(json_object_get(device, "canary_age_s")));
  }
  putchar('\n');
}

static void print_reasons(const char *kind, json_t *items) {
  const char *name;
  json_t *item;
  json_object_foreach(items, name, item) {
    if (!is_ok(item)) {
      printf("  %s %s: %s\n", kind, name, why(item));
    }
  }
}

static void print(json_t *document, bool colour) {
  bool ok = is_ok(document);
  enum text_colour hue = ok ? COLOUR_GREEN : COLOUR_RED;
  text_colour_begin(stdout, hue, colour);
  fputs(ok ? "healthy" : "not healthy", stdout);
  text_colour_end(stdout, hue, colour);
  if (ok) {
    print_canaries(document);
    return;
  }
  putchar('\n');
  json_t *lanes = json_object_get(document, "lanes");
  if (!is_ok(lanes)) {
    printf("  lanes: %s\n", why(lanes));
  }
  print_reasons("device", json_object_get(document, "devices"));
  print_reasons("pipeline", json_object_get(document, "pipelines"));
}

bool command_health(const struct invocation *invocation, struct problem *problem) {
  json_t *document = daemon_health(invocation->socket, problem);
  if (!document) {
    return false;
  }
  if (invocation->json) {
    json_dumpf(document, stdout, JSON_INDENT(2));
    putchar('\n');
  } else {
    print(document, invocation->colour);
  }
  problem->is_said = !is_ok(document);
  problem->status = problem->is_said ? EXIT_STATUS_REFUSED : EXIT_STATUS_OK;
  json_decref(document);
  return !problem->is_said;
}
