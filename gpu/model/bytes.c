/*
 * Reads the file of a model, and those of weights beside it, whatever lies under their names: nothing but regular files, none
 * that is larger than it may be or than what memory is free, and without ever waiting for anybody. The bytes are read and not
 * mapped, so that who changes a file later changes nothing here. Files stay open as long as their model: when other ones stand
 * in their place, the model can still be read once more, for another session on a GPU and by the process after a fault.
 */
#include "gpu/cpu/host.h"
#include "gpu/model/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Protocol Buffers take no larger message. */
enum { MOST_MODEL = INT32_MAX };

static bool refuse_errno(const char *path, struct gpu_error *error) {
  char reason[128];
  int code = errno;
  const char *remedy = code == EACCES  ? "let the daemon's user read it"
                       : code == ELOOP ? "weights beside a model must be files of its folder, not links"
                                       : NULL;
  return gpu_error_set(error, code, remedy, "cannot read %s: %s", path, strerror_r(code, reason, sizeof reason));
}

static bool check_size(const char *path, const struct stat *file, size_t least, size_t most, struct gpu_error *error) {
  size_t size = (size_t)file->st_size, available = 0, total;
  if (!S_ISREG(file->st_mode)) {
    return gpu_error_set(error, 0, "name the file of an ONNX model", "%s is not a file", path);
  }
  if (size == 0 || size < least) {
    return gpu_error_set(error, 0, "get it once more", "%s is cut off: it has %zu bytes", path, size);
  }
  if (size > most) {
    return gpu_error_set(error, 0, "keep its weights in a file beside it (external data)", "%s is too large, with %zu bytes",
                         path, size);
  }
  if (cpu_host_memory(NULL, &available, &total) && size > available / 2) {
    return gpu_error_set(error, 0, "use a smaller model, or a machine with more memory",
                         "%s takes twice its %zu MB of memory to open, and %zu MB are free", path, size >> 20, available >> 20);
  }
  return true;
}

/* -- reading ------------------------------------------------------------------------------------------------------------- */

/* Where bytes are read from: files that are open, before the names of files. */
struct reading {
  const struct kept_file *files;
  unsigned count;
  struct gpu_error *error;
};

/* Bytes of the file at least `least` and at most `most`, for the caller to free; NULL on error. */
static unsigned char *read_file(const struct reading *reading, const char *path, int flags, size_t least, size_t most,
                                size_t *count, struct kept_file *kept) {
  struct stat file;
  unsigned char *bytes = NULL;
  int descriptor = kept_open(path, flags, reading->files, reading->count);
  if (descriptor < 0 || !kept_hold(kept, path, descriptor) || fstat(descriptor, &file) != 0) {
    refuse_errno(path, reading->error);
  } else if (check_size(path, &file, least, most, reading->error)) {
    *count = (size_t)file.st_size;
    bytes = malloc(*count);
    if (!bytes || !kept_read(descriptor, bytes, *count)) {
      refuse_errno(path, reading->error);
      free(bytes);
      bytes = NULL;
    }
  }
  return bytes;
}

/* Tells files apart that differ by chance; who makes two of the same hash on purpose has two of his own. */
static uint64_t hash(uint64_t before, const unsigned char *bytes, size_t count) {
  const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
  uint64_t hash = before ^ (count * factor);
  for (size_t i = 0; i < count; i += sizeof hash) {
    uint64_t word = 0;
    memcpy(&word, bytes + i, count - i < sizeof word ? count - i : sizeof word);
    hash = (hash ^ word) * factor;
    hash ^= hash >> 29;
  }
  return hash;
}

static bool read_beside(const struct reading *reading, const char *path, struct model_bytes *bytes,
                        const struct onnx_file *file, unsigned index) {
  const char *slash = strrchr(path, '/');
  char *beside;
  if (asprintf(&beside, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, file->files[index]) < 0) {
    return gpu_error_set(reading->error, ENOMEM, NULL, "no memory for a path");
  }
  bytes->files[index] = read_file(reading, beside, O_NOFOLLOW, file->file_bytes[index], SIZE_MAX, &bytes->file_counts[index],
                                  &bytes->kept[index + 1]);
  free(beside);
  if (bytes->files[index]) {
    bytes->hash = hash(bytes->hash, bytes->files[index], bytes->file_counts[index]);
  }
  return bytes->files[index] != NULL;
}

static bool read_model(const struct reading *reading, const char *path, struct model_bytes *bytes, struct onnx_file *file) {
  char problem[ONNX_PROBLEM];
  *bytes = (struct model_bytes){0};
  bytes->bytes = read_file(reading, path, 0, 0, MOST_MODEL, &bytes->count, &bytes->kept[0]);
  bool good = bytes->bytes != NULL;
  if (good) {
    bytes->hash = hash(0, bytes->bytes, bytes->count);
    good = onnx_file_read(bytes->bytes, bytes->count, file, problem) ||
           gpu_error_set(reading->error, 0, "export the model to ONNX once more", "%s cannot be used: %s", path, problem);
  }
  for (unsigned i = 0; good && i < file->file_count; i++) {
    good = read_beside(reading, path, bytes, file, i);
  }
  if (!good) {
    model_bytes_free(bytes);
  }
  return good;
}

bool model_bytes_read(const char *path, struct model_bytes *bytes, struct onnx_file *file, struct gpu_error *error) {
  const struct reading reading = {.error = error};
  return read_model(&reading, path, bytes, file);
}

bool model_bytes_read_again(const struct model *model, struct model_bytes *bytes, struct onnx_file *file,
                            struct gpu_error *error) {
  const struct reading reading = {.files = model->files, .count = 1 + ONNX_MOST_FILES, .error = error};
  return read_model(&reading, model->path, bytes, file);
}

void model_bytes_free(struct model_bytes *bytes) {
  for (unsigned i = 0; i < ONNX_MOST_FILES; i++) {
    free(bytes->files[i]);
    kept_close(&bytes->kept[i]);
  }
  kept_close(&bytes->kept[ONNX_MOST_FILES]);
  free(bytes->bytes);
  *bytes = (struct model_bytes){0};
}
