#include "daemon/state/fd_store.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_names.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

enum { OTHERS = 4 /* state or manifest, twice for a moment; journal; image */ };

static_assert(sizeof(struct fd_store_memory) <= IMAGE_FRONT_BYTES, "it fits the front of the image");

static struct {
  uint64_t manifest;  /* the number of the one that lies there; 0: none */
  atomic_bool marked; /* also by whoever prepares pipelines */
  bool unsaid;        /* something of it could not be said */
  bool unnoted;       /* nor of the journal or the heartbeat */
  bool image;         /* the image lies there */
  /* In the image, where it lies with the service manager by now; NULL: not yet. Whoever makes sockets looks there, too. */
  _Atomic(struct fd_store_memory *) memory;
} keeper;

static struct fd_store_heartbeat *heartbeat(void) {
  struct fd_store_memory *memory = atomic_load(&keeper.memory);
  return memory ? &memory->heartbeat : NULL;
}

bool fd_store_is_there(void) { return systemd_keeps() > 0; }

static unsigned room_of_descriptors(void) {
  unsigned room = systemd_keeps();
  return room > OTHERS ? room - OTHERS : 0;
}

static void forget_manifest(void) {
  if (keeper.manifest > 0) {
    fd_store_forget_manifest(keeper.manifest);
    keeper.manifest = 0;
  }
}

void fd_store_write_beat(size_t offset, uint64_t number) {
  if (heartbeat()) {
    memcpy((char *)heartbeat() + offset, &number, sizeof number);
  } else if (pwrite(image_left_fd(), &number, sizeof number, IMAGE_FRONT + (off_t)offset) < 0) {
    return; /* there is none, and nobody to look at it */
  }
}

static void set_takers(uint64_t takers) { fd_store_write_beat(offsetof(struct fd_store_heartbeat, takers), takers); }

/* The one before has been spent. */
static bool keep_image(void) {
  if (!keeper.image && image_fd() >= 0) {
    systemd_forget(IMAGE);
    keeper.image = systemd_keep(image_fd(), IMAGE);
  }
  return keeper.image;
}

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

static bool keep_state(const struct codec *codec, int state) {
  fd_table_make_room(codec, false, room_of_descriptors());
  bool all = fd_table_all(codec, false);
  fd_table_forget_others();
  all = all && keep_image() && systemd_keep(state, STATE);
  forget_manifest();
  if (all) {
    set_takers(0);
  }
  return all;
}

bool fd_store_keep(const struct codec *codec, struct failure *failure) {
  unsigned needed = codec->descriptor_count + OTHERS, room = systemd_keeps();
  if (needed > room) { /* systemd would drop the last ones without a word to us */
    const char *remedy = needed > SYSTEMD_MOST_KEPT ? "serve fewer connections: there is room for 8192 descriptors at most"
                                                    : "raise FileDescriptorStoreMax= and FDSTORE in the unit, to 8192 at most";
    return failure_set(failure, EXIT_STATUS_INTERNAL, remedy,
                       "the service manager keeps fewer descriptors (%u) than there are (%u)", room, needed);
  }
  int state = state_write(codec, failure);
  if (state < 0) {
    return false;
  }
  bool fd_table = keep_state(codec, state);
  close(state);
  if (!fd_table || !systemd_has_read()) {
    systemd_forget(STATE); /* it may have all of it, and the next process would take that for where this one stopped */
    fd_store_withdraw();
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the service manager does not say whether it kept everything");
  }
  return true;
}

/* -- at all times ---------------------------------------------------------------------------------------------------- */

void fd_store_mark(void) { keeper.marked = true; }

bool fd_store_is_marked(void) { return keeper.marked; }

/* The new one lies there before the old one goes. What was said to be of no use before is gone by then. */
static bool keep_manifest(const struct codec *codec) {
  char name[NAME];
  struct failure failure; /* without a manifest the next process knows less of this one, and nothing else */
  uint64_t number = keeper.manifest + 1;
  int fd = state_write(codec, &failure);
  snprintf(name, sizeof name, MANIFEST "%llu", (unsigned long long)number);
  bool fd_table = fd >= 0 && keep_image() && systemd_keep(fd, name);
  if (fd >= 0) {
    close(fd);
  }
  forget_manifest();
  keeper.manifest = fd_table ? number : 0;
  if (fd_table) {
    set_takers(0);
  }
  return fd_table;
}

