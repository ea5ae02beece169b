#include "daemon/state/fd_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_front.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

static_assert(sizeof(struct fd_store_front) <= IMAGE_FRONT_BYTES, "it fits the front of the image");

static struct {
  void *state, *journal;        /* in the image; NULL: none */
  bool unsaid;                  /* something of the state could not be said */
  bool image;                   /* the image lies there */
  struct fd_store_front *front; /* NULL: nothing was noted yet */
} keeper;

bool fd_store_is_there(void) { return systemd_keeps() > 0; }

static unsigned room_of_descriptors(void) {
  unsigned room = systemd_keeps();
  return room > OTHERS ? room - OTHERS : 0;
}

static bool keep_image(void) {
  char name[NAME];
  if (!keeper.image && image_fd() >= 0) {
    keeper.image = systemd_keep(image_fd(), fd_store_image_name(image_born(), name));
  }
  if (keeper.image) {
    fd_received_forget_image();
  }
  return keeper.image;
}

/* Puts the name of a record to its place; what stood there counts until then. NULL: there is none. */
static bool put_record(void *next, void **record, _Atomic uint64_t *place) {
  atomic_store(place, image_name(next));
  image_free(*record);
  *record = next;
  return next;
}

static bool put_state(void *state) {
  struct fd_store_front *front = state || keeper.state ? image_front() : NULL;
  return front && put_record(state, &keeper.state, &front->state);
}

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

bool fd_store_keep(void *state, struct failure *failure) {
  unsigned needed = fd_table_needed() + OTHERS, room = systemd_keeps();
  if (needed > room) { /* systemd would drop the last ones without a word to us */
    image_free(state);
    const char *remedy = needed > SYSTEMD_MOST_KEPT ? "serve fewer connections: there is room for 8192 descriptors at most"
                                                    : "raise FileDescriptorStoreMax= and FDSTORE in the unit, to 8192 at most";
    return failure_set(failure, EXIT_STATUS_INTERNAL, remedy,
                       "the service manager keeps fewer descriptors (%u) than there are (%u)", room, needed);
  }
  bool all = fd_table_keep(false, room_of_descriptors());
  fd_table_forget_others();
  if (!put_state(state) || !all || !keep_image() || !systemd_has_read()) {
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
  keeper.unsaid = !fd_table_forget_others() || !all;
}

void fd_store_try_again(void) {
  if (keeper.unsaid) {
    fd_table_mark();
  }
  if (keeper.front) {
    keep_image();
  }
}

void fd_store_list(FILE *out, const char *path, uint64_t result_bytes) {
  fprintf(out, "%llu %zu %s\n", (unsigned long long)result_bytes, strlen(path), path);
}

/* Without memory for a journal the next process knows less of this one, and nothing else. */
void fd_store_note(const struct history *history, const char *files) {
  struct fd_store_front *front = fd_store_is_there() ? image_front() : NULL;
  size_t length = sizeof(struct journal) + (files ? strlen(files) + 1 : 0);
  struct journal *journal = front ? malloc(length) : NULL;
  if (!front) {
    return;
  }
  if (journal) {
    journal->history = *history;
    memcpy(journal->files, files ? files : "", length - sizeof *journal);
  }
  put_record(journal ? state_write(journal, length, true) : NULL, &keeper.journal, &front->journal);
  free(journal);
  if (!keeper.front) {
    front->heartbeat.last = clock_now();
    keeper.front = front;
  }
  keep_image();
}

void fd_store_beat(int64_t now, uint64_t clients) {
  if (keeper.front) {
    keeper.front->heartbeat.clients = clients;
    keeper.front->heartbeat.last = now;
  }
}

void fd_store_withdraw(void) {
  char name[NAME];
  fd_store_release();
  put_state(NULL);
  fd_table_withdraw();
  keeper.image = keeper.image && !systemd_forget(fd_store_image_name(image_born(), name));
}

void fd_store_end(void) {
  fd_store_beat(0, 0);
  fd_received_end();
  fd_store_withdraw();
}

void fd_store_note_again(const struct history *history, const char *files, const struct fd_store_heartbeat *heartbeat) {
  fd_store_note(history, files);
  fd_store_beat(heartbeat->last, heartbeat->clients);
}
