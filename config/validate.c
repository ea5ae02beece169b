/*
 * Checks combinations of keys that are valid alone and impossible together. Only complete pipelines are checked here. keys.def
 * has the limits of single keys.
 */
#include <stdlib.h>
#include <string.h>

#include "config/camera.h"
#include "config/errors.h"
#include "config/memory.h"
#include "config/pattern.h"
#include "config/reader.h"

/* -- within one pipeline ----------------------------------------------------------------------------------------- */

/* The place of the value of `section`.`key` (section NULL: the pipeline's own key), or of the pipeline's name. */
static struct config_mark place(const struct node *pipeline, const char *section, const char *key) {
  const struct node *node = node_find(section ? node_find(pipeline, section) : pipeline, key);
  return node ? node->at : pipeline->name_at;
}

static bool is_standard(const char *path) { return path && strcmp(path, "-") == 0; }

static void check_clients(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  if (pipeline->source.clients > 1 && pipeline->sink.endpoint != CONFIG_REPLY) {
    config_errors_add(reader->errors, place(node, "source", "clients"), "write sink: {reply: true}, or clients: 1",
                      "more than 1 client of pipeline '%s' needs a sink that replies to each", pipeline->name);
  }
}

static void check_reply(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  if (pipeline->sink.endpoint == CONFIG_REPLY && pipeline->source.endpoint != CONFIG_SOCKET) {
    config_errors_add(reader->errors, place(node, "sink", "reply"),
                      "use a socket as the source, or a file or socket as the sink", "pipeline '%s' cannot reply to a %s",
                      pipeline->name, pipeline->source.endpoint == CONFIG_CAMERA ? "camera" : "file");
  }
}

static void check_devices(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  if (pipeline->devices != 0 && node_find(node, "device")) {
    config_errors_add(reader->errors, place(node, NULL, "device"), "remove one of them",
                      "'device' and 'devices' exclude each other");
  }
}

/* Frames that are spread over devices use the slots in turn, and each slot belongs to one device. */
static void check_spread(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  const bool is_list = pipeline->devices != CONFIG_ALL_DEVICES;
  const unsigned devices = is_list ? (unsigned)__builtin_popcountll(pipeline->devices) : 0;
  const bool spreads = pipeline->spread == CONFIG_SPREAD_FRAMES;
  if (spreads && pipeline->devices == 0) {
    config_errors_add(reader->errors, place(node, NULL, "spread"),
                      "write devices: all, or name several such as devices: [0, 1]",
                      "the frames of pipeline '%s' have one device only", pipeline->name);
  } else if (spreads && devices > pipeline->slots) {
    config_errors_add(reader->errors, place(node, NULL, "spread"), "give as many slots as devices, or better twice as many",
                      "the %u slots of pipeline '%s' are too few to spread its frames over %u devices", pipeline->slots,
                      pipeline->name, devices);
  }
}

static void check_loop(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  if (pipeline->source.loop && is_standard(pipeline->source.path)) {
    config_errors_add(reader->errors, place(node, "source", "loop"), "name a file, or remove 'loop'",
                      "standard input cannot be read in a loop");
  }
}

static void check_pace(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  if (pipeline->source.pace > 0 && (is_standard(pipeline->source.path) || pipeline->source.rate > 0)) {
    config_errors_add(reader->errors, place(node, "source", "pace"), "name a recording, and remove 'rate'",
                      "'pace' is for a recording, whose index says when its frames came");
  }
}

static void check_overload(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  enum { SLOTS_NEEDED = 3 };
  if (pipeline->overload == CONFIG_OVERLOAD_DROP_OLDEST && pipeline->slots < SLOTS_NEEDED) {
    config_errors_add(
        reader->errors, place(node, NULL, "overload"), "write slots: 3, or slots: 4 so that copies overlap kernels",
        "'drop-oldest' needs at least 3 slots (one waits, one fills); pipeline '%s' has %u", pipeline->name, pipeline->slots);
  }
}

