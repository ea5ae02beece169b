#include "tools/framebench/scale/work.h"

#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/own_daemon.h"

enum { BYTES = 4 << 20, QUICK_BYTES = 64 << 10, ROUNDS = 200 /* longer than two copies on a GPU */, CPU_ROUNDS = 2 };

static bool add_model(struct work *work, const char *file, struct problem *problem) {
  struct gpu_error error = {0};
  const struct model_settings settings = {.file = file};
  struct model *model = model_open(&settings, &error);
  if (!model) {
    return options_gpu_problem(&error, problem);
  }
  *work = (struct work){.name = "model",
                        .bytes = model_input(model)->bytes,
                        .file = file,
                        .format = own_daemon_format(&model_input(model)->format),
                        .stages = json_pack("[{s:{s:s}}]", "model", "name", "model")};
  model_release(model);
  return true;
}

bool works_init(struct work works[WORK_MOST], unsigned *count, const struct options *options, bool cuda,
                struct problem *problem) {
  size_t bytes = options->quick ? QUICK_BYTES : BYTES;
  unsigned rounds = cuda ? ROUNDS : CPU_ROUNDS;
  *count = 0;
  if (options->file) {
    *count = add_model(&works[0], options->file, problem);
    return *count > 0;
  }
  works[(*count)++] = (struct work){.name = "affine", .bytes = bytes, .bare = true};
  works[(*count)++] = (struct work){.name = "work",
                                    .bytes = bytes,
                                    .bare = true,
                                    .rounds = rounds,
                                    .stages = json_pack("[{s:{s:i}}]", "work", "rounds", (int)rounds)};
  return true;
}

void works_clear(struct work works[WORK_MOST], unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    json_decref(works[i].format);
    json_decref(works[i].stages);
  }
}

json_t *works_models(const struct work *works, unsigned count) {
  json_t *models = json_object();
  for (unsigned i = 0; i < count; i++) {
    if (works[i].file) {
      json_object_set_new(models, works[i].name, json_pack("{s:s, s:i}", "file", works[i].file, "instances", WORK_INSTANCES));
    }
  }
  return models;
}

static struct gpu_chain *model_chain(const char *file, unsigned users, struct model **opened, struct problem *problem) {
  struct gpu_error error = {0};
  const struct model_settings settings = {.file = file, .instances = WORK_INSTANCES};
  struct gpu_chain *chain = NULL;
  *opened = model_open(&settings, &error);
  if (*opened) {
    const struct gpu_stage_request request = {.stage = stage_about_find("model"), .resource = *opened, .users = users};
    chain = gpu_chain_new(&model_input(*opened)->format, &request, 1, &error);
  }
  if (!chain) {
    options_gpu_problem(&error, problem);
  }
  return chain;
}

struct gpu_chain *work_chain(const struct work *work, unsigned users, struct model **model, struct problem *problem) {
  *model = NULL;
  if (work->file) {
    return model_chain(work->file, users, model, problem);
  }
  return work->rounds > 0 ? engine_chain(work->bytes, "work", "rounds", work->rounds, problem)
                          : engine_chain(work->bytes, "affine", "scale", 1, problem);
}
