#include "tools/framebench/model/loop.h"

#include "tools/framebench/common/options.h"

#include <stdlib.h>
#include <string.h>

struct loop {
  struct model *model;
  struct gpu_chain *chain;
  struct engine *engine;
};

static struct model *open_model(const struct loop_setup *setup, struct gpu_error *error) {
  struct model_shape shape = {.input = setup->input->name, .rank = setup->input->rank};
  memcpy(shape.sides, setup->input->shape, sizeof shape.sides);
  shape.sides[0] = setup->rows > 1 ? setup->rows : shape.sides[0];
  const struct model_settings settings = {
      .file = setup->file, .shapes = &shape, .shape_count = 1, .instances = setup->instances};
  return model_open(&settings, error);
}

static bool open_chain(struct loop *loop, const struct loop_setup *setup, struct problem *problem) {
  struct gpu_error error = {0};
  loop->model = open_model(setup, &error);
  const struct gpu_stage_request request = {.stage = stage_about_find("model"), .resource = loop->model, .users = setup->slots};
  loop->chain = loop->model ? gpu_chain_new(&model_input(loop->model)->format, &request, 1, &error) : NULL;
  return loop->chain || options_gpu_problem(&error, problem);
}

struct loop *loop_new(struct gpu_device *device, const struct loop_setup *setup, struct problem *problem) {
  struct loop *loop = calloc(1, sizeof *loop);
  if (!loop) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a loop");
    return NULL;
  }
  if (open_chain(loop, setup, problem)) {
    const struct engine_setup engine = {
        .chain = loop->chain, .slots = setup->slots, .completion = ENGINE_SPIN, .timed_one_in = GPU_TIMED_NEVER};
    loop->engine = engine_new(device, &engine, problem);
  }
  return loop->engine ? loop : loop_free(loop);
}

struct engine *loop_engine(const struct loop *loop) {
  return loop->engine;
}

struct loop *loop_free(struct loop *loop) {
  if (loop) {
    engine_free(loop->engine);
    gpu_chain_free(loop->chain);
    model_release(loop->model);
    free(loop);
  }
  return NULL;
}
