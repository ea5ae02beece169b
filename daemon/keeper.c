#include "daemon/keeper.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/kept.h"
#include "daemon/state.h"
#include "daemon/systemd.h"

/* Names in the store. */
#define STATE   KEEPER_STATE
#define ROSTER  "roster-" /* and a number: the highest counts */
#define JOURNAL "journal"
#define PULSE   "pulse"
#define UNSURE  "unsure" /* while one journal follows another: any file may be torn */

#define TORN "FRAMED_TORN" /* a variable: an image before this one could make nothing of a roster */

enum { NAME = 64, MOST_LISTENERS = 1024, OTHERS = 4 /* state or roster, twice for a moment; journal; pulse */ };

static struct {
  uint64_t roster;            /* the number of the one that lies there; 0: none */
  atomic_bool marked;         /* also by whoever prepares pipelines */
  struct keeper_pulse *pulse; /* NULL: not yet */
  /* Of the process before this one: */
  bool journal_found, unsure;
  struct keeper_journal last;
  struct keeper_pulse last_pulse;
  int found[MOST_LISTENERS]; /* listeners; -1 once taken */
  unsigned found_count;
} keeper;

bool keeper_is_there(void) { return systemd_keeps() > 0; }

static void forget_roster(void) {
  char name[NAME];
  if (keeper.roster > 0) {
    snprintf(name, sizeof name, ROSTER "%llu", (unsigned long long)keeper.roster);
    systemd_forget(name);
    keeper.roster = 0;
  }
}

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

static bool keep_state(const struct tape *tape, int state) {
  bool all = kept_all(tape, false);
  kept_forget_others();
  all = all && systemd_keep(state, STATE);
  forget_roster();
  return all;
}

bool keeper_keep(const struct tape *tape, struct failure *failure) {
  unsigned needed = tape->descriptor_count + OTHERS, room = systemd_keeps();
  if (needed > room) { /* systemd would drop the last ones without a word to us */
    return failure_set(failure, EXIT_STATUS_INTERNAL, "raise FileDescriptorStoreMax= and FDSTORE in the unit",
                       "the service manager keeps fewer descriptors (FileDescriptorStoreMax=%u) than there are (%u)", room,
                       needed);
  }
  int state = state_write(tape, failure);
  if (state < 0) {
    return false;
  }
  bool kept = keep_state(tape, state);
  close(state);
  if (!kept ||
      !systemd_has_read()) { /* it may have kept all of it, which the next process would take for where this one stopped */
    systemd_forget(STATE);
    keeper_withdraw();
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the service manager does not say whether it kept everything");
  }
  return true;
}

/* It goes on lying there. */
static int look_at(const char *name) {
  char rest[NAME];
  return systemd_take_kept(name, rest, sizeof rest);
}

static int take(const char *name) {
  int fd = look_at(name);
  if (fd >= 0) {
    systemd_forget(name);
  }
  return fd;
}

/* What is known of a process that was killed is known until there is one that is ready, which replaces it. A beat that cannot
 * have been was one: nobody knows when. */
static void recall_pulse(void) {
  struct keeper_pulse pulse = {0};
  int64_t now = clock_now();
  int fd = look_at(PULSE);
  if (fd < 0) {
    return;
  }
  if (pread(fd, &pulse, sizeof pulse, 0) != (ssize_t)sizeof pulse || pulse.last < 0 || pulse.last > now) {
    pulse.last = now;
  }
  keeper.last_pulse = pulse;
  close(fd);
}

static void pass_journal(struct keeper_journal *journal, struct tape *tape) {
  succession_pass(&journal->succession, tape);
  tape_pass_below(tape, &journal->file_count, KEEPER_MOST_FILES + 1);
  for (unsigned i = 0; i < journal->file_count; i++) {
    tape_pass_text(tape, &journal->files[i]);
  }
}

static void recall_journal(void) {
  struct tape tape = {0};
  struct failure failure; /* without it less is known */
  int fd = look_at(JOURNAL);
  bool whole = fd >= 0 && state_read(fd, &tape, &failure);
  if (fd >= 0) {
    close(fd);
  }
  if (whole) {
    pass_journal(&keeper.last, &tape);
  }
  keeper.journal_found = whole && !tape.broken;
  if (!keeper.journal_found) {
    keeper.last.file_count = 0;
  }
  tape_clear(&tape);
}

