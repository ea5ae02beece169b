#include "gpu/record/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 1024, NO_TEXT = -1 };

/* -- writing -------------------------------------------------------------------------------------------------------- */

static bool make_room(struct pack *pack, size_t count) {
  size_t room = pack->room > 0 ? pack->room : FIRST_ROOM;
  while (room - pack->length < count && room <= SIZE_MAX / 2) {
    room *= 2;
  }
  if (room != pack->room) {
    unsigned char *bytes = room - pack->length >= count ? realloc(pack->bytes, room) : NULL;
    pack->failed = bytes == NULL;
    pack->bytes = bytes ? bytes : pack->bytes;
    pack->room = bytes ? room : pack->room;
  }
  return !pack->failed;
}

void pack_bytes(struct pack *pack, const void *bytes, size_t count) {
  if (count > 0 && !pack->failed && make_room(pack, count)) {
    memcpy(pack->bytes + pack->length, bytes, count);
    pack->length += count;
  }
}

void pack_number(struct pack *pack, int64_t number) { pack_bytes(pack, &number, sizeof number); }

void pack_real(struct pack *pack, double number) { pack_bytes(pack, &number, sizeof number); }

void pack_text(struct pack *pack, const char *text) {
  pack_number(pack, text ? (int64_t)strlen(text) : NO_TEXT);
  pack_bytes(pack, text ? text : "", text ? strlen(text) + 1 : 0);
}

/* -- reading -------------------------------------------------------------------------------------------------------- */

/* NULL: there are not as many. */
static const unsigned char *take(struct unpack *unpack, size_t count) {
  if (unpack->failed || unpack->length - unpack->at < count) {
    unpack->failed = true;
    return NULL;
  }
  unpack->at += count;
  return unpack->bytes + unpack->at - count;
}

void unpack_bytes(struct unpack *unpack, void *bytes, size_t count) {
  const unsigned char *from = take(unpack, count);
  if (from) {
    memcpy(bytes, from, count);
  } else {
    memset(bytes, 0, count);
  }
}

int64_t unpack_number(struct unpack *unpack) {
  int64_t number;
  unpack_bytes(unpack, &number, sizeof number);
  return number;
}

int64_t unpack_within(struct unpack *unpack, int64_t least, int64_t most) {
  int64_t number = unpack_number(unpack);
  bool fits = number >= least && number <= most;
  unpack->failed = unpack->failed || !fits;
  return fits ? number : least;
}

double unpack_real(struct unpack *unpack) {
  double number;
  unpack_bytes(unpack, &number, sizeof number);
  return number;
}

const char *unpack_text(struct unpack *unpack) {
  int64_t length = unpack_number(unpack);
  if (length == NO_TEXT || unpack->failed) {
    return NULL;
  }
  const unsigned char *text = length >= 0 && (uint64_t)length < SIZE_MAX ? take(unpack, (size_t)length + 1) : NULL;
  if (!text || memchr(text, '\0', (size_t)length + 1) != text + length) {
    unpack->failed = true;
    return NULL;
  }
  return (const char *)text;
}

void unpack_text_into(struct unpack *unpack, char *text, size_t size) {
  const char *from = unpack_text(unpack);
  snprintf(text, size, "%s", from ? from : "");
}
