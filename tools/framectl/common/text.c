#include "tools/framectl/common/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Three digits, whatever the size: "1.00", "36.1", "480". */
static int digits_after_point(double value) { return value < 9.995 ? 2 : value < 99.95 ? 1 : 0; }

const char *text_duration(char text[TEXT_ROOM], double microseconds) {
  if (microseconds < 999.5) {
    snprintf(text, TEXT_ROOM, "%.*f us", microseconds < 9.95 ? 1 : 0, microseconds);
  } else if (microseconds < 999500) {
    snprintf(text, TEXT_ROOM, "%.*f ms", digits_after_point(microseconds / 1e3), microseconds / 1e3);
  } else {
    snprintf(text, TEXT_ROOM, "%.*f s", digits_after_point(microseconds / 1e6), microseconds / 1e6);
  }
  return text;
}

const char *text_bytes(char text[TEXT_ROOM], double bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  unsigned unit = 0;
  while (bytes >= 999.95 && unit + 1 < sizeof units / sizeof units[0]) {
    bytes /= 1000;
    unit++;
  }
  snprintf(text, TEXT_ROOM, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

const char *text_rate(char text[TEXT_ROOM], double per_second) {
  if (per_second < 999.95) {
    snprintf(text, TEXT_ROOM, "%.1f", per_second);
  } else if (per_second < 9999.5) {
    snprintf(text, TEXT_ROOM, "%.0f", per_second);
  } else {
    snprintf(text, TEXT_ROOM, "%.1fk", per_second / 1e3);
  }
  return text;
}

const char *text_uptime(char text[TEXT_ROOM], double seconds) {
  unsigned long long whole = seconds > 0 ? (unsigned long long)seconds : 0;
  if (whole < 60) {
    snprintf(text, TEXT_ROOM, "%llu s", whole);
  } else if (whole < 3600) {
    snprintf(text, TEXT_ROOM, "%llu min %llu s", whole / 60, whole % 60);
  } else if (whole < 86400) {
    snprintf(text, TEXT_ROOM, "%llu h %llu min", whole / 3600, whole / 60 % 60);
  } else {
    snprintf(text, TEXT_ROOM, "%llu d %llu h", whole / 86400, whole / 3600 % 24);
  }
  return text;
}

const char *text_age(char text[TEXT_ROOM], double seconds) {
  if (seconds < 0) {
    snprintf(text, TEXT_ROOM, "-");
  } else if (seconds < 9.95) {
    snprintf(text, TEXT_ROOM, "%.1f s", seconds);
  } else {
    text_uptime(text, seconds);
  }
  return text;
}

/* -- colours ------------------------------------------------------------------------------------------------------- */

void text_colour_begin(FILE *out, enum text_colour colour, bool wanted) {
  static const char *const codes[] = {[COLOUR_NONE] = "",          [COLOUR_BOLD] = "\033[1m",    [COLOUR_DIM] = "\033[2m",
                                      [COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m", [COLOUR_RED] = "\033[31m"};
  if (wanted) {
    fputs(codes[colour], out);
  }
}

void text_colour_end(FILE *out, enum text_colour colour, bool wanted) {
  if (wanted && colour != COLOUR_NONE) {
    fputs("\033[0m", out);
  }
}

/*
 * Finds line separators and bidirectional controls, which can make a text look like another one: U+061C, U+200E, U+200F, U+2028
 * to U+202E and U+2066 to U+2069.
 */
static size_t deceptive_bytes(const unsigned char *at) {
  if (at[0] == 0xd8 && at[1] == 0x9c) {
    return 2;
  }
  bool is_mark = at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xa8 && at[2] <= 0xae));
  return is_mark || (at[0] == 0xe2 && at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9) ? 3 : 0;
}

/* Finds C0 controls, DEL and C1 controls in UTF-8. Returns the bytes of the character; 0: it is harmless. */
static size_t control_bytes(const unsigned char *at, bool keeps_lines) {
  bool is_c0 = (*at < 0x20 || *at == 0x7f) && !(keeps_lines && *at == '\n');
  return is_c0 ? 1 : at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f ? 2 : deceptive_bytes(at);
}

char *text_safe(const char *text, bool keeps_lines) {
  const unsigned char *at = (const unsigned char *)text;
  char *safe = malloc(4 * strlen(text) + 1), *end = safe;
  while (safe && *at) {
    size_t bytes = control_bytes(at, keeps_lines);
    if (bytes == 1 || (bytes == 2 && at[0] == 0xc2)) {
      end += snprintf(end, 5, "\\x%02x", at[bytes - 1]);
    } else if (bytes > 0) {
      end += snprintf(end, 7, "\\u%04x", bytes == 2 ? 0x061c : 0x2000 | (at[1] & 0x3fU) << 6 | (at[2] & 0x3fU));
    } else {
      *end++ = (char)*at;
    }
    at += bytes > 0 ? bytes : 1;
  }
  if (safe) {
    *end = '\0';
  }
  return safe;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

enum { MAX_COLUMNS = 32 };

struct cell {
  char *text;
  enum text_colour colour;
};

struct table {
  unsigned columns;
  bool right[MAX_COLUMNS];
  struct cell *cells; /* row by row; the first row is the headings */
  size_t count, room;
  bool out_of_memory;
};

/* Takes ownership of `text`. NULL counts as lack of memory. */
static void add(struct table *table, char *text, enum text_colour colour) {
  if (table->count == table->room) {
    size_t room = table->room ? table->room * 2 : 64;
    struct cell *cells = realloc(table->cells, room * sizeof *cells);
    if (!cells) {
      free(text);
      table->out_of_memory = true;
      return;
    }
    table->cells = cells;
    table->room = room;
  }
  table->out_of_memory |= !text;
  table->cells[table->count++] = (struct cell){text, colour};
}

struct table *table_new(const char *columns) {
  struct table *table = calloc(1, sizeof *table);
  while (table) {
    assert(table->columns < MAX_COLUMNS); /* with one heading fewer, every cell would move to the next row's column */
    table->right[table->columns++] = *columns == '>';
    columns += *columns == '>';
    size_t length = strcspn(columns, "|");
    add(table, strndup(columns, length), COLOUR_BOLD);
    columns += length;
    if (*columns++ == '\0') {
      break;
    }
  }
  return table;
}

struct table *table_free(struct table *table) {
  for (size_t i = 0; table && i < table->count; i++) {
    free(table->cells[i].text);
  }
  if (table) {
    free(table->cells);
  }
  free(table);
  return NULL;
}

void table_cell(struct table *table, enum text_colour colour, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) {
    text = NULL;
  }
  va_end(arguments);
  add(table, text, colour);
}

static void print_row(const struct table *table, const struct cell *row, const size_t *widths, FILE *out, bool colour) {
  for (unsigned column = 0; column < table->columns; column++) {
    size_t padding = widths[column] - strlen(row[column].text);
    bool is_last = column + 1 == table->columns;
    fprintf(out, "%*s", table->right[column] ? (int)padding : 0, "");
    text_colour_begin(out, row[column].colour, colour);
    fputs(row[column].text, out);
    text_colour_end(out, row[column].colour, colour);
    if (!is_last) {
      fprintf(out, "%*s", table->right[column] ? 2 : (int)padding + 2, "");
    }
  }
  fputc('\n', out);
}

bool table_print(const struct table *table, FILE *out, const char *indent, bool colour) {
  if (table->out_of_memory) {
    return false;
  }
  size_t widths[MAX_COLUMNS] = {0};
  for (size_t i = 0; i < table->count; i++) {
    size_t length = strlen(table->cells[i].text);
    if (length > widths[i % table->columns]) {
      widths[i % table->columns] = length;
    }
  }
  for (size_t i = 0; i + table->columns <= table->count; i += table->columns) {
    fputs(indent, out);
    print_row(table, table->cells + i, widths, out, colour);
  }
  return true;
}
