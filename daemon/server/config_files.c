#include "daemon/server/config_files.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "config/pattern.h"
#include "daemon/device/device.h"
#include "daemon/device/formats.h"
#include "daemon/status/viewer.h"

/* -- what is not there yet --------------------------------------------------------------------------------------------- */

/* A path that this user may not look at may be there for the daemon's user. */
static bool is_missing(const char *path, bool directory) {
  struct stat there;
  return stat(path, &there) != 0 ? errno == ENOENT || errno == ENOTDIR : directory && !S_ISDIR(there.st_mode);
}

static bool has_directory(const char *path) {
  char *copy = strdup(path);
  bool has = !copy || !is_missing(dirname(copy), true);
  free(copy);
  return has;
}

static void note(FILE *out, const struct config_mark *at, const char *what, const char *path, const char *remedy) {
  if (at->file && at->line > 0) {
    fprintf(out, "%s:%u:%u: ", at->file, at->line, at->column);
  }
  fprintf(out, "note: %s '%s' does not exist\n  %s\n", what, path, remedy);
}

/* What a service is kept from shows only inside it. */
static void note_disk(FILE *out, const struct config_mark *at, const char *path) {
  char *copy = strdup(path);
  const char *folder = copy ? dirname(copy) : "";
  struct statvfs disk;
  const char *what = NULL;
  if (access(folder, W_OK) != 0 && errno == EROFS) {
    what = "is in a read-only file system\n  choose another folder (under systemd, name it in ReadWritePaths=)";
  } else if (statvfs(folder, &disk) == 0 &&
             ((disk.f_blocks > 0 && disk.f_bavail == 0) || (disk.f_files > 0 && disk.f_favail == 0))) {
    what = "is on a full disk\n  make room there, of blocks and of inodes: until then its pipeline waits";
  }
  if (what && at->file && at->line > 0) {
    fprintf(out, "%s:%u:%u: ", at->file, at->line, at->column);
  }
  if (what) {
    fprintf(out, "note: '%s' %s\n", path, what);
  }
  free(copy);
}

static void note_socket(FILE *out, const struct config_mark *at, const char *path) {
  if (!has_directory(path)) {
    note(out, at, "the directory of the socket", path,
         "create it before the start, or let systemd do so with RuntimeDirectory=");
  }
  note_disk(out, at, path);
}

static bool uses_device(const struct config *config, unsigned index) {
  bool uses = config->gpu.device == index;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    const struct config_pipeline *pipeline = &config->pipelines[i];
    bool lists = pipeline->devices != CONFIG_ALL_DEVICES && (pipeline->devices >> index & 1) != 0;
    uses = uses || lists || pipeline->device == index;
  }
  return uses;
}

static void note_devices(FILE *out, const struct config *config) {
  enum { MOST_DEVICES = 64 }; /* as the keys have it */
  enum gpu_backend_choice choice = formats_backend(config->gpu.backend);
  for (unsigned index = 0; config->gpu.backend != CONFIG_BACKEND_CPU && index < MOST_DEVICES; index++) {
    struct gpu_error error;
    if (uses_device(config, index) && !device_usable(choice, index, &error)) {
      bool asked = config->gpu.backend == CONFIG_BACKEND_CUDA;
      fprintf(out, "note: %s%s\n  %s\n", asked ? "gpu.backend cuda cannot start on this machine: " : "", error.text,
              error.remedy);
    }
  }
}

/* Features that the configuration uses and the driver or this build lacks. */
static void note_lacks(FILE *out, const struct config *config) {
  struct gpu_lacks lacks;
  unsigned shares = 0;
  device_find_lacks(formats_backend(config->gpu.backend), &lacks);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    shares += config->pipelines[i].share > 0;
  }
  if (lacks.shares[0] && shares > 0) {
    fprintf(out, "note: %s\n", lacks.shares);
  }
  if (lacks.models[0] && config->model_count > 0) {
    fprintf(out, "note: %s\n", lacks.models);
  }
}

