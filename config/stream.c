#include "config/stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/memory.h"

enum { FIRST_ROOM = 1024 };

/* Includes room for the terminating zero. */
static bool reserve(struct stream *stream, size_t more) {
  size_t room = stream->room > 0 ? stream->room : FIRST_ROOM;
  while (room - stream->length <= more) {
    room *= 2;
  }
  if (room == stream->room) {
    return true;
  }
  char *text = memory_resize(stream->text, room);
  if (text) {
    stream->text = text;
    stream->room = room;
  }
  return text != NULL;
}

/* 0: an error. After a failure nothing more is stored, since later bytes would follow a gap. */
static ssize_t put(void *cookie, const char *bytes, size_t count) {
  struct stream *stream = cookie;
  stream->failed = stream->failed || !reserve(stream, count);
  if (stream->failed) {
    return 0;
  }
  memcpy(stream->text + stream->length, bytes, count);
  stream->length += count;
  stream->text[stream->length] = '\0';
  return (ssize_t)count;
}

bool stream_open(struct stream *stream) {
  *stream = (struct stream){0};
  if (reserve(stream, 0)) {
    stream->text[0] = '\0';
    stream->out = fopencookie(stream, "w", (cookie_io_functions_t){.write = put});
  }
  if (!stream->out) {
    free(stream->text);
  }
  return stream->out;
}

char *stream_close(struct stream *stream) {
  bool whole = fclose(stream->out) == 0 && !stream->failed;
  if (!whole) {
    free(stream->text);
    return NULL;
  }
  return stream->text;
}

void stream_quote(FILE *out, const char *text) {
  fputc('"', out);
  for (const char *at = text; *at; at++) {
    fprintf(out, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
  }
  fputc('"', out);
}

void stream_identify(FILE *out, const char *path) {
  struct stat file;
  if (path && stat(path, &file) == 0) {
    fprintf(out, "# %s: %ju:%ju, %jd bytes of %jd.%09ld\n", path, (uintmax_t)file.st_dev, (uintmax_t)file.st_ino,
            (intmax_t)file.st_size, (intmax_t)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
  }
}
