/* What requests of several kinds and their answers have in common. */
#include <errno.h>
#include <stdio.h>

#include "daemon/device/private.h"

bool device_no_memory(struct gpu_error *error) {
  *error = (struct gpu_error){.code = ENOMEM, .of_system = true, .stage = -1};
  snprintf(error->text, sizeof error->text, "not enough memory");
  return false;
}

bool files_take(struct worker_message *answer, struct kept_file *files, unsigned *count) {
  unsigned named = (unsigned)unpack_within(&answer->unpack, 0, WORKER_MOST_FILES);
  *count = 0;
  if (answer->unpack.failed || named != answer->count) {
    return false;
  }
  for (unsigned i = 0; i < named; i++) {
    const char *path = unpack_text(&answer->unpack);
    int descriptor = answer->descriptors[i];
    answer->descriptors[i] = -1;
    if (!path || !kept_hold(&files[*count], path, descriptor)) {
      return false;
    }
    ++*count;
  }
  return true;
}

void files_pack(struct pack *request, const struct kept_file *files, unsigned count, int *descriptors) {
  pack_number(request, count);
  for (unsigned i = 0; i < count; i++) {
    pack_text(request, files[i].path);
    descriptors[i] = files[i].descriptor;
  }
}
