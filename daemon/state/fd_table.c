#include "daemon/state/fd_table.h"

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
} fd_table;

static bool fd_table_grow(unsigned number) {
  unsigned room = fd_table.room > 0 ? fd_table.room : FIRST_ROOM;
  while (room <= number) {
    room *= 2;
  }
  if (room == fd_table.room) {
    return true;
  }
  struct stored *stored = realloc(fd_table.descriptors, room * sizeof *stored);
  if (!stored) {
    return false;
  }
  memset(stored + fd_table.room, 0, (room - fd_table.room) * sizeof *stored);
  fd_table.descriptors = stored;
  fd_table.room = room;
  return true;
}

static void forget_name(unsigned number) {
  char name[NAME];
  snprintf(name, sizeof name, CARRIED "%u", number);
  systemd_forget(name);
}

static void fd_table_forget(unsigned number) {
  forget_name(number);
  fd_table.descriptors[number] = (struct stored){0};
}

static bool fd_table_keep(int fd) {
  char name[NAME];
  struct stat status;
  unsigned number = (unsigned)fd;
  if (fd < 0 || !fd_table_grow(number)) {
    return false;
  }
  struct stored *stored = &fd_table.descriptors[number];
  bool known = fstat(fd, &status) == 0;
  if (stored->there && (!known || stored->device != status.st_dev || stored->inode != status.st_ino)) {
    fd_table_forget(number); /* it may be another file's */
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

bool fd_table_is_listener(int fd) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer;
}

static bool is_meant(int fd, bool listeners_only) { return !listeners_only || fd_table_is_listener(fd); }

bool fd_table_all(const struct codec *codec, bool listeners_only) {
  bool all = true;
  for (unsigned i = 0; i < codec->descriptor_count; i++) {
    if (is_meant(codec->descriptors[i].now, listeners_only)) {
      all = fd_table_keep(codec->descriptors[i].now) && all;
    }
  }
  return all;
}

void fd_table_make_room(const struct codec *codec, bool listeners_only, unsigned room) {
  unsigned stale = 0, meant = 0;
  for (unsigned i = 0; i < codec->descriptor_count; i++) {
    unsigned number = (unsigned)codec->descriptors[i].now;
    if (is_meant(codec->descriptors[i].now, listeners_only)) {
      meant++;
      if (number < fd_table.room) {
        fd_table.descriptors[number].wanted = true;
      }
    }
  }
  for (unsigned i = 0; i < fd_table.room; i++) {
    stale += fd_table.descriptors[i].there && !fd_table.descriptors[i].wanted;
  }
  if (stale + meant > room) {
    fd_table_forget_others();
  }
}

void fd_table_forget_others(void) {
  for (unsigned i = 0; i < fd_table.room; i++) {
    if (fd_table.descriptors[i].there && !fd_table.descriptors[i].wanted) {
      fd_table_forget(i);
    }
    fd_table.descriptors[i].wanted = false;
  }
}

void fd_table_pass(struct codec *codec) {
  unsigned count = fd_table.room;
  CODEC_PASS(codec, count);
  if (!codec->writing && (codec->broken || (count > 0 && (count > MOST || !fd_table_grow(count - 1))))) {
    codec_break(codec);
    return;
  }
  for (unsigned i = 0; i < count; i++) {
    CODEC_PASS(codec, fd_table.descriptors[i].there);
    CODEC_PASS(codec, fd_table.descriptors[i].device);
    CODEC_PASS(codec, fd_table.descriptors[i].inode);
  }
}

static void note_taken(unsigned number) {
  unsigned *taken = realloc(fd_table.taken, (fd_table.taken_count + 1) * sizeof *taken);
  if (!taken) {
    forget_name(number);
    return;
  }
  fd_table.taken = taken;
  fd_table.taken[fd_table.taken_count++] = number;
}

void fd_table_take(struct codec *codec) {
  char text[NAME];
  for (int fd = systemd_take_kept(CARRIED, text, sizeof text); fd >= 0; fd = systemd_take_kept(CARRIED, text, sizeof text)) {
    long number = strtol(text, NULL, 10);
    codec_map(codec, (int)number, fd);
    note_taken((unsigned)number);
  }
}

void fd_table_forget_taken(void) {
  for (unsigned i = 0; i < fd_table.taken_count; i++) {
    forget_name(fd_table.taken[i]);
  }
  free(fd_table.taken);
  fd_table.taken = NULL;
  fd_table.taken_count = 0;
}
