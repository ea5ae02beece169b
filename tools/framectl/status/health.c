/*
 * `framectl health`: prints the daemon's verdict on each pipeline, with reasons, durations and remedies. Exit status 0:
 * healthy; 2: degraded; 1: the daemon does not answer.
 */
#include <stdio.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/text.h"

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

static const char *text_of(const json_t *entry, const char *key) {
  const char *text = json_string_value(json_object_get(entry, key));
  return text ? text : "";
}

/* Prints "  pipeline cam0: silent, for 2 min: no frame has come ...", and the remedy below. */
static void print_reason(const json_t *entry) {
  char age[TEXT_ROOM];
  const char *name = text_of(entry, "name"), *remedy = text_of(entry, "remedy");
  printf("  %s%s%s: %s, for %s: %s\n", text_of(entry, "subject"), name[0] ? " " : "", name, text_of(entry, "reason"),
         text_uptime(age, json_number_value(json_object_get(entry, "since_s"))), text_of(entry, "text"));
  if (remedy[0]) {
    printf("    %s\n", remedy);
  }
}

static void print(json_t *document, bool colour) {
  bool ok = is_ok(document), live = json_is_true(json_object_get(document, "live"));
  enum text_colour hue = ok ? COLOUR_GREEN : live ? COLOUR_YELLOW : COLOUR_RED;
  text_colour_begin(stdout, hue, colour);
  fputs(ok ? "healthy" : live ? "degraded" : "not live", stdout);
  text_colour_end(stdout, hue, colour);
  if (ok) {
    print_canaries(document);
    return;
  }
  putchar('\n');
  size_t at;
  json_t *entry;
  json_array_foreach(json_object_get(document, "degraded"), at, entry) { print_reason(entry); }
}

bool command_health(const struct invocation *invocation, struct problem *problem) {
  json_t *document = daemon_health(invocation->socket, DAEMON_PATIENCE_MS, problem);
  if (!document) {
    problem->status = EXIT_STATUS_REFUSED;
    return false;
  }
  if (invocation->json) {
    json_dumpf(document, stdout, TEXT_JSON);
    putchar('\n');
  } else {
    print(document, invocation->colour);
  }
  problem->is_said = !is_ok(document);
  problem->status = problem->is_said ? EXIT_STATUS_FINDINGS : EXIT_STATUS_OK;
  json_decref(document);
  return !problem->is_said;
}
