#include "daemon/state/codec.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/rights.h"
#include "daemon/state/fd_table.h"

#define LATEST (INT64_MAX / 2) /* in ns: 146 years after the start of the machine */

enum { FIRST_ROOM = 64 * 1024, LONGEST_TEXT = 16 * 1024 * 1024 };

void codec_begin(struct codec *codec) { *codec = (struct codec){.writing = true}; }

void codec_load(struct codec *codec, unsigned char *bytes, size_t length) {
  *codec = (struct codec){.bytes = bytes, .length = length, .room = length};
}

void codec_clear(struct codec *codec) {
  free(codec->bytes);
  *codec = (struct codec){.broken = true};
}

void codec_break(struct codec *codec) { codec->broken = true; }

static bool codec_reserve(struct codec *codec, size_t size) {
  size_t room = codec->room > 0 ? codec->room : FIRST_ROOM;
  if (codec->room - codec->length >= size) {
    return true;
  }
  while (room - codec->length < size) {
    room *= 2;
  }
  unsigned char *bytes = realloc(codec->bytes, room);
  if (!bytes) {
    return false;
  }
  codec->bytes = bytes;
  codec->room = room;
  return true;
}

static void codec_put(struct codec *codec, const void *value, size_t size) {
  if (codec->broken || !codec_reserve(codec, size)) {
    codec->broken = true;
    return;
  }
  memcpy(codec->bytes + codec->length, value, size);
  codec->length += size;
}

static void codec_take(struct codec *codec, void *value, size_t size) {
  if (codec->broken || codec->length - codec->at < size) {
    codec->broken = true;
    memset(value, 0, size);
    return;
  }
  memcpy(value, codec->bytes + codec->at, size);
  codec->at += size;
}

void codec_pass(struct codec *codec, void *value, size_t size) {
  if (size == 0) {
    return;
  }
  if (codec->writing) {
    codec_put(codec, value, size);
  } else {
    codec_take(codec, value, size);
  }
}

void codec_pass_flag(struct codec *codec, void *flag, size_t size) {
  unsigned char byte = 0;
  if (codec->writing) {
    codec_put(codec, flag, size);
    return;
  }
  codec_take(codec, &byte, sizeof byte);
  codec->broken |= byte > 1;
  memcpy(flag, &(bool){byte == 1}, size);
}

static bool is_time(int64_t time) { return time >= 0 && time <= LATEST; }

void codec_pass_time(struct codec *codec, int64_t *time) {
  codec_pass(codec, time, sizeof *time);
  if (!codec->writing && !is_time(*time)) {
    codec->broken = true;
    *time = 0;
  }
}

void codec_pass_below(struct codec *codec, unsigned *number, unsigned limit) {
  CODEC_PASS(codec, *number);
  if (!codec->writing && *number >= limit) {
    codec->broken = true;
    *number = 0;
  }
}

void codec_pass_text(struct codec *codec, char **text) {
  uint64_t length = codec->writing && *text ? strlen(*text) + 1 : 0;
  CODEC_PASS(codec, length);
  if (codec->writing) {
    codec_pass(codec, *text, (size_t)length);
    return;
  }
  *text = length > 0 && length <= LONGEST_TEXT ? malloc((size_t)length) : NULL;
  if (!*text) {
    codec->broken |= length > 0;
    return;
  }
  codec_pass(codec, *text, (size_t)length);
  if ((*text)[length - 1] != '\0') {
    codec->broken = true;
    (*text)[length - 1] = '\0';
  }
}

void codec_pass_descriptor(struct codec *codec, int *fd) {
  int number = *fd;
  CODEC_PASS(codec, number);
  if (codec->writing) {
    fd_table_want(number);
  } else {
    *fd = codec->broken ? -1 : fd_table_take(number);
    codec->broken |= *fd < 0 && number >= 0 && !codec->live;
    rights_refuse(*fd); /* the process before may not have asked */
  }
}

bool codec_is_at_end(const struct codec *codec) { return !codec->broken && codec->at == codec->length; }
