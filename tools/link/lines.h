/* Reads whole lines from a Unix socket, a pipeline's sink with `protocol: json`, into a buffer of fixed size. */
#ifndef FRAMED_TOOLS_LINK_LINES_H
#define FRAMED_TOOLS_LINK_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
  int fd;     /* -1: not connected */
  char *text; /* the bytes read */
  size_t used, taken;
  bool skips; /* the current line is too long, and is being skipped */
};

bool lines_init(struct lines *lines); /* false: no memory */
void lines_free(struct lines *lines);
/* Connects without waiting. False with errno. */
bool lines_open(struct lines *lines, const char *path);
void lines_close(struct lines *lines);
/* Reads the available bytes. False: the connection ended, with errno, or 0 if the peer closed it. */
bool lines_read(struct lines *lines);
/* The next whole line without its end, valid until the next call of a function here; NULL: none. */
const char *lines_next(struct lines *lines, size_t *length);

#endif
