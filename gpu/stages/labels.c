#include "gpu/stages/labels.h"
#include "gpu/stages/prepare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, MOST_LINES = 1 << 16, SPACE = MOST_LINES * sizeof(char *) };

/* Editors on Windows begin a file with a byte order mark. Without this the mark would be a part of the first class's name. */
static size_t mark_length(const char *text, size_t length) {
  static const char mark[] = {'\xEF', '\xBB', '\xBF'};
  return length >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

/* The whole file as text, behind MOST_LINES pointers to its lines. NULL and a reason if there is none. */
static char *read_text(int file, size_t *length, const char **reason) {
  struct stat status;
  if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size == 0 || status.st_size > MOST_BYTES) {
    *reason = "it is not a regular file of 1 byte to 1 MiB";
    return NULL;
  }
  *length = (size_t)status.st_size;
  char *memory = malloc(SPACE + *length + 1);
  if (!memory || !kept_read(file, memory + SPACE, *length)) {
    *reason = strerror(errno);
    free(memory);
    return NULL;
  }
  memory[SPACE + *length] = '\0';
  return memory;
}

/* Cuts the text into lines, of which the last may lack its newline. False if it is no text, or has too many lines or none. */
static bool cut(char *text, size_t length, const char **lines, unsigned *count) {
  char *end = text + length;
  if (memchr(text, '\0', length)) {
    return false;
  }
  for (*count = 0; text < end && *count < MOST_LINES; ++*count) {
    char *newline = memchr(text, '\n', (size_t)(end - text));
    char *last = newline ? newline : end;
    lines[*count] = text;
    text = newline ? newline + 1 : end;
    last -= last > lines[*count] && last[-1] == '\r';
    *last = '\0';
  }
  return text >= end && *count > 0;
}

static bool cut_file(char *text, size_t length, const char **lines, unsigned *count) {
  size_t mark = mark_length(text, length);
  return cut(text + mark, length - mark, lines, count);
}

/* The lines of the file, and behind them their text. NULL and a reason. */
static void *read_lines(const char *path, struct kept_file *kept, unsigned *count, const char **reason) {
  size_t length = 0;
  int file = kept_open(path, 0, NULL, 0);
  if (file < 0) {
    *reason = strerror(errno);
    return NULL;
  }
  char *memory = read_text(file, &length, reason);
  close(file);
  bool is_kept = memory && kept_copy(kept, path, memory + SPACE, length); /* it may be edited in place */
  if (memory && !is_kept) {
    *reason = strerror(errno);
  } else if (memory && !cut_file(memory + SPACE, length, (const char **)memory, count)) {
    *reason = "it is not a text of 1 to 65536 lines";
    is_kept = false;
  }
  if (!is_kept) {
    free(memory);
  }
  return is_kept ? memory : NULL;
}

/* Bytes of the character that the text begins with; 0: it begins with none of UTF-8. */
static unsigned character_bytes(const unsigned char *text) {
  unsigned bytes = text[0] < 0x80 ? 1 : text[0] < 0xC2 ? 0 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : text[0] < 0xF5 ? 4 : 0;
  for (unsigned i = 1; i < bytes; i++) {
    if (text[i] >> 6 != 2) {
      return 0;
    }
  }
  bool is_too_long = (text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xF0 && text[1] < 0x90);
  bool is_none = (text[0] == 0xED && text[1] > 0x9F) || (text[0] == 0xF4 && text[1] > 0x8F);
  return is_too_long || is_none ? 0 : bytes;
}

/* The number of the first line that is no UTF-8, from 1; 0: all are. */
static unsigned find_foreign(const struct stage_plan *plan) {
  for (unsigned i = 0; i < plan->label_count; i++) {
    const unsigned char *at = (const unsigned char *)plan->labels[i];
    while (*at) {
      unsigned bytes = character_bytes(at);
      if (bytes == 0) {
        return i + 1;
      }
      at += bytes;
    }
  }
  return 0;
}

bool labels_read(struct stage_plan *plan, const struct stage_value *value, char problem[STAGE_TEXT]) {
  const char *reason = NULL;
  if (!value->text) {
    return true;
  }
  plan->object = read_lines(value->text, stage_file(plan), &plan->label_count, &reason);
  if (!plan->object) {
    snprintf(problem, STAGE_TEXT, "`labels` cannot be read from %.120s: %s", value->text, reason);
    return false;
  }
  plan->labels = plan->object;
  unsigned foreign = find_foreign(plan);
  if (foreign > 0) {
    snprintf(problem, STAGE_TEXT, "line %u of %.120s, its `labels`, is not UTF-8; convert the file with iconv", foreign,
             value->text);
    labels_release(plan);
    return false;
  }
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
