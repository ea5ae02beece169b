/*
 * Makes a configuration from files: everything between config_load() and the finished, constant structure.
 *
 * All files are read into one configuration. When all are read and valid, the caller's hook is called, and then the canonical
 * texts are made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/text.h"

enum { PATIENCE_MS = 10000 }; /* timeout for the writer of a pipe */

/* -- life -------------------------------------------------------------------------------------------------------- */

static void free_access(struct config_socket_access *access) {
  free(access->allow.users);
  free(access->allow.groups);
}

static void free_stage(struct config_stage *stage) {
  for (unsigned i = 0; i < CONFIG_MAX_PARAMETERS; i++) {
    struct config_value *value = &stage->values[i];
    for (unsigned j = 0; j < value->setting_count; j++) {
      free(value->settings[j].name);
      free(value->settings[j].text);
    }
    free(value->settings);
    free(value->text);
  }
}

struct config_opened *config_take_opened(struct config_model *model, struct config_opened *list) {
  struct config_opened *opened = model->close ? malloc(sizeof *opened) : NULL;
  if (opened) {
    *opened = (struct config_opened){.next = list, .open = model->open, .close = model->close};
  } else if (model->close) {
    model->close(model->open); /* no memory for the list */
  }
  model->open = NULL;
  model->close = NULL;
  return opened ? opened : list;
}

void config_close(struct config_opened *list) {
  while (list) {
    struct config_opened *first = list;
    list = first->next;
    first->close(first->open);
    free(first);
  }
}

static void free_model(struct config_model *model) {
  config_close(config_take_opened(model, NULL));
  for (unsigned i = 0; i < model->shape_count; i++) {
    free(model->shapes[i].input);
  }
  free(model->shapes);
  free(model->name);
  free(model->file);
  free(model->output);
  free(model->text);
  free(model);
}

static void free_pipeline(struct config_pipeline *pipeline) {
  for (unsigned i = 0; i < pipeline->stage_count; i++) {
    free_stage(&pipeline->stages[i]);
  }
  free_access(&pipeline->source.access);
  free_access(&pipeline->sink.access);
  free(pipeline->source.path);
  free(pipeline->source.credentials);
  free(pipeline->sink.path);
  free(pipeline->record.file);
  free(pipeline->name);
  free(pipeline->text);
  free(pipeline->ends);
}

struct config *config_free(struct config *config) {
  if (!config) {
    return NULL;
  }
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    free_pipeline(&config->pipelines[i]);
  }
  for (unsigned i = 0; i < config->file_count; i++) {
    free(config->files[i]);
  }
  for (unsigned i = 0; i < config->model_count; i++) {
    free_model(config->models[i]);
  }
  free(config->pipelines);
  free(config->models);
  free(config->files);
  free(config->status.socket);
  free(config->status.http);
  free(config->status.token);
  free(config->text);
  free(config);
  return NULL;
}

static bool begin(struct reader *reader, const struct config_hooks *hooks, struct config_errors *errors) {
  *reader = (struct reader){.vocabulary = hooks->vocabulary, .example = hooks->example, .errors = errors};
  reader->config = memory_new(1, sizeof *reader->config);
  if (!reader->config) {
    errors_set_exhausted(errors);
    return false;
  }
  if (!reader_set_defaults(reader)) {
    reader->config = config_free(reader->config);
  }
  return reader->config != NULL;
}

static void resolve_devices(struct config *config) {
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    struct config_pipeline *pipeline = &config->pipelines[i];
    bool is_list = pipeline->devices != 0 && pipeline->devices != CONFIG_ALL_DEVICES;
    if (is_list) {
      pipeline->device = (unsigned)__builtin_ctzll(pipeline->devices);
    } else if (pipeline->device == KEYS_NO_DEVICE) {
      pipeline->device = config->gpu.device;
    }
  }
}

static void invalidate(const struct reader *reader, const struct config_model *model) {
  for (unsigned i = 0; i < reader->config->pipeline_count; i++) {
    reader->valid[i] = reader->valid[i] && !config_runs(&reader->config->pipelines[i], model);
  }
}

static void open_models(const struct reader *reader, const struct config_hooks *hooks) {
  for (unsigned i = 0; hooks->open && i < reader->config->model_count; i++) {
    struct config_model *model = reader->config->models[i];
    if (model->file && config_is_run(reader->config, model) && !hooks->open(model, reader->errors, hooks->context)) {
      invalidate(reader, model);
    }
  }
}