/* Pipelines that status.http hides from clients without a token. */
static void note_hidden(FILE *out, const struct config *config) {
  const struct viewer anybody = {.sees_all = config->status.token != NULL};
  unsigned hidden = 0;
  for (unsigned i = 0; config->status.http && i < config->pipeline_count; i++) {
    if (!viewer_sees(&anybody, &config->pipelines[i])) {
      fprintf(out, "%s %s", hidden++ == 0 ? "note: status.http shows only state, metrics and health of" : ",",
              config->pipelines[i].name);
    }
  }
  if (hidden > 0) {
    fputs(": not everybody may use their sockets\n  set status.token to show pictures, status, trace and configuration to "
          "those who have it\n",
          out);
  }
}

void config_files_print_missing(FILE *out, const struct config *config) {
  note_hidden(out, config);
  note_devices(out, config);
  note_lacks(out, config);
  note_socket(out, &config->status.socket_at, config->status.socket);
  if (config->status.token && is_missing(config->status.token, false)) {
    note(out, &config->status.http_at, "the token's file", config->status.token,
         "make it by openssl rand -hex 16, and let the daemon's user read it");
  }
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    const struct config_source *source = &config->pipelines[i].source;
    const struct config_sink *sink = &config->pipelines[i].sink;
    bool makes_folders = sink->rotate.every_ns > 0 || sink->rotate.size > 0; /* segments do, for what their names say */
    if (source->endpoint == CONFIG_SOCKET) {
      note_socket(out, &source->path_at, source->path);
    } else if (source->endpoint == CONFIG_FILE && strcmp(source->path, "-") != 0 && is_missing(source->path, false)) {
      note(out, &source->path_at, "the source file", source->path, "check the path, or put the file there before the start");
    }
    if (sink->endpoint == CONFIG_SOCKET) {
      note_socket(out, &sink->path_at, sink->path);
    } else if (sink->endpoint == CONFIG_FILE && strcmp(sink->path, "-") != 0 && !makes_folders && !has_directory(sink->path)) {
      note(out, &sink->path_at, "the directory of the sink's file", sink->path, "create it before the start");
    }
    if (sink->endpoint == CONFIG_FILE && strcmp(sink->path, "-") != 0) {
      note_disk(out, &sink->path_at, sink->path);
    }
    if (config->pipelines[i].record.file) {
      note_disk(out, &config->pipelines[i].record.file_at, config->pipelines[i].record.file);
    }
  }
}

/* -- what is there twice ------------------------------------------------------------------------------------------------ */

struct file {
  const struct config_pipeline *pipeline;
  const char *path; /* NULL: none that matters, as a device that gives and takes without end */
  bool is_pipe;
  dev_t device;
  ino_t inode;
};

struct ends {
  struct file source, sink;
};

static struct file look(const struct config_pipeline *pipeline, enum config_endpoint endpoint, const char *path, int standard) {
  struct stat there;
  struct file file = {.pipeline = pipeline};
  bool is_standard = endpoint == CONFIG_FILE && strcmp(path, "-") == 0;
  bool found = endpoint == CONFIG_FILE && (is_standard ? fstat(standard, &there) : stat(path, &there)) == 0;
  if (found && (S_ISREG(there.st_mode) || S_ISFIFO(there.st_mode) || S_ISBLK(there.st_mode))) {
    file.path = path;
    file.is_pipe = S_ISFIFO(there.st_mode);
    file.device = there.st_dev;
    file.inode = there.st_ino;
  }
  return file;
}

static bool config_files_are_one(const struct file *one, const struct file *other) {
  return one->path && other->path && one->device == other->device && one->inode == other->inode;
}

static bool config_files_refuse(const struct file *one, const struct file *other, const char *what, struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_CONFIG, "name another file for one of them",
                     "'%s' of pipeline '%s' and '%s' of pipeline '%s' are one file: %s", one->path, one->pipeline->name,
                     other->path, other->pipeline->name, what);
}

static bool compare_all(const struct ends *ends, unsigned count, struct failure *failure) {
  for (unsigned i = 0; i < count; i++) {
    if (config_files_are_one(&ends[i].source, &ends[i].sink)) {
      return config_files_refuse(&ends[i].source, &ends[i].sink, "it would read its own results", failure);
    }
    for (unsigned j = 0; j < i; j++) {
      if (config_files_are_one(&ends[j].sink, &ends[i].sink)) {
        return config_files_refuse(&ends[j].sink, &ends[i].sink, "their results would overwrite each other", failure);
      }
      if (ends[j].source.is_pipe && config_files_are_one(&ends[j].source, &ends[i].source)) {
        return config_files_refuse(&ends[j].source, &ends[i].source, "each would get parts of frames", failure);
      }
    }
  }
  return true;
}

