/*
 * The host's side of the board: board.h says how the two sides speak with each other.
 *
 * That a frame is done is seen by a look at memory, where an event would have to be recorded and asked for by calls of CUDA's,
 * which takes as long as all else that a lane does for a small frame. The device itself is asked now and then, since one that
 * is broken answers no more. A kernel that never ends is found as everywhere: by a frame that is not done in time.
 */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/board.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Others who wait for the device to be empty wait for this long at most; one launch in so much time costs nothing. */
#define MOST_NS UINT64_C(1000000)
enum { BOARD_LOOKS = 64 }; /* at an answer, for one at the device */

struct cuda_board {
  struct board *words;
  unsigned looks;
  /* Of a kernel that stays, which is on the first slot's stream, as nothing else is there: one more might share its queue of
   * the device with streams of others, who would wait for it. */
  cudaStream_t stream;
  struct board_shift shift; /* the last that was launched; the number of the first is 1 */
};

/* -- making and freeing ------------------------------------------------------------------------------------------- */

bool cuda_board_open(struct cuda_program *program, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  void *words = NULL;
  struct cuda_board *board = program->board = calloc(1, sizeof *board);
  if (!board) {
    return gpu_error_set(error, ENOMEM, NULL, "no memory for a board of %u slots", program->base.slot_count);
  }
  if (!CUDA_CALL(device, error, cudaHostAlloc, &words, sizeof *board->words, cudaHostAllocDefault)) {
    return false;
  }
  board->words = words;
  memset(words, 0, sizeof *board->words);
  return true;
}

static void fill_shift(const struct cuda_program *program, struct board_shift *shift) {
  static_assert((size_t)BOARD_CONSTANTS <= STAGE_CONSTANTS, "they are copied from there");
  const struct gpu_chain *chain = program->base.chain;
  bool floats = chain->length > 0 && chain->input.dtype == ELEMENT_FLOAT32;
  *shift = (struct board_shift){.board = program->board->words,
                                .samples = chain->input_bytes / (floats ? sizeof(float) : 1),
                                .floats = floats,
                                .slots = program->base.slot_count,
                                .length = chain->length,
                                .linger_ns = (uint64_t)program->base.options.linger_ns,
                                .most_ns = MOST_NS};
  for (unsigned i = 0; i < shift->slots; i++) {
    shift->inputs[i] = program->slots[i].buffers.input;
    shift->outputs[i] = program->slots[i].buffers.output;
  }
  for (unsigned i = 0; i < chain->length; i++) {
    shift->steps[i].kind = gpu_resident_step(chain->plans[i].stage);
    memcpy(shift->steps[i].constants, chain->plans[i].constants, sizeof shift->steps[i].constants);
  }
}

bool cuda_board_stay(struct cuda_program *program, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  void *backroom = NULL;
  if (!((const struct cuda_device *)device)->reads_host) {
    return gpu_error_set(error, 0, "write `completion: spin`", "the kernels of this device cannot read the host's memory");
  }
  if (!gpu_chain_resides(program->base.chain, error) || !cuda_board_open(program, error)) {
    return false;
  }
  struct cuda_board *board = program->board;
  fill_shift(program, &board->shift);
  if (!CUDA_CALL(device, error, cudaMalloc, &backroom, sizeof *board->shift.backroom)) {
    return false;
  }
  board->shift.backroom = backroom;
  board->stream = program->slots[0].stream;
  return CUDA_CALL(device, error, cudaMemsetAsync, backroom, 0, sizeof *board->shift.backroom, board->stream);
}

void cuda_board_close(struct cuda_program *program) {
  struct cuda_board *board = program->board;
  struct gpu_device *device = program->base.device;
  struct gpu_error unsaid;
  if (board && board->shift.backroom) {
    (void)CUDA_CALL(device, &unsaid, cudaFree, board->shift.backroom);
  }
  if (board && board->words) {
    (void)CUDA_CALL(device, &unsaid, cudaFreeHost, board->words);
  }
  free(board);
  program->board = NULL;
}

