/*
 * A device, a chain and a program of it with their buffers, for tests of the backends; and stages made for tests.
 *
 * Every function fails the test by itself when something is wrong, and no wait lasts longer than RIG_PATIENCE_S,
 * which only says "never": no test depends on how fast something is.
 */
#ifndef FRAMED_TESTS_UNIT_GPU_RIG_H
#define FRAMED_TESTS_UNIT_GPU_RIG_H

#include "gpu/gpu.h"

#include <stdatomic.h>

enum { RIG_PATIENCE_S = 60, RIG_WIDTH = 64 };

struct rig {
  struct gpu_device *device;
  struct gpu_chain *chain;
  struct gpu_program *program;
  struct gpu_options options; /* of programs made from now on; wake() is the rig's */
  unsigned slots;
  unsigned char *memory; /* a memfd, pinned */
  size_t memory_bytes;
  unsigned char *input[GPU_MAX_SLOTS], *output[GPU_MAX_SLOTS];
  size_t input_bytes, output_bytes;
  atomic_int wakes;
};

/* Opens a CPU device with so many workers. */
void rig_open(struct rig *rig, unsigned workers);
void rig_open_backend(struct rig *rig, enum gpu_backend_choice choice, unsigned workers);
/* Makes the program: `stages` ends with NULL, and their parameters are all 0. Frames are uint8[RIG_WIDTH]. */
void rig_program(struct rig *rig, unsigned slots, const struct stage_descriptor *const *stages);
/* The same for a chain that the caller made; it is the rig's now. */
void rig_program_of(struct rig *rig, unsigned slots, struct gpu_chain *chain);
void rig_free_program(struct rig *rig);
void rig_close(struct rig *rig);

void rig_submit(struct rig *rig, unsigned slot, uint64_t sequence, bool notify);
/* Asks until the answer is not PENDING, and gives it. */
enum gpu_progress rig_wait(struct rig *rig, unsigned slot, struct gpu_error *error);
/* The same, and the frame must be done. */
void rig_finish(struct rig *rig, unsigned slot);
void rig_wait_for_wakes(struct rig *rig, int count);

/* -- stages ------------------------------------------------------------------------------------------------------- */

extern const struct stage_descriptor rig_increment; /* out = in + 1 */
extern const struct stage_descriptor rig_jitter;    /* out = in, after a nap that depends on the sequence */
extern const struct stage_descriptor rig_count;     /* has state: out = in, but the first 8 bytes count frames */
extern const struct stage_descriptor rig_meet;      /* out = in, once two frames are inside */
extern const struct stage_descriptor rig_gate;      /* out = in; frame 0 waits until the gate is open */

void rig_gate_set(bool open); /* closed at first */

#endif