void fd_store_keep_manifest(const struct codec *codec, bool whole) {
  keeper.marked = false;
  if (!fd_store_is_there()) {
    return;
  }
  bool fits = whole && codec->descriptor_count <= room_of_descriptors();
  if (!fits) {
    forget_manifest(); /* before what it tells of */
  }
  fd_table_make_room(codec, !fits, room_of_descriptors());
  bool fd_table = fd_table_all(codec, !fits);
  if (fits && fd_table) {
    fd_table = keep_manifest(codec);
  } else {
    forget_manifest();
  }
  fd_table_forget_others();
  keeper.unsaid = !fd_table;
}

bool fd_store_try_again(void) {
  if (keeper.unsaid) {
    fd_store_mark();
  }
  return keeper.unnoted;
}

/* It lies there with the image; where that could not be, it is tried again at the next note. */
static void start_heartbeat(void) {
  struct fd_store_memory *memory = image_front();
  if (memory) {
    memory->heartbeat.last = clock_now();
  }
  if (memory && keep_image()) {
    atomic_store(&keeper.memory, memory);
  }
}

void fd_store_pass_journal(struct fd_store_journal *journal, struct codec *codec) {
  history_pass(&journal->history, codec);
  codec_pass_below(codec, &journal->file_count, FD_STORE_MOST_FILES + 1);
  for (unsigned i = 0; i < journal->file_count; i++) {
    codec_pass_text(codec, &journal->files[i].path);
    CODEC_PASS(codec, journal->files[i].result_bytes);
  }
}

void fd_store_say_unsure(void) {
  int fd = memfd_create("framed:unsure", MFD_CLOEXEC);
  if (fd >= 0) {
    systemd_keep(fd, UNSURE);
    close(fd);
  }
}

static bool keep_journal(struct fd_store_journal *journal) {
  struct codec codec;
  struct failure failure; /* any file may be dirty then, and it is tried again */
  codec_begin(&codec);
  fd_store_pass_journal(journal, &codec);
  int fd = state_write(&codec, &failure);
  fd_store_say_unsure();
  systemd_forget(JOURNAL);
  bool fd_table = fd >= 0 && systemd_keep(fd, JOURNAL);
  if (fd >= 0) {
    close(fd);
  }
  codec_clear(&codec);
  return fd_table;
}

void fd_store_note(struct fd_store_journal *journal) {
  if (!fd_store_is_there()) {
    return;
  }
  bool fd_table = keep_journal(journal);
  if (!heartbeat()) {
    start_heartbeat();
  }
  keeper.unnoted = !fd_table || !heartbeat();
  if (!keeper.unnoted) {
    systemd_forget(UNSURE);
  }
}

/* -- files that are new ---------------------------------------------------------------------------------------------- */

/* The entry of that path, or an empty one for none. */
static struct new_file *find_new_file(const char *path) {
  struct fd_store_memory *memory = atomic_load(&keeper.memory);
  for (unsigned i = 0; memory && i < MOST_NEW_FILES; i++) {
    if (strcmp(memory->new_files[i].path, path) == 0) {
      return &memory->new_files[i];
    }
  }
  return NULL;
}

/* The path comes last: this process may be killed in between. */
void fd_store_note_new_file(const char *path, const struct stat *made) {
  struct new_file *file = find_new_file("");
  if (file && strlen(path) < sizeof file->path) {
    file->device = made->st_dev;
    file->inode = made->st_ino;
    file->made = made->st_mtim;
    atomic_signal_fence(memory_order_release);
    memcpy(file->path, path, strlen(path) + 1);
  }
}

void fd_store_forget_new_file(const char *path) {
  struct new_file *file = find_new_file(path);
  if (file) {
    file->path[0] = '\0';
  }
}

void fd_store_beat(int64_t now, uint64_t clients) {
  if (heartbeat()) {
    heartbeat()->clients = clients;
    heartbeat()->last = now;
  }
}

void fd_store_withdraw(void) {
  fd_store_release();
  forget_manifest();
  fd_table_forget_others();
}

void fd_store_end(void) {
  fd_store_write_beat(offsetof(struct fd_store_heartbeat, last), 0);
  if (keeper.unnoted) {
    systemd_forget(UNSURE);
  }
  fd_store_withdraw();
}

void fd_store_pass(struct codec *codec) {
  CODEC_PASS(codec, keeper.manifest);
  fd_table_pass(codec);
}

/* The heartbeat is memory, so that this is known at once, whatever becomes of what the service manager is told. */
void fd_store_spend_manifest(void) {
  set_takers(FD_STORE_SPENT);
  forget_manifest();
}
