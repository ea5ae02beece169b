#include "tools/framectl/status/about.h"

#include <stdio.h>
#include <string.h>

#include "tools/framectl/common/text.h"
#include "tools/framectl/status/view.h"

static void print_refused(const char *what, const char *why, bool colour) {
  if (why[0]) {
    text_colour_begin(stdout, COLOUR_YELLOW, colour);
    printf("the last %s was refused: %s", what, why);
    text_colour_end(stdout, COLOUR_YELLOW, colour);
    putchar('\n');
  }
}

static void print_handovers(const json_t *document, const struct handovers_view *handovers, bool colour) {
  char causes[128], gap[TEXT_ROOM], longest[TEXT_ROOM];
  if (handovers->total > 0) {
    printf("handed over %llu time%s (%s), for %s at most; the last time, by %s, after %s: %s\n",
           (unsigned long long)handovers->total, handovers->total == 1 ? "" : "s", view_causes(document, causes, sizeof causes),
           text_duration(longest, handovers->longest_ms * 1000), handovers->cause, text_duration(gap, handovers->gap_ms * 1000),
           handovers->text);
  }
  if (handovers->connections_lost > 0) {
    printf("connections that ended with a process that was killed: %llu\n", (unsigned long long)handovers->connections_lost);
  }
  print_refused("upgrade", handovers->refused, colour);
}

/* Prints the driver's figures of a device. The document has none if the daemon never read them. */
static void print_figures(const char *number, const json_t *device) {
  static const struct {
    const char *key, *format;
    double unit;
  } figures[] = {
      {"load", ", load %.0f %%", 0.01},
      {"memory_used_bytes", ", memory %.1f GB", 1e9},
      {"memory_total_bytes", " of %.1f GB", 1e9},
      {"temperature_celsius", ", %.0f degrees Celsius", 1},
      {"power_watts", ", %.0f W", 1},
      {"clock_hertz", ", %.0f MHz", 1e6},
      {"memory_clock_hertz", ", memory %.0f MHz", 1e6},
  };
  char line[TEXT_ROOM * 8];
  size_t length = 0;
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    const json_t *figure = json_object_get(device, figures[i].key);
    if (figure) {
      length +=
          (size_t)snprintf(line + length, sizeof line - length, figures[i].format, json_number_value(figure) / figures[i].unit);
    }
  }
  if (length > 2) {
    printf("device %s: %s\n", number, line + 2);
  }
}

/* Prints the state of a device that is excluded, or is being drained. */
static void print_state(const char *number, const json_t *device, bool colour) {
  const char *state = json_string_value(json_object_get(device, "state"));
  const char *text = json_string_value(json_object_get(device, "text"));
  if (state && strcmp(state, "open") != 0) {
    text_colour_begin(stdout, COLOUR_YELLOW, colour);
    printf("device %s: %s%s%s", number, state, text ? ": " : "", text ? text : "");
    text_colour_end(stdout, COLOUR_YELLOW, colour);
    putchar('\n');
  }
}

static void print_worker(const char *number, const json_t *device, bool colour) {
  const json_t *worker = json_object_get(device, "worker"), *last = json_object_get(worker, "last");
  const char *reason = json_string_value(json_object_get(last, "reason"));
  long long replaced = json_integer_value(json_object_get(worker, "replaced"));
  char age[TEXT_ROOM], gap[TEXT_ROOM];
  if (replaced > 0) {
    text_colour_begin(stdout, COLOUR_YELLOW, colour);
    printf("device %s: its worker was replaced %lld time%s, the last %s ago in %s: %s", number, replaced,
           replaced == 1 ? "" : "s", text_uptime(age, json_number_value(json_object_get(last, "age_s"))),
           text_duration(gap, json_number_value(json_object_get(last, "gap_ms")) * 1000), reason ? reason : "");
    text_colour_end(stdout, COLOUR_YELLOW, colour);
    putchar('\n');
  }
}

static void print_devices(json_t *document, bool colour) {
  const char *number;
  json_t *device;
  json_object_foreach(json_object_get(document, "devices"), number, device) {
    print_figures(number, device);
    print_state(number, device, colour);
    print_worker(number, device, colour);
  }
}

void about_print(json_t *document, bool colour) {
  struct daemon_view view;
  char uptime[TEXT_ROOM];
  view_daemon(document, &view);
  text_colour_begin(stdout, COLOUR_BOLD, colour);
  printf("framed %s", view.version);
  text_colour_end(stdout, COLOUR_BOLD, colour);
  printf(": up %s, %s on %s, %llu lane%s\n", text_uptime(uptime, view.uptime_s), view.backend, view.device,
         (unsigned long long)view.lanes, view.lanes == 1 ? "" : "s");
  print_devices(document, colour);
  print_handovers(document, &view.handovers, colour);
  print_refused("reload", view.reload_refused, colour);
  if (view.http_refused[0]) {
    text_colour_begin(stdout, COLOUR_YELLOW, colour);
    printf("status.http does not answer: %s", view.http_refused);
    text_colour_end(stdout, COLOUR_YELLOW, colour);
    putchar('\n');
  }
  putchar('\n');
}
