/*
 * Text for the log that came from outside (paths, what clients sent, what a driver said) made safe for a terminal
 * and for one line: control characters, C1 and those that turn the direction included, and bytes that are no UTF-8 become
 * \n, \t or \xNN.
 */
#ifndef FRAMED_BASE_LOG_TEXT_H
#define FRAMED_BASE_LOG_TEXT_H

#include <stddef.h>

/* Writes at most `size` bytes, terminated, whole escapes only. Returns the length that was written. */
size_t log_text_escape(char *out, size_t size, const char *text);

/* Bytes that the escaped form of `text` may take at most, terminator included. */
size_t log_text_bound(const char *text);

/* "1.5 MiB"; returns text. */
enum { BYTES_TEXT = 32 };
const char *text_of_bytes(size_t bytes, char text[BYTES_TEXT]);

#endif
