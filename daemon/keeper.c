#include "daemon/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/listener.h"
#include "daemon/state.h"
#include "daemon/systemd.h"

/* Names in the store. */
#define STATE    KEEPER_STATE
#define CARRIED  "carried-" /* and the number that a descriptor had */
#define LISTENER "listener-"
#define JOURNAL  "journal"
#define PULSE    "pulse"

enum { NAME = 64, MOST_LISTENERS = 1024 };

static struct {
  unsigned listeners;         /* that lie there, numbered from 0 */
  struct keeper_pulse *pulse; /* NULL: not yet */
  struct keeper_journal last; /* of the process before this one, */
  int found[MOST_LISTENERS];  /* and its listeners; -1 once taken */
  unsigned found_count;
} kept;

bool keeper_is_there(void) { return systemd_keeps() > 0; }

static void forget_listeners(void) {
  char name[NAME];
  for (unsigned i = 0; i < kept.listeners; i++) {
    snprintf(name, sizeof name, LISTENER "%u", i);
    systemd_forget(name);
  }
  kept.listeners = 0;
}

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

static void keep_carried(const struct tape *tape, int state) {
  char name[NAME];
  forget_listeners(); /* what lies there once is not taken again under another name */
  systemd_forget(JOURNAL);
  systemd_forget(PULSE);
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    snprintf(name, sizeof name, CARRIED "%d", tape->descriptors[i].before);
    systemd_keep(tape->descriptors[i].now, name);
  }
  systemd_keep(state, STATE);
}

/* It may have kept all of it, which the next process would take for where this one stopped. */
static void forget_carried(const struct tape *tape) {
  char name[NAME];
  systemd_forget(STATE);
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    snprintf(name, sizeof name, CARRIED "%d", tape->descriptors[i].before);
    systemd_forget(name);
  }
}

bool keeper_keep(const struct tape *tape, struct failure *failure) {
  unsigned needed = tape->descriptor_count + 1, room = systemd_keeps(); /* the state is one, too */
  if (needed > room) { /* systemd would drop the last ones without a word to us */
    return failure_set(failure, EXIT_STATUS_INTERNAL, "raise FileDescriptorStoreMax= and FDSTORE in the unit",
                       "the service manager keeps fewer descriptors (FileDescriptorStoreMax=%u) than there are (%u)", room,
                       needed);
  }
  int state = state_write(tape, failure);
  if (state < 0) {
    return false;
  }
  keep_carried(tape, state);
  close(state);
  if (!systemd_has_read()) {
    forget_carried(tape);
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the service manager does not say whether it kept everything");
  }
  return true;
}

/* The store would keep connections open that both sides have closed. */
static void take_carried(struct tape *tape) {
  char number[NAME], name[NAME + sizeof CARRIED];
  for (int fd = systemd_take_kept(CARRIED, number, sizeof number); fd >= 0;
       fd = systemd_take_kept(CARRIED, number, sizeof number)) {
    tape_map(tape, (int)strtol(number, NULL, 10), fd);
    snprintf(name, sizeof name, CARRIED "%s", number);
    systemd_forget(name);
  }
}

bool keeper_receive(struct tape *tape, struct failure *failure) {
  char rest[NAME];
  struct tape nothing = {0};
  int state = keeper_is_there() ? systemd_take_kept(STATE, rest, sizeof rest) : -1;
  failure->text[0] = '\0';
  bool whole = state >= 0 && state_read(state, tape, failure);
  if (state >= 0) {
    close(state);
    systemd_forget(STATE);
  }
  take_carried(whole ? tape : &nothing);
  if (!whole) {
    tape_close_rest(&nothing);
    tape_clear(&nothing);
    return false;
  }
  tape->same_descriptors = false;
  tape->by_manager = true;
  return true;
}

/* -- the journal ----------------------------------------------------------------------------------------------------- */

static void pass_journal(struct keeper_journal *journal, struct tape *tape) {
  succession_pass(&journal->succession, tape);
  tape_pass_below(tape, &journal->file_count, KEEPER_MOST_FILES + 1);
  for (unsigned i = 0; i < journal->file_count; i++) {
    tape_pass_text(tape, &journal->files[i]);
  }
}

