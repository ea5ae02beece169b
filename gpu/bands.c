/*
 * Frames in bands of rows: which chains can be computed so, where a frame is divided, and what of each band's result is the
 * frame's.
 *
 * A band takes as many rows beyond its own as all stages together reach, straight from the frame that came in, so that bands
 * have nothing to tell each other. What a stage makes of the outermost of these rows is wrong, since it takes the band's edge
 * for the frame's; but that spreads by its own border a stage, and so never gets to the band's own rows.
 */
#include "gpu/backend.h"
#include "gpu/stages/prepare.h"

static bool refuse(const struct gpu_chain *chain, unsigned index, const char *why, struct gpu_error *error) {
  gpu_error_set(error, 0, "leave `split` out, or this stage", "stages[%u] (%s) cannot compute a frame in bands of rows: %s",
                index, chain->plans[index].stage->name, why);
  error->stage = (int)index;
  return false;
}

static bool lies_in_rows(const struct frame_format *format) { return stage_channels(format) > 0; }

bool gpu_chain_splits(const struct gpu_chain *chain, struct gpu_error *error) {
  if (chain->length == 0) {
    return gpu_error_set(error, 0, "leave `split` out", "there are no stages whose work could be split by rows");
  }
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    if (!plan->stage->border) {
      return refuse(chain, i, "it needs all of it", error);
    }
    if (!lies_in_rows(&plan->input) || (plan->output.pixels != PIXELS_NONE && !lies_in_rows(&plan->output))) {
      return refuse(chain, i, "only gray, rgb24, bgr24 and grayf32le lie row by row", error);
    }
    if (plan->stage->border(plan) < 0) {
      return refuse(chain, i, "not for this format", error);
    }
  }
  return true;
}

static size_t row_bytes(const struct stage_plan *plan) { return plan->input_bytes / plan->input.height; }

/* From any row whose number is a multiple of that on, every image of the chain goes on at an aligned address. */
static uint32_t find_unit(const struct gpu_chain *chain) {
  size_t unit = 1;
  for (unsigned i = 0; i < chain->length; i++) {
    const size_t bytes = row_bytes(&chain->plans[i]), power = bytes & -bytes;
    unit = GPU_ALIGNMENT / power > unit ? GPU_ALIGNMENT / power : unit;
  }
  return (uint32_t)unit;
}

unsigned chain_divide(const struct gpu_chain *chain, unsigned most, struct chain_band *bands) {
  const uint32_t height = chain->input.height, unit = find_unit(chain);
  const uint32_t rows = ((height + most - 1) / most + unit - 1) / unit * unit;
  uint32_t border = 0;
  unsigned count = 0;
  for (unsigned i = 0; i < chain->length; i++) {
    border += (uint32_t)chain->plans[i].stage->border(&chain->plans[i]);
  }
  for (uint32_t first = 0; first < height; first += rows) {
    const uint32_t end = first + rows < height ? first + rows : height, last = end + border < height ? end + border : height;
    const uint32_t from = first > border ? (first - border) / unit * unit : 0;
    if (last - from == height) { /* nothing would be spared */
      bands[0] = (struct chain_band){.rows = height, .taken = height};
      return 1;
    }
    bands[count++] = (struct chain_band){.first = first, .rows = end - first, .from = from, .taken = last - from};
  }
  return count;
}

/* Of a tensor, the dimension that differs is that of the rows. */
struct gpu_cut chain_cut(const struct gpu_chain *whole, const struct gpu_chain *of_band, const struct chain_band *band) {
  const struct frame_format *format = gpu_chain_output(whole), *part = gpu_chain_output(of_band);
  struct gpu_cut cut = {.count = 1};
  if (band->rows == whole->input.height) {
    return (struct gpu_cut){.count = 0};
  }
  for (uint32_t i = 0; i < format->rank && format->shape[i] == part->shape[i]; i++) {
    cut.count *= (unsigned)format->shape[i];
  }
  const size_t row = whole->output_bytes / cut.count / whole->input.height;
  cut.from_stride = of_band->output_bytes / cut.count;
  cut.to_stride = whole->output_bytes / cut.count;
  cut.from = (band->first - band->from) * row;
  cut.to = band->first * row;
  cut.bytes = band->rows * row;
  return cut;
}
