#include "tools/link/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LONGEST = 1024 * 1024 };

bool lines_init(struct lines *lines) {
  *lines = (struct lines){.fd = -1, .text = malloc(LONGEST)};
  return lines->text != NULL;
}

void lines_free(struct lines *lines) {
  lines_close(lines);
  free(lines->text);
}

void lines_close(struct lines *lines) {
  if (lines->fd >= 0) {
    close(lines->fd);
  }
  lines->fd = -1;
}

bool lines_open(struct lines *lines, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(address.sun_path, path, strlen(path));
  lines->used = lines->taken = 0;
  lines->skips = false;
  lines->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (lines->fd >= 0 && connect(lines->fd, (const struct sockaddr *)&address, sizeof address) == 0) {
    return true;
  }
  int error = errno;
  lines_close(lines);
  errno = error;
  return false;
}

/* A line that fills the whole buffer is skipped up to its end. */
static void make_room(struct lines *lines) {
  memmove(lines->text, lines->text + lines->taken, lines->used - lines->taken);
  lines->used -= lines->taken;
  lines->taken = 0;
  if (lines->used == LONGEST) {
    lines->used = 0;
    lines->skips = true;
  }
}

bool lines_read(struct lines *lines) {
  make_room(lines);
  ssize_t count = read(lines->fd, lines->text + lines->used, LONGEST - lines->used);
  if (count > 0) {
    lines->used += (size_t)count;
    return true;
  }
  errno = count == 0 ? 0 : errno;
  return count < 0 && (errno == EAGAIN || errno == EINTR);
}

const char *lines_next(struct lines *lines, size_t *length) {
  char *line = lines->text + lines->taken, *end;
  while ((end = memchr(line, '\n', lines->used - lines->taken)) && lines->skips) {
    lines->skips = false;
    lines->taken += (size_t)(end - line) + 1;
    line = end + 1;
  }
  if (!end) {
    return NULL;
  }
  *length = (size_t)(end - line);
  lines->taken += *length + 1;
  return line;
}
