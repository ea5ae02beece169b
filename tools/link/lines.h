/*
 * A reader of a pipeline's sink with `protocol: json`: whole lines of a Unix socket, in one buffer of a fixed size.
 */
#ifndef FRAMED_TOOLS_LINK_LINES_H
#define FRAMED_TOOLS_LINK_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
  int fd;     /* -1: none */
  char *text; /* what was read */
  size_t used, taken;
  bool skips; /* the line that goes on is too long, and is left out */
};

bool lines_init(struct lines *lines); /* false: no memory */
void lines_free(struct lines *lines);
/* Connects without waiting. False with errno. */
bool lines_open(struct lines *lines, const char *path);
void lines_close(struct lines *lines);
/* Reads what is there. False: the other side has gone, with errno, or 0 where it closed. */
bool lines_read(struct lines *lines);
/* The next whole line, without its end, until the next call of either; NULL: none. */
const char *lines_next(struct lines *lines, size_t *length);

#endif