static void ask_caller(const struct reader *reader, const struct config_hooks *hooks) {
  open_models(reader, hooks);
  for (unsigned i = 0; hooks->check && i < reader->config->pipeline_count; i++) {
    if (reader->valid[i]) {
      hooks->check(reader->config, &reader->config->pipelines[i], reader->errors, hooks->context);
    }
  }
}

/* Called after the hook has opened the models, since the text includes the contents of their files. */
static void add_model_texts(struct reader *reader) {
  for (unsigned i = 0; i < reader->config->model_count; i++) {
    struct config_model *model = reader->config->models[i];
    model->text = model->file ? text_of_model(model, reader->vocabulary) : NULL;
    if (model->file && !model->text) {
      errors_set_exhausted(reader->errors);
    }
  }
}

static void add_texts(struct reader *reader) {
  struct config *config = reader->config;
  config->text = text_of_config(config, reader->vocabulary);
  bool written = config->text != NULL;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    struct config_pipeline *pipeline = &config->pipelines[i];
    pipeline->text = text_of_pipeline(pipeline, reader->vocabulary);
    pipeline->ends = text_of_ends(pipeline, reader->vocabulary);
    written = written && pipeline->text && pipeline->ends;
  }
  if (!written) {
    errors_set_exhausted(reader->errors);
  }
}

/* The finished configuration, or NULL if there was any error. */
static struct config *finish(struct reader *reader, const struct config_hooks *hooks) {
  if (reader->config) {
    resolve_devices(reader->config);
    models_resolve(reader);
    validate_config(reader);
    ask_caller(reader, hooks);
    add_model_texts(reader);
  }
  if (config_errors_count(reader->errors) == 0) {
    add_texts(reader);
  }
  free(reader->valid);
  return config_errors_count(reader->errors) == 0 ? reader->config : config_free(reader->config);
}

/* -- one file ---------------------------------------------------------------------------------------------------- */

/* A copy of the name that lives as long as the configuration, or NULL. */
static const char *keep_name(struct reader *reader, const char *name) {
  struct config *config = reader->config;
  char **files = memory_grow(config->files, config->file_count, sizeof *files);
  config->files = files ? files : config->files;
  char *copy = files ? memory_copy(name, strlen(name)) : NULL;
  if (!copy) {
    errors_set_exhausted(reader->errors);
    return NULL;
  }
  files[config->file_count++] = copy;
  return copy;
}

