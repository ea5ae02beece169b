#include "tools/framectl/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>

const char *const verdict_names[VERDICT_COUNT] = {"fine", "better", "unknown", "bad"};

void findings_add(struct findings *findings, const char *check, enum verdict verdict, const char *remedy, const char *format,
                  ...) {
  if (findings->count == FINDINGS_LIMIT) {
    findings->left_out++;
    return;
  }
  struct finding *finding = &findings->items[findings->count++];
  *finding = (struct finding){.check = check, .verdict = verdict, .remedy = verdict == VERDICT_FINE ? NULL : remedy};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->text, sizeof finding->text, format, arguments);
  va_end(arguments);
}

unsigned findings_count(const struct findings *findings, enum verdict verdict) {
  unsigned count = 0;
  for (unsigned i = 0; i < findings->count; i++) {
    count += findings->items[i].verdict == verdict;
  }
  return count;
}
