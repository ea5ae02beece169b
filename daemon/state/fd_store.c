#include "daemon/state/fd_store.h"

#include <string.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/state.h"

#define IMAGE "image-" /* kind of an image in the store; its number is the time of its creation, and the latest counts */

/* A process may crash because of what it receives. The last of this many processes in a row receives it, and the next one
 * nothing. */
enum { MOST_RECEIVERS = 3 };

static struct {
  struct state *state; /* in the image; NULL: none */
  bool unsent;         /* some message to the store could not be sent */
  bool image;          /* the image is in the store */
} own;

static struct {
  uint64_t image; /* creation time of the stored image; 0: not in the store */
  struct image_heartbeat heartbeat;
  enum image_use use;
  bool was_killed;
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
  bool may = systemd_keeps() > 0 && image_fd() >= 0;
  own.image = own.image || (may && systemd_keep(image_fd(), IMAGE, image_born()));
  if (own.image || !may) {
    fd_store_forget_image();
  }
  return own.image;
}

/* Until the last store here the old state is valid. */
void fd_store_note(struct state *state, enum image_use use) {
  struct image_front *front = image_front();
  if (!front) {
    return;
  }
  if (use == IMAGE_IS_REPORT) {
    front->use = IMAGE_IS_REPORT;
  }
  front->state = state;
  front->use = (unsigned char)use;
  image_free(own.state);
  own.state = state;
}

/* -- storing ------------------------------------------------------------------------------------------------------ */

static bool keep_state(struct state *state, enum image_use use) {
  bool fits = state && image_fd() >= 0 && fd_table_needed() <= room_of_descriptors();
  if (!fits) {
    fd_store_note(state, IMAGE_IS_REPORT); /* before descriptors that it mentions are removed */
  }
  bool all = fd_table_keep(!fits, room_of_descriptors()) && (keep_image() || image_fd() < 0);
  if (fits) {
    fd_store_note(state, all ? use : IMAGE_IS_REPORT);
  }
  own.unsent = !fd_table_forget(false) || !all;
  return fits && all;
}

void fd_store_keep_state(struct state *state) { keep_state(state, IMAGE_IS_LIVE); }

bool fd_store_keep(struct state *state, struct failure *failure) {
  unsigned needed = fd_table_needed() + FD_TABLE_OTHERS, room = systemd_keeps();
  if (needed > room) { /* systemd would silently drop the last ones */
    image_free(state);
    const char *remedy = needed > SYSTEMD_MOST_KEPT ? "serve fewer connections: there is room for 8192 descriptors at most"
                                                    : "raise FileDescriptorStoreMax= and FDSTORE in the unit, to 8192 at most";
    return failure_set(failure, EXIT_STATUS_INTERNAL, remedy,
                       "the service manager keeps fewer descriptors (%u) than there are (%u)", room, needed);
  }
  if (!keep_state(state, IMAGE_IS_LEFT) || !systemd_has_read()) {
    fd_store_withdraw(); /* the store may be complete, and the next process must not take it for the current state */
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the service manager does not say whether it kept everything");
  }
  return true;
}

void fd_store_try_again(void) {
  if (own.unsent) {
    fd_table_mark();
  }
  keep_image();
}

void fd_store_beat(int64_t now, uint64_t clients) {
  struct image_front *front = image_front();
  if (front) {
    front->heartbeat.clients = clients;
    front->heartbeat.last = now;
  }
}

void fd_store_withdraw(void) {
  struct image_front *front = image_front();
  fd_store_release();
  if (front) {
    front->use = IMAGE_IS_REPORT;
  }
  fd_table_forget(true);
  own.image = own.image && !systemd_forget(IMAGE, image_born());
}

void fd_store_end(void) {
  struct image_front *front = image_left_front();
  fd_store_beat(0, 0);
  if (front) {
    front->heartbeat.last = 0;
  }
  fd_store_withdraw();
  fd_store_forget_image();
}

/* -- receiving from the previous process ----------------------------------------------------------------------------- */

/* A heartbeat with an impossible time counts as now, because nobody knows the real time. */
enum receipt fd_store_open_image(int fd, bool by_manager, struct failure *failure) {
  bool is_own = image_open_left(fd), is_report = false;
  const struct image_front *front = image_left_front();
  state_receive(by_manager);
  if (front) {
    int64_t now = clock_now();
    last.heartbeat = front->heartbeat;
    last.heartbeat.last = last.heartbeat.last < 0 || last.heartbeat.last > now ? now : last.heartbeat.last;
    last.use = front->use;
    is_report = front->use == IMAGE_IS_REPORT;
    last.was_killed = last.heartbeat.last > 0 && (is_report || state_left()->live);
  }
  last.image = last.image > 0 ? last.image : image_left_born();
  if (is_report || (is_own && state_left()->state)) {
    return is_report ? RECEIPT_NONE : RECEIPT_WHOLE;
  }
  failure_set(failure, EXIT_STATUS_INTERNAL, NULL,
              "it is none of framed, of another version, or not whole, or its process failed by itself");
  return RECEIPT_UNUSABLE;
}

/* There are two images if one process was just replacing another. */
static int take_image(void) {
  int image = -1;
  uint64_t born;
  for (int fd = systemd_take_kept(IMAGE, &born); fd >= 0; fd = systemd_take_kept(IMAGE, &born)) {
    bool is_later = born > last.image;
    int other = is_later ? image : fd;
    if (other >= 0) {
      systemd_forget(IMAGE, is_later ? last.image : born);
      close(other);
    }
    image = is_later ? fd : image;
    last.image = is_later ? born : last.image;
  }
  return image;
}

enum receipt fd_store_receive(struct failure *failure) {
  int fd = systemd_keeps() > 0 ? take_image() : -1;
  enum receipt receipt = fd >= 0 ? fd_store_open_image(fd, true, failure) : RECEIPT_NONE;
  if (receipt == RECEIPT_WHOLE && last.heartbeat.receivers + 1 < MOST_RECEIVERS) {
    image_left_front()->heartbeat.receivers++; /* before anything that may crash this process */
  } else {
    fd_store_release();
  }
  fd_table_receive(true);
  if (receipt != RECEIPT_WHOLE) {
    fd_table_close_rest(false);
    fd_table_begin();
    fd_table_forget(false);
  }
  return receipt;
}

void fd_store_release(void) {
  struct image_front *front = image_left_front();
  if (front) {
    front->use = IMAGE_IS_REPORT;
  }
}

void fd_store_repeat(void) {
  struct image_front *front = image_left_front();
  front->heartbeat.receivers = last.heartbeat.receivers;
  front->use = (unsigned char)last.use;
}

bool fd_store_was_killed(void) { return last.was_killed; }

struct image_heartbeat fd_store_last_heartbeat(void) {
  return last.heartbeat;
}

/* Without a state any file may have been written. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes) {
  const struct state *state = image_left_front() ? state_left()->state : NULL;
  bool was = last.was_killed && !state;
  *result_bytes = 0;
  for (unsigned i = 0; state && last.was_killed && i < state->pipelines && !was; i++) {
    was = state->pipeline[i].path == state_checksum(file, strlen(file));
    *result_bytes = was ? state->pipeline[i].result_bytes : 0;
  }
  return was;
}

void fd_store_forget_last(void) {
  last.was_killed = false;
  image_close_left();
  fd_table_close_rest(true);
}
