/*
 * A list of errors with their places, made into one report.
 *
 * It owns copies of all texts, so that errors outlive a failed configuration. The report is sorted by file and line, and quotes
 * each line once with a caret. It is bounded: a hostile file produces at most ERRORS_SHOWN errors of limited length. If memory
 * runs out, the report is a constant that says so.
 */
#include "config/errors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/memory.h"
#include "config/quote.h"
#include "config/stream.h"

enum { ERRORS_SHOWN = 64, MESSAGE_SIZE = 640 };

struct source {
  char *name, *text;
  size_t length;
};

struct entry {
  unsigned source; /* index + 1, or 0: not in a file */
  unsigned line, column, order;
  char *message, *remedy;
};

struct config_errors {
  struct source *sources;
  unsigned source_count;
  struct entry *entries;
  unsigned stored, count;
  char *report;
  bool exhausted;
};

struct config_errors *config_errors_new(void) {
  return memory_new(1, sizeof(struct config_errors));
}

struct config_errors *config_errors_free(struct config_errors *errors) {
  if (!errors) {
    return NULL;
  }
  for (unsigned i = 0; i < errors->source_count; i++) {
    free(errors->sources[i].name);
    free(errors->sources[i].text);
  }
  for (unsigned i = 0; i < errors->stored; i++) {
    free(errors->entries[i].message);
    free(errors->entries[i].remedy);
  }
  free(errors->sources);
  free(errors->entries);
  free(errors->report);
  free(errors);
  return NULL;
}

void errors_set_exhausted(struct config_errors *errors) {
  errors->exhausted = true;
  errors->count++;
}

/* The index of the file called `name`, plus 1; 0 if it is unknown. */
static unsigned find_source(const struct config_errors *errors, const char *name) {
  for (unsigned i = 0; name && i < errors->source_count; i++) {
    if (strcmp(errors->sources[i].name, name) == 0) {
      return i + 1;
    }
  }
  return 0;
}

static bool add_source(struct config_errors *errors, const struct source *source) {
  struct source *sources = memory_grow(errors->sources, errors->source_count, sizeof *sources);
  if (!sources) {
    return false;
  }
  errors->sources = sources;
  sources[errors->source_count++] = *source;
  return true;
}

bool errors_add_file(struct config_errors *errors, const char *name, const char *text, size_t length) {
  struct source source = {.name = memory_copy(name, strlen(name)), .text = text ? memory_copy(text, length) : NULL};
  source.length = source.text ? length : 0;
  if (source.text) {
    quote_hide_secrets(source.text, source.length);
  }
  if (!source.name || (text && !source.text) || !add_source(errors, &source)) {
    free(source.name);
    free(source.text);
    errors_set_exhausted(errors);
    return false;
  }
  return true;
}

static bool set_texts(struct entry *entry, const char *remedy, const char *message) {
  entry->message = memory_copy(message, strlen(message));
  entry->remedy = remedy ? memory_copy(remedy, strlen(remedy)) : NULL;
  if (!entry->message || (remedy && !entry->remedy)) {
    free(entry->message);
    free(entry->remedy);
    return false;
  }
  quote_hide_secrets(entry->message, strlen(entry->message));
  quote_make_printable(entry->message);
  if (entry->remedy) {
    quote_make_printable(entry->remedy);
  }
  return true;
}

/* False if there is no memory. */
static bool add_entry(struct config_errors *errors, struct config_mark at, const char *remedy, const char *message) {
  unsigned source = find_source(errors, at.file);
  if (at.file && source == 0) {
    if (!errors_add_file(errors, at.file, NULL, 0)) {
      return false;
    }
    source = errors->source_count;
  }
  struct entry *entries = memory_grow(errors->entries, errors->stored, sizeof *entries);
  if (!entries) {
    return false;
  }
  errors->entries = entries;
  struct entry entry = {.source = source, .line = at.line, .column = at.column, .order = errors->stored};
  if (!set_texts(&entry, remedy, message)) {
    return false;
  }
  entries[errors->stored++] = entry;
  return true;
}

bool errors_are_full(const struct config_errors *errors) { return errors->stored >= ERRORS_SHOWN; }

void config_errors_add(struct config_errors *errors, struct config_mark at, const char *remedy, const char *format, ...) {
  errors->count++;
  if (errors_are_full(errors)) {
    return;
  }
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (!add_entry(errors, at, remedy, message)) {
    errors->exhausted = true;
  }
}

/* Recognises errors of the system. Messages about unreadable files end with its text: "cannot read it: Too many open files". */
static bool is_of_machine(const char *message) {
  static const int shortages[] = {EMFILE, ENFILE, ENOMEM, EIO, ESTALE};
  size_t length = strlen(message);
  bool ends = false;
  for (size_t i = 0; i < sizeof shortages / sizeof shortages[0]; i++) {
    const char *words = strerror(shortages[i]);
    size_t tail = strlen(words);
    ends = ends || (length > tail && strcmp(message + length - tail, words) == 0);
  }
  return ends;
}

bool config_errors_pass(const struct config_errors *errors) {
  bool pass = errors->stored == errors->count;
  for (unsigned i = 0; i < errors->stored; i++) {
    pass = pass && is_of_machine(errors->entries[i].message);
  }
  return pass || errors->exhausted;
}

unsigned config_errors_count(const struct config_errors *errors) { return errors->count; }

static int compare_entries(const void *left, const void *right) {
  const struct entry *a = left;
  const struct entry *b = right;
  unsigned keys[][2] = {{a->source, b->source}, {a->line, b->line}, {a->column, b->column}, {a->order, b->order}};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (keys[i][0] != keys[i][1]) {
      return keys[i][0] < keys[i][1] ? -1 : 1;
    }
  }
  return 0;
}

static void print_entry(FILE *out, const struct config_errors *errors, const struct entry *entry) {
  const struct source *source = entry->source > 0 ? &errors->sources[entry->source - 1] : NULL;
  if (source && entry->line > 0) {
    fprintf(out, "%s:%u:%u: ", source->name, entry->line, entry->column);
  } else if (source) {
    fprintf(out, "%s: ", source->name);
  }
  fprintf(out, "%s\n", entry->message);
  if (source && source->text && entry->line > 0) {
    quote_print(out, source->text, source->length, entry->line, entry->column);
  }
  if (entry->remedy) {
    fprintf(out, "  %s\n", entry->remedy);
  }
}

const char *config_errors_text(struct config_errors *errors) {
  static const char *const exhausted = "out of memory while reading the configuration\n";
  free(errors->report);
  errors->report = NULL;
  struct stream stream;
  if (errors->exhausted || !stream_open(&stream)) {
    return exhausted;
  }
  if (errors->stored > 0) {
    qsort(errors->entries, errors->stored, sizeof *errors->entries, compare_entries);
  }
  for (unsigned i = 0; i < errors->stored; i++) {
    print_entry(stream.out, errors, &errors->entries[i]);
  }
  if (errors->count > errors->stored) {
    fprintf(stream.out, "and %u more errors, not shown\n", errors->count - errors->stored);
  }
  errors->report = stream_close(&stream);
  return errors->report ? errors->report : exhausted;
}
