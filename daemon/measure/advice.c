#include "daemon/measure/advice.h"

#include <stdarg.h>
#include <stdio.h>

/* Above this share of busy time, all instances count as busy. */
#define IN_USE 0.9
/* Above this share of their limit, batches count as full. */
#define FULL 0.9

/* Suggested and largest batch size; slots per instance from which batches are better than another instance. */
enum { USUAL_BATCH = 16, MOST_BATCH = 64, SLOTS_FOR_BATCHES = 4 };

void advise(struct diagnosis *diagnosis, enum improvement improvement, double gain, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(diagnosis->advice, sizeof diagnosis->advice, format, arguments);
  va_end(arguments);
  diagnosis->improve = improvement;
  diagnosis->gain = gain;
}

/* -- facts about the model ----------------------------------------------------------------------------------------------- */

static bool has_batches(const struct diagnosis_figures *figures) { return figures->model.most > 1; }

/* Frames of a run. */
static double frames_a_run(const struct diagnosis_figures *figures) {
  return has_batches(figures) && figures->model.batched > 1 ? figures->model.batched : 1;
}

unsigned advice_more_slots(const struct diagnosis_figures *figures) { return (figures->slots + 1) * figures->devices; }

double advice_model_share(const struct diagnosis_figures *figures) {
  double own = figures->step[STEP_MODEL] / frames_a_run(figures), all = figures->step[STEP_KERNEL];
  return own < all ? own / all : all > 0;
}

static bool is_full(const struct diagnosis_figures *figures) { return frames_a_run(figures) >= FULL * figures->model.most; }

bool advice_model_is_busy(const struct diagnosis_figures *figures) {
  /* Instances that compute on average, for all pipelines. The time of a run counts once, not for each of its frames. */
  double runs = figures->model.runs > 0 ? figures->model.runs : figures->frames;
  double in_use = runs * figures->step[STEP_MODEL] / (figures->seconds * 1e6);
  return in_use >= IN_USE * figures->model.instances || (figures->on_processors && figures->is_short);
}

/* True if frames wait for an instance, and one more would help: each existing one brings at least half of what the first does.
 * On processors instances only share these. With batches a run takes all frames that wait. */
static bool lacks_instances(const struct diagnosis_figures *figures) {
  const struct diagnosis_model *model = &figures->model;
  double alone = figures->costs.service[OVERLAP_KERNEL], now = figures->step[STEP_MODEL];
  double at_once = alone > 0 && now > alone ? model->instances * alone / now : model->instances;
  return !figures->on_processors && !has_batches(figures) && model->users > model->instances && advice_model_is_busy(figures) &&
         at_once >= (model->instances + 1) / 2.0;
}

/* True if the model file accepts several frames at once and there are several. */
static bool could_batch(const struct diagnosis_model *model) {
  return model->most <= 1 && model->takes_rows && !model->is_batch && model->users > 1;
}

/* -- advice -------------------------------------------------------------------------------------------------------------- */

/* True if more slots would make batches larger. */
static bool lacks_slots(const struct diagnosis_figures *figures) {
  const struct diagnosis_model *model = &figures->model;
  return has_batches(figures) && !is_full(figures) && advice_more_slots(figures) <= DIAGNOSIS_MOST_SLOTS &&
         model->users < (model->instances + 1) * model->most;
}

/* True if batches are full and may be larger without another export. */
static bool could_batch_more(const struct diagnosis_figures *figures) {
  const struct diagnosis_model *model = &figures->model;
  return has_batches(figures) && model->takes_rows && model->most < MOST_BATCH && model->users > model->most &&
         is_full(figures);
}

/* For GPUs, where a batch takes little more time than a frame. The gain cannot be predicted. */
static bool advise_form(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  const struct diagnosis_model *model = &figures->model;
  if (could_batch(model)) {
    advise(diagnosis, IMPROVE_BATCH, 1, "batches of the model (batch: {most: %u}), which takes several frames at once",
           model->users < USUAL_BATCH ? model->users : USUAL_BATCH);
  } else if (lacks_slots(figures)) {
    advise(diagnosis, IMPROVE_SLOTS, 1,
           "another slot (slots: %u) for larger batches: of the %u frames that they may have, they have %.1f",
           advice_more_slots(figures), model->most, model->batched);
  } else if (could_batch_more(figures)) {
    advise(diagnosis, IMPROVE_BATCH, 1,
           "larger batches of the model (batch: {most: %u}): of the %u frames that they may have, they have %.1f",
           2 * model->most < MOST_BATCH ? 2 * model->most : MOST_BATCH, model->most, model->batched);
  } else if (model->is_single) {
    advise(diagnosis, IMPROVE_HALF, 1, "half precision: the model exported with weights of float16");
  } else if (model->most <= 1 && !model->is_batch && model->users > 1) {
    advise(diagnosis, IMPROVE_BATCH, 1,
           "batches: the model exported with an open first side (dynamic_axes), and `batch` set for it");
  } else {
    return false;
  }
  return true;
}

void advise_model(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  const struct diagnosis_model *model = &figures->model;
  double more = (double)(model->instances + 1) / model->instances;
  bool prefers_batches = could_batch(model) && model->users >= SLOTS_FOR_BATCHES * model->instances;
  if (lacks_instances(figures) && !prefers_batches) {
    advise(diagnosis, IMPROVE_INSTANCES, more, "another instance of the model (instances: %u): up to %.2f times as many frames",
           model->instances + 1, more);
  } else if (figures->on_processors || !advise_form(figures, diagnosis)) {
    advise(diagnosis, IMPROVE_MODEL, 1, "a smaller model: it takes %.0f %% of the stages' time",
           100 * advice_model_share(figures));
  }
}
