#include "daemon/state/state.h"

#include "daemon/state/image.h"

static struct left received;

void state_receive(bool by_manager) {
  size_t bytes = 0;
  const struct image_front *front = image_left_front();
  const struct state *state = front ? image_left(front->state, IMAGE_STATE, &bytes) : NULL;
  bool sound = state && bytes > sizeof *state && state->pipelines <= (bytes - sizeof *state - 1) / sizeof *state->pipeline &&
               ((const char *)state)[bytes - 1] == '\0';
  received = (struct left){.by_manager = by_manager, .live = by_manager && front && front->use == IMAGE_IS_LIVE};
  if (sound) {
    received.state = state;
    received.text = (const char *)(state->pipeline + state->pipelines);
    received.end = (const char *)state + bytes;
  }
}

const struct left *state_left(void) { return &received; }

/* -- shared by all process images ----------------------------------------------------------------------------------- */

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

bool workers_adopt(struct worker_history *workers, const struct worker_history *left) {
  bool sound = image_is_time(left->since) && image_is_time(left->stopped) && image_is_time(left->gap);
  if (sound) {
    *workers = *left;
    workers->text[sizeof workers->text - 1] = '\0';
  }
  return sound;
}

bool trouble_adopt(struct trouble *trouble, const struct trouble *left) {
  *trouble = *left;
  trouble->text[sizeof trouble->text - 1] = trouble->remedy[sizeof trouble->remedy - 1] = '\0';
  return image_is_time(trouble->since) && image_is_time(trouble->last);
}
