#include "daemon/measure/trouble.h"

#include <stdarg.h>
#include <stdio.h>

void trouble_note(struct trouble *trouble, int64_t now, const char *remedy, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble->text, sizeof trouble->text, format, arguments);
  va_end(arguments);
  snprintf(trouble->remedy, sizeof trouble->remedy, "%s", remedy ? remedy : "");
  trouble_repeat(trouble, now, 1);
}

void trouble_describe(struct trouble *trouble, const char *remedy, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble->text, sizeof trouble->text, format, arguments);
  va_end(arguments);
  snprintf(trouble->remedy, sizeof trouble->remedy, "%s", remedy);
}

void trouble_repeat(struct trouble *trouble, int64_t now, uint64_t times) {
  trouble->since = trouble->count == 0 ? now : trouble->since;
  trouble->last = now;
  trouble->count += times;
}

void trouble_clear(struct trouble *trouble) { *trouble = (struct trouble){0}; }
