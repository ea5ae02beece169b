/*
 * The worker's side of the mailbox: mailbox.h says how the two sides speak with each other.
 *
 * That a frame is done is seen by a look at memory, where an event would have to be recorded and asked for by calls of CUDA's,
 * which takes as long as all else that a lane does for a small frame. The device itself is asked now and then, since one that
 * is broken answers no more. A kernel that never ends is found as everywhere: by a frame that is not done in time.
 *
 * With sequence.c it forms a circle: a frame of a graph answers through the mailbox in its last step, and one of the mailbox is
 * told of by the host function that ends every other frame.
 */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Others who wait for the device to be empty wait twice as long at most, for the run that is there and the one behind it; one
 * launch in so much time costs nothing. */
#define MOST_NS UINT64_C(1000000)
enum { MAILBOX_LOOKS = 64 }; /* at an answer, for one at the device */

struct cuda_mailbox {
  struct mailbox_words *words;
  unsigned looks;
  uint32_t rung; /* the sum of all doorbells, when they were looked at last */
  /* Of a kernel that stays, which is on the first slot's stream, as nothing else is there: one more might share its queue of
   * the device with streams of others, who would wait for it. */
  cudaStream_t stream;
  struct resident_run run; /* the last that was launched; the number of the first is 1 */
};

/* -- making and freeing ------------------------------------------------------------------------------------------- */

/* NULL: the program has words of its own. */
static struct mailbox_words *shared_words(const struct cuda_program *program) {
  return program->base.options.resident ? program->base.options.mailbox : NULL;
}

bool cuda_mailbox_open(struct cuda_program *program, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  void *words = NULL;
  struct cuda_mailbox *mailbox = program->mailbox = calloc(1, sizeof *mailbox);
  if (!mailbox) {
    return gpu_error_set(error, ENOMEM, NULL, "no memory for a mailbox of %u slots", program->base.slot_count);
  }
  if (shared_words(program)) {
    bool registered =
        CUDA_CALL(device, error, cudaHostRegister, shared_words(program), sizeof *mailbox->words, cudaHostRegisterPortable);
    mailbox->words = registered ? shared_words(program) : NULL;
    return registered;
  }
  if (!CUDA_CALL(device, error, cudaHostAlloc, &words, sizeof *mailbox->words, cudaHostAllocDefault)) {
    return false;
  }
  mailbox->words = words;
  memset(words, 0, sizeof *mailbox->words);
  return true;
}

static void fill_run(const struct cuda_program *program, struct resident_run *run) {
  static_assert((size_t)MAILBOX_CONSTANTS <= STAGE_CONSTANTS, "they are copied from there");
  const struct gpu_chain *chain = program->base.chain;
  bool floats = chain->length > 0 && chain->input.dtype == ELEMENT_FLOAT32;
  *run = (struct resident_run){.mailbox = program->mailbox->words,
                               .samples = chain->input_bytes / (floats ? sizeof(float) : 1),
                               .floats = floats,
                               .slots = program->base.slot_count,
                               .length = chain->length,
                               .linger_ns = (uint64_t)program->base.options.linger_ns,
                               .most_ns = MOST_NS};
  for (unsigned i = 0; i < run->slots; i++) {
    run->inputs[i] = program->slots[i].buffers.input;
    run->outputs[i] = program->slots[i].buffers.output;
  }
  for (unsigned i = 0; i < chain->length; i++) {
    run->steps[i].kind = gpu_resident_step(chain->plans[i].stage->about);
    memcpy(run->steps[i].constants, chain->plans[i].constants, sizeof run->steps[i].constants);
  }
}

/* The stage `fault` strikes frames that are submitted: a lane does not know how. */
static bool may_be_rung(const struct cuda_program *program) {
  bool may = shared_words(program) != NULL;
  for (unsigned i = 0; i < program->base.chain->length; i++) {
    may = may && gpu_resident_step(program->base.chain->plans[i].stage->about) != RESIDENT_FAULT;
  }
  return may;
}

