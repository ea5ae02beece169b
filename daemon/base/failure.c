#include "daemon/base/failure.h"

#include <stdarg.h>
#include <stdio.h>

bool failure_set(struct failure *failure, enum exit_status status, const char *remedy, const char *format, ...) {
  failure->status = status;
  failure->device = failure->later = false;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(failure->text, sizeof failure->text, format, arguments);
  va_end(arguments);
  snprintf(failure->remedy, sizeof failure->remedy, "%s", remedy ? remedy : "");
  return false;
}
