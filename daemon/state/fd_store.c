#include "daemon/state/fd_store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_names.h"
#include "daemon/state/manifest.h"
#include "daemon/state/state.h"

enum { OTHERS = 4 /* state or roster, twice for a moment; journal; pulse */ };

static struct {
  uint64_t roster;    /* the number of the one that lies there; 0: none */
  atomic_bool marked; /* also by whoever prepares pipelines */
  bool unsaid;        /* something of it could not be said */
  bool unnoted;       /* nor of the journal or the pulse */
  /* Where the pulse lies, which stays; NULL: not yet. Whoever makes sockets looks there, too. */
  _Atomic(struct keeper_memory *) memory;
  int pulse_fd; /* where there is one */
} keeper;

static struct keeper_pulse *pulse(void) {
  struct keeper_memory *memory = atomic_load(&keeper.memory);
  return memory ? &memory->pulse : NULL;
}

bool keeper_is_there(void) { return systemd_keeps() > 0; }

static unsigned room_of_descriptors(void) {
  unsigned room = systemd_keeps();
  return room > OTHERS ? room - OTHERS : 0;
}

void keeper_forget_roster(uint64_t number) {
  char name[NAME];
  snprintf(name, sizeof name, ROSTER "%llu", (unsigned long long)number);
  systemd_forget(name);
}

static void forget_roster(void) {
  if (keeper.roster > 0) {
    keeper_forget_roster(keeper.roster);
    keeper.roster = 0;
  }
}

static void set_takers(uint64_t takers) {
  if (pulse()) {
    pulse()->takers = takers;
  }
}

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

static bool keep_state(const struct tape *tape, int state) {
  kept_make_room(tape, false, room_of_descriptors());
  bool all = kept_all(tape, false);
  kept_forget_others();
  all = all && systemd_keep(state, STATE);
  forget_roster();
  if (all) {
    set_takers(0);
  }
  return all;
}

bool keeper_keep(const struct tape *tape, struct failure *failure) {
  unsigned needed = tape->descriptor_count + OTHERS, room = systemd_keeps();
  if (needed > room) { /* systemd would drop the last ones without a word to us */
    const char *remedy = needed > SYSTEMD_MOST_KEPT ? "serve fewer connections: there is room for 8192 descriptors at most"
                                                    : "raise FileDescriptorStoreMax= and FDSTORE in the unit, to 8192 at most";
    return failure_set(failure, EXIT_STATUS_INTERNAL, remedy,
                       "the service manager keeps fewer descriptors (%u) than there are (%u)", room, needed);
  }
  int state = state_write(tape, failure);
  if (state < 0) {
    return false;
  }
  bool kept = keep_state(tape, state);
  close(state);
  if (!kept || !systemd_has_read()) {
    systemd_forget(STATE); /* it may have all of it, and the next process would take that for where this one stopped */
    keeper_withdraw();
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the service manager does not say whether it kept everything");
  }
  return true;
}

/* -- at all times ---------------------------------------------------------------------------------------------------- */

void keeper_mark(void) { keeper.marked = true; }

bool keeper_is_marked(void) { return keeper.marked; }

/* The new one lies there before the old one goes. What was said to be of no use before is gone by then. */
static bool keep_roster(const struct tape *tape) {
  char name[NAME];
  struct failure failure; /* without a roster the next process knows less of this one, and nothing else */
  uint64_t number = keeper.roster + 1;
  int fd = state_write(tape, &failure);
  snprintf(name, sizeof name, ROSTER "%llu", (unsigned long long)number);
  bool kept = fd >= 0 && systemd_keep(fd, name);
  if (fd >= 0) {
    close(fd);
  }
  forget_roster();
  keeper.roster = kept ? number : 0;
  if (kept) {
    set_takers(0);
  }
  return kept;
}

void keeper_keep_roster(const struct tape *tape, bool whole) {
  keeper.marked = false;
  if (!keeper_is_there()) {
    return;
  }
  bool fits = whole && tape->descriptor_count <= room_of_descriptors();
  if (!fits) {
    forget_roster(); /* before what it tells of */
  }
  kept_make_room(tape, !fits, room_of_descriptors());
  bool kept = kept_all(tape, !fits);
  if (fits && kept) {
    kept = keep_roster(tape);
  } else {
    forget_roster();
  }
  kept_forget_others();
  keeper.unsaid = !kept;
}

bool keeper_try_again(void) {
  if (keeper.unsaid) {
    keeper_mark();
  }
  return keeper.unnoted;
}

static struct keeper_memory *map_pulse(int fd) {
  struct keeper_memory *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return NULL;
  }
  memset(memory->new_files, 0, sizeof memory->new_files); /* the image before has removed its own */
  return memory;
}

