#include "daemon/state/state.h"

#include <string.h>

#include "daemon/state/image.h"

struct state {
  uint64_t checksum; /* of what follows */
  uint64_t length;   /* of the bytes; the record has room for more */
  uint64_t live;
  unsigned char bytes[];
};

static struct left received;

static uint64_t sum_of(const struct state *state, size_t length) {
  return state_checksum(&state->length, sizeof *state - sizeof state->checksum + length);
}

void *state_write(const struct iovec *parts, int count, bool live) {
  size_t length = 0;
  for (int i = 0; i < count; i++) {
    length += parts[i].iov_len;
  }
  struct state *state = image_new(IMAGE_STATE, sizeof(struct state) + length);
  if (!state) {
    return NULL;
  }
  state->live = live;
  for (int i = 0; i < count; state->length += parts[i++].iov_len) {
    memcpy(state->bytes + state->length, parts[i].iov_base, parts[i].iov_len);
  }
  state->checksum = sum_of(state, length);
  return state;
}

bool state_read(const void *address, struct left *left) {
  size_t room = 0;
  const struct state *state = image_left(address, IMAGE_STATE, &room);
  bool is_whole = state && room >= sizeof *state && state->length <= room - sizeof *state &&
                  state->checksum == sum_of(state, state->length);
  *left = is_whole ? (struct left){.bytes = state->bytes, .length = state->length, .live = state->live} : (struct left){0};
  return is_whole;
}

bool state_receive(const void *address, bool by_manager, struct failure *failure) {
  bool is_whole = state_read(address, &received);
  received.by_manager = by_manager;
  return is_whole || failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "its checksum is wrong, or it is none of framed");
}

const struct left *state_left(void) { return &received; }

/* -- of all process images ------------------------------------------------------------------------------------------ */

bool history_adopt(struct history *history, const struct history *left) {
  bool sound = (unsigned)left->cause < HISTORY_CAUSE_COUNT && IMAGE_IS_FLAG(left->suspects) && image_is_time(left->stopped) &&
               image_is_time(left->longest) && image_is_time(left->total) && image_is_time(left->gap);
  for (unsigned i = 0; i < HISTORY_FAULTS && sound; i++) {
    sound = image_is_time(left->faults[i]);
  }
  if (sound) {
    *history = *left;
    history->text[sizeof history->text - 1] = '\0';
  }
  return sound;
}

bool trouble_adopt(struct trouble *trouble, const struct trouble *left) {
  *trouble = *left;
  trouble->text[sizeof trouble->text - 1] = trouble->remedy[sizeof trouble->remedy - 1] = '\0';
  return image_is_time(trouble->since) && image_is_time(trouble->last);
}
