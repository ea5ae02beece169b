/*
 * Quotes one line of a file under an error, with a caret below the place. Only printable text comes out, whatever
 * the file held, and long lines are cut to a window around the place.
 */
#ifndef FRAMED_CONFIG_QUOTE_H
#define FRAMED_CONFIG_QUOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Line and column count from 1, columns in characters. Prints nothing if there is no such line. */
void quote_print(FILE *out, const char *text, size_t length, unsigned line, unsigned column);
/* The place of the byte at `offset`, which the text has. */
void quote_place(const char *text, size_t length, size_t offset, unsigned *line, unsigned *column);
/* Replaces control characters, which could disturb a terminal or forge a log line, and what is not UTF-8. */
void quote_make_printable(char *text);

/* Replaces what stands between "://" and the last '@' of that word: a password in a URL must not come into a log. */
void quote_hide_secrets(char *text, size_t length);

/* Whether there is nothing to replace. Such a text can stand raw in a YAML file. */
bool quote_is_printable(const char *text, size_t length);

#endif
