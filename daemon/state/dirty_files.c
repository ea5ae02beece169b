/*
 * Files that may end within a result, for an image of this process that begins anew without the journal: one line for each,
 * with the size of a whole result, the length of the path, and the path.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/stream.h"
#include "daemon/state/fd_names.h"

char *fd_store_list_torn(const struct fd_store_journal *journal) {
  struct stream stream; /* without some of them the list would say that those are whole */
  if (!stream_open(&stream)) {
    return NULL;
  }
  for (unsigned i = 0; i < journal->file_count; i++) {
    const struct fd_store_file *file = &journal->files[i];
    fprintf(stream.out, "%llu %zu %s\n", (unsigned long long)file->result_bytes, strlen(file->path), file->path);
  }
  return stream_close(&stream);
}

bool fd_store_is_torn(const char *lines, const char *file, uint64_t *result_bytes) {
  while (*lines) {
    char *path;
    uint64_t bytes = strtoull(lines, &path, 10);
    size_t length = strtoull(path, &path, 10);
    size_t left = strlen(path);
    if (length == 0 || length > left || left - length < 2) { /* a space before it, and the end of the line */
      return true;
    }
    if (length == strlen(file) && memcmp(path + 1, file, length) == 0) {
      *result_bytes = bytes;
      return true;
    }
    lines = path + length + 2;
  }
  return false;
}