static void note_journal(struct keeper_journal *journal) {
  struct tape tape;
  struct failure failure; /* without a journal the next process knows less of this one, and nothing else */
  tape_begin(&tape);
  pass_journal(journal, &tape);
  int fd = state_write(&tape, &failure);
  systemd_forget(JOURNAL);
  if (fd >= 0) {
    systemd_keep(fd, JOURNAL);
    close(fd);
  }
  tape_clear(&tape);
}

/* A TCP address can be taken again at once, and is not kept. */
static bool is_kept(const struct listener *listener) {
  return !listener_is_passed(listener) && listener_path(listener)[0] == '/';
}

static void note_listeners(struct listener *const *listeners, unsigned count) {
  char name[NAME];
  forget_listeners();
  for (unsigned i = 0; i < count && i < MOST_LISTENERS; i++) {
    if (is_kept(listeners[i])) {
      snprintf(name, sizeof name, LISTENER "%u", kept.listeners++);
      systemd_keep(listener_fd(listeners[i]), name);
    }
  }
}

static void start_pulse(void) {
  int fd = memfd_create("framed:pulse", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof *kept.pulse) != 0) {
    return;
  }
  void *pulse = mmap(NULL, sizeof *kept.pulse, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pulse != MAP_FAILED) {
    kept.pulse = pulse;
    systemd_forget(PULSE);
    systemd_keep(fd, PULSE);
  }
  close(fd);
}

void keeper_note(struct keeper_journal *journal, struct listener *const *listeners, unsigned listener_count) {
  if (!keeper_is_there()) {
    return;
  }
  note_journal(journal);
  note_listeners(listeners, listener_count);
  if (!kept.pulse) {
    start_pulse();
  }
}

void keeper_beat(int64_t now, uint64_t clients) {
  if (kept.pulse) {
    kept.pulse->clients = clients;
    kept.pulse->last = now;
  }
}

void keeper_end(void) {
  if (kept.pulse) {
    kept.pulse->last = 0;
  }
}

/* -- after the other kind of end ------------------------------------------------------------------------------------- */

static void find_listeners(void) {
  char number[NAME], name[NAME + sizeof LISTENER];
  int fd;
  while (kept.found_count < MOST_LISTENERS && (fd = systemd_take_kept(LISTENER, number, sizeof number)) >= 0) {
    snprintf(name, sizeof name, LISTENER "%s", number);
    systemd_forget(name);
    kept.found[kept.found_count++] = fd;
  }
}

static bool is_at(int fd, const char *path) {
  struct sockaddr_un address = {0};
  socklen_t length = sizeof address - 1;
  return getsockname(fd, (struct sockaddr *)&address, &length) == 0 && address.sun_family == AF_UNIX &&
         strcmp(address.sun_path, path) == 0;
}

int keeper_take_listener(const char *path) {
  for (unsigned i = 0; i < kept.found_count; i++) {
    int fd = kept.found[i];
    if (fd >= 0 && is_at(fd, path)) {
      kept.found[i] = -1;
      return fd;
    }
  }
  return -1;
}

void keeper_forget_found(void) {
  for (unsigned i = 0; i < kept.found_count; i++) {
    if (kept.found[i] >= 0) {
      close(kept.found[i]);
    }
  }
  kept.found_count = 0;
}

bool keeper_recover(struct keeper_journal *journal, struct keeper_pulse *pulse) {
  char rest[NAME];
  struct tape tape = {0};
  struct failure failure;
  int beaten = keeper_is_there() ? systemd_take_kept(PULSE, rest, sizeof rest) : -1;
  int noted = keeper_is_there() ? systemd_take_kept(JOURNAL, rest, sizeof rest) : -1;
  *pulse = (struct keeper_pulse){0};
  find_listeners();
  if (beaten >= 0) {
    (void)!pread(beaten, pulse, sizeof *pulse, 0);
    close(beaten);
  }
  bool whole = noted >= 0 && state_read(noted, &tape, &failure);
  if (noted >= 0) {
    close(noted);
  }
  if (whole) {
    pass_journal(journal, &tape);
    whole = !tape.broken;
  }
  tape_clear(&tape);
  if (whole) {
    kept.last = *journal;
  }
  return whole && pulse->last > 0;
}

bool keeper_was_writing(const char *file) {
  for (unsigned i = 0; i < kept.last.file_count; i++) {
    if (kept.last.files[i] && strcmp(kept.last.files[i], file) == 0) {
      return true;
    }
  }
  return false;
}