/* -- segments of several pipelines in one folder ------------------------------------------------------------------------ */

/* Names of the same folder have been compared with the text (config/validate.c). Here it has two names, of which one has a link
 * or '..'. */
struct segments {
  const struct config_pipeline *pipeline;
  const char *path, *names; /* the second is what follows the folder; NULL: it has no segments, or the folder is not there */
  dev_t device;
  ino_t inode;
};

static struct segments segments_of(const struct config_pipeline *pipeline, const char *path,
                                   const struct config_rotate *rotate) {
  struct segments segments = {.pipeline = pipeline, .path = path};
  bool has_any = path && (rotate->every_ns > 0 || rotate->size > 0);
  char *folder = has_any ? strndup(path, strcspn(path, "%")) : NULL;
  char *slash = folder ? strrchr(folder, '/') : NULL;
  struct stat there;
  if (slash) {
    slash[1] = '\0';
  }
  if (folder && stat(slash ? folder : ".", &there) == 0) {
    segments.names = slash ? path + (slash + 1 - folder) : path;
    segments.device = there.st_dev;
    segments.inode = there.st_ino;
  }
  free(folder);
  return segments;
}

static bool have_two_names(const struct segments *one, const struct segments *other) {
  size_t length = (size_t)(one->names - one->path);
  return length != (size_t)(other->names - other->path) || strncmp(one->path, other->path, length) != 0;
}

static bool could_meet(const struct segments *one, const struct segments *other, struct pattern patterns[2]) {
  char problem[PATTERN_PROBLEM];
  if (!one->names || !other->names || one->device != other->device || one->inode != other->inode ||
      !have_two_names(one, other) || !pattern_read(one->names, &patterns[0], problem) ||
      !pattern_read(other->names, &patterns[1], problem)) {
    return false;
  }
  const struct pattern_part first = pattern_whole(&patterns[0]), second = pattern_whole(&patterns[1]);
  return pattern_meets(&first, &second);
}

static bool compare_segments(const struct config *config, struct segments *all, struct pattern patterns[2],
                             struct failure *failure) {
  bool distinct = true;
  for (unsigned i = 0; distinct && i < 2 * config->pipeline_count; i++) {
    const struct config_pipeline *pipeline = &config->pipelines[i / 2];
    all[i] = i % 2 == 0 ? segments_of(pipeline, pipeline->sink.path, &pipeline->sink.rotate)
                        : segments_of(pipeline, pipeline->record.file, &pipeline->record.rotate);
    for (unsigned j = 0; distinct && j < i; j++) {
      distinct = !could_meet(&all[j], &all[i], patterns) ||
                 failure_set(failure, EXIT_STATUS_CONFIG, "begin its names with the pipeline's, or give it a folder of its own",
                             "'%s' of pipeline '%s' and '%s' of pipeline '%s' could make files with the same names",
                             all[j].path, all[j].pipeline->name, all[i].path, all[i].pipeline->name);
    }
  }
  return distinct;
}

static bool segments_are_distinct(const struct config *config, struct failure *failure) {
  struct segments *all = calloc(2 * (size_t)config->pipeline_count + 1, sizeof *all);
  struct pattern *patterns = calloc(2, sizeof *patterns);
  bool distinct = all && patterns ? compare_segments(config, all, patterns, failure)
                                  : failure_set_memory(failure, "not enough memory to compare the files of pipelines");
  free(all);
  free(patterns);
  return distinct;
}

bool config_files_distinct(const struct config *config, struct failure *failure) {
  struct ends *ends = calloc(config->pipeline_count + 1, sizeof *ends);
  if (!ends) {
    return failure_set_memory(failure, "not enough memory to compare the files of pipelines");
  }
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    const struct config_pipeline *pipeline = &config->pipelines[i];
    ends[i].source = look(pipeline, pipeline->source.endpoint, pipeline->source.path, STDIN_FILENO);
    ends[i].sink = look(pipeline, pipeline->sink.endpoint, pipeline->sink.path, STDOUT_FILENO);
  }
  bool distinct = compare_all(ends, config->pipeline_count, failure) && segments_are_distinct(config, failure);
  free(ends);
  return distinct;
}
