#include "tests/unit/status/trace_frames.h"

#include <check.h>
#include <stdlib.h>

struct trace *begin_trace(unsigned subjects) {
  struct trace *trace = trace_new(NULL);
  trace->backend = "cuda";
  trace->began = 5 * US;
  trace->ended = trace->began + 2500000 * US;
  for (unsigned i = 0; i < subjects; i++) {
    const struct trace_subject subject = {
        .pipeline = "cam0", .session = i, .sessions = subjects, .device_count = 1, .devices = {1}};
    ck_assert(trace_add_subject(trace, &subject));
  }
  return trace;
}

void add_frame(struct trace *trace, unsigned subject, const struct trace_record *record) {
  ck_assert(trace_add_records(trace, subject, record, 1));
}

json_t *finish_trace(struct trace *trace) {
  ck_assert(trace_lay_out(trace));
  struct trace_text *text = trace_text_new(trace);
  size_t length = 0, room = 1 << 22, count;
  char *whole = malloc(room);
  while ((count = trace_text_read(text, whole + length, 97)) > 0) {
    length += count;
    ck_assert_uint_lt(length + 97, room);
  }
  json_error_t error;
  json_t *events = json_loadb(whole, length, 0, &error);
  ck_assert_msg(json_is_array(events), "line %d: %s", error.line, error.text);
  trace_text_free(text);
  free(whole);
  return events;
}

struct trace_record frame_at(uint64_t sequence, int64_t first) {
  return (struct trace_record){.sequence = sequence,
                               .first_byte = first,
                               .complete = first + 10 * US,
                               .dispatched = first + 20 * US,
                               .begin = first + 25 * US,
                               .copied_in = first + 45 * US,
                               .computed = first + 65 * US,
                               .copied_out = first + 75 * US,
                               .h2d = 10 * US,
                               .kernel = 15 * US,
                               .d2h = 10 * US,
                               .seen = first + 80 * US,
                               .settled = first + 100 * US,
                               .fate = FATE_EMITTED,
                               .stream = (uint32_t)(sequence % 2)};
}
