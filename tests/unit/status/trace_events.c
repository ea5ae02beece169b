#include "tests/unit/status/trace_events.h"

#include <check.h>
#include <string.h>

const char *event_word(const json_t *event, const char *key) { return json_string_value(json_object_get(event, key)); }
double event_number(const json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }
bool event_is(const json_t *event, const char *phase, const char *name) {
  return strcmp(event_word(event, "ph"), phase) == 0 && strcmp(event_word(event, "name"), name) == 0;
}
double event_frame(const json_t *event) { return event_number(json_object_get(event, "args"), "frame"); }

const json_t *event_find(const json_t *events, const char *phase, const char *name, unsigned skip) {
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *event = json_array_get(events, i);
    if (event_is(event, phase, name) && skip-- == 0) {
      return event;
    }
  }
  return NULL;
}

unsigned event_count(const json_t *events, const char *phase, const char *name) {
  unsigned found = 0;
  while (event_find(events, phase, name, found)) {
    found++;
  }
  return found;
}

const char *event_name_of(const json_t *events, const char *what, double process, double thread) {
  for (unsigned i = 0; event_find(events, "M", what, i); i++) {
    const json_t *event = event_find(events, "M", what, i);
    if (event_number(event, "pid") == process && event_number(event, "tid") == thread) {
      return event_word(json_object_get(event, "args"), "name");
    }
  }
  return "(none)";
}

void expect_event_row(const json_t *events, const json_t *event, const char *process, const char *thread) {
  ck_assert_ptr_nonnull(event);
  ck_assert_str_eq(event_name_of(events, "process_name", event_number(event, "pid"), 0), process);
  ck_assert_str_eq(event_name_of(events, "thread_name", event_number(event, "pid"), event_number(event, "tid")), thread);
}

void expect_event_span(const json_t *event, double begins, double lasts) {
  ck_assert_double_eq_tol(event_number(event, "ts"), begins, 1e-6);
  ck_assert_double_eq_tol(event_number(event, "dur"), lasts, 1e-6);
}

bool events_nest(const json_t *one, const json_t *other) {
  double begins = event_number(one, "ts"), ends = begins + event_number(one, "dur");
  double other_begins = event_number(other, "ts"), other_ends = other_begins + event_number(other, "dur");
  const double grain = 1e-6;
  bool apart = ends <= other_begins + grain || other_ends <= begins + grain;
  bool within = (begins + grain >= other_begins && ends <= other_ends + grain) ||
                (other_begins + grain >= begins && other_ends <= ends + grain);
  return apart || within;
}
