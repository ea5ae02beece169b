#include "daemon/server/footprint.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/base/log_text.h"
#include "daemon/camera/camera.h"
#include "daemon/device/formats.h"
#include "daemon/device/models.h"
#include "daemon/session/session.h"
#include "daemon/sink/recorder.h"
#include "daemon/sink/retention.h"
#include "daemon/sink/sink.h"
#include "daemon/wire/native.h"
#include "daemon/wire/protocol.h"

/* -- one pipeline ------------------------------------------------------------------------------------------- */

static size_t times(size_t bytes, unsigned count) {
  size_t product;
  return __builtin_mul_overflow(bytes, (size_t)count, &product) ? SIZE_MAX : product;
}

static size_t plus(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

/* Of a result as readers get it. */
static size_t most_result_bytes(const struct config_pipeline *pipeline, const struct device_chain *chain) {
  const struct frame_format *output = &device_chain_record(chain)->output;
  const struct chain_record *record = device_chain_record(chain);
  size_t bytes = 0;
  format_bytes(output, &bytes);
  if (pipeline->sink.protocol != CONFIG_PROTOCOL_JSON || !sink_writes_lines(output)) {
    return bytes;
  }
  const struct json_shape shape = sink_line_shape(pipeline, output, (const char *const *)record->labels, record->label_count);
  return json_most_bytes(&shape);
}

static bool holds(const struct chain_verdict *verdict, bool is_wanted, struct gpu_error *error) {
  if (verdict->holds || !is_wanted) {
    return true;
  }
  *error = verdict->error;
  return false;
}

bool footprint_of(const struct config *config, const struct config_pipeline *pipeline, struct footprint *footprint,
                  struct gpu_error *error) {
  footprint->input = formats_format(&pipeline->source.format);
  struct device_chain *chain = formats_chain(NULL, config->gpu.backend, pipeline, error);
  const struct chain_record *record = chain ? device_chain_record(chain) : NULL;
  size_t input_bytes;
  if (!chain || !holds(&record->runs, true, error) ||
      !holds(&record->resides, pipeline->completion == CONFIG_COMPLETION_PERSISTENT, error) ||
      !holds(&record->spreads, pipeline->spread == CONFIG_SPREAD_FRAMES, error) ||
      !format_bytes(&footprint->input, &input_bytes)) {
    device_chain_free(chain);
    return false;
  }
  footprint->output = device_chain_record(chain)->output;
  footprint->pinned_bytes = times(session_pinned_bytes(pipeline, chain, input_bytes), pipeline->source.clients);
  footprint->device_bytes = times(device_chain_bytes(chain, pipeline->slots), pipeline->source.clients);
  footprint->record_bytes = recorder_bytes(pipeline, input_bytes);
  size_t result_bytes = most_result_bytes(pipeline, chain);
  device_chain_free(chain);
  bool keeps = pipeline->sink.endpoint == CONFIG_SOCKET && pipeline->sink.overload == CONFIG_SINK_DROP;
  footprint->reader_bytes = keeps ? times(plus(result_bytes, NATIVE_RESULT_BYTES), pipeline->sink.slow_readers) : 0;
  return true;
}

/* -- checks ------------------------------------------------------------------------------------------------- */

struct check { /* of the pipelines so far */
  size_t pinned, recorded;
  size_t memory; /* of this machine */
};

/* Whether the source's format fits y4m, config/ has checked; what the last stage gives is known only here. */
static void check_y4m(const struct config_pipeline *pipeline, const struct footprint *footprint, struct config_errors *errors) {
  char text[FORMAT_TEXT];
  if (pipeline->sink.protocol == CONFIG_PROTOCOL_Y4M && !y4m_carries(&footprint->output)) {
    config_errors_add(errors, pipeline->sink.at,
                      "end the stages with 'convert: {to: gray}' or 'convert: {to: yuv420p}', or use protocol raw",
                      "pipeline '%s': y4m does not carry %s, which the last stage gives", pipeline->name,
                      format_describe(&footprint->output, text));
  }
}

static void check_json(const struct config_pipeline *pipeline, const struct footprint *footprint,
                       struct config_errors *errors) {
  char text[FORMAT_TEXT];
  if (pipeline->sink.protocol == CONFIG_PROTOCOL_JSON && !sink_writes_lines(&footprint->output)) {
    config_errors_add(
        errors, pipeline->sink.at,
        "end the stages with one such as stats, motion (output: boxes), top or detect, or use protocol raw or native",
        "pipeline '%s' has results without a meaning, which json cannot write: the last stage gives %s", pipeline->name,
        format_describe(&footprint->output, text));
  }
}

static void check_record(const struct config_pipeline *pipeline, const struct footprint *footprint,
                         struct config_errors *errors) {
  enum frame_meaning meaning = footprint->output.meaning;
  if (pipeline->record.file && pipeline->record.when == CONFIG_RECORD_BOXES && meaning != MEANING_BOXES &&
      meaning != MEANING_MOTION) {
    config_errors_add(errors, pipeline->record.file_at,
                      "end the stages with one such as detect or motion (output: boxes), or write when: always or event",
                      "pipeline '%s' has no boxes to record for: its last stage gives none", pipeline->name);
  }
}

/* Pinned memory may be half of the machine's, and with what recordings take all of it. Said once, at the pipeline that goes
 * over. */
static void check_memory(struct check *check, const struct config_pipeline *pipeline, const struct footprint *footprint,
                         struct config_errors *errors) {
  size_t pinned = check->pinned, recorded = check->recorded, half = check->memory / 2;
  check->pinned = plus(pinned, footprint->pinned_bytes);
  check->recorded = plus(recorded, footprint->record_bytes);
  char own[BYTES_TEXT], sum[BYTES_TEXT], limit[BYTES_TEXT];
  if (pinned <= half && check->pinned > half) {
    config_errors_add(errors, pipeline->at, "use fewer slots or clients, or smaller frames",
                      "pipeline '%s' pins %s of memory, which makes %s with those before it; half of this machine's memory, "
                      "%s, is the limit",
                      pipeline->name, text_of_bytes(footprint->pinned_bytes, own), text_of_bytes(check->pinned, sum),
                      text_of_bytes(half, limit));
  } else if (plus(pinned, recorded) <= check->memory && plus(check->pinned, check->recorded) > check->memory) {
    config_errors_add(errors, pipeline->at, "give `record` less memory",
                      "the recording of pipeline '%s' takes %s of memory, which makes %s with all before it; this machine has "
                      "%s",
                      pipeline->name, text_of_bytes(footprint->record_bytes, own),
                      text_of_bytes(plus(check->pinned, check->recorded), sum), text_of_bytes(check->memory, limit));
  }
}

static struct config_mark footprint_place(const struct config_pipeline *pipeline, const struct gpu_error *error) {
  return error->stage >= 0 && (unsigned)error->stage < pipeline->stage_count ? pipeline->stages[error->stage].at
                                                                             : pipeline->source.format.at;
}

static void check_camera(const struct config_pipeline *pipeline, struct config_errors *errors) {
  struct failure failure;
  if (pipeline->source.endpoint == CONFIG_CAMERA && !camera_check(&pipeline->source, &failure)) {
    config_errors_add(errors, pipeline->source.path_at, failure.remedy[0] ? failure.remedy : NULL, "pipeline '%s': %s",
                      pipeline->name, failure.text);
  }
}

static void check_pipeline(const struct config *config, const struct config_pipeline *pipeline, struct config_errors *errors,
                           void *context) {
  struct gpu_error error = {.stage = -1};
  struct footprint footprint;
  if (!footprint_of(config, pipeline, &footprint, &error)) {
    config_errors_add(errors, footprint_place(pipeline, &error), error.remedy[0] ? error.remedy : NULL, "pipeline '%s': %s",
                      pipeline->name, error.text[0] ? error.text : "the frames are too large");
    return;
  }
  check_y4m(pipeline, &footprint, errors);
  check_json(pipeline, &footprint, errors);
  check_record(pipeline, &footprint, errors);
  check_camera(pipeline, errors);
  check_memory(context, pipeline, &footprint, errors);
}

static bool open_model(struct config_model *model, struct config_errors *errors, void *context) {
  (void)context;
  return models_open(model, errors);
}

static size_t memory_of_machine(void) {
  long pages = sysconf(_SC_PHYS_PAGES);
  long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? times((size_t)pages, (unsigned)page) : SIZE_MAX;
}

/* The commented configuration that came with this program, as it lies: built, installed or unpacked. NULL: none. */
static const char *find_example(char path[PATH_MAX]) {
  static const char *const places[] = {"../config/framed.yaml", "../../config/framed.yaml", "../share/doc/framed/framed.yaml",
                                       "framed.yaml"};
  char own[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  own[length > 0 ? length : 0] = '\0';
  const char *folder = dirname(own);
  for (size_t i = 0; length > 0 && i < sizeof places / sizeof places[0]; i++) {
    char place[2 * PATH_MAX];
    snprintf(place, sizeof place, "%s/%s", folder, places[i]);
    if (realpath(place, path)) {
      return path;
    }
  }
  return NULL;
}

/* Reads the text, or where that is NULL the file. */
static struct config *read_config(const char *name, const char *text, struct config_errors *errors) {
  struct vocabulary *vocabulary = formats_new();
  if (!vocabulary) {
    config_errors_add(errors, (struct config_mark){.file = name}, NULL, "not enough memory to read the configuration");
    return NULL;
  }
  struct check check = {.memory = memory_of_machine()};
  char example[PATH_MAX];
  struct config_hooks hooks = {.vocabulary = formats_words(vocabulary),
                               .open = open_model,
                               .check = check_pipeline,
                               .context = &check,
                               .example = find_example(example)};
  struct config *config = text ? config_parse(name, text, strlen(text), &hooks, errors) : config_load(name, &hooks, errors);
  formats_free(vocabulary);
  return config;
}

struct config *footprint_load(const char *path, struct config_errors *errors) {
  return read_config(path, NULL, errors);
}

struct config *footprint_parse(const char *name, const char *text, struct config_errors *errors) {
  return read_config(name, text, errors);
}

/* -- the table of --check ------------------------------------------------------------------------------------- */

static void print_row(FILE *out, const struct config_pipeline *pipeline, const struct footprint *footprint) {
  char input[FORMAT_TEXT], output[FORMAT_TEXT], pinned[BYTES_TEXT], device[BYTES_TEXT];
  char record[BYTES_TEXT], readers[BYTES_TEXT];
  fprintf(out, "%-16s %-22s %-22s %5u %7u %11s %11s %11s %12s\n", pipeline->name, format_describe(&footprint->input, input),
          format_describe(&footprint->output, output), pipeline->slots, pipeline->source.clients,
          text_of_bytes(footprint->pinned_bytes, pinned), text_of_bytes(footprint->device_bytes, device),
          text_of_bytes(footprint->record_bytes, record), text_of_bytes(footprint->reader_bytes, readers));
}

/* The driver may count pinned memory against the limit of locked memory; root is exempt. */
static void print_lock_limit(FILE *out, const struct config *config, size_t pinned) {
  struct rlimit limit;
  if (config->gpu.backend == CONFIG_BACKEND_CPU || geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= pinned) {
    return;
  }
  char text[BYTES_TEXT];
  fprintf(out,
          "note: this user may lock %s of memory, which can be too little on a GPU; set LimitMEMLOCK=infinity in the unit "
          "or `ulimit -l unlimited`\n",
          text_of_bytes(limit.rlim_cur, text));
}

/* Bytes of the file system on which a file with such a name will be; 0: not known. */
static size_t disk_of(const char *name) {
  char path[PATH_MAX];
  struct statvfs disk;
  snprintf(path, sizeof path, "%s%.*s", name[0] == '/' ? "" : "./", (int)strcspn(name, "%"), name);
  bool is_known = false;
  for (char *slash; !is_known && (slash = strrchr(path, '/'));) {
    slash[slash == path] = '\0';
    is_known = statvfs(path, &disk) == 0;
  }
  return is_known ? (size_t)disk.f_blocks * (size_t)disk.f_frsize : 0;
}

static void print_bound(FILE *out, const struct config_pipeline *pipeline, const char *path,
                        const struct config_rotate *rotate) {
  char text[BYTES_TEXT];
  if (path && (rotate->every_ns > 0 || rotate->size > 0) && retention_has_default(rotate)) {
    fprintf(
        out,
        "note: pipeline '%s' has no `keep` and no `most` for '%s': it takes at most %d %% of the file system (%s), and then "
        "removes the oldest segments; `full: stop` keeps them all\n",
        pipeline->name, path, CONFIG_DEFAULT_MOST, text_of_bytes(disk_of(path) / 100 * CONFIG_DEFAULT_MOST, text));
  }
}

void footprint_print(FILE *out, const char *path, const struct config *config) {
  fprintf(out, "%s: configuration is valid\n\n%-16s %-22s %-22s %5s %7s %11s %11s %11s %12s\n", path, "PIPELINE", "INPUT",
          "OUTPUT", "SLOTS", "CLIENTS", "PINNED HOST", "DEVICE", "RECORDING", "SLOW READERS");
  size_t pinned = 0;
  size_t device = 0;
  size_t record = 0;
  size_t readers = 0;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    struct footprint footprint;
    struct gpu_error error;
    if (footprint_of(config, &config->pipelines[i], &footprint, &error)) { /* true: it was checked */
      print_row(out, &config->pipelines[i], &footprint);
      pinned = plus(pinned, footprint.pinned_bytes);
      device = plus(device, footprint.device_bytes);
      record = plus(record, footprint.record_bytes);
      readers = plus(readers, footprint.reader_bytes);
    }
  }
  char pinned_text[BYTES_TEXT], device_text[BYTES_TEXT], record_text[BYTES_TEXT], readers_text[BYTES_TEXT];
  fprintf(out, "%-16s %-22s %-22s %5s %7s %11s %11s %11s %12s\n", "together", "", "", "", "",
          text_of_bytes(pinned, pinned_text), text_of_bytes(device, device_text), text_of_bytes(record, record_text),
          text_of_bytes(readers, readers_text));
  models_print(out, config);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    const struct config_pipeline *pipeline = &config->pipelines[i];
    print_bound(out, pipeline, pipeline->sink.path, &pipeline->sink.rotate);
    print_bound(out, pipeline, pipeline->record.file, &pipeline->record.rotate);
  }
  print_lock_limit(out, config, pinned);
}
