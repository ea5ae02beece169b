/*
 * Frames as a lane passes them. One goes into the program's ring, and the bit of the program is set in the page of the lane;
 * what became of it stands in the slot's place once the word there is the frame's ticket. What a worker writes there is
 * believed as far as it can do no harm: a time that makes no sense is none.
 *
 * To a kernel that stays the lane gives a frame itself, by a number at the slot's doorbell (gpu/record/mailbox.h). It calls the
 * worker only where that kernel has left, or before it sleeps. Such a frame has no times, and no stage refuses it.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/device/private.h"

enum { LOOKS = 64 }; /* at an answer, for one at whether the kernel is there */
#define LONGEST_NS INT64_C(86400000000000)

static struct device_part *part_of(struct device_program *program, unsigned slot) {
  return &program->parts[program->part_count > 1 ? slot % program->part_count : 0];
}

static unsigned slot_of(const struct device_program *program, unsigned slot) {
  return program->part_count > 1 ? slot / program->part_count : slot;
}

static void call_worker(const struct device_program *program, const struct device_part *part) {
  pages_set(part->line->bits, (unsigned)program->bit);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load(&part->line->sleeping)) {
    atomic_fetch_add(&part->line->calls, 1);
    (void)syscall(SYS_futex, &part->line->calls, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}

/* -- frames for a kernel that stays --------------------------------------------------------------------------------- */

/* Without a kernel nobody hears a doorbell. */
static void see_to_kernel(const struct device_program *program, const struct device_part *part) {
  const struct mailbox_words *mailbox = part->mailbox;
  if (atomic_load_explicit(&mailbox->left.word, memory_order_relaxed) ==
      atomic_load_explicit(&mailbox->launched.word, memory_order_relaxed)) {
    call_worker(program, part);
  }
}

static void ring(struct device_program *program, struct device_part *part, unsigned slot) {
  const unsigned own = slot_of(program, slot);
  struct mailbox_line *doorbell = &part->mailbox->doorbells[own];
  const uint32_t number = atomic_load_explicit(&doorbell->word, memory_order_relaxed) + 1;
  program->numbers[slot] = number;
  part->rung |= 1U << own;
  atomic_store_explicit(&doorbell->word, number, memory_order_release);
  see_to_kernel(program, part);
}

static bool is_rung(struct device_program *program, unsigned slot) {
  return (part_of(program, slot)->rung >> slot_of(program, slot) & 1U) != 0;
}

/* The slot's next frame rings soon, and the next slot's answer is looked at: both lines are with the device. */
static bool is_answered(struct device_program *program, struct device_part *part, unsigned slot) {
  const struct mailbox_words *mailbox = part->mailbox;
  const unsigned own = slot_of(program, slot), next = slot + program->part_count < program->count ? own + 1 : 0;
  if (atomic_load_explicit(&mailbox->answers[own].word, memory_order_acquire) == program->numbers[slot]) {
    __builtin_prefetch((const void *)&mailbox->doorbells[own], 1);
    __builtin_prefetch((const void *)&mailbox->answers[next]);
    return true;
  }
  if (++part->looks % LOOKS == 0) { /* the kernel may have left without having heard */
    see_to_kernel(program, part);
  }
  return false;
}

bool device_await(struct device_program *program, unsigned slot) {
  struct device_part *part = part_of(program, slot);
  if (atomic_load_explicit(&part->device->lost, memory_order_acquire) || !is_rung(program, slot)) {
    return false; /* of both the lane is told anyway */
  }
  atomic_store_explicit(&part->page->awaited, (uint64_t)program->numbers[slot] << 32 | slot_of(program, slot),
                        memory_order_release);
  call_worker(program, part);
  return is_answered(program, part, slot);
}

/* -- frames --------------------------------------------------------------------------------------------------------- */

/* The ring has room for as many frames as there are slots. */
bool device_submit(struct device_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error) {
  struct device_part *part = part_of(program, slot);
  if (atomic_load_explicit(&part->device->lost, memory_order_acquire)) {
    return device_lives(part->device, error);
  }
  const uint64_t ticket = ++program->tickets[slot];
  if (part->is_rung && !frame->notify) {
    ring(program, part, slot);
    return true;
  }
  part->rung &= ~(1U << slot_of(program, slot));
  struct program_page *page = part->page;
  uint32_t tail = atomic_load_explicit(&page->tail, memory_order_relaxed);
  page->ring[tail % GPU_MAX_SLOTS] = (struct program_frame){
      .ticket = ticket,
      .sequence = frame->sequence,
      .deadline = frame->deadline,
      .slot = slot_of(program, slot),
      .flags = (frame->restart ? PROGRAM_RESTART : 0U) | (frame->notify ? PROGRAM_NOTIFY : 0U) |
               (frame->timed ? PROGRAM_TIMED : 0U) | (frame->again ? PROGRAM_AGAIN : 0U),
  };
  atomic_store_explicit(&page->tail, tail + 1, memory_order_release);
  call_worker(program, part);
  return true;
}

void device_abandon_slot(struct device_program *program, unsigned slot, const struct gpu_error *reason) {
  device_abandon(part_of(program, slot)->device, reason);
}

static const struct program_result *result_of(struct device_program *program, unsigned slot) {
  return &part_of(program, slot)->page->results[slot_of(program, slot)];
}

enum gpu_progress device_ask(struct device_program *program, unsigned slot, struct gpu_error *error) {
  struct device_part *part = part_of(program, slot);
  const struct device *device = part->device;
  if (atomic_load_explicit(&device->lost, memory_order_acquire)) {
    return device_lives(device, error) ? GPU_PENDING : GPU_DEAD;
  }
  if (is_rung(program, slot)) {
    return is_answered(program, part, slot) ? GPU_DONE : GPU_PENDING;
  }
  const struct program_result *result = result_of(program, slot);
  return atomic_load_explicit(&result->word, memory_order_acquire) == program->tickets[slot] ? GPU_DONE : GPU_PENDING;
}

const char *device_refusal(struct device_program *program, unsigned slot) {
  const struct program_result *result = result_of(program, slot);
  if (is_rung(program, slot) || result->outcome != PROGRAM_REFUSED) {
    return NULL;
  }
  memcpy(program->refusal, result->refusal, sizeof program->refusal);
  program->refusal[sizeof program->refusal - 1] = '\0';
  return program->refusal;
}

bool device_late(struct device_program *program, unsigned slot) {
  return !is_rung(program, slot) && result_of(program, slot)->outcome == PROGRAM_LATE;
}

bool device_times(struct device_program *program, unsigned slot, struct gpu_times *times) {
  const struct program_result *result = result_of(program, slot);
  if (is_rung(program, slot) || !result->has_times) {
    return false;
  }
  *times = result->times;
  const int64_t spans[] = {
      times->h2d, times->kernel, times->d2h, times->wait, times->others, times->model, times->copied_out - times->begin};
  bool sound = true;
  for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
    sound = sound && spans[i] >= 0 && spans[i] < LONGEST_NS;
  }
  return sound && times->instance <= WORKER_INSTANCES && times->batch <= WORKER_BATCHES;
}

bool device_serves(const struct device_program *program) {
  bool serves = true;
  for (unsigned i = 0; i < program->part_count; i++) {
    serves = serves && !atomic_load_explicit(&program->parts[i].device->lost, memory_order_acquire);
  }
  return serves;
}
