/* stats: descriptor and CPU loops; stats.h says what is given and in which order floats are added. */
#include "gpu/stages/stats.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <float.h>
#include <stdio.h>

enum { TABLES = 4 }; /* histograms that neighbouring bytes count in, so that equal ones do not wait for each other */

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.pixels != PIXELS_NONE && stage_channels(&plan->input) == 0) {
    return stage_refuse(plan, problem, "gray, rgb24, bgr24, grayf32le and tensors", "put `convert: {to: gray}` before it");
  }
  bool floats = plan->input.dtype == ELEMENT_FLOAT32;
  double low = values[STATS_LOW].numbers[0];
  double high = floats && !values[STATS_HIGH].given ? 1 : values[STATS_HIGH].numbers[0];
  double bins_per_unit = STATS_BINS / (high - low);
  if (!(low < high) || bins_per_unit > FLT_MAX) {
    snprintf(problem, STAGE_TEXT, "`low` is %g and `high` is %g, but `low` must be below `high`", low, high);
    return false;
  }
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){STATS_ELEMENTS}, 1);
  plan->output.meaning = MEANING_STATS;
  if (!stage_fill_sizes(plan, problem)) {
    return false;
  }
  struct stats_constants constants = {
      .low = (float)low, .bins_per_unit = (float)bins_per_unit, .samples = format_samples(&plan->input)};
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->scratch_bytes = floats ? sizeof(struct stats_totals) + stats_chunks(constants.samples) * sizeof(double)
                               : STATS_PARTS * STATS_BINS * sizeof(uint32_t);
  return true;
}

/* -- bytes: one histogram of levels says everything ------------------------------------------------------ */

static void count_levels(const uint8_t *restrict in, size_t count, uint64_t levels[restrict STATS_BINS]) {
  uint64_t tables[TABLES][STATS_BINS] = {0};
  for (size_t i = 0; i < count; i++) {
    tables[i % TABLES][in[i]]++;
  }
  for (size_t level = 0; level < STATS_BINS; level++) {
    levels[level] = tables[0][level] + tables[1][level] + tables[2][level] + tables[3][level];
  }
}

static void fill_histogram(const uint64_t bins[STATS_BINS], uint64_t counted, float *out) {
  for (size_t bin = 0; bin < STATS_BINS; bin++) {
    out[STATS_HISTOGRAM + bin] = stats_ratio((double)bins[bin], (double)counted);
  }
}

static void make_result(const uint64_t levels[STATS_BINS], float *out, struct stats_constants constants) {
  uint64_t bins[STATS_BINS] = {0};
  uint64_t sum = 0;
  unsigned lowest = STATS_BINS - 1;
  unsigned highest = 0;
  for (unsigned level = 0; level < STATS_BINS; level++) {
    bins[stats_bin((float)level, constants)] += levels[level];
    sum += level * levels[level];
    lowest = levels[level] && level < lowest ? level : lowest;
    highest = levels[level] ? level : highest;
  }
  out[STATS_MINIMUM] = (float)lowest;
  out[STATS_MAXIMUM] = (float)highest;
  out[STATS_MEAN] = stats_ratio((double)sum, (double)constants.samples);
  out[STATS_COUNTED] = 1;
  fill_histogram(bins, constants.samples, out);
}

static void run_bytes(const uint8_t *in, float *out, struct stats_constants constants) {
  uint64_t levels[STATS_BINS];
  count_levels(in, constants.samples, levels);
  make_result(levels, out, constants);
}

/* -- floats ---------------------------------------------------------------------------------------------- */

static double add_lanes(double *lanes, size_t count) {
  for (size_t width = count / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; lane++) {
      lanes[lane] += lanes[lane + width];
    }
  }
  return lanes[0];
}

STAGE_VECTOR
static void add_floats(double *restrict lanes, const float *restrict in, size_t count) {
  for (size_t lane = 0; lane < count; lane++) {
    lanes[lane] += (double)(stats_is_counted(in[lane]) ? in[lane] : 0.0F);
  }
}

static double add_chunk(const float *in, size_t count) {
  double lanes[STATS_LANES] = {0};
  for (size_t first = 0; first < count; first += STATS_LANES) {
    add_floats(lanes, in + first, count - first < STATS_LANES ? count - first : STATS_LANES);
  }
  return add_lanes(lanes, STATS_LANES);
}

static double add_sums(const double *restrict sums, size_t count) {
  double lanes[STATS_SUM_LANES] = {0};
  for (size_t i = 0; i < count; i++) {
    lanes[i % STATS_SUM_LANES] += sums[i];
  }
  return add_lanes(lanes, STATS_SUM_LANES);
}

/* Bins of up to STATS_CHUNK samples; what is not counted has the bin after the last. */
STAGE_VECTOR
static void find_bins(const float *restrict in, uint32_t *restrict bins, size_t count, struct stats_constants constants) {
  for (size_t i = 0; i < count; i++) {
    bins[i] = stats_is_counted(in[i]) ? stats_bin(in[i], constants) : STATS_BINS;
  }
}

/* The greatest of ~key and of key, as in struct stats_totals; 0 where nothing is counted. */
struct limits {
  uint32_t lowest, highest;
};

STAGE_VECTOR
static struct limits find_limits(const float *restrict in, size_t count, struct limits limits) {
  for (size_t i = 0; i < count; i++) {
    uint32_t counted = stats_is_counted(in[i]) ? UINT32_MAX : 0;
    uint32_t low = ~stats_key(in[i]) & counted;
    uint32_t high = stats_key(in[i]) & counted;
    limits.lowest = low > limits.lowest ? low : limits.lowest;
    limits.highest = high > limits.highest ? high : limits.highest;
  }
  return limits;
}

static void run_floats(const float *in, double *sums, float *out, struct stats_constants constants) {
  uint64_t bins[STATS_BINS + 1] = {0};
  uint32_t chunk_bins[STATS_CHUNK];
  struct limits limits = {0};
  size_t chunks = stats_chunks(constants.samples);
  for (size_t chunk = 0; chunk < chunks; chunk++) {
    const float *from = in + chunk * STATS_CHUNK;
    size_t rest = constants.samples - chunk * STATS_CHUNK;
    size_t count = rest < STATS_CHUNK ? rest : STATS_CHUNK;
    sums[chunk] = add_chunk(from, count);
    limits = find_limits(from, count, limits);
    find_bins(from, chunk_bins, count, constants);
    for (size_t i = 0; i < count; i++) {
      bins[chunk_bins[i]]++;
    }
  }
  uint64_t counted = constants.samples - bins[STATS_BINS];
  out[STATS_MINIMUM] = counted ? stats_from_key(~limits.lowest) : 0.0F;
  out[STATS_MAXIMUM] = counted ? stats_from_key(limits.highest) : 0.0F;
  out[STATS_MEAN] = stats_ratio(add_sums(sums, chunks), (double)counted);
  out[STATS_COUNTED] = stats_ratio((double)counted, (double)constants.samples);
  fill_histogram(bins, counted, out);
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct stats_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  if (plan->input.dtype == ELEMENT_FLOAT32) {
    run_floats(call->input, (double *)((unsigned char *)call->scratch + sizeof(struct stats_totals)), call->output, constants);
  } else {
    run_bytes(call->input, call->output, constants);
  }
}

const struct stage_descriptor stats_stage = {
    .about = &stats_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(stats_enqueue)};
