#include "tools/framectl/common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/common/text.h"

#define QUIET_S 2.0
#define EVERY_S 0.2
enum { LINE_ROOM = 256, USUAL_COLUMNS = 80 };

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void progress_begin(struct progress *progress) {
  const char *kind = getenv("TERM");
  *progress = (struct progress){.wanted = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0, .began = now_seconds()};
}

/* A longer text would wrap, and a carriage return could not erase it. */
static int columns(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1 : USUAL_COLUMNS - 1;
}

static const char *describe_time(char text[LINE_ROOM], double share, double passed) {
  char time[TEXT_ROOM];
  if (share > 0 && share <= 1) {
    snprintf(text, LINE_ROOM, "%.0f %%, %s to go", share * 100, text_uptime(time, passed / share - passed));
  } else if (share < 0) {
    snprintf(text, LINE_ROOM, "for %s", text_uptime(time, passed));
  } else {
    text[0] = '\0';
  }
  return text;
}

void progress_show(struct progress *progress, double share, const char *format, ...) {
  double now = progress->wanted ? now_seconds() : 0;
  if (!progress->wanted || now - progress->began < QUIET_S || now - progress->drawn < EVERY_S) {
    return;
  }
  char what[LINE_ROOM], time[LINE_ROOM], line[2 * LINE_ROOM + 2];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  describe_time(time, share, now - progress->began);
  snprintf(line, sizeof line, "%s%s%s", what, time[0] ? ", " : "", time);
  fprintf(stderr, "\r\033[K%.*s", columns(), line);
  fflush(stderr);
  progress->shown = true;
  progress->drawn = now;
}

void progress_clear(struct progress *progress) {
  if (progress->shown) {
    fputs("\r\033[K", stderr);
    progress->shown = false;
    progress->drawn = 0;
  }
}
