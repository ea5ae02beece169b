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

#include "config/stream.h"
#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_names.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

/* A variable, set where an image before this one could make nothing of a manifest: the text of its journal, or ANY_FILE. */
#define TORN     "FRAMED_TORN"
#define ANY_FILE "any"

enum { MOST_LISTENERS = 1024 };

enum { LONGEST_NAME = 256 };       /* of a descriptor there */
enum { LONGEST_TORN = 64 * 1024 }; /* with more in a variable nothing can be executed */

static struct {
  bool has_journal;
  bool no_image; /* there is one, which is of no use */
  bool unsure;   /* which journal is the last: any file may be dirty */
  struct fd_store_journal journal;
  struct fd_store_heartbeat heartbeat;
  int listeners[MOST_LISTENERS]; /* -1 once taken */
  bool passed[MOST_LISTENERS];   /* the manager passes it at every start */
  unsigned listener_count;
} last;

/* -- out of the store -------------------------------------------------------------------------------------------------- */

/* Takes a descriptor by its name; the store goes on keeping its own. */
static int look_at(const char *name) {
  char rest[NAME];
  return systemd_take_kept(name, rest, sizeof rest);
}

/* Keeps the descriptor open until this process is ready: it may be handed over once more. */
static void put_aside(int fd) {
  if (fd >= 0) {
    fd_store_found(fd, false);
  }
}

static bool is_this(const struct new_file *file) {
  struct stat there;
  return memchr(file->path, '\0', sizeof file->path) && lstat(file->path, &there) == 0 && S_ISSOCK(there.st_mode) &&
         there.st_dev == file->device && there.st_ino == file->inode && there.st_mtim.tv_sec == file->made.tv_sec &&
         there.st_mtim.tv_nsec == file->made.tv_nsec;
}

/* Removes files of sockets that nobody can connect to, since a reload was making them when its process was killed. */
static void remove_new_files(int fd) {
  struct new_file file;
  off_t at = IMAGE_FRONT + (off_t)offsetof(struct fd_store_memory, new_files);
  for (unsigned i = 0; i < MOST_NEW_FILES && pread(fd, &file, sizeof file, at) == (ssize_t)sizeof file; i++) {
    if (file.path[0] != '\0' && is_this(&file)) {
      unlink(file.path); /* whoever binds there next replaces one that stays */
    }
    at += (off_t)sizeof file;
  }
}

/* What is known of a process that was killed is known until there is one that is ready, which replaces it. A beat that cannot
 * have been was one: nobody knows when. */
static void recall_heartbeat(void) {
  struct fd_store_heartbeat heartbeat = {0};
  int64_t now = clock_now();
  int fd = look_at(IMAGE);
  if (fd < 0) {
    return;
  }
  if (pread(fd, &heartbeat, sizeof heartbeat, IMAGE_FRONT) != (ssize_t)sizeof heartbeat || heartbeat.last < 0 ||
      heartbeat.last > now) {
    heartbeat.last = now;
  }
  last.heartbeat = heartbeat;
  fd_received_heartbeat(heartbeat.takers);
  remove_new_files(fd);
  last.no_image = !image_look_into(fd);
}

static void recall_journal(void) {
  struct codec codec = {0};
  struct failure failure; /* without it less is known */
  int fd = look_at(JOURNAL);
  bool whole = fd >= 0 && state_read(fd, &codec, &failure);
  if (fd >= 0) {
    close(fd);
  }
  if (whole) {
    fd_store_pass_journal(&last.journal, &codec);
  }
  last.has_journal = whole && !codec.broken;
  if (!last.has_journal) {
    last.journal.file_count = 0;
  }
  codec_clear(&codec);
}

