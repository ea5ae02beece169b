/*
 * Frames that the lane gives by a mailbox (gpu/record/mailbox.h) to a kernel that stays, without this process.
 *
 * The kernel leaves after 1 ms at most. So the line's thread launches it again and again while frames come, and asks the device
 * whether it is broken. Nothing tells the thread of such frames: it looks at the mailbox, with naps in between. A lane that
 * sleeps has said for which frame, and is woken when that one is done. Once the kernel has left and no frame waits, the lane
 * calls for the next one.
 */
#include "gpu/serve/private.h"

#define AWAIT_NAP_NS  INT64_C(20000)   /* between two looks while a lane sleeps until a frame is done, */
#define ATTEND_NAP_NS INT64_C(250000)  /* and while frames come, */
#define ATTEND_NS     INT64_C(2000000) /* or the kernel is there, and for so long after that */

/* Whether the lane sleeps until a frame is done that is not. The lane may have seen it done, and have rung for the next. */
static bool sleeps_for(struct served *served) {
  const uint64_t awaited = atomic_load_explicit(&served->page->awaited, memory_order_acquire);
  const struct mailbox_line *answer = &served->mailbox->answers[(uint32_t)awaited % GPU_MAX_SLOTS];
  if (awaited == served->told) {
    return false;
  }
  if ((int32_t)(atomic_load_explicit(&answer->word, memory_order_acquire) - (uint32_t)(awaited >> 32)) < 0) {
    return true;
  }
  served->told = awaited;
  line_tell(served);
  return false;
}

static void attend(struct served *served, int64_t now) {
  struct gpu_error error;
  enum gpu_progress progress = gpu_attend(served->program, &error);
  if (progress == GPU_DEAD) {
    serve_end(&error);
  }
  served->active = progress == GPU_PENDING ? now : served->active;
  bool rests = now - served->active >= ATTEND_NS;
  served->due = sleeps_for(served) ? now + AWAIT_NAP_NS : rests ? INT64_MAX : now + ATTEND_NAP_NS;
}

int64_t rung_attend(struct line *line) {
  int64_t due = INT64_MAX, now = line->rung > 0 ? gpu_now() : 0;
  for (unsigned i = 0; i < line->most && line->rung > 0; i++) {
    struct served *served = line->programs[i];
    if (served && served->is_rung) {
      if (served->due <= now) {
        attend(served, now);
      }
      due = served->due < due ? served->due : due;
    }
  }
  return due == INT64_MAX ? due : due - now;
}
