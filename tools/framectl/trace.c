/* `framectl trace`: writes a trace to a file while it is received, and prints a summary. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/progress.h"

#define USUAL_FILE    "framed-trace.json"
#define USUAL_SECONDS 2.0

enum { SENDING_MS = 70000 /* the daemon waits a minute for a client that does not read */, START = 1024 };

struct recording {
  const char *path;
  FILE *file; /* NULL: no data yet */
  int error;  /* errno of a failed write */
  bool unopened;
  char start[START]; /* the summary is on the second line */
  size_t length;
  struct progress progress;
  double seconds;
};

static bool to_standard_output(const struct recording *recording) { return strcmp(recording->path, "-") == 0; }

/* Opened at the first byte, so that a refusal does not overwrite an existing file. */
static bool open_file(struct recording *recording) {
  recording->file = to_standard_output(recording) ? stdout : fopen(recording->path, "we");
  recording->error = recording->file ? 0 : errno;
  recording->unopened = !recording->file;
  return recording->file;
}

static void wait(void *context) {
  struct recording *recording = context;
  progress_show(&recording->progress, -1, "recording %.0f s", recording->seconds);
}

static bool take(void *context, const char *bytes, size_t count) {
  struct recording *recording = context;
  size_t part = count < START - 1 - recording->length ? count : START - 1 - recording->length;
  memcpy(recording->start + recording->length, bytes, part);
  recording->length += part;
  if (!recording->file && !open_file(recording)) {
    return false;
  }
  if (fwrite(bytes, 1, count, recording->file) < count) {
    recording->error = errno;
    return false;
  }
  wait(context);
  return true;
}

/* Removes an incomplete trace, since no viewer can read it. */
static void close_file(struct recording *recording, bool whole) {
  struct stat info;
  if (!recording->file || to_standard_output(recording)) {
    return;
  }
  bool is_regular = fstat(fileno(recording->file), &info) == 0 && S_ISREG(info.st_mode);
  if (fclose(recording->file) != 0 && recording->error == 0) {
    recording->error = errno;
  }
  if (is_regular && (!whole || recording->error != 0)) {
    unlink(recording->path);
  }
}

static void report(const struct recording *recording) {
  FILE *out = to_standard_output(recording) ? stderr : stdout;
  const char *line = strchr(recording->start, '{');
  json_t *event = line ? json_loads(line, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  const json_t *sums = json_object_get(event, "args");
  json_int_t frames = json_integer_value(json_object_get(sums, "frames"));
  json_int_t overwritten = json_integer_value(json_object_get(sums, "overwritten"));
  double seconds = json_number_value(json_object_get(sums, "seconds"));
  fprintf(out, "%s: %lld frame%s in %.2f s; %s\n", to_standard_output(recording) ? "trace" : recording->path, (long long)frames,
          frames == 1 ? "" : "s", seconds,
          frames > 0 ? "open it at https://ui.perfetto.dev or in chrome://tracing"
                     : "take one while frames pass (`framectl status` says what they wait for)");
  if (json_is_true(json_object_get(sums, "full"))) {
    fprintf(out, "  it ended early: a trace can hold no more frames\n");
  }
  if (overwritten > 0) {
    fprintf(out, "  %lld more are missing: they came faster than they were read\n", (long long)overwritten);
  }
  json_decref(event);
}

bool command_trace(const struct invocation *invocation, struct problem *problem) {
  double seconds = invocation->seconds > 0 ? invocation->seconds : USUAL_SECONDS;
  struct recording recording = {.path = invocation->output ? invocation->output : USUAL_FILE, .seconds = seconds};
  char path[64];
  snprintf(path, sizeof path, "/v1/trace?seconds=%.6f", seconds);
  if (!to_standard_output(&recording)) {
    progress_begin(&recording.progress);
  }
  bool whole = daemon_stream(invocation->socket, path, (int)(seconds * 1000) + SENDING_MS, take, wait, &recording, problem);
  progress_clear(&recording.progress);
  close_file(&recording, whole);
  if (recording.error != 0) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, "name another file by -o", "cannot %s '%s': %s",
                       recording.unopened ? "make" : "write", recording.path, strerror(recording.error));
  }
  if (whole) {
    report(&recording);
  }
  return whole;
}
