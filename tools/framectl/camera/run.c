/* framed-camera as a child: the URL and the password go through a pipe, which no list of processes shows. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/framectl/camera/run.h"

enum { MOST_SIDE = 16384, LINE = 8192 };

struct child {
  pid_t pid;
  FILE *in, *out;
};

/* FRAMED_CAMERA, beside this program as built, or where it is installed. */
static bool find_program(char path[PATH_MAX]) {
  static const char *const places[] = {"", "../libexec/framed/"};
  const char *named = getenv("FRAMED_CAMERA");
  char own[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  own[length > 0 ? length : 0] = '\0';
  const char *folder = dirname(own);
  bool found = named && *named && snprintf(path, PATH_MAX, "%s", named) < PATH_MAX;
  for (size_t i = 0; !found && i < sizeof places / sizeof places[0]; i++) {
    found = snprintf(path, PATH_MAX, "%s/%sframed-camera", folder, places[i]) < PATH_MAX && access(path, X_OK) == 0;
  }
  return found;
}

static bool start(struct child *child, struct problem *problem) {
  char path[PATH_MAX];
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  if (!find_program(path)) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, "install the package framed-camera, or build where libav is installed",
                       "there is no framed-camera");
  }
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 || (child->pid = fork()) < 0) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot run framed-camera: %s", strerror(errno));
  }
  if (child->pid == 0) {
    char *const arguments[] = {path, "--try", NULL};
    if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0) {
      execv(path, arguments);
    }
    _exit(EXIT_STATUS_INTERNAL);
  }
  close(to[0]);
  close(from[1]);
  child->in = fdopen(to[1], "we");
  child->out = fdopen(from[0], "re");
  return (child->in && child->out) || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory to run framed-camera");
}

static void send_settings(struct child *child, const char *url, const char *credentials) {
  json_t *settings = json_pack("{s:i, s:s}", "version", 1, "url", url);
  const char *colon = credentials ? strchr(credentials, ':') : NULL;
  if (colon) {
    json_object_set_new(settings, "user", json_stringn(credentials, (size_t)(colon - credentials)));
    json_object_set_new(settings, "password", json_string(colon + 1));
  }
  json_dumpf(settings, child->in, JSON_COMPACT);
  json_decref(settings);
  fclose(child->in);
  child->in = NULL;
}

/* The answer was made by a process that parsed a stranger's bytes: it is checked. */
static bool read_picture(struct child *child, const json_t *answer, struct picture *picture, struct problem *problem) {
  json_int_t width = json_integer_value(json_object_get(answer, "width"));
  json_int_t height = json_integer_value(json_object_get(answer, "height"));
  if (width < 1 || height < 1 || width > MOST_SIDE || height > MOST_SIDE) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, "install framed-camera and framectl of one version",
                       "framed-camera gave no picture");
  }
  *picture = (struct picture){.width = (unsigned)width, .height = (unsigned)height, .channels = 3};
  picture->bytes = (size_t)width * (size_t)height * 3;
  picture->pixels = malloc(picture->bytes);
  return (picture->pixels && fread(picture->pixels, 1, picture->bytes, child->out) == picture->bytes) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "framed-camera gave half a picture");
}

static json_t *read_answer(struct child *child, struct picture *picture, struct problem *problem) {
  char line[LINE];
  json_t *answer = fgets(line, sizeof line, child->out) ? json_loads(line, 0, NULL) : NULL;
  const char *state = json_string_value(json_object_get(answer, "state"));
  const char *text = json_string_value(json_object_get(answer, "text"));
  if (!answer || !state) {
    problem_set(problem, EXIT_STATUS_INTERNAL, "install framed-camera and framectl of one version",
                "framed-camera gave no answer");
  } else if (strcmp(state, "running") != 0) {
    const char *token = json_string_value(json_object_get(answer, "token"));
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s (%s)", text ? text : "there is no picture", token ? token : "?");
  } else if (read_picture(child, answer, picture, problem)) {
    return answer;
  }
  json_decref(answer);
  return NULL;
}

json_t *camera_look(const char *url, const char *credentials, struct picture *picture, struct problem *problem) {
  struct child child = {.pid = -1};
  json_t *answer = NULL;
  *picture = (struct picture){.pixels = NULL};
  if (start(&child, problem)) {
    send_settings(&child, url, credentials);
    answer = read_answer(&child, picture, problem);
  }
  if (child.in) {
    fclose(child.in);
  }
  if (child.out) {
    fclose(child.out);
  }
  if (child.pid > 0) {
    waitpid(child.pid, NULL, 0);
  }
  return answer;
}
