#include "daemon/state/codec.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/rights.h"

#define LATEST (INT64_MAX / 2) /* in ns: 146 years after the start of the machine */

enum { FIRST_ROOM = 64 * 1024, FIRST_DESCRIPTORS = 64, LONGEST_TEXT = 16 * 1024 * 1024 };

void tape_begin(struct tape *tape) { *tape = (struct tape){.writing = true}; }

void tape_begin_in(struct tape *tape, unsigned char *bytes, size_t room) {
  *tape = (struct tape){.writing = true, .fixed = true, .bytes = bytes, .room = room};
}

void tape_load(struct tape *tape, unsigned char *bytes, size_t length) {
  *tape = (struct tape){.bytes = bytes, .length = length, .room = length};
}

void tape_clear(struct tape *tape) {
  free(tape->bytes);
  free(tape->descriptors);
  *tape = (struct tape){.broken = true};
}

void tape_break(struct tape *tape) { tape->broken = true; }

static bool reserve(struct tape *tape, size_t size) {
  size_t room = tape->room > 0 ? tape->room : FIRST_ROOM;
  if (tape->room - tape->length >= size) {
    return true;
  }
  if (tape->fixed) {
    return false;
  }
  while (room - tape->length < size) {
    room *= 2;
  }
  unsigned char *bytes = realloc(tape->bytes, room);
  if (!bytes) {
    return false;
  }
  tape->bytes = bytes;
  tape->room = room;
  return true;
}

static void put(struct tape *tape, const void *value, size_t size) {
  if (tape->broken || !reserve(tape, size)) {
    tape->broken = true;
    return;
  }
  memcpy(tape->bytes + tape->length, value, size);
  tape->length += size;
}

static void take(struct tape *tape, void *value, size_t size) {
  if (tape->broken || tape->length - tape->at < size) {
    tape->broken = true;
    memset(value, 0, size);
    return;
  }
  memcpy(value, tape->bytes + tape->at, size);
  tape->at += size;
}

void tape_pass(struct tape *tape, void *value, size_t size) {
  if (size == 0) {
    return;
  }
  if (tape->writing) {
    put(tape, value, size);
  } else {
    take(tape, value, size);
  }
}

void tape_pass_flag(struct tape *tape, void *flag, size_t size) {
  unsigned char byte = 0;
  if (tape->writing) {
    put(tape, flag, size);
    return;
  }
  take(tape, &byte, sizeof byte);
  tape->broken |= byte > 1;
  memcpy(flag, &(bool){byte == 1}, size);
}

bool tape_is_time(int64_t time) { return time >= 0 && time <= LATEST; }

void tape_pass_time(struct tape *tape, int64_t *time) {
  tape_pass(tape, time, sizeof *time);
  if (!tape->writing && !tape_is_time(*time)) {
    tape->broken = true;
    *time = 0;
  }
}

void tape_pass_below(struct tape *tape, unsigned *number, unsigned limit) {
  TAPE_PASS(tape, *number);
  if (!tape->writing && *number >= limit) {
    tape->broken = true;
    *number = 0;
  }
}

void tape_pass_text(struct tape *tape, char **text) {
  uint64_t length = tape->writing && *text ? strlen(*text) + 1 : 0;
  TAPE_PASS(tape, length);
  if (tape->writing) {
    tape_pass(tape, *text, (size_t)length);
    return;
  }
  *text = length > 0 && length <= LONGEST_TEXT ? malloc((size_t)length) : NULL;
  if (!*text) {
    tape->broken |= length > 0;
    return;
  }
  tape_pass(tape, *text, (size_t)length);
  if ((*text)[length - 1] != '\0') {
    tape->broken = true;
    (*text)[length - 1] = '\0';
  }
}

/* -- descriptors --------------------------------------------------------------------------------------------------- */

void tape_map(struct tape *tape, int before, int now) {
  if (tape->descriptor_count == tape->descriptor_room) {
    unsigned room = tape->descriptor_room > 0 ? 2 * tape->descriptor_room : FIRST_DESCRIPTORS;
    struct tape_descriptor *more = realloc(tape->descriptors, room * sizeof *more);
    if (!more) {
      tape->broken = true; /* a descriptor stays open for nothing, until the process ends */
      return;
    }
    tape->descriptors = more;
    tape->descriptor_room = room;
  }
  tape->descriptors[tape->descriptor_count++] = (struct tape_descriptor){.before = before, .now = now};
}

static int find(struct tape *tape, int before) {
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    struct tape_descriptor *descriptor = &tape->descriptors[i];
    if (descriptor->before == before && !descriptor->taken) {
      descriptor->taken = true;
      return descriptor->now;
    }
  }
  return -1;
}

/* One that has the number that it had. It is known as taken from then on. */
static int take_same(struct tape *tape, int fd) {
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    if (tape->descriptors[i].now == fd) {
      return -1;
    }
  }
  if (fd <= STDERR_FILENO || fcntl(fd, F_GETFD) < 0) {
    return -1;
  }
  tape_map(tape, fd, fd);
  return tape->broken ? -1 : find(tape, fd);
}

void tape_pass_descriptor(struct tape *tape, int *fd) {
  TAPE_PASS(tape, *fd);
  if (tape->writing) {
    if (*fd >= 0 && !tape->broken && !tape->fixed) {
      tape_map(tape, *fd, *fd);
    }
  } else if (*fd < 0 || tape->broken) {
    *fd = -1;
  } else {
    *fd = tape->same_descriptors ? take_same(tape, *fd) : find(tape, *fd);
    tape->broken |= *fd < 0 && !tape->live;
    rights_refuse(*fd); /* the process before may not have asked */
  }
}

bool tape_is_at_end(const struct tape *tape) { return !tape->broken && tape->at == tape->length; }

void tape_close_rest(struct tape *tape) {
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    if (!tape->descriptors[i].taken) {
      rights_close(tape->descriptors[i].now);
    }
  }
  tape->descriptor_count = 0;
}
