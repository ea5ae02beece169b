#include "daemon/base/processors.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Below this share, waiting for a processor is normal on a machine with work. */
#define WAITED 0.2
#define STOLEN 0.1
/* If this process uses most of the used time, its own work is the cause. */
#define OURS 0.6

enum { STAT_TIMES = 8, STAT_IDLE = 3, STAT_WAITING = 4, STAT_STOLEN = 7 }; /* user nice system idle iowait irq softirq steal */

static void note_times(struct processors *processors, const char *stat, uint64_t mine) {
  uint64_t times[STAT_TIMES] = {0}, total = 0;
  sscanf(stat, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &times[0],
         &times[1], &times[2], &times[3], &times[4], &times[5], &times[6], &times[7]);
  for (int i = 0; i < STAT_TIMES; i++) {
    total += times[i];
  }
  uint64_t idle = times[STAT_IDLE] + times[STAT_WAITING];
  if (processors->total > 0 && total > processors->total) {
    double passed = (double)(total - processors->total);
    processors->used = 1 - (double)(idle - processors->idle) / passed;
    processors->stolen = (double)(times[STAT_STOLEN] - processors->steal) / passed;
    processors->own = (double)(mine - processors->mine) / passed;
  }
  processors->total = total;
  processors->idle = idle;
  processors->steal = times[STAT_STOLEN];
  processors->mine = mine;
}

void processors_note(struct processors *processors, const char *stat, const char *pressure, uint64_t mine) {
  const char *ready = strstr(stat, "\nprocs_running ");
  processors->count = 0;
  for (const char *line = strstr(stat, "\ncpu"); line; line = strstr(line + 1, "\ncpu")) {
    processors->count++;
  }
  if (!ready || sscanf(ready, "\nprocs_running %u", &processors->ready) != 1) {
    processors->ready = 0;
  }
  note_times(processors, stat, mine);
  double percent;
  if (sscanf(pressure, "some avg10=%lf", &percent) == 1) {
    processors->waited = percent / 100;
  } else { /* without pressure information: average how often more threads are ready than there are processors */
    processors->waited = processors->waited * 0.75 + (processors->ready > processors->count ? 0.25 : 0);
  }
}

/* Reads the whole file, or what fits. */
static void read_text(const char *path, char *text, size_t room) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  ssize_t got = 1;
  while (fd >= 0 && got > 0 && length < room - 1) {
    got = read(fd, text + length, room - 1 - length);
    length += got > 0 ? (size_t)got : 0;
  }
  text[length] = '\0';
  if (fd >= 0) {
    close(fd);
  }
}

void processors_look(struct processors *processors) {
  static char stat[64 * 1024]; /* one line for each processor, and one with all interrupts */
  char pressure[256];
  struct rusage usage;
  long ticks = sysconf(_SC_CLK_TCK);
  read_text("/proc/stat", stat, sizeof stat);
  read_text("/proc/pressure/cpu", pressure, sizeof pressure);
  if (ticks > 0 && getrusage(RUSAGE_SELF, &usage) == 0) {
    double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    processors_note(processors, stat, pressure, (uint64_t)(seconds * (double)ticks));
  }
}

bool processors_are_short(const struct processors *processors) {
  bool waits = processors->waited >= WAITED && processors->used > 0.5;
  return (waits && processors->own < OURS * processors->used) || processors->stolen >= STOLEN;
}
