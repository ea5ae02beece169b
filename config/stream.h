/*
 * A stream into memory that reports failed allocations. open_memstream() drops bytes that do not fit, and neither ferror() nor
 * fclose() reports that.
 */
#ifndef FRAMED_CONFIG_STREAM_H
#define FRAMED_CONFIG_STREAM_H

#include <stdbool.h>
#include <stdio.h>

struct stream {
  FILE *out; /* write to this stream */
  char *text;
  size_t length, room;
  bool failed;
};

/* False: no memory. The structure must not move until it is closed. */
bool stream_open(struct stream *stream);
/* The whole text, to free(). NULL if memory was short at any time. */
char *stream_close(struct stream *stream);
/* Writes the text to any stream, in quotes that both YAML and JSON can read. */
void stream_quote(FILE *out, const char *text);
/* To any stream: a comment that identifies the file at the path, if there is a file. A replaced or changed file has another
 * comment. */
void stream_identify(FILE *out, const char *path);

#endif
