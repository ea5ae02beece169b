/* Ending a source of any kind, and closing its handles. The session is woken for both. */
#include <stdarg.h>
#include <stdio.h>

#include "daemon/source/private.h"

void source_end(struct source *source, enum detach_reason reason, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(source->text, sizeof source->text, format, arguments);
  va_end(arguments);
  enum fate fate = reason == DETACH_STOPPED ? FATE_SHUTDOWN : reason == DETACH_CLIENT_GONE ? FATE_CLIENT_GONE : FATE_INVALID;
  receive_end(source->receive, fate, clock_now());
  source->reason = reason;
  source->state = SOURCE_ENDED;
  lane_schedule(source->runner);
}

void source_end_foreign(struct source *source) {
  source_end(source, DETACH_MALFORMED, "raw frames are expected here, and this began like %s",
             stranger_names[source->receive->foreign]);
}

void source_end_of_input(struct source *source) {
  struct receive *receive = source->receive;
  bool in_header = receive->framing.state == FRAMING_HEADER && receive->framing.length > 0;
  size_t filled = receive->filled;
  if (receive->begun && receive->foreign) {
    source_end_foreign(source);
  } else if (receive->begun) {
    source_end(source, DETACH_TRUNCATED, "it ended within frame %llu, after %zu of %zu bytes; is the frame size right?",
               (unsigned long long)(receive->sequence - 1), filled, receive->flow->input_bytes);
  } else if (in_header) {
    source_end(source, DETACH_TRUNCATED, "it ended within the y4m header");
  } else {
    source_end(source, DETACH_END, "%s", "");
  }
}

/* -- handles --------------------------------------------------------------------------------------------------------- */

void source_on_handle_closed(uv_handle_t *handle) {
  struct source *source = handle->data;
  if (--source->closing == 0) {
    source->state = SOURCE_NONE;
    source->closed(source);
  }
}

void source_close_poll(struct source *source) {
  if (!source->poll.data) { /* the poll handle was never made */
    source->state = SOURCE_NONE;
    source->closed(source);
    return;
  }
  source->closing = 1;
  uv_close((uv_handle_t *)&source->poll, source_on_handle_closed);
}
