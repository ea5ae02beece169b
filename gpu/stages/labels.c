#include "gpu/stages/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

/* The whole file as text, behind `space` bytes for pointers. NULL and a reason if there is none. */
static char *read_text(int file, size_t space, size_t *length, const char **reason) {
  struct stat status;
  if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > MOST_BYTES) {
    *reason = "it is not a regular file of at most 1 MiB";
    return NULL;
  }
  char *memory = malloc(space + (size_t)status.st_size + 1);
  ssize_t got = memory ? pread(file, memory + space, (size_t)status.st_size, 0) : -1;
  if (got < 0) {
    *reason = strerror(errno);
    free(memory);
    return NULL;
  }
  *length = (size_t)got;
  memory[space + *length] = '\0';
  return memory;
}

/* Cuts the text into lines; returns how many. What stands behind the last newline is one if it is not empty. */
static unsigned cut(char *text, size_t length, const char **lines) {
  unsigned count = 0;
  char *end = text + length;
  while (text < end) {
    char *newline = memchr(text, '\n', (size_t)(end - text));
    char *next = newline ? newline + 1 : end;
    char *last = newline ? newline : end;
    if (last > text && last[-1] == '\r') {
      last--;
    }
    *last = '\0';
    lines[count++] = text;
    text = next;
  }
  return count;
}

bool labels_read(struct stage_plan *plan, const struct stage_value *value, char problem[STAGE_TEXT]) {
  if (!value->text) {
    return true;
  }
  enum { SPACE = (MOST_BYTES / 16) * sizeof(char *) };
  const char *reason = NULL;
  size_t length = 0;
  int file = open(value->text, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  char *memory = NULL;
  if (file < 0) {
    reason = strerror(errno);
  } else {
    memory = read_text(file, SPACE, &length, &reason);
    close(file);
  }
  unsigned lines = 0;
  for (size_t i = 0; memory && i < length; i++) {
    lines += memory[SPACE + i] == '\n';
  }
  if (memory && (length == 0 || lines >= SPACE / sizeof(char *) || memchr(memory + SPACE, '\0', length))) {
    reason = length == 0 ? "it is empty" : "it is not a text of at most 65535 lines";
    free(memory);
    memory = NULL;
  }
  if (!memory) {
    snprintf(problem, STAGE_TEXT, "`labels` cannot be read from %.120s: %s", value->text, reason);
    return false;
  }
  plan->object = memory;
  plan->labels = (const char *const *)plan->object;
  plan->label_count = cut(memory + SPACE, length, plan->object);
  return true;
}

bool labels_check(const struct stage_plan *plan, uint64_t classes, char problem[STAGE_TEXT]) {
  if (!plan->labels || plan->label_count == classes) {
    return true;
  }
  snprintf(problem, STAGE_TEXT,
           "`labels` has %u names, but the tensor has %" PRIu64 " classes; give the file that belongs to the model, or another "
           "layout",
           plan->label_count, classes);
  return false;
}

void labels_release(struct stage_plan *plan) {
  free(plan->object);
  plan->object = NULL;
}
