#include "tools/framebench/common/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* The text after `key` and its colon in a file of lines; empty if there is no such line. */
static void find_line(const char *path, const char *key, char *text, size_t room) {
  char line[512];
  FILE *file = fopen(path, "re");
  text[0] = '\0';
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, key, strlen(key)) == 0 && colon) {
      colon[strcspn(colon, "\n")] = '\0';
      snprintf(text, room, "%s", colon + 1 + strspn(colon + 1, " "));
      break;
    }
  }
  if (file) {
    fclose(file);
  }
}

/* Extracts "580.65.06" from "NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ...". */
static void find_driver(char *text, size_t room) {
  char line[512];
  find_line("/proc/driver/nvidia/version", "NVRM version", line, sizeof line);
  text[0] = '\0';
  char *rest = NULL;
  for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (word[strspn(word, "0123456789.")] == '\0' && strchr(word, '.')) {
      snprintf(text, room, "%s", word);
      return;
    }
  }
}

unsigned machine_processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

json_t *machine_describe(void) {
  char processor[128], driver[64], date[32];
  struct utsname kernel;
  time_t now = time(NULL);
  struct tm utc;
  find_line("/proc/cpuinfo", "model name", processor, sizeof processor);
  find_driver(driver, sizeof driver);
  strftime(date, sizeof date, "%Y-%m-%d %H:%M", gmtime_r(&now, &utc));
  uname(&kernel);
  return json_pack("{s:s, s:i, s:s, s:s, s:s}", "processor", processor, "processors", (int)machine_processors(), "kernel",
                   kernel.release, "driver", driver, "date", date);
}
