#include "daemon/state/fd_store.h"

#include <string.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/state.h"

#define IMAGE "image-" /* of this kind are images there; their number is when they were made, and the latest counts */

/* A process may be killed for what it receives: the last of so many processes in a row receives it, and the next one nothing.
 */
enum { MOST_TAKERS = 3 };

/* What a process needs to know which can make nothing of a state. */
struct journal {
  struct history history;
  struct fd_store_file files[];
};

static struct {
  void *state, *journal; /* in the image; NULL: none */
  bool unsaid;           /* something of the state could not be said */
  bool image;            /* the image lies there */
  bool beats;            /* something was noted */
} own;

static struct {
  uint64_t image; /* when it was made, if it lies there; 0: it does not */
  struct image_heartbeat heartbeat;
  bool was_killed;
  bool is_done; /* this process serves, and needs nothing more of it */
} last;

static unsigned room_of_descriptors(void) {
  unsigned room = systemd_keeps();
  return room > FD_TABLE_OTHERS ? room - FD_TABLE_OTHERS : 0;
}

void fd_store_forget_image(void) {
  if (last.image > 0 && systemd_forget(IMAGE, last.image)) {
    last.image = 0;
  }
}

static bool keep_image(void) {
  own.image = own.image || (image_fd() >= 0 && systemd_keep(image_fd(), IMAGE, image_born()));
  if (own.image && last.is_done) {
    fd_store_forget_image();
  }
  return own.image;
}

/* Puts a record to its place; what stood there counts until then. NULL: there is none. */
static void put_record(void *next, void **record, _Atomic(const void *) *place) {
  atomic_store(place, next);
  image_free(*record);
  *record = next;
}

static void put_state(void *state) {
  if (state || own.state) {
    put_record(state, &own.state, &image_front()->state);
  }
}

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

bool fd_store_keep(void *state, struct failure *failure) {
  unsigned needed = fd_table_needed() + FD_TABLE_OTHERS, room = systemd_keeps();
  if (needed > room) { /* systemd would drop the last ones without a word to us */
    image_free(state);
    const char *remedy = needed > SYSTEMD_MOST_KEPT ? "serve fewer connections: there is room for 8192 descriptors at most"
                                                    : "raise FileDescriptorStoreMax= and FDSTORE in the unit, to 8192 at most";
    return failure_set(failure, EXIT_STATUS_INTERNAL, remedy,
                       "the service manager keeps fewer descriptors (%u) than there are (%u)", room, needed);
  }
  fd_store_keep_state(state);
  if (!own.state || !systemd_has_read()) {
    fd_store_withdraw(); /* it may have all of it, and the next process would take that for where this one stopped */
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the service manager does not say whether it kept everything");
  }
  return true;
}

/* -- at all times ---------------------------------------------------------------------------------------------------- */

void fd_store_keep_state(void *state) {
  bool fits = state && image_outlives() && fd_table_needed() <= room_of_descriptors();
  if (!fits) {
    put_state(NULL); /* before what it tells of */
  }
  bool all = fd_table_keep(!fits, room_of_descriptors()) && (!fits || keep_image());
  put_state(fits && all ? state : NULL);
  if (!fits || !all) {
    image_free(state);
  }
  own.unsaid = !fd_table_forget_others() || !all;
}

void fd_store_try_again(void) {
  if (own.unsaid) {
    fd_table_mark();
  }
  if (own.beats) {
    keep_image();
  }
}

/* Without memory for a journal the next process knows less of this one, and nothing else. */
void fd_store_note(const struct history *history, const struct fd_store_file *files, unsigned count) {
  struct image_front *front = systemd_keeps() > 0 ? image_front() : NULL;
  const struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)history, .iov_len = sizeof *history},
                                {.iov_base = (void *)(uintptr_t)files, .iov_len = count * sizeof *files}};
  if (!front) {
    return;
  }
  put_record(files ? state_write(parts, 2, true) : NULL, &own.journal, &front->journal);
  if (!own.beats) {
    own.beats = true;
    fd_store_beat(clock_now(), 0);
  }
  keep_image();
}

void fd_store_beat(int64_t now, uint64_t clients) {
  if (own.beats) {
    image_front()->heartbeat.clients = clients;
    image_front()->heartbeat.last = now;
  }
}

void fd_store_withdraw(void) {
  fd_store_release();
  put_state(NULL);
  fd_table_withdraw();
  own.image = own.image && !systemd_forget(IMAGE, image_born());
}