/* There are two for a moment when one follows the other. The one that counts goes on lying there. */
static int take_manifest(void) {
  char text[NAME];
  int manifest = -1;
  uint64_t highest = 0;
  for (int fd = systemd_take_kept(MANIFEST, text, sizeof text); fd >= 0; fd = systemd_take_kept(MANIFEST, text, sizeof text)) {
    uint64_t number = strtoull(text, NULL, 10), other = number < highest ? number : highest;
    if (other > 0) {
      fd_store_forget_manifest(other);
    }
    if (manifest >= 0) {
      close(number > highest ? manifest : fd);
    }
    manifest = number > highest ? fd : manifest;
    highest = number > highest ? number : highest;
  }
  fd_received_manifest(highest);
  return manifest;
}

/* -- what was received goes on lying there ------------------------------------------------------------------------------ */

static bool read_codec(int fd, struct codec *codec, struct failure *failure) {
  struct codec carried = {0};
  bool whole = fd >= 0 && !last.no_image && state_read(fd, codec, failure);
  if (fd >= 0 && last.no_image) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "its memory is of another version, or its process failed by itself");
  }
  if (fd >= 0) {
    close(fd);
  }
  fd_table_take(whole ? codec : &carried);
  fd_received_leave(whole);
  if (!whole) {
    fd_store_find_listeners(&carried);
    codec_close_rest(&carried);
    codec_clear(&carried);
    return false;
  }
  codec->same_descriptors = false;
  codec->by_manager = true;
  return true;
}

static bool lies_there(const char *name) {
  int fd = look_at(name);
  if (fd >= 0) {
    close(fd);
  }
  return fd >= 0;
}

/* Receives from a process that was killed; one that ended by itself left a state. */
static bool receive_manifest(struct codec *codec, struct failure *failure) {
  int manifest = take_manifest();
  recall_journal();
  last.unsure = lies_there(UNSURE);
  if (manifest >= 0 && (last.heartbeat.last == 0 || last.heartbeat.takers == FD_STORE_SPENT)) {
    close(manifest);
    manifest = -1;
  }
  bool whole = read_codec(manifest, codec, failure);
  codec->live = whole;
  return whole;
}

/* It may have been killed in the middle of its orderly end: all that it noted before is older, and the journal is for whoever
 * comes next, should this process not become ready. */
static bool receive_state(int state, struct codec *codec, struct failure *failure) {
  put_aside(take_manifest());
  put_aside(look_at(JOURNAL));
  put_aside(look_at(UNSURE));
  return read_codec(state, codec, failure);
}

/* What another version left under names of its own: nobody else would ever take that away, and clients would wait at it. */
static void drop_unknown(void) {
  char name[LONGEST_NAME];
  for (int fd = systemd_take_kept("", name, sizeof name); fd >= 0; fd = systemd_take_kept("", name, sizeof name)) {
    systemd_forget(name);
    if (fd_table_is_listener(fd)) {
      fd_store_found(fd, false);
    } else {
      close(fd);
    }
  }
}

static bool recall_receive(struct codec *codec, struct failure *failure) {
  recall_heartbeat();
  int state = look_at(STATE);
  if (state >= 0) {
    fd_received_state();
  }
  if (state >= 0 && last.heartbeat.takers == FD_STORE_SPENT) {
    put_aside(state);
    state = -1;
  }
  return state >= 0 ? receive_state(state, codec, failure) : receive_manifest(codec, failure);
}

bool fd_store_receive(struct codec *codec, struct failure *failure) {
  failure->text[0] = '\0';
  if (!fd_store_is_there()) {
    return false;
  }
  bool received = recall_receive(codec, failure);
  drop_unknown();
  return received;
}

/* -- its listeners ------------------------------------------------------------------------------------------------------ */

void fd_store_found(int fd, bool passed) {
  if (last.listener_count < MOST_LISTENERS) {
    last.passed[last.listener_count] = passed;
    last.listeners[last.listener_count++] = fd;
  } else {
    close(fd);
  }
}

void fd_store_find_listeners(struct codec *codec) {
  for (unsigned i = 0; i < codec->descriptor_count; i++) {
    struct codec_descriptor *descriptor = &codec->descriptors[i];
    if (!descriptor->taken && fd_table_is_listener(descriptor->now)) {
      descriptor->taken = true;
      fd_store_found(descriptor->now, false);
    }
  }
}

