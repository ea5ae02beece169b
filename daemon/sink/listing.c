#include "daemon/sink/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/pattern.h"

void listing_owner(const struct config_pipeline *config, char owner[SEGMENT_OWNER]) {
  memset(owner, 0, SEGMENT_OWNER);
  snprintf(owner, SEGMENT_OWNER, "%s%s", config->name, config->sink.records ? " input" : "");
}

bool listing_is_own(const struct config_pipeline *config, int index) {
  char owner[SEGMENT_OWNER];
  struct segment_head head;
  listing_owner(config, owner);
  return index >= 0 && segment_read_head(index, &head) && memcmp(owner, head.owner, sizeof owner) == 0;
}

/* -- the walk ---------------------------------------------------------------------------------------------------------- */

struct listing {
  struct pattern pattern;
  const char *suffix;
  listing_visit *visit;
  void *context;
  char path[PATH_MAX]; /* current folder with a trailing slash, or empty */
};

static void walk_folder(struct listing *listing, int folder, size_t from);

static bool ends_with(const char *name, size_t length, const char *suffix) {
  size_t bytes = strlen(suffix);
  return length > bytes && memcmp(name + length - bytes, suffix, bytes) == 0;
}

/* A pattern without an extension also matches index and part files of other segments, which are left out. */
static bool is_segment(const struct listing *listing, const struct pattern_part *part, const char *name) {
  size_t length = strlen(name), suffix = strlen(listing->suffix);
  if (!ends_with(name, length, listing->suffix)) {
    return false;
  }
  length -= suffix;
  return !ends_with(name, length, SEGMENT_PART) && !ends_with(name, length, SEGMENT_INDEX) && pattern_takes(part, name, length);
}

/* Visits one name in a folder. `part` is the part of the pattern that must match it, and the next part begins at `from`. */
static void walk_name(struct listing *listing, int folder, const struct pattern_part *part, size_t from, const char *name) {
  size_t length = strlen(listing->path), bytes = strlen(name);
  bool is_last = from > listing->pattern.count;
  if (length + bytes + 2 > sizeof listing->path) {
    return;
  }
  memcpy(listing->path + length, name, bytes + 1);
  if (is_last && is_segment(listing, part, name)) {
    const struct folder_entry entry = {.folder = folder, .path = listing->path, .name = listing->path + length};
    listing->visit(listing->context, &entry);
  } else if (!is_last && pattern_takes(part, name, bytes)) {
    int next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    memcpy(listing->path + length + bytes, "/", 2);
    if (next >= 0) {
      walk_folder(listing, next, from);
      close(next);
    }
  }
  listing->path[length] = '\0';
}

static bool is_dots(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

static void walk_folder(struct listing *listing, int folder, size_t from) {
  struct pattern_part part;
  char fixed[FOLDER_NAME];
  if (!pattern_next(&listing->pattern, &from, &part)) {
    return;
  }
  if (pattern_is_fixed(&part, fixed, sizeof fixed)) {
    walk_name(listing, folder, &part, from, part.count > 0 ? fixed : ".");
    return;
  }
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
  if (!names) {
    if (fd >= 0) {
      close(fd);
    }
    return;
  }
  for (const struct dirent *name; (name = readdir(names));) {
    if (!is_dots(name->d_name)) {
      walk_name(listing, folder, &part, from, name->d_name);
    }
  }
  closedir(names);
}

/* The folders before the first conversion. The configuration names them, so symbolic links on the way are allowed. Returns
 * where the next part begins. */
static size_t fixed_folders(const struct pattern *pattern, char path[PATH_MAX]) {
  struct pattern_part part;
  char fixed[FOLDER_NAME];
  size_t from = 0, length = 0, next = 0;
  while (pattern_next(pattern, &next, &part) && next <= pattern->count && pattern_is_fixed(&part, fixed, sizeof fixed) &&
         length + part.count + 2 < PATH_MAX) {
    memcpy(path + length, fixed, part.count);
    length += part.count;
    path[length++] = '/';
    from = next;
  }
  path[length] = '\0';
  return from;
}

void listing_walk(const struct config_pipeline *config, const char *suffix, listing_visit *visit, void *context) {
  char problem[PATTERN_PROBLEM];
  struct listing *listing = malloc(sizeof *listing);
  if (listing && pattern_read(config->sink.path, &listing->pattern, problem)) {
    listing->suffix = suffix;
    listing->visit = visit;
    listing->context = context;
    size_t from = fixed_folders(&listing->pattern, listing->path);
    int folder = folder_open(listing->path);
    if (folder >= 0) {
      walk_folder(listing, folder, from);
      close(folder);
    }
  }
  free(listing);
}

/* -- empty folders ----------------------------------------------------------------------------------------------------- */

void listing_remove_folders(const struct config_pipeline *config, const char *path) {
  char problem[PATTERN_PROBLEM], own[PATH_MAX];
  struct pattern *pattern = malloc(sizeof *pattern);
  size_t fixed = pattern && pattern_read(config->sink.path, pattern, problem) ? fixed_folders(pattern, own) : SIZE_MAX;
  size_t end = fixed != SIZE_MAX ? strlen(own) : SIZE_MAX, length = strlen(path);
  free(pattern);
  if (length >= sizeof own) {
    return;
  }
  memcpy(own, path, length + 1);
  for (bool is_empty = true; is_empty;) {
    struct folder_entry entry;
    char *slash = strrchr(own, '/');
    if (!slash || (size_t)(slash - own) < end) {
      return;
    }
    *slash = '\0';
    is_empty = folder_find(own, false, &entry) && unlinkat(entry.folder, entry.name, AT_REMOVEDIR) == 0;
    folder_leave(&entry);
  }
}
