#include "gpu/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 16 };

static _Thread_local const struct kept_file *offered;
static _Thread_local unsigned offered_count;
static struct kept_file *remembered;
static unsigned remembered_count;

/* Without memory the file of that name has to do. */
void kept_remember(const char *path, int descriptor) {
  if (remembered_count % ROOM == 0) {
    struct kept_file *more = realloc(remembered, (remembered_count + ROOM) * sizeof *more);
    if (!more) {
      close(descriptor);
      return;
    }
    remembered = more;
  }
  remembered_count += kept_hold(&remembered[remembered_count], path, descriptor);
}

void kept_forget(void) {
  while (remembered_count > 0) {
    kept_close(&remembered[--remembered_count]);
  }
  free(remembered);
  remembered = NULL;
}

static const struct kept_file *find(const struct kept_file *list, unsigned count, const char *path) {
  for (unsigned i = 0; i < count; i++) {
    if (list[i].path && strcmp(list[i].path, path) == 0) {
      return &list[i];
    }
  }
  return NULL;
}

const struct kept_file *kept_find(const char *beginning) {
  for (unsigned i = 0; i < remembered_count; i++) {
    if (strncmp(remembered[i].path, beginning, strlen(beginning)) == 0) {
      return &remembered[i];
    }
  }
  for (unsigned i = 0; i < offered_count; i++) {
    if (strncmp(offered[i].path, beginning, strlen(beginning)) == 0) {
      return &offered[i];
    }
  }
  return NULL;
}

unsigned kept_remembered(struct kept_file *list, unsigned count, unsigned most) {
  for (unsigned i = 0; i < remembered_count; i++) {
    count = kept_list(&remembered[i], list, count, most);
  }
  return count;
}

void kept_offer(const struct kept_file *list, unsigned count) {
  offered = list;
  offered_count = list ? count : 0;
}

int kept_open(const char *path, int flags, const struct kept_file *list, unsigned count) {
  const struct kept_file *file = find(list, count, path);
  file = file ? file : find(offered, offered_count, path);
  file = file ? file : find(remembered, remembered_count, path);
  return file ? fcntl(file->descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
              : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
}

bool kept_read(int descriptor, void *bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    ssize_t got = pread(descriptor, (char *)bytes + done, count - done, (off_t)done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      errno = got < 0 ? errno : EBUSY; /* somebody made it shorter */
      return false;
    }
    done += (size_t)got;
  }
  return true;
}

bool kept_hold(struct kept_file *file, const char *path, int descriptor) {
  *file = (struct kept_file){.path = strdup(path), .descriptor = descriptor};
  if (!file->path) {
    close(descriptor);
  }
  return file->path != NULL;
}

static bool write_all(int descriptor, const char *bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    ssize_t put = write(descriptor, bytes + done, count - done);
    if (put < 0) {
      return false;
    }
    done += (size_t)put;
  }
  return true;
}

bool kept_copy(struct kept_file *file, const char *path, const void *bytes, size_t count) {
  int descriptor = memfd_create("framed-kept", MFD_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  if (!write_all(descriptor, bytes, count)) {
    int error = errno;
    close(descriptor);
    errno = error;
    return false;
  }
  return kept_hold(file, path, descriptor);
}

void kept_close(struct kept_file *file) {
  if (file->path) {
    close(file->descriptor);
    free(file->path);
  }
  *file = (struct kept_file){0};
}

unsigned kept_list(const struct kept_file *file, struct kept_file *list, unsigned count, unsigned most) {
  bool is_new = file->path && count < most && !find(list, count, file->path);
  if (is_new) {
    list[count] = *file;
  }
  return count + is_new;
}