static bool is_at(int fd, const char *path) {
  struct sockaddr_un address = {0};
  socklen_t length = sizeof address - 1;
  return getsockname(fd, (struct sockaddr *)&address, &length) == 0 && address.sun_family == AF_UNIX &&
         strcmp(address.sun_path, path) == 0;
}

int fd_store_take_listener(const char *path, bool *passed) {
  for (unsigned i = 0; i < last.listener_count; i++) {
    int fd = last.listeners[i];
    if (fd >= 0 && is_at(fd, path)) {
      last.listeners[i] = -1;
      *passed = last.passed[i];
      return fd;
    }
  }
  return -1;
}

int fd_store_take_listener_at(const struct sockaddr *address, socklen_t length) {
  int found = -1;
  for (unsigned i = 0; i < last.listener_count; i++) {
    struct sockaddr_storage there = {0};
    socklen_t size = sizeof there;
    int fd = last.listeners[i];
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&there, &size) != 0 || there.ss_family == AF_UNIX) {
      continue;
    }
    last.listeners[i] = -1;
    if (found < 0 && size == length && memcmp(&there, address, length) == 0) {
      found = fd;
    } else {
      close(fd);
    }
  }
  return found;
}

/* -- files that may end within a result, for an image of this process that begins anew without the journal ---------------- */

/* One line for each file: the size of a whole result, the length of the path, and the path. */
char *fd_store_list_dirty(const struct fd_store_journal *journal) {
  struct stream stream; /* without some of them the list would say that those are whole */
  if (!stream_open(&stream)) {
    return NULL;
  }
  for (unsigned i = 0; i < journal->file_count; i++) {
    const struct fd_store_file *file = &journal->files[i];
    fprintf(stream.out, "%llu %zu %s\n", (unsigned long long)file->result_bytes, strlen(file->path), file->path);
  }
  return stream_close(&stream);
}

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

/* -- what it noted ------------------------------------------------------------------------------------------------------ */

bool fd_store_recover(struct fd_store_journal *journal, struct fd_store_heartbeat *heartbeat) {
  *journal = last.journal;
  *heartbeat = last.heartbeat;
  return last.has_journal && heartbeat->last > 0;
}

struct fd_store_heartbeat fd_store_last_heartbeat(void) {
  return last.heartbeat;
}

void fd_store_recall_again(void) {
  if (last.has_journal) {
    fd_store_note(&last.journal);
    fd_store_beat(last.heartbeat.last, last.heartbeat.clients);
  }
  if (last.unsure || (getenv(TORN) && !last.has_journal)) {
    fd_store_say_unsure();
  }
}

bool fd_store_was_killed(void) { return getenv(TORN) || last.unsure || (last.has_journal && last.heartbeat.last > 0); }

bool fd_store_was_writing(const char *file, uint64_t *result_bytes) {
  const char *dirty = getenv(TORN);
  *result_bytes = 0;
  if (dirty || last.unsure) {
    return last.unsure || fd_store_is_dirty(dirty, file, result_bytes);
  }
  for (unsigned i = 0; i < last.journal.file_count; i++) {
    const struct fd_store_file *written = &last.journal.files[i];
    if (written->path && strcmp(written->path, file) == 0) {
      *result_bytes = written->result_bytes;
      return true;
    }
  }
  return false;
}

bool fd_store_expect_dirty(void) {
  char *lines = last.has_journal && !last.unsure ? fd_store_list_dirty(&last.journal) : NULL;
  bool set = setenv(TORN, lines && strlen(lines) < LONGEST_TORN ? lines : ANY_FILE, 1) == 0;
  free(lines);
  return set;
}

void fd_store_forget_last(void) {
  for (unsigned i = 0; i < last.listener_count; i++) {
    if (last.listeners[i] >= 0) {
      close(last.listeners[i]);
    }
  }
  last.listener_count = 0;
  for (unsigned i = 0; i < last.journal.file_count; i++) {
    free(last.journal.files[i].path);
  }
  last.journal.file_count = 0;
  last.has_journal = last.unsure = false;
  unsetenv(TORN);
}