/* There are two for a moment when one follows the other. */
static int take_roster(void) {
  char number[NAME], name[NAME + sizeof ROSTER];
  unsigned long long best = 0;
  int roster = -1;
  for (int fd = systemd_take_kept(ROSTER, number, sizeof number); fd >= 0;
       fd = systemd_take_kept(ROSTER, number, sizeof number)) {
    unsigned long long counted = strtoull(number, NULL, 10);
    snprintf(name, sizeof name, ROSTER "%s", number);
    systemd_forget(name);
    if (roster >= 0) {
      close(counted > best ? roster : fd);
    }
    roster = counted > best ? fd : roster;
    best = counted > best ? counted : best;
  }
  return roster;
}

static bool read_tape(int fd, struct tape *tape, struct failure *failure) {
  struct tape carried = {0};
  bool whole = fd >= 0 && state_read(fd, tape, failure);
  if (fd >= 0) {
    close(fd);
  }
  kept_take(whole ? tape : &carried);
  if (!whole) {
    keeper_find_listeners(&carried);
    tape_close_rest(&carried);
    tape_clear(&carried);
    return false;
  }
  tape->same_descriptors = false;
  tape->by_manager = true;
  return true;
}

static bool lies_there(const char *name) {
  int fd = look_at(name);
  if (fd >= 0) {
    close(fd);
  }
  return fd >= 0;
}

/* One that was killed, and not one that ended. */
static bool receive_roster(struct tape *tape, struct failure *failure) {
  int roster = take_roster();
  recall_pulse();
  recall_journal();
  keeper.unsure = lies_there(UNSURE);
  if (roster >= 0 && keeper.last_pulse.last == 0) {
    close(roster);
    roster = -1;
  }
  bool whole = read_tape(roster, tape, failure);
  tape->live = whole;
  return whole;
}

/* Its descriptor is among those that may be handed over once more until this process is ready. */
static void put_aside(int fd) {
  if (fd >= 0) {
    keeper_found(fd);
  }
}

/* It may have been killed in the middle of its orderly end: all that it noted before is older, and the journal is for whoever
 * comes next, should this process not become ready. */
static bool receive_state(int state, struct tape *tape, struct failure *failure) {
  put_aside(take_roster());
  put_aside(look_at(JOURNAL));
  put_aside(look_at(PULSE));
  return read_tape(state, tape, failure);
}

bool keeper_receive(struct tape *tape, struct failure *failure) {
  failure->text[0] = '\0';
  if (!keeper_is_there()) {
    return false;
  }
  int state = take(STATE);
  return state >= 0 ? receive_state(state, tape, failure) : receive_roster(tape, failure);
}

/* -- at all times ---------------------------------------------------------------------------------------------------- */

void keeper_mark(void) { keeper.marked = true; }

bool keeper_is_marked(void) { return keeper.marked; }

/* The new one lies there before the old one goes. */
static void keep_roster(const struct tape *tape) {
  char name[NAME];
  struct failure failure; /* without a roster the next process knows less of this one, and nothing else */
  int fd = state_write(tape, &failure);
  if (fd < 0) {
    forget_roster();
    return;
  }
  uint64_t number = keeper.roster + 1;
  snprintf(name, sizeof name, ROSTER "%llu", (unsigned long long)number);
  bool kept = systemd_keep(fd, name);
  close(fd);
  forget_roster();
  keeper.roster = kept ? number : 0;
}

void keeper_keep_roster(const struct tape *tape) {
  keeper.marked = false;
  if (!keeper_is_there()) {
    return;
  }
  bool has_room = tape->descriptor_count + OTHERS <= systemd_keeps();
  bool all = kept_all(tape, !has_room) && has_room;
  if (all) {
    keep_roster(tape);
  } else {
    forget_roster();
  }
  kept_forget_others();
}