/* A source can have two pixel formats for which y4m has a header. */
static void check_y4m_source(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  const struct config_format *format = &pipeline->source.format;
  const char *pixels = format->is_tensor ? "a tensor" : reader->vocabulary->pixels[format->pixels];
  bool takes_y4m = pipeline->source.protocol == CONFIG_PROTOCOL_Y4M || pipeline->source.protocol == CONFIG_PROTOCOL_AUTO;
  if (takes_y4m && strcmp(pixels, "gray") != 0 && strcmp(pixels, "yuv420p") != 0) {
    config_errors_add(reader->errors, place(node, "source", "protocol"), "use pixels: yuv420p or gray, or protocol: raw",
                      "y4m cannot carry %s", pixels);
  }
}

/* The handshake of a native client needs a connection, which only a socket has. */
static void check_native(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  const struct config_source *source = &pipeline->source;
  const struct config_sink *sink = &pipeline->sink;
  bool speaks = source->protocol == CONFIG_PROTOCOL_NATIVE || source->protocol == CONFIG_PROTOCOL_AUTO;
  if (speaks && source->endpoint == CONFIG_FILE) {
    config_errors_add(reader->errors, place(node, "source", "protocol"), "use a socket, or protocol: raw or y4m",
                      "a file cannot speak the protocol '%s'", config_protocol_names[source->protocol]);
  }
  if (sink->protocol == CONFIG_PROTOCOL_NATIVE && sink->endpoint == CONFIG_FILE) {
    config_errors_add(reader->errors, place(node, "sink", "protocol"), "use a socket, or protocol: raw or y4m",
                      "a file cannot speak the protocol 'native'");
  }
  if (sink->protocol == CONFIG_PROTOCOL_NATIVE && sink->endpoint == CONFIG_REPLY && !speaks) {
    config_errors_add(reader->errors, place(node, "sink", "protocol"), "write protocol: native in the source",
                      "the replies of pipeline '%s' go to clients that do not speak native", pipeline->name);
  }
}

/* A native client gets its replies in the native protocol. */
static void check_json(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  enum config_protocol source = pipeline->source.protocol;
  bool speaks_native = source == CONFIG_PROTOCOL_NATIVE || source == CONFIG_PROTOCOL_AUTO;
  if (pipeline->sink.protocol == CONFIG_PROTOCOL_JSON && pipeline->sink.endpoint == CONFIG_REPLY && speaks_native) {
    config_errors_add(reader->errors, place(node, "sink", "protocol"),
                      "write protocol: raw or y4m in the source, or give the sink a socket",
                      "the clients of pipeline '%s' may speak native and get their replies so, not as json", pipeline->name);
  }
}

/* Segments with unrecognisable names would never be counted, finished or removed. */
static void check_pattern(struct reader *reader, const struct config_pipeline *pipeline, const char *path,
                          struct config_mark at) {
  char problem[PATTERN_PROBLEM] = "";
  struct pattern *pattern = memory_new(1, sizeof *pattern);
  if (!pattern) {
    errors_set_exhausted(reader->errors);
  } else if (!pattern_read(path, pattern, problem)) {
    config_errors_add(reader->errors, at, "write for example %Y%m%d-%H%M%S",
                      "the segments of pipeline '%s' could not be found again by their names: %s", pipeline->name, problem);
  }
  free(pattern);
}

/* Each segment needs a distinct name, and the limit of all segments must have room for two. */
static void check_segments(struct reader *reader, const struct config_pipeline *pipeline, const struct config_rotate *rotate,
                           const char *path, struct config_mark at, struct config_mark path_at) {
  bool rotates = rotate->every_ns > 0 || rotate->size > 0;
  if (!rotates && (rotate->keep_ns > 0 || rotate->most > 0)) {
    config_errors_add(reader->errors, at, "say when the next one begins, such as every: 10m or size: 2GiB",
                      "the segments of pipeline '%s' have no end", pipeline->name);
  }
  if (rotates && !strchr(path, '%')) {
    config_errors_add(reader->errors, path_at, "write for example cam0-%Y%m%d-%H%M%S.y4m",
                      "the segments of pipeline '%s' need names of their own, with the time in them", pipeline->name);
  } else if (rotates) {
    check_pattern(reader, pipeline, path, path_at);
  }
  if (rotate->most > 0 && rotate->size > rotate->most / 2) {
    config_errors_add(reader->errors, at, "make 'most' at least twice as large as 'size'",
                      "'most' has no room for a finished segment and the one that is being written");
  }
}