bool cuda_mailbox_stay(struct cuda_program *program, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  void *shared = NULL;
  if (!((const struct cuda_device *)device)->reads_host) {
    return gpu_error_set(error, 0, "write `completion: spin`", "the kernels of this device cannot read the host's memory");
  }
  if (!gpu_chain_resides(program->base.chain, error) || !cuda_mailbox_open(program, error)) {
    return false;
  }
  struct cuda_mailbox *mailbox = program->mailbox;
  fill_run(program, &mailbox->run);
  if (!CUDA_CALL(device, error, cudaMalloc, &shared, sizeof *mailbox->run.shared)) {
    return false;
  }
  mailbox->run.shared = shared;
  mailbox->stream = program->slots[0].stream;
  program->base.is_rung = may_be_rung(program);
  return CUDA_CALL(device, error, cudaMemsetAsync, shared, 0, sizeof *mailbox->run.shared, mailbox->stream);
}

void cuda_mailbox_close(struct cuda_program *program) {
  struct cuda_mailbox *mailbox = program->mailbox;
  struct gpu_device *device = program->base.device;
  struct gpu_error unsaid;
  if (mailbox && mailbox->run.shared) {
    (void)CUDA_CALL(device, &unsaid, cudaFree, mailbox->run.shared);
  }
  if (mailbox && mailbox->words) {
    (void)(shared_words(program) ? CUDA_CALL(device, &unsaid, cudaHostUnregister, mailbox->words)
                                 : CUDA_CALL(device, &unsaid, cudaFreeHost, mailbox->words));
  }
  free(mailbox);
  program->mailbox = NULL;
}

/* -- frames ------------------------------------------------------------------------------------------------------- */

static unsigned index_of(const struct cuda_slot *slot) { return (unsigned)(slot - slot->program->slots); }

/* The slot's next frame rings soon, and the next slot's answer is looked at: both lines are with the device. */
bool cuda_mailbox_answered(const struct cuda_slot *slot) {
  const struct mailbox_words *words = slot->program->mailbox->words;
  const unsigned index = index_of(slot), next = (index + 1) % slot->program->base.slot_count;
  bool answered = atomic_load_explicit(&words->answers[index].word, memory_order_acquire) == slot->number;
  if (answered) {
    __builtin_prefetch((const void *)&words->doorbells[index], 1);
    __builtin_prefetch((const void *)&words->answers[next]);
  }
  return answered;
}

void cuda_mailbox_ring(struct cuda_slot *slot) {
  struct mailbox_line *doorbell = &slot->program->mailbox->words->doorbells[index_of(slot)];
  slot->number = atomic_load_explicit(&doorbell->word, memory_order_relaxed) + 1; /* a lane may have rung before */
  atomic_store_explicit(&doorbell->word, slot->number, memory_order_release);
}

bool cuda_mailbox_enqueue(const struct cuda_slot *slot, struct gpu_error *error) {
  int status = cuda_mailbox_answer(slot->program->mailbox->words, index_of(slot), slot->stream);
  return cuda_check(slot->program->base.device, (cudaError_t)status, "a kernel's answer", error);
}

cudaStream_t cuda_mailbox_stream(const struct cuda_slot *slot) {
  return slot->resident ? slot->program->mailbox->stream : slot->stream;
}

bool cuda_mailbox_is_to_ask(const struct cuda_slot *slot) {
  return ++slot->program->mailbox->looks % MAILBOX_LOOKS == 0 || slot->notified;
}

/* -- a kernel that stays -------------------------------------------------------------------------------------------- */

/* Behind the one before, if that is there still. */
static bool launch(struct cuda_program *program, uint64_t linger_ns, struct gpu_error *error) {
  struct cuda_mailbox *mailbox = program->mailbox;
  struct resident_run run = mailbox->run;
  run.number = ++mailbox->run.number;
  run.linger_ns = linger_ns;
  atomic_store_explicit(&mailbox->words->launched.word, run.number, memory_order_release);
  if (cuda_enter(program->base.device, error) &&
      cuda_check(program->base.device, (cudaError_t)cuda_mailbox_launch(&run, mailbox->stream), "a kernel that stays", error)) {
    return true;
  }
  gpu_device_die(program->base.device, error);
  return false;
}

