/*
 * Quotes a line of a file below an error, with a caret below the place. The output is always printable, whatever the file
 * contains. Long lines are cut to a window around the place.
 */
#ifndef FRAMED_CONFIG_QUOTE_H
#define FRAMED_CONFIG_QUOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Line and column count from 1, columns in characters. Prints nothing if there is no such line. */
void quote_print(FILE *out, const char *text, size_t length, unsigned line, unsigned column);
/* The place of the byte at `offset`, which must be inside the text. */
void quote_place(const char *text, size_t length, size_t offset, unsigned *line, unsigned *column);
/* Replaces control characters, which could disturb a terminal or forge a log line, and bytes that are not UTF-8. */
void quote_make_printable(char *text);

/* Replaces the text between "://" and the last '@' of that word, so that a password in a URL never gets into a log. */
void quote_hide_secrets(char *text, size_t length);

/* Whether quote_make_printable() would change nothing. A YAML file can contain such a text unescaped. */
bool quote_is_printable(const char *text, size_t length);

#endif