static bool carries_y4m(const struct reader *reader, const struct config_format *format) {
  const char *pixels = format->is_tensor ? "" : reader->vocabulary->pixels[format->pixels];
  return strcmp(pixels, "gray") == 0 || strcmp(pixels, "yuv420p") == 0;
}

static void check_recordings(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  const struct config_record *record = &pipeline->record;
  check_segments(reader, pipeline, &pipeline->sink.rotate, pipeline->sink.path, place(node, "sink", "rotate"),
                 pipeline->sink.path_at);
  if (!record->file) {
    return;
  }
  check_segments(reader, pipeline, &record->rotate, record->file, place(node, "record", "most"), record->file_at);
  if (pipeline->source.clients > 1) {
    config_errors_add(reader->errors, place(node, NULL, "record"), "write clients: 1",
                      "frames of more than 1 client cannot be recorded together");
  }
  if (record->protocol == CONFIG_PROTOCOL_Y4M && !carries_y4m(reader, &pipeline->source.format)) {
    config_errors_add(reader->errors, place(node, "record", "protocol"), "use protocol: raw",
                      "y4m cannot carry the frames of pipeline '%s'", pipeline->name);
  }
}

bool validate_pipeline(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline) {
  unsigned errors = config_errors_count(reader->errors);
  check_clients(reader, node, pipeline);
  check_reply(reader, node, pipeline);
  check_devices(reader, node, pipeline);
  check_spread(reader, node, pipeline);
  check_loop(reader, node, pipeline);
  check_pace(reader, node, pipeline);
  check_overload(reader, node, pipeline);
  check_y4m_source(reader, node, pipeline);
  check_native(reader, node, pipeline);
  check_json(reader, node, pipeline);
  check_recordings(reader, node, pipeline);
  camera_validate(reader, node, pipeline);
  return config_errors_count(reader->errors) == errors;
}

/* -- between pipelines ------------------------------------------------------------------------------------------- */

/* A path that only one user may have. */
struct claim {
  const char *path;            /* without "./" and doubled slashes */
  const char *user, *pipeline; /* "source" of pipeline "cam0" */
  bool writes, varies;         /* it creates files there; their names contain the time */
  struct config_mark at;
};

struct claims {
  struct claim *list;
  size_t count;
};

/* Removes "./" and doubled slashes, so that different spellings of a path become equal. Links are not followed. */
static void simplify(char *path) {
  const char *from = path;
  char *to = path;
  while (*from) {
    bool begins = to == path || to[-1] == '/';
    if (begins && from[0] == '.' && from[1] == '/') {
      from += 2;
    } else if (*from == '/' && to > path && to[-1] == '/') {
      from++;
    } else {
      *to++ = *from++;
    }
  }
  *to = '\0';
}

static bool claim(struct reader *reader, struct claims *claims, const struct claim *wanted) {
  struct claim *grown = memory_grow(claims->list, claims->count, sizeof *grown);
  claims->list = grown ? grown : claims->list;
  char *path = grown ? memory_copy(wanted->path, strlen(wanted->path)) : NULL;
  if (!path) {
    errors_set_exhausted(reader->errors);
    return false;
  }
  simplify(path);
  grown[claims->count] = *wanted;
  grown[claims->count++].path = path;
  return true;
}

/* Many may write to devices such as /dev/null, but /dev/shm holds files. */
static bool is_exclusive_file(const char *path) { return strncmp(path, "/dev/", 5) != 0 || strncmp(path, "/dev/shm/", 9) == 0; }

