#include "daemon/state/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/base/systemd.h"

#define CARRIED "d" /* the name there begins so, and ends with the number; short, since there are many */

enum { NAME = 64, FIRST_ROOM = 64, MOST = 1 << 24 };

/* A descriptor that lies there. Its number may mean another file by now. */
struct stored {
  bool there, wanted;
  dev_t device;
  ino_t inode;
};

static struct {
  struct stored *descriptors; /* by number */
  unsigned room;
  unsigned *taken; /* numbers that they had in the process before, under which they still lie there */
  unsigned taken_count;
} kept;

static bool make_room(unsigned number) {
  unsigned room = kept.room > 0 ? kept.room : FIRST_ROOM;
  while (room <= number) {
    room *= 2;
  }
  if (room == kept.room) {
    return true;
  }
  struct stored *stored = realloc(kept.descriptors, room * sizeof *stored);
  if (!stored) {
    return false;
  }
  memset(stored + kept.room, 0, (room - kept.room) * sizeof *stored);
  kept.descriptors = stored;
  kept.room = room;
  return true;
}

static void forget_name(unsigned number) {
  char name[NAME];
  snprintf(name, sizeof name, CARRIED "%u", number);
  systemd_forget(name);
}

static void forget(unsigned number) {
  forget_name(number);
  kept.descriptors[number] = (struct stored){0};
}

static bool keep(int fd) {
  char name[NAME];
  struct stat status;
  unsigned number = (unsigned)fd;
  if (fd < 0 || !make_room(number)) {
    return false;
  }
  struct stored *stored = &kept.descriptors[number];
  bool known = fstat(fd, &status) == 0;
  if (stored->there && (!known || stored->device != status.st_dev || stored->inode != status.st_ino)) {
    forget(number); /* it may be another file's */
  }
  if (!known) {
    return false;
  }
  if (!stored->there) {
    snprintf(name, sizeof name, CARRIED "%u", number);
    if (!systemd_keep(fd, name)) {
      return false;
    }
  }
  *stored = (struct stored){.there = true, .wanted = true, .device = status.st_dev, .inode = status.st_ino};
  return true;
}

bool kept_is_listener(int fd) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer;
}

static bool is_meant(int fd, bool listeners_only) { return !listeners_only || kept_is_listener(fd); }

bool kept_all(const struct tape *tape, bool listeners_only) {
  bool all = true;
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    if (is_meant(tape->descriptors[i].now, listeners_only)) {
      all = keep(tape->descriptors[i].now) && all;
    }
  }
  return all;
}

void kept_make_room(const struct tape *tape, bool listeners_only, unsigned room) {
  unsigned stale = 0, meant = 0;
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    unsigned number = (unsigned)tape->descriptors[i].now;
    if (is_meant(tape->descriptors[i].now, listeners_only)) {
      meant++;
      if (number < kept.room) {
        kept.descriptors[number].wanted = true;
      }
    }
  }
  for (unsigned i = 0; i < kept.room; i++) {
    stale += kept.descriptors[i].there && !kept.descriptors[i].wanted;
  }
  if (stale + meant > room) {
    kept_forget_others();
  }
}

void kept_forget_others(void) {
  for (unsigned i = 0; i < kept.room; i++) {
    if (kept.descriptors[i].there && !kept.descriptors[i].wanted) {
      forget(i);
    }
    kept.descriptors[i].wanted = false;
  }
}

void kept_pass(struct tape *tape) {
  unsigned count = kept.room;
  TAPE_PASS(tape, count);
  if (!tape->writing && (tape->broken || (count > 0 && (count > MOST || !make_room(count - 1))))) {
    tape_break(tape);
    return;
  }
  for (unsigned i = 0; i < count; i++) {
    TAPE_PASS(tape, kept.descriptors[i].there);
    TAPE_PASS(tape, kept.descriptors[i].device);
    TAPE_PASS(tape, kept.descriptors[i].inode);
  }
}

static void note_taken(unsigned number) {
  unsigned *taken = realloc(kept.taken, (kept.taken_count + 1) * sizeof *taken);
  if (!taken) {
    forget_name(number);
    return;
  }
  kept.taken = taken;
  kept.taken[kept.taken_count++] = number;
}

void kept_take(struct tape *tape) {
  char text[NAME];
  for (int fd = systemd_take_kept(CARRIED, text, sizeof text); fd >= 0; fd = systemd_take_kept(CARRIED, text, sizeof text)) {
    long number = strtol(text, NULL, 10);
    tape_map(tape, (int)number, fd);
    note_taken((unsigned)number);
  }
}

void kept_forget_taken(void) {
  for (unsigned i = 0; i < kept.taken_count; i++) {
    forget_name(kept.taken[i]);
  }
  free(kept.taken);
  kept.taken = NULL;
  kept.taken_count = 0;
}
