#include "daemon/client/refusals.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/base/log_text.h"
#include "daemon/measure/clock.h"

void refusals_add(struct refusals *refusals, enum log_kind kind, const char *pipeline, const char *remedy, const char *format,
                  ...) {
  struct refusal *last = &refusals->last;
  char text[REFUSAL_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  log_event(kind, pipeline, "%s", text);
  refusals->count++;
  last->at = clock_now();
  log_text_escape(last->text, sizeof last->text, text);
  snprintf(last->remedy, sizeof last->remedy, "%s", remedy ? remedy : "");
}

const char *refusals_remedy(enum native_error_code code) {
  static const char *const remedies[] = {
      [NATIVE_E_PROTOCOL] = "send what the socket's `protocol` says, or configure another one",
      [NATIVE_E_VERSION] = "use a client of the daemon's version",
      [NATIVE_E_ROLE] = "connect with that role, or to the pipeline's other socket",
      [NATIVE_E_BUSY] = "raise `clients` of the source, or end one that is connected",
      [NATIVE_E_QUOTA] = "raise `limits`, or end another of that user's clients",
      [NATIVE_E_TIMEOUT] = "send what the socket's `protocol` says, or configure another one",
      [NATIVE_E_DENIED] = "name that user in `allow`, or one of its groups",
  };
  return code < sizeof remedies / sizeof remedies[0] ? remedies[code] : NULL;
}