static bool is_same(const char *a, const char *b) {
  char first[KEYS_FILE_PATH + 1], second[KEYS_FILE_PATH + 1];
  snprintf(first, sizeof first, "%s", a);
  snprintf(second, sizeof second, "%s", b);
  simplify(first);
  simplify(second);
  return strcmp(first, second) == 0;
}

/* A file may have many readers, but a pipeline that reads its own results never ends. */
static bool reads_own_results(const struct config_pipeline *pipeline) {
  return pipeline->source.endpoint == CONFIG_FILE && pipeline->sink.endpoint == CONFIG_FILE &&
         !is_standard(pipeline->source.path) && is_exclusive_file(pipeline->source.path) &&
         is_same(pipeline->source.path, pipeline->sink.path);
}

static bool claim_pipeline(struct reader *reader, struct claims *claims, const struct config_pipeline *pipeline) {
  const struct config_source *source = &pipeline->source;
  const struct config_sink *sink = &pipeline->sink;
  struct claim in = {.path = source->path, .user = "source", .pipeline = pipeline->name, .at = source->path_at};
  struct claim out = {.path = sink->path, .user = "sink", .pipeline = pipeline->name, .at = sink->path_at};
  out.writes = sink->endpoint == CONFIG_FILE;
  out.varies = sink->rotate.every_ns > 0 || sink->rotate.size > 0;
  in.path = is_standard(in.path) ? "/dev/stdin" : in.path;
  bool one_reader = source->endpoint == CONFIG_SOCKET || is_standard(source->path) || reads_own_results(pipeline);
  bool one_writer = sink->endpoint == CONFIG_SOCKET || (sink->endpoint == CONFIG_FILE && is_exclusive_file(sink->path));
  out.path = one_writer && is_standard(out.path) ? "/dev/stdout" : out.path;
  struct claim record = {.path = pipeline->record.file,
                         .user = "recording",
                         .pipeline = pipeline->name,
                         .at = pipeline->record.file_at,
                         .writes = true,
                         .varies = true};
  return (!one_reader || claim(reader, claims, &in)) && (!one_writer || claim(reader, claims, &out)) &&
         (!record.path || claim(reader, claims, &record));
}

static bool claim_all(struct reader *reader, struct claims *claims) {
  const struct config *config = reader->config;
  struct claim status = {.path = config->status.socket, .user = "'status'", .at = config->status.socket_at};
  bool claimed = claim(reader, claims, &status);
  for (unsigned i = 0; claimed && i < config->pipeline_count; i++) {
    claimed = !reader->valid[i] || claim_pipeline(reader, claims, &config->pipelines[i]);
  }
  return claimed;
}

static int compare_claims(const void *left, const void *right) {
  const struct claim *a = *(const struct claim *const *)left;
  const struct claim *b = *(const struct claim *const *)right;
  int order = strcmp(a->path, b->path);
  return order != 0 ? order : (a > b) - (a < b);
}

static void report_conflict(struct reader *reader, const struct claim *first, const struct claim *second) {
  /* a default has no place, so the other claim is at fault */
  struct config_mark at = second->at.line > 0 ? second->at : first->at;
  char remedy[READER_WHERE];
  snprintf(remedy, sizeof remedy, first->pipeline ? "it is also the %s of pipeline '%s'" : "it is also the socket of %s",
           first->user, first->pipeline ? first->pipeline : "");
  config_errors_add(reader->errors, at, remedy, "'%.200s' is used twice", second->path);
}

static void check_claims(struct reader *reader, const struct claims *claims) {
  const struct claim **sorted = memory_new(claims->count, sizeof *sorted);
  if (!sorted) {
    errors_set_exhausted(reader->errors);
    return;
  }
  for (size_t i = 0; i < claims->count; i++) {
    sorted[i] = &claims->list[i];
  }
  qsort(sorted, claims->count, sizeof *sorted, compare_claims);
  for (size_t i = 1; i < claims->count; i++) {
    if (strcmp(sorted[i - 1]->path, sorted[i]->path) == 0) {
      report_conflict(reader, sorted[i - 1], sorted[i]);
    }
  }
  free(sorted);
}