static void use_pulse(struct keeper_memory *memory, int fd) {
  keeper.pulse_fd = fd;
  atomic_store(&keeper.memory, memory);
}

/* One that does not lie there is made anew at the next note. */
static void start_pulse(void) {
  int fd = memfd_create("framed:pulse", MFD_CLOEXEC);
  bool made = fd >= 0 && ftruncate(fd, sizeof(struct keeper_memory)) == 0;
  struct keeper_memory *memory = made ? map_pulse(fd) : NULL;
  systemd_forget(PULSE); /* one before has been spent */
  if (memory) {
    memory->pulse.last = clock_now();
  }
  if (memory && systemd_keep(fd, PULSE)) {
    use_pulse(memory, fd);
    return;
  }
  if (memory) {
    munmap(memory, sizeof *memory);
  }
  if (fd >= 0) {
    close(fd);
  }
}

void keeper_pass_journal(struct keeper_journal *journal, struct tape *tape) {
  succession_pass(&journal->succession, tape);
  tape_pass_below(tape, &journal->file_count, KEEPER_MOST_FILES + 1);
  for (unsigned i = 0; i < journal->file_count; i++) {
    tape_pass_text(tape, &journal->files[i].path);
    TAPE_PASS(tape, journal->files[i].result_bytes);
  }
}

void keeper_say_unsure(void) {
  int fd = memfd_create("framed:unsure", MFD_CLOEXEC);
  if (fd >= 0) {
    systemd_keep(fd, UNSURE);
    close(fd);
  }
}

static bool keep_journal(struct keeper_journal *journal) {
  struct tape tape;
  struct failure failure; /* any file may be torn then, and it is tried again */
  tape_begin(&tape);
  keeper_pass_journal(journal, &tape);
  int fd = state_write(&tape, &failure);
  keeper_say_unsure();
  systemd_forget(JOURNAL);
  bool kept = fd >= 0 && systemd_keep(fd, JOURNAL);
  if (fd >= 0) {
    close(fd);
  }
  tape_clear(&tape);
  return kept;
}

void keeper_note(struct keeper_journal *journal) {
  if (!keeper_is_there()) {
    return;
  }
  bool kept = keep_journal(journal);
  if (!pulse()) {
    start_pulse();
  }
  keeper.unnoted = !kept || !pulse();
  if (!keeper.unnoted) {
    systemd_forget(UNSURE);
  }
}

/* -- files that are new ---------------------------------------------------------------------------------------------- */

/* The entry of that path, or an empty one for none. */
static struct new_file *find_new_file(const char *path) {
  struct keeper_memory *memory = atomic_load(&keeper.memory);
  for (unsigned i = 0; memory && i < MOST_NEW_FILES; i++) {
    if (strcmp(memory->new_files[i].path, path) == 0) {
      return &memory->new_files[i];
    }
  }
  return NULL;
}

/* The path comes last: this process may be killed in between. */
void keeper_note_new_file(const char *path, const struct stat *made) {
  struct new_file *file = find_new_file("");
  if (file && strlen(path) < sizeof file->path) {
    file->device = made->st_dev;
    file->inode = made->st_ino;
    file->made = made->st_mtim;
    atomic_signal_fence(memory_order_release);
    memcpy(file->path, path, strlen(path) + 1);
  }
}

void keeper_forget_new_file(const char *path) {
  struct new_file *file = find_new_file(path);
  if (file) {
    file->path[0] = '\0';
  }
}

void keeper_beat(int64_t now, uint64_t clients) {
  if (pulse()) {
    pulse()->clients = clients;
    pulse()->last = now;
  }
}

void keeper_withdraw(void) {
  keeper_release();
  forget_roster();
  kept_forget_others();
}

void keeper_end(void) {
  if (pulse()) {
    pulse()->last = 0;
  }
  if (keeper.unnoted) {
    systemd_forget(UNSURE);
  }
  keeper_withdraw();
}

/* It is memory of that size, and no file of anybody's. */
static bool is_pulse(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0 &&
         status.st_size == sizeof(struct keeper_memory);
}

void keeper_pass(struct tape *tape) {
  int fd = pulse() ? keeper.pulse_fd : -1;
  TAPE_PASS(tape, keeper.roster);
  tape_pass_descriptor(tape, &fd);
  if (!tape->writing && fd >= 0) {
    struct keeper_memory *memory = is_pulse(fd) ? map_pulse(fd) : NULL;
    if (memory) {
      use_pulse(memory, fd);
    } else {
      close(fd);
    }
  }
  kept_pass(tape);
}

/* The pulse is memory, so that this is known at once, whatever becomes of what the service manager is told. */
void keeper_spend_roster(void) {
  set_takers(KEEPER_SPENT);
  forget_roster();
}
