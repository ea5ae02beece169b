/*
 * What the tests of the CUDA backend share: a stage that the fake runtime can run, and a device with a program of it.
 *
 * Everything is made anew for each test, by set_up() and tear_down(), which are the fixture of every case here.
 */
#ifndef FRAMED_TESTS_UNIT_CUDA_FIXTURE_H
#define FRAMED_TESTS_UNIT_CUDA_FIXTURE_H

#ifndef FRAMED_CUDA
#define FRAMED_CUDA
#endif
#include "gpu/cuda/cuda.h"
#include "tests/unit/cuda/fake_cuda.h"
#include "tests/unit/runner.h"

enum { WIDTH = 16, MAX_TRIES = 1000, FEW_TRIES = 60, KERNEL_NS = 5000, COPY_NS = 1000 };
/* Operations of a frame as a rule, and more than any has. */
enum { FRAME_OPERATIONS = 6, ALL = 100 };
/* A host so slow that the warm-up measures the fewest frames that it may. */
enum { HOST_STEP_NS = 70000 };

/* -- stages --------------------------------------------------------------------------------------------------------- */

/* Adds one to each byte. With state, byte 0 becomes byte 1 of the frame before. */
extern const struct stage_descriptor plus_one;
/* The same, of which no graph captures every fifth frame. */
extern const struct stage_descriptor fickle;
/* The first refuses to be enqueued once the warm-up is over, the other has no kernel. */
extern const struct stage_descriptor broken, cpu_only;

/* As plus_one, with something of its own that is attached (how often, is counted), as part of the frame's graph or beside it.
 */
extern const struct stage_descriptor within, apart;
/* As apart, which takes frames over: at once it computes them and gives them back, or it keeps them for give_back(). */
extern const struct stage_descriptor keeper;
extern bool keeps;
extern struct stage_call *kept[GPU_MAX_SLOTS]; /* in their order */
extern unsigned kept_count;
void give_back(void); /* the first of them */
extern unsigned attachments;
extern bool attaching_fails;

extern cudaStream_t streams[GPU_MAX_SLOTS]; /* of the slots, learned when a stage is enqueued */

/* -- a device and a program of it ----------------------------------------------------------------------------------- */

extern struct gpu_device *device;
extern struct gpu_chain *chain;
extern struct gpu_program *program;
extern struct gpu_options options;
extern struct gpu_buffers buffers[GPU_MAX_SLOTS];
extern unsigned char inputs[GPU_MAX_SLOTS][256], outputs[GPU_MAX_SLOTS][256];
extern struct gpu_error problem; /* of the last call that failed */
extern unsigned wakes;           /* how often a host function has told of a frame */

void set_up(void);
void tear_down(void);

/* `known`: what is measured otherwise, which takes its time. */
void open_device(const struct gpu_calibration *known);
void make_chain(const struct stage_descriptor *stage, unsigned state_bytes);
void make_program(unsigned slots, const struct stage_descriptor *stage, unsigned state_bytes);
/* One whose frames are replayed from a graph. */
void make_replaying(unsigned slots, const struct stage_descriptor *stage, unsigned state_bytes, bool notify);

/* Lets the frames begin that were submitted, which is on the clock's stream. */
void let_begin(void);
bool submit(unsigned slot, uint64_t sequence, bool notify);
void finish(unsigned slot);
struct gpu_times times_of(unsigned slot);

#endif
