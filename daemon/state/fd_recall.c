/*
 * What this process finds in the fd store of the process before it: the state of an orderly end, or what that process noted
 * until it was killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_front.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

enum { LONGEST_NAME = 256 }; /* of a descriptor there */

static struct {
  bool killed;
  bool has_journal;
  struct history history;
  char *files; /* as fd_store_list() writes them; NULL: any file may be dirty */
  struct fd_store_heartbeat heartbeat;
} last;

/* -- out of the store -------------------------------------------------------------------------------------------------- */

/* A beat that cannot have been was one: nobody knows when. */
static void recall_heartbeat(int fd) {
  struct fd_store_heartbeat heartbeat = {0};
  int64_t now = clock_now();
  if (pread(fd, &heartbeat, sizeof heartbeat, IMAGE_FRONT) != (ssize_t)sizeof heartbeat || heartbeat.last < 0 ||
      heartbeat.last > now) {
    heartbeat.last = now;
  }
  last.heartbeat = heartbeat;
}

/* Without a journal any file may be dirty. */
static void recall_journal(void) {
  struct left left;
  const struct fd_store_front *front = image_left_front();
  last.killed = front && last.heartbeat.last > 0;
  if (last.killed && state_read(front->journal, &left) && left.length >= sizeof(struct journal)) {
    const struct journal *journal = left.bytes;
    size_t length = left.length - sizeof *journal;
    last.has_journal = history_adopt(&last.history, &journal->history);
    last.files = last.has_journal && length > 0 ? strndup(journal->files, length) : NULL;
  }
}

bool fd_store_look_into(int fd, bool was_killed) {
  bool usable = image_look_into(fd);
  if (was_killed) {
    recall_heartbeat(fd);
    recall_journal();
  }
  fd_received_image(image_left_born());
  return usable;
}

/* There are two for a moment when one follows the other. */
static int take_image(void) {
  char text[NAME], name[NAME];
  int image = -1;
  uint64_t latest = 0;
  for (int fd = systemd_take_kept(IMAGE, text, sizeof text); fd >= 0; fd = systemd_take_kept(IMAGE, text, sizeof text)) {
    uint64_t born = strtoull(text, NULL, 10);
    bool is_later = born > latest;
    if (image >= 0 && born != latest) {
      systemd_forget(fd_store_image_name(is_later ? latest : born, name));
    }
    if (image >= 0) {
      close(is_later ? image : fd);
    }
    image = image < 0 || is_later ? fd : image;
    latest = is_later ? born : latest;
  }
  fd_received_image(latest);
  return image;
}

/* -- all of that -------------------------------------------------------------------------------------------------------- */

/* The journal is for a process that can make nothing of the state; that of an orderly end says more. */
static bool read_image(int fd, struct failure *failure) {
  bool usable = image_look_into(fd);
  recall_heartbeat(fd);
  recall_journal();
  const struct fd_store_front *front = image_left_front();
  bool is_there = front ? front->state != 0 : last.heartbeat.last != 0;
  bool whole = usable && front && is_there && state_receive(front->state, true, failure);
  if (is_there && !usable) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "its memory is of another version, or its process failed by itself");
  }
  last.killed = last.killed && !(whole && !state_left()->live);
  if (!front) {
    fd_received_forget_image();
  }
  return whole;
}

/* What another version left under names of its own: nobody else would ever take that away, and clients would wait at it. */
static void drop_unknown(void) {
  char name[LONGEST_NAME];
  for (int fd = systemd_take_kept("", name, sizeof name); fd >= 0; fd = systemd_take_kept("", name, sizeof name)) {
    systemd_forget(name);
    if (fd_table_is_listener(fd)) {
      fd_table_listen(fd, "", false, false, &(struct stat){0});
      fd_table_leave(fd, true);
    } else {
      close(fd);
    }
  }
}

bool fd_store_receive(struct failure *failure) {
  failure->text[0] = '\0';
  if (!fd_store_is_there()) {
    return false;
  }
  int fd = take_image();
  bool whole = fd >= 0 && read_image(fd, failure);
  fd_received_leave(whole, last.heartbeat.takers); /* before anything that this process may die of */
  fd_table_receive(true);
  if (!whole) {
    fd_table_close_rest(false);
    fd_table_begin();
    fd_table_forget_others();
  }
  drop_unknown();
  return whole;
}

/* -- what it noted ------------------------------------------------------------------------------------------------------ */

bool fd_store_is_dirty(const char *lines, const char *file, uint64_t *result_bytes) {
  while (*lines) {
    char *path;
    uint64_t bytes = strtoull(lines, &path, 10);
    size_t length = strtoull(path, &path, 10);
    size_t left = strlen(path);
    if (length == 0 || length > left || left - length < 2) { /* a space before it, and the end of the line */
      return true;
    }
    if (length == strlen(file) && memcmp(path + 1, file, length) == 0) {
      *result_bytes = bytes;
      return true;
    }
    lines = path + length + 2;
  }
  return false;
}

bool fd_store_recover(struct history *history) {
  *history = last.killed && last.has_journal ? last.history : *history;
  return last.killed && last.has_journal;
}

struct fd_store_heartbeat fd_store_last_heartbeat(void) {
  return last.heartbeat;
}

void fd_store_recall_again(void) {
  if (last.killed && !fd_received_has_image()) {
    fd_store_note_again(&last.history, last.files, &last.heartbeat);
  }
}

bool fd_store_was_killed(void) { return last.killed; }

bool fd_store_was_writing(const char *file, uint64_t *result_bytes) {
  *result_bytes = 0;
  return last.killed && (!last.files || fd_store_is_dirty(last.files, file, result_bytes));
}

void fd_store_forget_last(void) {
  image_look_away();
  fd_table_close_rest(true);
  free(last.files);
  last.files = NULL;
  last.has_journal = last.killed = false;
}
