#include "tests/gpu/backend.h"

#include <stdio.h>

struct rig rig;

/* Ways in which frames go to the device: step by step, their copies in order or not, and replayed, copied by engines, kernels
 * or whichever is better, asked for and told. */
static const struct gpu_options ways[] = {
    {.graph = GPU_GRAPH_OFF, .timed_one_in = 1},
    {.graph = GPU_GRAPH_OFF, .timed_one_in = GPU_TIMED_NEVER, .notify = true, .order = GPU_ORDER_ON},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .copy = GPU_COPY_ENGINE},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .notify = true},
    {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .copy = GPU_COPY_ENGINE},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 2, .notify = true},
    {.graph = GPU_GRAPH_AUTO},
    {.graph = GPU_GRAPH_AUTO, .notify = true},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .order = GPU_ORDER_ON},
    {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .notify = true, .order = GPU_ORDER_ON},
    {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .copy = GPU_COPY_KERNEL},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .notify = true, .copy = GPU_COPY_KERNEL},
};
_Static_assert(sizeof ways / sizeof ways[0] == BACKEND_WAYS, "each has its turn");

void backend_in_ways(const char *test, void (*run)(int way), int from, int to) {
  for (int way = from; way < to; way++) {
    printf("%s: way %d of %d\n", test, way, BACKEND_WAYS);
    run(way);
  }
}

struct gpu_stage_request backend_affine(double scale, double offset) {
  return (struct gpu_stage_request){.stage = stage_about_find("affine"),
                                    .values = {{.count = 1, .numbers = {scale}}, {.count = 1, .numbers = {offset}}}};
}

struct gpu_stage_request backend_fault(enum fault_kind kind, double at, double every, double ms) {
  return (struct gpu_stage_request){
      .stage = stage_about_find("fault"),
      .values = {{.numbers = {kind}}, {.numbers = {at}}, {.numbers = {every}}, {.numbers = {true}}, {.numbers = {ms}}}};
}

struct gpu_chain *backend_chain(struct frame_format format, const struct gpu_stage_request *requests, unsigned count) {
  struct gpu_error error;
  struct gpu_chain *chain = gpu_chain_new(&format, requests, count, &error);
  ck_assert_msg(chain != NULL, "%s", error.text);
  return chain;
}

void backend_open_resident(unsigned slots, unsigned side, const struct gpu_stage_request *requests, unsigned count) {
  struct gpu_error error;
  rig_open_backend(&rig, GPU_BACKEND_CUDA, 0);
  rig.options = (struct gpu_options){.timed_one_in = GPU_TIMED_NEVER, .resident = true, .linger_ns = 100000, .weigh = true};
  rig_program_of(&rig, slots, backend_chain(format_image(PIXELS_GRAY, side, side), requests, count));
  ck_assert_msg(gpu_program_warm_up(rig.program, &error), "%s", error.text);
}

void backend_open_in(int way, unsigned slots, unsigned side, const struct gpu_stage_request *requests, unsigned count) {
  struct gpu_error error;
  rig_open_backend(&rig, GPU_BACKEND_CUDA, 0);
  rig.options = ways[way];
  rig.options.weigh = true;
  rig_program_of(&rig, slots, backend_chain(format_image(PIXELS_GRAY, side, side), requests, count));
  ck_assert_msg(gpu_program_warm_up(rig.program, &error), "%s", error.text);
  ck_assert_int_eq(atomic_load(&rig.wakes), 0);
  ck_assert(rig.options.graph == GPU_GRAPH_AUTO || gpu_program_graph(rig.program) == (rig.options.graph == GPU_GRAPH_ON));
  bool is_small = side * side <= 256 << 10;
  ck_assert(rig.options.copy == GPU_COPY_AUTO ||
            gpu_program_copies_by_kernel(rig.program) == (is_small && rig.options.copy == GPU_COPY_KERNEL));
}
