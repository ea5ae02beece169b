/*
 * Makes text from outside (paths, clients' texts, driver messages) safe for a terminal and for one line. Control characters, C1
 * characters, marks that change the text direction and invalid UTF-8 become \n, \t or \xNN.
 */
#ifndef FRAMED_BASE_LOG_TEXT_H
#define FRAMED_BASE_LOG_TEXT_H

#include <stddef.h>

/* Writes at most `size` bytes with the terminator, only complete escapes. Returns the length. */
size_t log_text_escape(char *out, size_t size, const char *text);

/* Maximum bytes of the escaped form of `text`, with the terminator. */
size_t log_text_bound(const char *text);

/* For example "1.5 MiB"; returns `text`. */
enum { BYTES_TEXT = 32 };
const char *text_of_bytes(size_t bytes, char text[BYTES_TEXT]);

#endif