/* -- frames ------------------------------------------------------------------------------------------------------- */

static unsigned index_of(const struct cuda_slot *slot) { return (unsigned)(slot - slot->program->slots); }

bool cuda_board_answered(const struct cuda_slot *slot) {
  const struct board *words = slot->program->board->words;
  return atomic_load_explicit(&words->answers[index_of(slot)].word, memory_order_acquire) == slot->number;
}

void cuda_board_ring(struct cuda_slot *slot) {
  struct board_line *bell = &slot->program->board->words->bells[index_of(slot)];
  atomic_store_explicit(&bell->word, ++slot->number, memory_order_release);
}

bool cuda_board_enqueue(const struct cuda_slot *slot, struct gpu_error *error) {
  int status = cuda_board_answer(slot->program->board->words, index_of(slot), slot->stream);
  return cuda_check(slot->program->base.device, (cudaError_t)status, "a kernel's answer", error);
}

cudaStream_t cuda_board_stream(const struct cuda_slot *slot) {
  return slot->resident ? slot->program->board->stream : slot->stream;
}

bool cuda_board_is_to_ask(const struct cuda_slot *slot) {
  return ++slot->program->board->looks % BOARD_LOOKS == 0 || slot->notified;
}

/* -- a kernel that stays -------------------------------------------------------------------------------------------- */

/* Behind the one before, if that is there still. */
static bool launch(struct cuda_program *program, uint64_t linger_ns, struct gpu_error *error) {
  struct cuda_board *board = program->board;
  struct board_shift shift = board->shift;
  shift.number = ++board->shift.number;
  shift.linger_ns = linger_ns;
  if (cuda_enter(program->base.device, error) &&
      cuda_check(program->base.device, (cudaError_t)cuda_board_launch(&shift, board->stream), "a kernel that stays", error)) {
    return true;
  }
  gpu_device_die(program->base.device, error);
  return false;
}

static bool is_there(const struct cuda_board *board) {
  return atomic_load_explicit(&board->words->left.word, memory_order_acquire) != board->shift.number;
}

bool cuda_board_takes(const struct cuda_program *program, const struct gpu_frame *frame) {
  return program->board && program->board->stream && !frame->notify;
}

#ifdef FRAMED_FAULTS
/* The kernel strikes by itself what a launched frame is struck by in a kernel of its own; never one that runs again. */
static uint32_t find_strike(const struct gpu_chain *chain, const struct gpu_frame *frame) {
  bool strikes = false;
  for (unsigned i = 0; i < chain->length && !frame->again; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    strikes = strikes || (gpu_resident_step(plan->stage) == RESIDENT_FAULT && plan->stage->differs(plan, frame->sequence));
  }
  return strikes;
}
#endif

bool cuda_board_submit(struct cuda_slot *slot, const struct gpu_frame *frame, struct gpu_error *error) {
  struct cuda_program *program = slot->program;
  slot->sequence = frame->sequence;
  slot->timing = CUDA_UNTIMED;
  slot->notified = false;
  slot->last = NULL;
  slot->pass = (struct cuda_pass){.sequence = frame->sequence, .answers = true};
#ifdef FRAMED_FAULTS
  program->board->words->bells[index_of(slot)].strikes = find_strike(program->base.chain, frame);
#endif
  cuda_board_ring(slot);
  return is_there(program->board) || launch(program, program->board->shift.linger_ns, error);
}

/* One that went without having heard the bell leaves the frame to the next one. */
bool cuda_board_attend(struct cuda_slot *slot, struct gpu_error *error) {
  return is_there(slot->program->board) || launch(slot->program, slot->program->board->shift.linger_ns, error);
}

/* Who is there may be about to leave without having heard the bell. Who comes behind hears it, and does not linger. */
bool cuda_board_arm(struct cuda_slot *slot, struct gpu_error *error) {
  return launch(slot->program, 0, error) && cuda_sequence_notify(slot, slot->program->board->stream, error);
}
