#include "daemon/state/fd_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/base/systemd.h"

#define CARRIED "d" /* the name there begins so, and ends with the place; short, since there are many */

enum { NAME = 64, FIRST_ROOM = 64, MOST = 1 << 20 };

/* A place in the table. */
struct stored {
  int fd;     /* its number; -1: the place is free, or (`there`) is to be once the manager was told */
  bool there; /* it lies there */
  bool wanted;
  dev_t device;
  ino_t inode;
};

static struct {
  struct stored *stored;
  unsigned count;
  unsigned *places; /* by number: the place, and 1 more; 0: none */
  unsigned numbers;
} fd_table;

/* Makes room for so many; what is new is zero. */
static bool fd_table_grow(void **items, unsigned *count, unsigned wanted, size_t size) {
  unsigned room = *count > 0 ? *count : FIRST_ROOM;
  while (room < wanted) {
    room *= 2;
  }
  void *more = room == *count ? *items : wanted <= MOST ? realloc(*items, room * size) : NULL;
  if (!more) {
    return false;
  }
  memset((char *)more + *count * size, 0, (room - *count) * size);
  *items = more;
  *count = room;
  return true;
}

static bool reach_place(unsigned place) {
  unsigned before = fd_table.count;
  void *stored = fd_table.stored;
  bool there = place < before || fd_table_grow(&stored, &fd_table.count, place + 1, sizeof *fd_table.stored);
  fd_table.stored = stored;
  for (unsigned i = before; i < fd_table.count; i++) {
    fd_table.stored[i].fd = -1;
  }
  return there;
}

static bool reach_number(unsigned number) {
  void *places = fd_table.places;
  bool there = number < fd_table.numbers || fd_table_grow(&places, &fd_table.numbers, number + 1, sizeof *fd_table.places);
  fd_table.places = places;
  return there;
}

static bool put(unsigned place, int fd, const struct stat *status, bool there) {
  if (!reach_number((unsigned)fd) || !reach_place(place)) {
    return false;
  }
  fd_table.stored[place] = (struct stored){.fd = fd, .there = there, .device = status->st_dev, .inode = status->st_ino};
  fd_table.places[fd] = place + 1;
  return true;
}

static struct stored *stored_at(int fd) {
  unsigned place = fd >= 0 && (unsigned)fd < fd_table.numbers ? fd_table.places[fd] : 0;
  return place > 0 && fd_table.stored[place - 1].fd == fd ? &fd_table.stored[place - 1] : NULL;
}

/* The number means another file by now, or none. */
static void let_go(struct stored *stored) {
  fd_table.places[stored->fd] = 0;
  stored->fd = -1;
}

static int place_of(int fd) {
  struct stat status;
  struct stored *stored = stored_at(fd);
  bool is_open = fd >= 0 && fstat(fd, &status) == 0;
  if (stored && is_open && stored->device == status.st_dev && stored->inode == status.st_ino) {
    return (int)(stored - fd_table.stored);
  }
  if (stored) {
    let_go(stored);
  }
  unsigned place = 0;
  while (place < fd_table.count && (fd_table.stored[place].fd >= 0 || fd_table.stored[place].there)) {
    place++;
  }
  return is_open && put(place, fd, &status, false) ? (int)place : -1;
}

static const char *name_of(const struct stored *stored, char name[NAME]) {
  snprintf(name, NAME, CARRIED "%u", (unsigned)(stored - fd_table.stored));
  return name;
}

bool fd_table_is_listener(int fd) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer;
}

static bool is_meant(int fd, bool listeners_only) { return !listeners_only || fd_table_is_listener(fd); }

void fd_table_begin(struct codec *codec) {
  codec_begin(codec);
  codec->by_manager = true;
  codec->name_of = place_of;
}

bool fd_table_all(const struct codec *codec, bool listeners_only) {
  bool all = true;
  for (unsigned i = 0; i < codec->descriptor_count; i++) {
    char name[NAME];
    int fd = codec->descriptors[i].now;
    struct stored *stored = is_meant(fd, listeners_only) && place_of(fd) >= 0 ? stored_at(fd) : NULL;
    if (stored) {
      stored->there = stored->there || systemd_keep(fd, name_of(stored, name));
      stored->wanted = true;
    }
    all = all && (stored ? stored->there : !is_meant(fd, listeners_only));
  }
  return all;
}

void fd_table_make_room(const struct codec *codec, bool listeners_only, unsigned room) {
  unsigned needed = 0;
  for (unsigned i = 0; i < codec->descriptor_count; i++) {
    int fd = codec->descriptors[i].now;
    struct stored *stored = stored_at(fd);
    if (is_meant(fd, listeners_only)) {
      needed++;
      if (stored) {
        stored->wanted = true;
      }
    }
  }
  for (unsigned i = 0; i < fd_table.count; i++) {
    needed += fd_table.stored[i].there && !fd_table.stored[i].wanted;
  }
  if (needed > room) {
    fd_table_forget_others();
  }
}

bool fd_table_forget_others(void) {
  bool all = true;
  for (unsigned i = 0; i < fd_table.count; i++) {
    struct stored *stored = &fd_table.stored[i];
    char name[NAME];
    if (!stored->wanted && stored->fd >= 0) {
      let_go(stored);
    }
    if (!stored->wanted && stored->there) {
      stored->there = !systemd_forget(name_of(stored, name));
      all = all && !stored->there;
    }
    stored->wanted = false;
  }
  return all;
}

void fd_table_pass(struct codec *codec) {
  unsigned count = fd_table.count;
  CODEC_PASS(codec, count);
  for (unsigned i = 0; i < count && !codec->broken; i++) {
    struct stored stored = codec->writing ? fd_table.stored[i] : (struct stored){.fd = -1};
    CODEC_PASS(codec, stored.fd);
    CODEC_PASS(codec, stored.there);
    CODEC_PASS(codec, stored.device);
    CODEC_PASS(codec, stored.inode);
    const struct stat status = {.st_dev = stored.device, .st_ino = stored.inode};
    bool is_of_number = stored.fd >= 0 && stored.fd < MOST;
    if (codec->writing || codec->broken) {
      continue;
    }
    if (is_of_number ? !put(i, stored.fd, &status, stored.there) : !reach_place(i)) {
      codec_break(codec);
      return;
    }
    fd_table.stored[i].there = stored.there;
  }
}

void fd_table_take(struct codec *codec) {
  char text[NAME];
  for (int fd = systemd_take_kept(CARRIED, text, sizeof text); fd >= 0; fd = systemd_take_kept(CARRIED, text, sizeof text)) {
    struct stat status;
    unsigned place = (unsigned)strtoul(text, NULL, 10);
    if (place < MOST && fstat(fd, &status) == 0) {
      put(place, fd, &status, true);
    }
    codec_map(codec, (int)place, fd);
  }
}