static void start_pulse(void) {
  int fd = memfd_create("framed:pulse", MFD_CLOEXEC);
  void *pulse = fd >= 0 && ftruncate(fd, sizeof *keeper.pulse) == 0
                    ? mmap(NULL, sizeof *keeper.pulse, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
  if (pulse != MAP_FAILED) {
    keeper.pulse = pulse;
    keeper.pulse->last = clock_now();
    systemd_forget(PULSE);
    systemd_keep(fd, PULSE);
  }
  if (fd >= 0) {
    close(fd);
  }
}

static void say_unsure(void) {
  int fd = memfd_create("framed:unsure", MFD_CLOEXEC);
  if (fd >= 0) {
    systemd_keep(fd, UNSURE);
    close(fd);
  }
}

void keeper_note(struct keeper_journal *journal) {
  struct tape tape;
  struct failure failure;
  if (!keeper_is_there()) {
    return;
  }
  tape_begin(&tape);
  pass_journal(journal, &tape);
  int fd = state_write(&tape, &failure);
  say_unsure();
  systemd_forget(JOURNAL);
  if (fd >= 0) {
    systemd_keep(fd, JOURNAL);
    close(fd);
  }
  tape_clear(&tape);
  if (!keeper.pulse) {
    start_pulse();
  }
  systemd_forget(UNSURE);
}

void keeper_beat(int64_t now, uint64_t clients) {
  if (keeper.pulse) {
    keeper.pulse->clients = clients;
    keeper.pulse->last = now;
  }
}

void keeper_expect_torn(void) { setenv(TORN, "1", 1); }

void keeper_withdraw(void) {
  forget_roster();
  kept_forget_others();
}

void keeper_end(void) {
  if (keeper.pulse) {
    keeper.pulse->last = 0;
  }
  keeper_withdraw();
}

void keeper_pass(struct tape *tape) {
  TAPE_PASS(tape, keeper.roster);
  kept_pass(tape);
}

/* -- after the other kind of end ------------------------------------------------------------------------------------- */

void keeper_found(int fd) {
  if (keeper.found_count < MOST_LISTENERS) {
    keeper.found[keeper.found_count++] = fd;
  } else {
    close(fd);
  }
}

void keeper_find_listeners(struct tape *tape) {
  for (unsigned i = 0; i < tape->descriptor_count; i++) {
    struct tape_descriptor *descriptor = &tape->descriptors[i];
    if (!descriptor->taken && kept_is_listener(descriptor->now)) {
      descriptor->taken = true;
      keeper_found(descriptor->now);
    }
  }
}

static bool is_at(int fd, const char *path) {
  struct sockaddr_un address = {0};
  socklen_t length = sizeof address - 1;
  return getsockname(fd, (struct sockaddr *)&address, &length) == 0 && address.sun_family == AF_UNIX &&
         strcmp(address.sun_path, path) == 0;
}

int keeper_take_listener(const char *path) {
  for (unsigned i = 0; i < keeper.found_count; i++) {
    int fd = keeper.found[i];
    if (fd >= 0 && is_at(fd, path)) {
      keeper.found[i] = -1;
      return fd;
    }
  }
  return -1;
}

void keeper_forget_last(void) {
  for (unsigned i = 0; i < keeper.found_count; i++) {
    if (keeper.found[i] >= 0) {
      close(keeper.found[i]);
    }
  }
  keeper.found_count = 0;
  for (unsigned i = 0; i < keeper.last.file_count; i++) {
    free(keeper.last.files[i]);
  }
  keeper.last.file_count = 0;
  unsetenv(TORN);
}

bool keeper_recover(struct keeper_journal *journal, struct keeper_pulse *pulse) {
  *journal = keeper.last;
  *pulse = keeper.last_pulse;
  return keeper.journal_found && pulse->last > 0;
}

struct keeper_pulse keeper_last_pulse(void) {
  return keeper.last_pulse;
}

void keeper_recall_again(void) {
  if (keeper.journal_found) {
    keeper_note(&keeper.last);
    keeper_beat(keeper.last_pulse.last, keeper.last_pulse.clients);
  }
}

bool keeper_was_writing(const char *file) {
  if (getenv(TORN) || keeper.unsure) {
    return true;
  }
  for (unsigned i = 0; i < keeper.last.file_count; i++) {
    if (keeper.last.files[i] && strcmp(keeper.last.files[i], file) == 0) {
      return true;
    }
  }
  return false;
}
