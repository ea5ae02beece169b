/* What the process has of the machine, as the kernel says. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/status/status.h"

static size_t resident_bytes(void) {
  char text[128];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  if (fd >= 0) {
    close(fd);
  }
  text[length > 0 ? length : 0] = '\0';
  unsigned long pages = 0;
  return sscanf(text, "%*u %lu", &pages) == 1 ? pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static size_t open_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) {
    return 0;
  }
  size_t count = 0;
  for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
    count += entry->d_name[0] != '.';
  }
  closedir(folder);
  return count > 0 ? count - 1 : 0; /* without the one that looked */
}

void usage_of_process(struct usage *usage) {
  usage->resident_bytes = resident_bytes();
  usage->descriptors = open_descriptors();
}