static bool is_there(const struct cuda_mailbox *mailbox) {
  return atomic_load_explicit(&mailbox->words->left.word, memory_order_acquire) != mailbox->run.number;
}

bool cuda_mailbox_takes(const struct cuda_program *program, const struct gpu_frame *frame) {
  return program->mailbox && program->mailbox->stream && !frame->notify;
}

#ifdef FRAMED_FAULTS
/* The kernel strikes by itself what a launched frame is struck by in a kernel of its own; never one that runs again. */
static uint32_t find_strike(const struct gpu_chain *chain, const struct gpu_frame *frame) {
  bool strikes = false;
  for (unsigned i = 0; i < chain->length && !frame->again; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    strikes =
        strikes || (gpu_resident_step(plan->stage->about) == RESIDENT_FAULT && plan->stage->differs(plan, frame->sequence));
  }
  return strikes;
}
#endif

bool cuda_mailbox_submit(struct cuda_slot *slot, const struct gpu_frame *frame, struct gpu_error *error) {
  struct cuda_program *program = slot->program;
  slot->sequence = frame->sequence;
  slot->timing = CUDA_UNTIMED;
  slot->notified = false;
  slot->last = NULL;
  slot->pass = (struct cuda_pass){.sequence = frame->sequence, .answers = true};
#ifdef FRAMED_FAULTS
  program->mailbox->words->doorbells[index_of(slot)].strikes = find_strike(program->base.chain, frame);
#endif
  cuda_mailbox_ring(slot);
  return is_there(program->mailbox) || launch(program, program->mailbox->run.linger_ns, error);
}

/* One that went without having heard the doorbell leaves the frame to the next one. */
bool cuda_mailbox_attend(struct cuda_slot *slot, struct gpu_error *error) {
  return is_there(slot->program->mailbox) || launch(slot->program, slot->program->mailbox->run.linger_ns, error);
}

/* Who is there may be about to leave without having heard the doorbell. Who comes behind hears it, and does not linger. */
bool cuda_mailbox_arm(struct cuda_slot *slot, struct gpu_error *error) {
  return launch(slot->program, 0, error) && cuda_sequence_notify(slot, slot->program->mailbox->stream, error);
}

/* While frames come, the next run waits on the stream behind the one that is there, so that no doorbell waits for a launch. */
static bool keep_staying(struct cuda_program *program, bool waits, bool comes, struct gpu_error *error) {
  const struct cuda_mailbox *mailbox = program->mailbox;
  const uint32_t left = atomic_load_explicit(&mailbox->words->left.word, memory_order_acquire);
  const uint32_t runs = mailbox->run.number - left; /* that have not ended */
  bool launches = (waits && runs == 0) || (comes && runs <= 1);
  return !launches || launch(program, mailbox->run.linger_ns, error);
}

enum gpu_progress cuda_attend(struct gpu_program *base, struct gpu_error *error) {
  struct cuda_program *program = (struct cuda_program *)base;
  struct cuda_mailbox *mailbox = program->mailbox;
  uint32_t rung = 0;
  bool waits = false;
  for (unsigned i = 0; i < base->slot_count; i++) {
    uint32_t number = atomic_load_explicit(&mailbox->words->doorbells[i].word, memory_order_acquire);
    waits = waits || number != atomic_load_explicit(&mailbox->words->answers[i].word, memory_order_acquire);
    rung += number;
  }
  bool comes = rung != mailbox->rung;
  mailbox->rung = rung;
  if (!keep_staying(program, waits, comes, error) || !cuda_enter(base->device, error)) {
    return GPU_DEAD;
  }
  if (cuda_progress(base->device, cudaStreamQuery(mailbox->stream), "a kernel that stays", error) == GPU_DEAD) {
    gpu_device_die(base->device, error);
    return GPU_DEAD;
  }
  return waits || comes || is_there(mailbox) ? GPU_PENDING : GPU_DONE;
}
