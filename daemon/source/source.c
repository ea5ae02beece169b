#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/frame/channel.h"
#include "daemon/source/private.h"

/* Devices such as /dev/zero are always ready and cannot be polled, so they are read like files. */
static bool can_be_polled(int fd) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN};
  bool refused = epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0 && errno == EPERM;
  if (epoll >= 0) {
    close(epoll);
  }
  return !refused;
}

static enum descriptor_kind kind_of(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) {
    return DESCRIPTOR_POLLED;
  }
  bool is_file = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && !can_be_polled(fd));
  return is_file ? DESCRIPTOR_FILE : DESCRIPTOR_POLLED;
}

static void open_kind(struct source *source, struct lane *lane, int fd) {
  source->fd = fd;
  source->kind = source->channel ? DESCRIPTOR_SHARED : kind_of(fd);
  source->state = SOURCE_OPEN;
  source->operations = &source_polled_operations;
  if (source->kind == DESCRIPTOR_FILE) {
    source->operations = &source_file_operations;
  } else if (source->kind == DESCRIPTOR_SHARED) {
    source->operations = &source_shared_operations;
  }
  source->operations->open(source, lane);
}

void source_open(struct source *source, struct lane *lane, int fd) {
  assert(source->state == SOURCE_NONE);
  source->reason = DETACH_END;
  source->text[0] = 0;
  source->offset = 0;
  source->rewound_at = source->receive->rewound_at = 0;
  source->due = 0;
  receive_start(source->receive);
  open_kind(source, lane, fd);
}

/* A source that had ended also needs handles, to be closed. */
void source_open_again(struct source *source, struct lane *lane, int fd) {
  bool had_ended = source->state == SOURCE_ENDED;
  enum detach_reason reason = source->reason;
  open_kind(source, lane, fd);
  if (had_ended) {
    source->state = SOURCE_ENDED;
    source->reason = reason;
  } else if (source->receive->since != 0) {
    source->receive->since = clock_now(); /* the time in which no lane ran does not count */
  }
}

bool source_adopt(struct source *source, const struct source *left) {
  if ((unsigned)left->state > SOURCE_CLOSING || (unsigned)left->reason > DETACH_CUT || !image_is_time(left->offset) ||
      !image_is_time(left->due)) { /* the bounds of a time also suit an offset */
    return false;
  }
  source->state = left->state == SOURCE_CLOSING ? SOURCE_ENDED : left->state;
  source->reason = left->reason;
  memcpy(source->text, left->text, sizeof source->text - 1);
  source->offset = left->offset;
  source->rewound_at = source->receive->rewound_at = left->rewound_at;
  source->due = left->due;
  return true;
}

bool source_turn(struct source *source, int64_t now) {
  return source->state == SOURCE_OPEN && source->operations->turn(source, now);
}

void source_tick(struct source *source, int64_t now) {
  int64_t since = source->receive->since;
  if (source->state != SOURCE_OPEN || source->timeout_ns <= 0 || since == 0 || now - since <= source->timeout_ns) {
    return;
  }
  if (source->receive->foreign) {
    source_end_foreign(source);
  } else {
    source_end(source, DETACH_TIMEOUT, "the rest of a %s did not come within %.3g s: %zu of %zu bytes are there",
               source->receive->begun ? "frame" : "y4m header", (double)source->timeout_ns / 1e9, source->receive->filled,
               source->receive->flow->input_bytes);
  }
}

void source_poke(struct source *source) {
  source->readable |= source->state == SOURCE_OPEN && source->kind == DESCRIPTOR_POLLED;
}

bool source_waits(const struct source *source) {
  if (source->state != SOURCE_OPEN) {
    return false;
  }
  if (source->kind == DESCRIPTOR_SHARED) { /* the client has no slot for another frame */
    return channel_outstanding(source->channel) == source->channel->flow->ring.count;
  }
  return source->readable || source->kind == DESCRIPTOR_FILE;
}

bool source_has_unread(const struct source *source) {
  int unread = 0;
  return source->state == SOURCE_OPEN && source->kind == DESCRIPTOR_POLLED && ioctl(source->fd, FIONREAD, &unread) == 0 &&
         unread > 0;
}

void source_close(struct source *source) {
  assert(source->state == SOURCE_OPEN || source->state == SOURCE_ENDED);
  source->state = SOURCE_CLOSING;
  source->operations->close(source);
}
