/*
 * Prints the journal's message catalogue, which `journalctl -x` shows, from the daemon's own table of log kinds, so
 * that the two cannot differ. The first sentence of an explanation is its subject.
 */
#include <stdio.h>
#include <string.h>

static void print_entry(const char *message_id, const char *explanation) {
  const char *end = strstr(explanation, ". ");
  int subject = (int)(end ? end - explanation : (long)strcspn(explanation, "."));
  const char *rest = end ? end + 2 : explanation;
  printf("-- %s\nSubject: %.*s\nDefined-By: framed\nDocumentation: man:framed(8)\n\n%s\n\n", message_id, subject, explanation,
         rest);
}

int main(void) {
#define X(name, level, limited, message_id, explanation) print_entry(message_id, explanation);
#include "daemon/base/log_kinds.def"
#undef X
  return ferror(stdout) || fflush(stdout) != 0;
}