/* Whether segments of the first claim could have a name of the second one. */
static bool could_meet(const struct claim *first, const struct claim *second, struct pattern patterns[2]) {
  char problem[PATTERN_PROBLEM];
  if (!pattern_read(first->path, &patterns[0], problem) ||
      (second->varies && !pattern_read(second->path, &patterns[1], problem))) {
    return false; /* it has an error of its own */
  }
  const struct pattern_part one = pattern_whole(&patterns[0]), other = pattern_whole(&patterns[1]);
  return second->varies ? pattern_meets(&one, &other) : pattern_takes(&one, second->path, strlen(second->path));
}

/* Each would count and remove the other's segments, and an existing name forces the next segment to have a number. */
static void check_names(struct reader *reader, const struct claims *claims) {
  struct pattern *patterns = memory_new(2, sizeof *patterns);
  if (!patterns) {
    errors_set_exhausted(reader->errors);
    return;
  }
  for (size_t i = 0; i < claims->count; i++) {
    for (size_t j = i + 1; j < claims->count; j++) {
      const struct claim *first = &claims->list[i], *second = &claims->list[j];
      const struct claim *varying = first->varies ? first : second, *other = first->varies ? second : first;
      bool may = first->writes && second->writes && varying->varies && strcmp(first->path, second->path) != 0;
      if (may && could_meet(varying, other, patterns)) {
        char remedy[READER_WHERE];
        snprintf(remedy, sizeof remedy, "begin its name with '%.60s-', or give it a folder of its own", second->pipeline);
        config_errors_add(reader->errors, second->at, remedy,
                          "the %s of pipeline '%s' could make files with names of the %s of pipeline '%s'", second->user,
                          second->pipeline, first->user, first->pipeline);
      }
    }
  }
  free(patterns);
}

/* An empty file is more likely a mistake than a wish to stop all pipelines. */
static void check_pipelines(struct reader *reader) {
  if (!reader->saw_pipelines && config_errors_count(reader->errors) == 0) {
    config_errors_add(reader->errors, (struct config_mark){.file = reader->config->files[0]},
                      "add a pipeline, or write pipelines: {} if there shall be none", "'pipelines' is missing");
  }
}

/* Frames and results must not be visible to everybody who can reach the port. */
static void check_http(struct reader *reader) {
  const struct config *config = reader->config;
  const char *http = config->status.http;
  if (http && !config->status.token && strncmp(http, "127.", 4) != 0 && strncmp(http, "[::1]", 5) != 0) {
    config_errors_add(reader->errors, config->status.http_at,
                      "add 'token: FILE', made by openssl rand -hex 16 > FILE, or write 127.0.0.1 for this machine alone",
                      "'http' answers other machines, and has no token");
  }
}

static void check_realtime(struct reader *reader) {
  const struct config_realtime *realtime = &reader->config->realtime;
  bool has_policy = realtime->policy != CONFIG_POLICY_OTHER;
  if (has_policy != (realtime->priority > 0)) {
    config_errors_add(reader->errors, realtime->at,
                      has_policy ? "write priority: 20" : "write policy: fifo, or remove 'priority'",
                      has_policy ? "'realtime' has a policy without a priority" : "'realtime' has a priority without a policy");
  }
}

/* The CUDA backend cannot split a GPU. */
static void check_count(struct reader *reader) {
  const struct config *config = reader->config;
  if (config->gpu.count > 1 && config->gpu.backend == CONFIG_BACKEND_CUDA) {
    config_errors_add(reader->errors, (struct config_mark){.file = config->files[0]}, "write backend: cpu, or remove 'count'",
                      "'count' of gpu only applies to the cpu backend, which can simulate several devices");
  }
}

void validate_config(struct reader *reader) {
  check_pipelines(reader);
  check_count(reader);
  check_http(reader);
  check_realtime(reader);
  struct claims claims = {0};
  if (claim_all(reader, &claims)) {
    check_claims(reader, &claims);
    check_names(reader, &claims);
  }
  for (size_t i = 0; i < claims.count; i++) {
    free((char *)claims.list[i].path);
  }
  free(claims.list);
}
