/*
 * The time of an ffmpeg filter per frame is the difference between a longer and a shorter run, so that ffmpeg's start does not
 * count. Its frames come from a source that draws once, and are discarded.
 */
#include "tools/framebench/stages/ffmpeg.h"

#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/stages/stage_list.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct section ffmpeg_section = {"ffmpeg",
                                              "Stages of the cpu backend and ffmpeg's filters, 1920x1080, as many threads",
                                              (const struct column[]){{"pixels", "INPUT", COLUMN_TEXT},
                                                                      {"stage", "STAGE", COLUMN_TEXT},
                                                                      {"filter", "FILTER", COLUMN_TEXT},
                                                                      {"threads", "THREADS", COLUMN_COUNT},
                                                                      {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                                      {"ffmpeg_frames_per_s", "FFMPEG'S", COLUMN_RATE},
                                                                      {"ratio", "RATIO", COLUMN_RATIO},
                                                                      {0}}};

enum { WIDTH = 1920, HEIGHT = 1080, SHORT_RUN = 20, LONG_RUN = 220 };

static const struct pair {
  struct stage_entry entry;
  const char *format, *filter; /* the format that ffmpeg's source draws */
} pairs[] = {
    {{.pixels = PIXELS_YUV420P, .stage = "convert: to=rgb24"}, "yuv420p", "scale=flags=bilinear,format=rgb24"},
    {{.pixels = PIXELS_RGB24, .stage = "convert: to=gray"}, "rgb24", "scale=flags=bilinear,format=gray"},
    {{.pixels = PIXELS_RGB24, .stage = "convert: to=yuv420p"}, "rgb24", "scale=flags=bilinear,format=yuv420p"},
    {{.pixels = PIXELS_GRAY, .stage = "resize: width=half,height=half"}, "gray", "scale=960:540:flags=bilinear"},
    {{.pixels = PIXELS_GRAY, .stage = "resize: width=1280,height=720,filter=area"}, "gray", "scale=1280:720:flags=area"},
    {{.pixels = PIXELS_GRAY, .stage = "resize: width=double,height=double"}, "gray", "scale=3840:2160:flags=bilinear"},
    {{.pixels = PIXELS_YUV420P, .stage = "resize: width=half,height=half"}, "yuv420p", "scale=960:540:flags=bilinear"},
    {{.pixels = PIXELS_GRAY, .stage = "blur: sigma=2"}, "gray", "gblur=sigma=2"},
    {{.pixels = PIXELS_RGB24, .stage = "blur: sigma=2"}, "gbrp", "gblur=sigma=2"},
    {{.pixels = PIXELS_GRAY, .stage = "sobel"}, "gray", "sobel"},
};

/* The seconds that ffmpeg takes for `frames` frames; negative on failure. */
static double run_ffmpeg(const struct pair *pair, unsigned threads, unsigned frames) {
  char source[128], count[16], thread_count[16];
  snprintf(source, sizeof source, "color=gray:size=%dx%d:rate=1000,format=%s", WIDTH, HEIGHT, pair->format);
  snprintf(count, sizeof count, "%u", frames);
  snprintf(thread_count, sizeof thread_count, "%u", threads);
  const char *const arguments[] = {"ffmpeg", "-nostdin", "-v",        "error", "-filter_threads", thread_count, "-f",
                                   "lavfi",  "-i",       source,      "-vf",   pair->filter,      "-frames:v",  count,
                                   "-f",     "null",     "/dev/null", NULL};
  posix_spawn_file_actions_t actions;
  pid_t process;
  int status = -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
  int64_t start = samples_now();
  int code = posix_spawnp(&process, "ffmpeg", &actions, NULL, (char **)arguments, environ);
  while (code == 0 && waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  double taken = (double)(samples_now() - start) / 1e9;
  posix_spawn_file_actions_destroy(&actions);
  return code == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? taken : -1;
}

/* Frames per second; 0 if ffmpeg is missing or lacks the filter. */
static double measure_ffmpeg(const struct pair *pair, unsigned threads, bool quick) {
  unsigned more = quick ? SHORT_RUN + 10 : LONG_RUN;
  double start = run_ffmpeg(pair, threads, SHORT_RUN);
  double whole = start >= 0 ? run_ffmpeg(pair, threads, more) : -1;
  return whole > start ? (double)(more - SHORT_RUN) / (whole - start) : 0;
}

static bool measure_engine(struct gpu_device *device, const struct pair *pair, unsigned threads, bool quick, double *rate,
                           struct problem *problem) {
  struct engine_figures figures;
  unsigned slots = threads + 1 > GPU_MAX_SLOTS ? GPU_MAX_SLOTS : threads + 1;
  struct gpu_chain *chain = stage_list_chain(&pair->entry, WIDTH, HEIGHT, problem);
  const struct engine_setup setup = {
      .chain = chain, .slots = slots, .completion = ENGINE_CALLBACK, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct engine *engine = chain ? engine_new(device, &setup, problem) : NULL;
  bool done = engine && engine_run_for(engine, quick ? 0.01 : 0.3, &figures, problem);
  *rate = done ? (double)figures.frames / figures.wall * 1e6 : 0;
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

static bool pair_row(struct results *results, struct gpu_device *device, const struct pair *pair, bool quick,
                     struct problem *problem) {
  unsigned threads = machine_processors();
  double own = 0, theirs = measure_ffmpeg(pair, threads, quick);
  if (theirs <= 0) {
    return true;
  }
  if (!measure_engine(device, pair, threads, quick, &own, problem)) {
    return false;
  }
  results_row(results, json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f}", "pixels", pixel_format_names[pair->entry.pixels],
                                 "stage", pair->entry.stage, "filter", pair->filter, "threads", (int)threads, "frames_per_s",
                                 own, "ffmpeg_frames_per_s", theirs, "ratio", own / theirs));
  return true;
}

bool ffmpeg_rows(struct results *results, const struct options *options, struct problem *problem) {
  const struct options cpu = {.backend = GPU_BACKEND_CPU};
  struct gpu_device *device = options_open(&cpu, 0, problem);
  bool done = device;
  results_section(results, &ffmpeg_section);
  for (size_t i = 0; i < (options->quick ? 1 : sizeof pairs / sizeof pairs[0]) && done; i++) {
    done = pair_row(results, device, &pairs[i], options->quick, problem);
  }
  gpu_close(device);
  return done;
}
