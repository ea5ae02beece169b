/*
 * Replacing the stages of a running pipeline by stages with the same input and output: no client is disconnected and no frame
 * is lost. The sessions get programs of a new chain; everything else stays, and so does the configuration of the ends.
 */
#include "daemon/device/formats.h"
#include "daemon/pipeline/private.h"

/* True if clients could see no difference. */
static bool same_ends(const struct device_chain *one, const struct device_chain *other) {
  const struct frame_format *output = &device_chain_record(one)->output, *other_output = &device_chain_record(other)->output;
  return format_equal(&device_chain_record(one)->input, &device_chain_record(other)->input) &&
         format_equal(output, other_output) && output->meaning == other_output->meaning;
}

/* A pipeline that could not start, has failed or is stopping is replaced as a whole instead. */
static bool may_go_on(const struct pipeline *pipeline) {
  return pipeline->state >= PIPELINE_RUNNING && pipeline->state <= PIPELINE_DRAINED;
}

bool pipeline_begin_restage(struct pipeline *pipeline, const struct config_pipeline *config) {
  struct gpu_error error = {.stage = -1};
  struct device_chain *chain =
      may_go_on(pipeline) ? formats_chain(engine_main_device(pipeline->setup.engine), CONFIG_BACKEND_AUTO, config, &error)
                          : NULL;
  if (!chain || !same_ends(pipeline->chain, chain) || !inputs_take_labels(pipeline->inputs, chain)) {
    device_chain_free(chain);
    return false;
  }
  pipeline->restage = (struct restage){.config = config, .chain = chain};
  device_chain_count_users(pipeline->chain, 0);
  return true;
}

bool pipeline_may_restage(struct pipeline *pipeline) { return inputs_freeze(pipeline->inputs); }

bool pipeline_prepare_restage(struct pipeline *pipeline, struct failure *failure) {
  return inputs_prepare_stages(pipeline->inputs, pipeline->restage.chain, failure);
}

void pipeline_restage(struct pipeline *pipeline) {
  struct restage *restage = &pipeline->restage;
  restage->ordered = may_go_on(pipeline); /* otherwise it was stopped meanwhile */
  restage->done = !restage->ordered;
  if (restage->ordered) {
    inputs_change_stages(pipeline->inputs);
  }
}

bool pipeline_is_restaged(const struct pipeline *pipeline) { return pipeline->restage.done; }

/* From now on status shows the new chain. The old one stays until no session uses it. */
void pipeline_on_changed(struct pipeline *pipeline) {
  struct device_chain *old = pipeline->chain;
  pipeline->chain = pipeline->restage.chain;
  pipeline->restage.chain = old;
  pipeline->stages_config = pipeline->restage.config;
  pipeline->restage.done = true;
}

void pipeline_release_restage(struct pipeline *pipeline) {
  if (pipeline->inputs) {
    inputs_drop_stages(pipeline->inputs);
  }
  pipeline->restage.chain = device_chain_free(pipeline->restage.chain);
}

void pipeline_end_restage(struct pipeline *pipeline) {
  if (pipeline->inputs) {
    inputs_thaw(pipeline->inputs);
  }
  pipeline->restage.chain = device_chain_free(pipeline->restage.chain);
  pipeline->restage.config = NULL;
  device_chain_count_users(pipeline->chain, pipeline->config->slots * pipeline->config->source.clients);
}