void fd_store_end(void) {
  uint64_t ended = 0;
  fd_store_beat(0, 0);
  image_left_set_front(offsetof(struct image_front, heartbeat.last), &ended, sizeof ended);
  fd_store_withdraw();
  fd_store_forget_image();
}

/* -- what the process before left ------------------------------------------------------------------------------------ */

/* Also of an image of another version, which is not there to read. A beat that cannot have been was one: nobody knows when. */
static void recall_heartbeat(int fd) {
  int64_t now = clock_now();
  ssize_t got = pread(fd, &last.heartbeat, sizeof last.heartbeat, IMAGE_FRONT);
  if (got != (ssize_t)sizeof last.heartbeat || last.heartbeat.last < 0 || last.heartbeat.last > now) {
    last.heartbeat.last = now;
  }
}

bool fd_store_look_into(int fd, bool was_killed) {
  bool usable = image_look_into(fd);
  if (was_killed) {
    recall_heartbeat(fd);
    last.was_killed = image_left_front() && last.heartbeat.last > 0;
  }
  last.image = last.image > 0 ? last.image : image_left_born();
  return usable;
}

/* There are two for a moment when one follows the other. */
static int take_image(void) {
  int image = -1;
  uint64_t born;
  for (int fd = systemd_take_kept(IMAGE, &born); fd >= 0; fd = systemd_take_kept(IMAGE, &born)) {
    bool is_later = image < 0 || born > last.image;
    int other = is_later ? image : fd;
    if (image >= 0 && born != last.image) {
      systemd_forget(IMAGE, is_later ? last.image : born);
    }
    if (other >= 0) {
      close(other);
    }
    image = is_later ? fd : image;
    last.image = is_later ? born : last.image;
  }
  return image;
}

/* The journal is for a process that can make nothing of the state; that of an orderly end says more. */
static bool read_image(int fd, struct failure *failure) {
  bool usable = fd_store_look_into(fd, true);
  const struct image_front *front = image_left_front();
  bool is_there = front ? front->state != NULL : last.heartbeat.last != 0;
  bool whole = usable && front && front->state && state_receive(front->state, true, failure);
  if (is_there && !usable) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "its memory is of another version, or its process failed by itself");
  }
  if (!front) {
    fd_store_forget_image();
  }
  last.was_killed = last.was_killed && !(whole && !state_left()->live);
  return whole;
}

static bool write_takers(uint64_t takers) {
  return image_left_set_front(offsetof(struct image_front, heartbeat.takers), &takers, sizeof takers);
}

bool fd_store_receive(struct failure *failure) {
  failure->text[0] = '\0';
  if (systemd_keeps() == 0) {
    return false;
  }
  int fd = take_image();
  bool whole = fd >= 0 && read_image(fd, failure);
  uint64_t takers = last.heartbeat.takers + 1;
  if (!whole || takers >= MOST_TAKERS || !write_takers(takers)) { /* before anything that this process may die of */
    fd_store_release();
  }
  fd_table_receive(true);
  if (!whole) {
    fd_table_close_rest(false);
    fd_table_begin();
    fd_table_forget_others();
  }
  return whole;
}

void fd_store_release(void) {
  const void *none = NULL;
  image_left_set_front(offsetof(struct image_front, state), &none, sizeof none);
}

void fd_store_repeat(void) { write_takers(last.heartbeat.takers); }

bool fd_store_was_killed(void) { return last.was_killed; }

struct image_heartbeat fd_store_last_heartbeat(void) {
  return last.heartbeat;
}

/* NULL: there is none, or nobody was killed. */
static const struct journal *last_journal(size_t *count) {
  struct left left;
  const struct journal *journal = NULL;
  const struct image_front *front = last.was_killed ? image_left_front() : NULL;
  if (front && state_read(front->journal, &left) && left.length >= sizeof *journal) {
    journal = left.bytes;
    *count = (left.length - sizeof *journal) / sizeof *journal->files;
  }
  return journal;
}

bool fd_store_recover(struct history *history) {
  size_t count;
  const struct journal *journal = last_journal(&count);
  return journal && history_adopt(history, &journal->history);
}

/* Without a journal any file may be. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes) {
  size_t count = 0;
  const struct journal *journal = last_journal(&count);
  bool was = last.was_killed && !journal;
  *result_bytes = 0;
  for (size_t i = 0; i < count && !was; i++) {
    was = journal->files[i].path == state_checksum(file, strlen(file));
    *result_bytes = was ? journal->files[i].result_bytes : 0;
  }
  return was;
}

void fd_store_forget_last(void) {
  last.was_killed = false;
  last.is_done = true;
  image_look_away();
  fd_table_close_rest(true);
}
