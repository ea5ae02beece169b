/* Finishes the segments of recordings that a killed daemon left unfinished. It needs no daemon. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/wire/segment.h"
#include "tools/framectl/command.h"

static bool repair_one(const char *part, struct problem *problem) {
  struct segment_closed closed;
  struct folder_entry entry;
  char text[SEGMENT_PROBLEM];
  if (!folder_find(part, false, &entry)) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "cannot open the folder of '%s': %s", part, folder_problem(errno));
  }
  bool is_done = segment_repair(&entry, &closed, text);
  folder_leave(&entry);
  if (!is_done) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s", text);
  }
  if (closed.name[0]) {
    printf("%s: %" PRIu64 " result%s, %" PRId64 " bytes after the last one cut off\n", closed.name, closed.entries,
           closed.entries == 1 ? "" : "s", closed.cut);
  } else {
    printf("%s: it was empty, and was removed\n", part);
  }
  return true;
}

static bool is_part(const char *name) {
  size_t length = strlen(name), suffix = strlen(SEGMENT_PART);
  return length > suffix && strcmp(name + length - suffix, SEGMENT_PART) == 0;
}

static int names_part(const struct dirent *entry) { return is_part(entry->d_name); }

/* Continues after a failure. The problem is that of the last segment that failed. */
static bool repair_folder(const char *folder, struct problem *problem) {
  struct dirent **entries;
  int count = scandir(folder, &entries, names_part, alphasort);
  bool good = count >= 0 || problem_set(problem, EXIT_STATUS_USAGE, NULL, "cannot read '%s': %s", folder, strerror(errno));
  if (count == 0) {
    printf("%s: nothing to repair\n", folder);
  }
  for (int i = 0; i < count; i++) {
    char part[PATH_MAX];
    bool fits = snprintf(part, sizeof part, "%s/%s", folder, entries[i]->d_name) < (int)sizeof part;
    good = fits && repair_one(part, problem) && good;
    free(entries[i]);
  }
  if (count >= 0) {
    free(entries);
  }
  return good;
}

bool command_repair(const struct invocation *invocation, struct problem *problem) {
  const char *path = invocation->operand;
  char part[PATH_MAX];
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    return repair_folder(path, problem);
  }
  snprintf(part, sizeof part, "%s%s", path, SEGMENT_PART);
  if (stat(part, &status) == 0) {
    return repair_one(part, problem);
  }
  if (stat(path, &status) != 0) {
    return problem_set(problem, EXIT_STATUS_USAGE, "name a segment or a folder of them", "cannot find '%s': %s", path,
                       strerror(errno));
  }
  if (!is_part(path)) {
    printf("%s: nothing to repair\n", path);
    return true;
  }
  return repair_one(path, problem);
}
