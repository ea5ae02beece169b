#include "tools/framebench/common/own_daemon.h"

#include "tools/framebench/common/samples.h"
#include "tools/framectl/common/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_S = 60, STOP_S = 10, LOOK_US = 10000, PATH = 96, LAST_WORDS = 600 };

struct own_daemon {
  char folder[PATH - 32];
  char socket[PATH], file[PATH], log[PATH];
  pid_t process; /* 0: not running */
};

/* -- the configuration ---------------------------------------------------------------------------------------------- */

static json_t *pipeline_config(const struct own_daemon *daemon, const struct own_pipeline *pipeline) {
  json_t *sink = pipeline->native ? json_pack("{s:b}", "reply", 1)
                                  : json_pack("{s:o, s:s}", "socket", json_sprintf("%s/%s.out", daemon->folder, pipeline->name),
                                              "overload", "block");
  json_t *format = pipeline->format ? json_incref(pipeline->format)
                                    : json_pack("{s:s, s:[I]}", "dtype", "float32", "shape",
                                                (json_int_t)(pipeline->frame_bytes / sizeof(float)));
  json_t *devices = json_array(), *config;
  for (unsigned number = 0; number < pipeline->devices; number++) {
    json_array_append_new(devices, json_integer(number));
  }
  json_t *stages =
      pipeline->stages ? json_incref(pipeline->stages) : json_pack("[{s:{s:i, s:i}}]", "affine", "scale", 1, "offset", 0);
  config = json_pack("{s:{s:o, s:s, s:o, s:i}, s:i, s:s, s:s, s:o, s:o, s:o}", "source", "socket",
                     json_sprintf("%s/%s", daemon->folder, pipeline->name), "protocol", pipeline->native ? "native" : "raw",
                     "format", format, "clients", pipeline->clients > 0 ? (int)pipeline->clients : 1, "slots",
                     (int)pipeline->slots, "completion", pipeline->completion, "graph",
                     pipeline->graph ? pipeline->graph : "auto", "stages", stages, "sink", sink, "devices", devices);
  if (pipeline->devices == 0) {
    json_object_del(config, "devices");
  }
  return config;
}

json_t *own_daemon_format(const struct frame_format *tensor) {
  json_t *shape = json_array();
  for (unsigned i = 0; i < tensor->rank; i++) {
    json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
  }
  return json_pack("{s:s, s:o}", "dtype", element_type_names[tensor->dtype], "shape", shape);
}

/* Writes JSON, which is valid YAML. */
static bool write_config(const struct own_daemon *daemon, const struct own_pipeline *pipelines, unsigned count, json_t *keys,
                         struct problem *problem) {
  json_t *all = json_object();
  for (unsigned i = 0; i < count; i++) {
    json_object_set_new(all, pipelines[i].name, pipeline_config(daemon, &pipelines[i]));
  }
  json_t *config = json_pack("{s:{s:s}, s:o}", "status", "socket", daemon->socket, "pipelines", all);
  json_object_update(config, keys);
  json_decref(keys);
  bool written = config && json_dump_file(config, daemon->file, JSON_INDENT(1)) == 0;
  json_decref(config);
  return written || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write %s", daemon->file);
}

/* -- the process ---------------------------------------------------------------------------------------------------- */

/* Finds the daemon's program: $FRAMED_BINARY, or the one beside this program. */
static bool find_program(char *path, size_t room, struct problem *problem) {
  const char *named = getenv("FRAMED_BINARY");
  ssize_t length = readlink("/proc/self/exe", path, room - sizeof "framed");
  if (named && named[0]) {
    snprintf(path, room, "%s", named);
  } else if (length > 0) {
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash + 1, room - (size_t)(slash + 1 - path), "framed");
  }
  return access(path, X_OK) == 0 || problem_set(problem, EXIT_STATUS_REFUSED, "build it, or name it by $FRAMED_BINARY",
                                                "no daemon to measure: %s: %s", path, strerror(errno));
}

