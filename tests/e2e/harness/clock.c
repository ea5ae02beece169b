/* Preloaded into a daemon under test: CLOCK_REALTIME is ahead by the seconds in the file CLOCK_AHEAD. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long seconds_ahead(void) {
  char text[32] = {0};
  int fd = open(getenv("CLOCK_AHEAD"), O_RDONLY | O_CLOEXEC);
  long seconds = fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? atol(text) : 0;
  if (fd >= 0) {
    close(fd);
  }
  return seconds;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = (int)syscall(SYS_clock_gettime, clock, now);
  if (status == 0 && clock == CLOCK_REALTIME) {
    now->tv_sec += seconds_ahead();
  }
  return status;
}

__attribute__((visibility("default"))) time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) {
    *to = now.tv_sec;
  }
  return now.tv_sec;
}
