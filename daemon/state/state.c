#include "daemon/state/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/state/image.h"

enum { SMALLEST = 4096, IMAGE_HEAD = 64 /* before what a record holds, so that small ones have one page */ };

struct state {
  uint64_t checksum; /* of what follows */
  uint64_t length;   /* of the codec; the record has room for more */
  uint64_t live;
  unsigned char bytes[];
};

static struct {
  off_t at;
  size_t length;
  bool live;
} last; /* that was read */

/* -- out ----------------------------------------------------------------------------------------------------------- */

static uint64_t sum_of(const struct state *state, size_t length) {
  return state_checksum(&state->length, sizeof *state - sizeof state->checksum + length);
}

/* The image gives the memory of records again to others of the same size: so there are few sizes. */
static size_t record_bytes(size_t length) {
  size_t bytes = SMALLEST;
  while (bytes < sizeof(struct state) + length) {
    bytes *= 2;
  }
  return bytes - IMAGE_HEAD;
}

void *state_write(const struct codec *codec, struct failure *failure) {
  struct state *state = codec->broken ? NULL : image_new(IMAGE_STATE, record_bytes(codec->length + IMAGE_HEAD));
  if (!state) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the state cannot be kept: not enough memory");
    return NULL;
  }
  state->length = codec->length;
  state->live = codec->live;
  memcpy(state->bytes, codec->bytes, codec->length);
  state->checksum = sum_of(state, codec->length);
  return state;
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static bool is_wrong(struct failure *failure, const char *what) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "%s", what);
}

bool state_read(uint64_t name, struct codec *codec, struct failure *failure) {
  size_t room = 0;
  const struct state *state = image_left_any(name, IMAGE_STATE, &room, &last.at);
  if (!state || room < sizeof *state || state->length > room - sizeof *state ||
      state->checksum != sum_of(state, state->length)) {
    return is_wrong(failure, "its checksum is wrong, or it is none of framed");
  }
  unsigned char *bytes = malloc(state->length + 1);
  if (!bytes) {
    return is_wrong(failure, "there is not enough memory for it");
  }
  memcpy(bytes, state->bytes, state->length);
  codec_load(codec, bytes, state->length);
  codec->live = last.live = state->live;
  last.length = state->length;
  return true;
}

bool state_was_live(void) { return last.live; }

bool state_write_again(const struct codec *codec) {
  struct state *state = codec->length == last.length ? malloc(sizeof *state + codec->length) : NULL;
  if (!state) {
    return false;
  }
  *state = (struct state){.length = codec->length, .live = codec->live};
  memcpy(state->bytes, codec->bytes, codec->length);
  state->checksum = sum_of(state, codec->length);
  size_t whole = sizeof *state + codec->length;
  bool written = pwrite(image_left_fd(), state, whole, last.at) == (ssize_t)whole;
  free(state);
  return written;
}

/* -- of all process images ------------------------------------------------------------------------------------------ */

void history_pass(struct history *history, struct codec *codec) {
  unsigned cause = history->cause;
  CODEC_PASS(codec, history->counts);
  codec_pass_below(codec, &cause, HISTORY_CAUSE_COUNT);
  history->cause = (enum history_cause)cause;
  CODEC_PASS(codec, history->text);
  codec_pass_time(codec, &history->stopped);
  codec_pass_time(codec, &history->longest);
  codec_pass_time(codec, &history->total);
  CODEC_PASS(codec, history->closed);
  CODEC_PASS(codec, history->suspect);
  CODEC_PASS(codec, history->is_broken);
  for (unsigned i = 0; i < HISTORY_FAULTS; i++) {
    codec_pass_time(codec, &history->faults[i]);
  }
  history->text[sizeof history->text - 1] = '\0';
}

bool history_replace(struct history *history, struct codec *codec, size_t at) {
  struct codec part;
  codec_begin(&part);
  history_pass(history, &part);
  bool fits = !part.broken && at <= codec->length && part.length <= codec->length - at;
  if (fits) {
    memcpy(codec->bytes + at, part.bytes, part.length);
  }
  codec_clear(&part);
  return fits;
}

bool trouble_adopt(struct trouble *trouble, const struct trouble *left) {
  *trouble = *left;
  trouble->text[sizeof trouble->text - 1] = trouble->remedy[sizeof trouble->remedy - 1] = '\0';
  return image_is_time(trouble->since) && image_is_time(trouble->last);
}
