/* Figures and tables for people. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_TEXT_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TEXT_ROOM = 64 };
/* All commands print JSON with these flags: 0.079 in place of 0.079000000000000001. */
#define TEXT_JSON_COMPACT (JSON_COMPACT | JSON_REAL_PRECISION(12))
#define TEXT_JSON         (JSON_INDENT(2) | JSON_REAL_PRECISION(12))

/* Each writes into `text` and returns it. */
const char *text_duration(char text[TEXT_ROOM], double microseconds); /* "310 us", "1.20 ms", "2.10 s" */
const char *text_bytes(char text[TEXT_ROOM], double bytes);           /* "18.4 MB" */
const char *text_rate(char text[TEXT_ROOM], double per_second);       /* "59.9", "2310", "86.1k" */
const char *text_uptime(char text[TEXT_ROOM], double seconds);        /* "3 min 12 s" */
const char *text_age(char text[TEXT_ROOM], double seconds);           /* "0.3 s", "3 min 12 s"; less than 0: "-" */

/*
 * Escapes text of another process, so that a terminal cannot take it for a command. Control characters become "\x1b",
 * bidirectional controls "\u202e". `keeps_lines` keeps newlines. The caller frees it; NULL: no memory.
 */
char *text_safe(const char *text, bool keeps_lines);

/* -- tables: cells are added row by row and printed in columns of the needed width ------------------------------ */

enum text_colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_DIM, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED };

struct table;

/* `columns` is the headings, separated by '|', 32 at most; '>' before a heading aligns it to the right. NULL: no memory. */
struct table *table_new(const char *columns);
struct table *table_free(struct table *table);
/* Adds the next cell of the current row. */
__attribute__((format(printf, 3, 4))) void table_cell(struct table *table, enum text_colour colour, const char *format, ...);
/* False if memory ran out while cells were added. */
bool table_print(const struct table *table, FILE *out, const char *indent, bool colour);

void text_colour_begin(FILE *out, enum text_colour colour, bool wanted);
void text_colour_end(FILE *out, enum text_colour colour, bool wanted);

#endif