static void become_daemon(const struct own_daemon *daemon, const char *program) {
  int log = open(daemon->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execl(program, program, "-c", daemon->file, (char *)NULL);
  _exit(127);
}

/* Makes a problem from the end of the daemon's log. */
static bool report_end(const struct own_daemon *daemon, const char *what, struct problem *problem) {
  char words[LAST_WORDS] = "";
  FILE *log = fopen(daemon->log, "re");
  size_t length = 0;
  if (log) {
    if (fseek(log, -(long)(sizeof words - 1), SEEK_END) != 0) {
      rewind(log);
    }
    length = fread(words, 1, sizeof words - 1, log);
    fclose(log);
  }
  words[length] = '\0';
  return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "the daemon %s:\n%s", what, words);
}

static bool is_gone(struct own_daemon *daemon) {
  if (daemon->process > 0 && waitpid(daemon->process, NULL, WNOHANG) != 0) {
    daemon->process = 0;
  }
  return daemon->process == 0;
}

static bool wait_for_answer(struct own_daemon *daemon, struct problem *problem) {
  for (int64_t end = samples_now() + START_S * INT64_C(1000000000); samples_now() < end; usleep(LOOK_US)) {
    struct problem silence = {0};
    json_t *status = access(daemon->socket, F_OK) == 0 ? daemon_status(daemon->socket, DAEMON_PATIENCE_MS, &silence) : NULL;
    problem_clear(&silence);
    json_decref(status);
    if (status) {
      return true;
    }
    if (is_gone(daemon)) {
      return report_end(daemon, "ended", problem);
    }
  }
  return report_end(daemon, "does not answer", problem);
}

static bool start(struct own_daemon *daemon, const struct own_pipeline *pipelines, unsigned count, json_t *keys,
                  struct problem *problem) {
  char program[4096];
  if (!write_config(daemon, pipelines, count, keys, problem) || !find_program(program, sizeof program, problem)) {
    return false;
  }
  daemon->process = fork();
  if (daemon->process == 0) {
    become_daemon(daemon, program);
  }
  if (daemon->process < 0) {
    daemon->process = 0;
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no process: %s", strerror(errno));
  }
  return wait_for_answer(daemon, problem);
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static bool make_folder(struct own_daemon *daemon, struct problem *problem) {
  snprintf(daemon->folder, sizeof daemon->folder, "/tmp/framebench-XXXXXX");
  if (!mkdtemp(daemon->folder)) {
    daemon->folder[0] = '\0';
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no folder for a daemon in /tmp: %s", strerror(errno));
  }
  snprintf(daemon->socket, sizeof daemon->socket, "%s/status.sock", daemon->folder);
  snprintf(daemon->file, sizeof daemon->file, "%s/framed.yaml", daemon->folder);
  snprintf(daemon->log, sizeof daemon->log, "%s/log", daemon->folder);
  return true;
}

struct own_daemon *own_daemon_start(const struct own_pipeline *pipelines, unsigned count, json_t *keys,
                                    struct problem *problem) {
  struct own_daemon *daemon = calloc(1, sizeof *daemon);
  if (!daemon || !make_folder(daemon, problem)) {
    json_decref(keys);
    free(daemon);
    return NULL;
  }
  return start(daemon, pipelines, count, keys, problem) ? daemon : own_daemon_stop(daemon);
}

const char *own_daemon_socket(const struct own_daemon *daemon) { return daemon->socket; }

const char *own_daemon_folder(const struct own_daemon *daemon) { return daemon->folder; }

static void remove_folder(const char *folder) {
  DIR *entries = opendir(folder);
  struct dirent *entry;
  while (entries && (entry = readdir(entries))) {
    unlinkat(dirfd(entries), entry->d_name, 0); /* "." and ".." cannot be removed */
  }
  if (entries) {
    closedir(entries);
  }
  rmdir(folder);
}

struct own_daemon *own_daemon_stop(struct own_daemon *daemon) {
  if (!daemon) {
    return NULL;
  }
  int64_t end = samples_now() + STOP_S * INT64_C(1000000000);
  if (!is_gone(daemon)) {
    kill(daemon->process, SIGTERM);
  }
  while (!is_gone(daemon)) {
    if (samples_now() > end) {
      kill(daemon->process, SIGKILL);
    }
    usleep(LOOK_US);
  }
  remove_folder(daemon->folder);
  free(daemon);
  return NULL;
}
