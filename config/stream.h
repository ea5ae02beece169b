/*
 * A stream into memory that knows when there was none: open_memstream() leaves out what it finds no room for, and neither
 * ferror() nor fclose() tells of that.
 */
#ifndef FRAMED_CONFIG_STREAM_H
#define FRAMED_CONFIG_STREAM_H

#include <stdbool.h>
#include <stdio.h>

struct stream {
  FILE *out; /* to write to */
  char *text;
  size_t length, room;
  bool failed;
};

/* False: no memory. It must stay where it is until it is closed. */
bool stream_open(struct stream *stream);
/* All that was written, to free(); NULL: there was no memory for a part of it. */
char *stream_close(struct stream *stream);
/* To any stream: the text in quotes, as YAML and JSON both read it. */
void stream_quote(FILE *out, const char *text);
/* To any stream: a comment that identifies the file at the path, if there is a file. A replaced or changed file has another
 * comment. */
void stream_identify(FILE *out, const char *path);

#endif
