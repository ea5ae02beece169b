#include "daemon/server/config_files.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/gpu.h"

/* What cannot be looked at by this user may be there for the daemon's. */
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

static void note_socket(FILE *out, const struct config_mark *at, const char *path) {
  if (!has_directory(path)) {
    note(out, at, "the directory of the socket", path,
         "create it before the start, or let systemd do so with RuntimeDirectory=");
  }
}

static void note_source(FILE *out, const struct config_source *source) {
  if (source->endpoint == CONFIG_SOCKET) {
    note_socket(out, &source->path_at, source->path);
  } else if (strcmp(source->path, "-") != 0 && is_missing(source->path, false)) {
    note(out, &source->path_at, "the source file", source->path, "check the path, or put the file there before the start");
  }
}

static void note_sink(FILE *out, const struct config_sink *sink) {
  if (sink->endpoint == CONFIG_SOCKET) {
    note_socket(out, &sink->path_at, sink->path);
  } else if (sink->endpoint == CONFIG_FILE && strcmp(sink->path, "-") != 0 && !has_directory(sink->path)) {
    note(out, &sink->path_at, "the directory of the sink's file", sink->path, "create it before the start");
  }
}

static bool uses_device(const struct config *config, unsigned index) {
  bool uses = config->gpu.device == index;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    uses = uses || config->pipelines[i].device == index;
  }
  return uses;
}

static void note_devices(FILE *out, const struct config *config) {
  enum { MOST_DEVICES = 64 }; /* as the keys have it */
  enum gpu_backend_choice choice = config->gpu.backend == CONFIG_BACKEND_CUDA ? GPU_BACKEND_CUDA : GPU_BACKEND_AUTO;
  for (unsigned index = 0; config->gpu.backend != CONFIG_BACKEND_CPU && index < MOST_DEVICES; index++) {
    struct gpu_error error;
    if (uses_device(config, index) && !gpu_usable(choice, index, &error)) {
      fprintf(out, "note: %s\n  %s\n", error.text, error.remedy);
    }
  }
}

void config_files_print_missing(FILE *out, const struct config *config) {
  note_devices(out, config);
  note_socket(out, &config->status.socket_at, config->status.socket);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    note_source(out, &config->pipelines[i].source);
    note_sink(out, &config->pipelines[i].sink);
  }
}
