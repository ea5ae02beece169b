#include "tools/framebench/overlap/cuda_overlap.h"

#include "tools/framebench/common/cuda_bare.h"
#include "tools/framebench/common/cuda_kernels.h"
#include "tools/framebench/common/cuda_try.h"
#include "tools/framebench/common/engine.h"

bool overlap_cuda_serial(const struct gpu_chain *chain, unsigned device, bool pageable, double seconds, double *each,
                         struct problem *problem) {
  const struct bare_setup setup = {.chain = chain, .device = device, .slots = 1, .pageable = pageable};
  struct bare *bare = bare_new(&setup, problem);
  bool done = bare && bare_serial(bare, seconds, each, problem);
  bare_free(bare);
  return done;
}

/* -- textbooks ------------------------------------------------------------------------------------------------------ */

static const struct section textbook_section = {"textbook",
                                                "Programs as textbooks write them, and the same through framed's engine",
                                                (const struct column[]){{"what", "PROGRAM", COLUMN_TEXT},
                                                                        {"textbook_us", "TEXTBOOK", COLUMN_TIME},
                                                                        {"engine_us", "ENGINE", COLUMN_TIME},
                                                                        {"speedup", "SPEEDUP", COLUMN_RATIO},
                                                                        {0}}};

enum { CHUNKED_BYTES = 16 << 20, FRAME_BYTES = 4 << 20, ROUNDS = 100, FRAMES = 100, BEST_OF = 5 };

struct textbook {
  size_t frame_bytes;
  const char *stage, *parameter;
  double value;
  unsigned slots;
  uint64_t frames;
};

/* The shortest time of some runs, in microseconds for all frames, with the daemon's settings. */
static bool run_engine(struct gpu_device *device, const struct textbook *book, double *best, struct problem *problem) {
  struct gpu_chain *chain = engine_chain(book->frame_bytes, book->stage, book->parameter, book->value, problem);
  const struct engine_setup setup = {
      .chain = chain, .slots = book->slots, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_AUTO, .timed_one_in = GPU_TIMED_AUTO};
  struct engine *engine = chain ? engine_new(device, &setup, problem) : NULL;
  bool done = engine;
  for (int i = 0; i < BEST_OF && done; i++) {
    struct engine_figures figures;
    done = engine_run(engine, book->frames, NULL, 0, &figures, problem);
    *best = done && (i == 0 || figures.wall < *best) ? figures.wall : *best;
  }
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

static void textbook_row(struct results *results, const char *what, double textbook, double engine) {
  results_row(results, json_pack("{s:s, s:f, s:f, s:f}", "what", what, "textbook_us", textbook, "engine_us", engine, "speedup",
                                 textbook / engine));
}

static bool chunks_row(struct results *results, struct gpu_device *device, unsigned chunks, struct problem *problem) {
  char what[64];
  double milliseconds = 0, engine = 0;
  const struct textbook book = {CHUNKED_BYTES / chunks, "work", "rounds", ROUNDS, chunks < 3 ? chunks : 3, chunks};
  snprintf(what, sizeof what, "4 Mi floats, %d rounds of sin and cos, %u chunk%s", ROUNDS, chunks, chunks == 1 ? "" : "s");
  if (!cuda_try((cudaError_t)kernels_textbook_chunks(chunks, &milliseconds), "the textbook's chunks", problem) ||
      !run_engine(device, &book, &engine, problem)) {
    return false;
  }
  textbook_row(results, what, milliseconds * 1e3, engine);
  return true;
}

static bool ping_pong_row(struct results *results, struct gpu_device *device, unsigned slots, struct problem *problem) {
  char what[64];
  double textbook = 0, engine = 0;
  const struct textbook book = {FRAME_BYTES, "affine", "scale", 2, slots, FRAMES};
  snprintf(what, sizeof what, "ping-pong, 1 Mi floats, a frame; engine: %u slots", slots);
  if (!cuda_try((cudaError_t)kernels_textbook_ping_pong(FRAMES, &textbook), "the textbook's ping-pong", problem) ||
      !run_engine(device, &book, &engine, problem)) {
    return false;
  }
  textbook_row(results, what, textbook, engine / FRAMES);
  return true;
}

bool overlap_cuda_textbooks(struct results *results, struct gpu_device *device, struct problem *problem) {
  results_section(results, &textbook_section);
  for (unsigned chunks = 1; chunks <= 16; chunks *= 2) {
    if (!chunks_row(results, device, chunks, problem)) {
      return false;
    }
  }
  return ping_pong_row(results, device, 2, problem) && ping_pong_row(results, device, 3, problem);
}