/* libyaml counts a byte order mark as a column, so the first key would seem to be indented. */
static size_t mark_length(const char *text, size_t length) {
  static const char mark[] = {'\xEF', '\xBB', '\xBF'};
  return length >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

static void read_text(struct reader *reader, const char *name, const char *text, size_t length) {
  const char *kept = keep_name(reader, name);
  size_t skipped = mark_length(text, length);
  text += skipped;
  length -= skipped;
  if (!kept || !errors_add_file(reader->errors, name, text, length)) {
    return;
  }
  unsigned errors = config_errors_count(reader->errors);
  struct node *root = yaml_read(kept, text, length, reader->errors);
  reader->sound = config_errors_count(reader->errors) == errors;
  if (root) {
    reader_read_file(reader, root);
  }
  node_free(root);
}

/* Waits for data. Without a writer, a non-blocking read of a FIFO would report the end of the file. */
static bool await_bytes(int fd) {
  struct pollfd readable = {.fd = fd, .events = POLLIN};
  int count;
  do {
    count = poll(&readable, 1, PATIENCE_MS);
  } while (count < 0 && errno == EINTR);
  errno = count == 0 ? ETIMEDOUT : errno;
  return count > 0;
}

/* Reads until the end or the limit. Returns the number of bytes, or -1 with errno. */
static ssize_t read_all(int fd, char *text, size_t room) {
  size_t length = 0;
  bool there = await_bytes(fd);
  while (there && length < room) {
    ssize_t part = read(fd, text + length, room - length);
    if (part < 0 && errno == EAGAIN) {
      there = await_bytes(fd);
    } else if (part == 0) {
      return (ssize_t)length;
    } else if (part < 0 && errno != EINTR) {
      return -1;
    }
    length += part > 0 ? (size_t)part : 0;
  }
  return there ? (ssize_t)length : -1;
}

static const char *remedy_for(int error) {
  switch (error) {
  case ENOENT:
    return "name another file with -c FILE";
  case EACCES:
    return "let the daemon's user read it, for example chmod 0644";
  case EISDIR:
    return "name the file in that directory";
  case ESPIPE:
  case ENODEV:
  case ETIMEDOUT:
    return "put a regular file there";
  default:
    return NULL;
  }
}

static const char *describe(int error) {
  return error == ESPIPE      ? "it is a FIFO"
         : error == ENODEV    ? "it is a device"
         : error == ETIMEDOUT ? "it is a FIFO, and nobody writes into it"
                              : strerror(error);
}

static void report_unreadable(struct reader *reader, const char *path, int error) {
  const char *remedy = remedy_for(error);
  char offer[PATH_MAX + 128];
  if (error == ENOENT && reader->example) {
    snprintf(offer, sizeof offer, "%s, or start from the commented example, %s", remedy, reader->example);
    remedy = offer;
  }
  config_errors_add(reader->errors, (struct config_mark){.file = path}, remedy, "cannot read it: %s", describe(error));
}

/*
 * Rejects devices and FIFOs, which may never end or never have a writer, so reading them could block forever. The main file may
 * be a pipe, such as a shell's <(...), for which the reader waits.
 */
static int check_kind(int fd, bool is_main) {
  struct stat status;
  if (fstat(fd, &status) != 0) {
    return errno;
  }
  bool may_be = S_ISREG(status.st_mode) || (is_main && S_ISFIFO(status.st_mode));
  return may_be ? 0 : S_ISDIR(status.st_mode) ? EISDIR : S_ISFIFO(status.st_mode) ? ESPIPE : ENODEV;
}

static int open_config(const char *path, bool is_main) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  int error = fd >= 0 ? check_kind(fd, is_main) : 0;
  if (error != 0) {
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

static void read_file(struct reader *reader, const char *path, bool is_main) {
  enum { ROOM = YAML_MAX_BYTES + 1 }; /* one byte more, so that yaml_read() sees the excess */
  char *text = memory_new(ROOM, 1);
  if (!text) {
    errors_set_exhausted(reader->errors);
    return;
  }
  int fd = open_config(path, is_main);
  ssize_t length = fd >= 0 ? read_all(fd, text, ROOM) : -1;
  int error = errno;
  if (fd >= 0) {
    close(fd);
  }
  if (length >= 0) {
    read_text(reader, path, text, (size_t)length);
  } else {
    report_unreadable(reader, path, error);
  }
  free(text);
}

/* -- drop-ins ---------------------------------------------------------------------------------------------------- */

static int is_drop_in(const struct dirent *entry) {
  static const char suffix[] = ".yaml";
  size_t length = strlen(entry->d_name);
  return entry->d_name[0] != '.' && length > sizeof suffix - 1 &&
         strcmp(entry->d_name + length - (sizeof suffix - 1), suffix) == 0;
}

/* Compares bytes, in any locale. */
static int compare_entries(const struct dirent **left, const struct dirent **right) {
  return strcmp((*left)->d_name, (*right)->d_name);
}

static void read_drop_ins(struct reader *reader, const char *directory) {
  struct dirent **entries = NULL;
  int count = scandir(directory, &entries, is_drop_in, compare_entries);
  if (count < 0 && errno != ENOENT) {
    report_unreadable(reader, directory, errno);
  }
  for (int i = 0; i < count; i++) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
    if (length < (int)sizeof path) {
      read_file(reader, path, false);
    } else {
      report_unreadable(reader, directory, ENAMETOOLONG);
    }
    free(entries[i]);
  }
  free(entries);
}

/* -- the two ways in --------------------------------------------------------------------------------------------- */

struct config *config_parse(const char *name, const char *text, size_t length, const struct config_hooks *hooks,
                            struct config_errors *errors) {
  struct reader reader;
  if (begin(&reader, hooks, errors)) {
    read_text(&reader, name, text, length);
  }
  return finish(&reader, hooks);
}

struct config *config_load(const char *path, const struct config_hooks *hooks, struct config_errors *errors) {
  struct reader reader;
  const char *slash = strrchr(path, '/');
  char directory[PATH_MAX];
  int length = snprintf(directory, sizeof directory, "%.*sconf.d", slash ? (int)(slash - path + 1) : 0, path);
  if (begin(&reader, hooks, errors)) {
    read_file(&reader, path, true);
    if (length < (int)sizeof directory) {
      read_drop_ins(&reader, directory);
    }
  }
  return finish(&reader, hooks);
}
