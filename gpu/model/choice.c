/* Files of one choice each, whose names are hashes of their keys; see choice.h. */
#include "gpu/model/choice.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512, TEXT_BYTES = CHOICE_KEY + 64 };

/* The folder, which need not be there: under STATE_DIRECTORY (systemd's), /var/lib/framed as root, else the user's own. False:
 * there is none. */
static bool choice_folder(char *path, size_t size) {
  const char *state = getenv("STATE_DIRECTORY"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length;
  if (state && *state) {
    length = snprintf(path, size, "%.*s/cache", (int)strcspn(state, ":"), state);
  } else if (geteuid() == 0) {
    length = snprintf(path, size, "/var/lib/framed/cache");
  } else if (cache && *cache) {
    length = snprintf(path, size, "%s/framed", cache);
  } else {
    length = home && *home ? snprintf(path, size, "%s/.cache/framed", home) : 0;
  }
  return length > 0 && (size_t)length < size && path[0] == '/';
}

static uint64_t hash(const char *text) {
  uint64_t hash = 14695981039346656037U;
  for (; *text; text++) {
    hash = (hash ^ (unsigned char)*text) * 1099511628211U;
  }
  return hash;
}

static bool find_file(const char *key, char path[PATH_BYTES]) {
  char folder[PATH_BYTES - 32];
  if (!choice_folder(folder, sizeof folder)) {
    return false;
  }
  snprintf(path, PATH_BYTES, "%s/model-%016" PRIx64, folder, hash(key));
  return true;
}

/* The whole file, key included: it is good if it is one of these. */
static int write_text(const char *key, const struct model_choice *choice, char text[TEXT_BYTES]) {
  return snprintf(text, TEXT_BYTES, "%slayout %s\nsearch %s\nbias %s\n", key, choice->channels_last ? "nhwc" : "nchw",
                  choice->exhaustive ? "exhaustive" : "heuristic", choice->adds_bias ? "within" : "apart");
}

/* -1: it is not there, or none of ours. */
static ssize_t read_file(const char *path, char text[TEXT_BYTES + 1]) {
  struct stat file;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  bool ours = fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && (file.st_uid == geteuid() || file.st_uid == 0);
  ssize_t count = ours ? read(fd, text, TEXT_BYTES) : -1;
  if (fd >= 0) {
    close(fd);
  }
  text[count > 0 ? count : 0] = '\0';
  return count;
}

bool choice_find(const char *key, struct model_choice *choice) {
  char path[PATH_BYTES], text[TEXT_BYTES + 1], good[TEXT_BYTES];
  if (!find_file(key, path) || read_file(path, text) < 0) {
    return false;
  }
  for (int i = 0; i < 8; i++) {
    *choice = (struct model_choice){.channels_last = (i & 1) != 0, .exhaustive = (i & 2) != 0, .adds_bias = (i & 4) != 0};
    write_text(key, choice, good);
    if (strcmp(text, good) == 0) {
      return true;
    }
  }
  return false;
}

/* Each folder of the path that is missing. */
static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    (void)mkdir(path, 0755); /* whether it is there, the file will show */
    *slash = '/';
  }
}

/* Whole under its name or not at all, whoever else writes it. */
void choice_keep(const char *key, const struct model_choice *choice) {
  char path[PATH_BYTES], temporary[PATH_BYTES + 8], text[TEXT_BYTES];
  if (!find_file(key, path)) {
    return;
  }
  int length = write_text(key, choice, text);
  make_folders(path);
  snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
  int fd = length < TEXT_BYTES ? mkostemp(temporary, O_CLOEXEC) : -1;
  if (fd < 0) {
    return;
  }
  bool written = write(fd, text, (size_t)length) == length;
  written = close(fd) == 0 && written;
  if (!written || rename(temporary, path) != 0) {
    (void)unlink(temporary);
  }
}
