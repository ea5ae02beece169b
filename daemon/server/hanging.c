/*
 * What a file that does not answer may not hold up. A request to such a file cannot be taken back: its thread sleeps in the
 * kernel until the disk answers, and a program that is executed over the process would have to wait for that thread. So a
 * pipeline that waits for a file is left alone: a reload that removes the pipeline goes on without it, and an end does not wait
 * for it.
 *
 * A process that ends so is gone once the disk answers; until then nothing of it is left but the thread that sleeps.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/client/endpoint.h"
#include "daemon/server/private.h"
#include "daemon/state/fd_store.h"

#define LONG (500 * NS_PER_MS) /* a disk that takes so long for one request hangs */

enum { LOOK_MS = 100 };

/* -- who hangs --------------------------------------------------------------------------------------------------------- */

/* The file that the pipeline waits for, or NULL. */
static const char *awaited_file(const struct pipeline *pipeline) {
  return pipeline_state(pipeline) == PIPELINE_STOPPED ? NULL : pipeline_awaited_file(pipeline, clock_now() - LONG);
}

static bool is_opening(void) {
  int64_t asked = endpoint_asked();
  return asked != 0 && clock_now() - asked > LONG;
}

static bool hanging_describe(const struct pipeline *pipeline, struct failure *failure) {
  const char *path = awaited_file(pipeline);
  return path && failure_set(failure, EXIT_STATUS_INTERNAL, "see to its disk, and try again",
                             "'%s' of pipeline '%s' does not answer", path, pipeline_config(pipeline)->name);
}

bool server_has_files(const struct server *server, struct failure *failure) {
  *failure = (struct failure){0};
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    hanging_describe(hanging->pipeline, failure);
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    hanging_describe(server->pipelines[i], failure);
  }
  return failure->text[0] == '\0';
}

static bool is_free_of(const struct pipeline *pipeline, const struct config_pipeline *config, struct failure *failure) {
  const char *path = awaited_file(pipeline);
  bool names_path = path && ((config->source.endpoint == CONFIG_FILE && strcmp(config->source.path, path) == 0) ||
                             (config->sink.endpoint == CONFIG_FILE && strcmp(config->sink.path, path) == 0));
  return !names_path || hanging_describe(pipeline, failure);
}

bool server_may_open(const struct server *server, const struct config_pipeline *config, struct failure *failure) {
  bool may = true;
  for (const struct hanging *hanging = server->hanging; may && hanging; hanging = hanging->next) {
    may = is_free_of(hanging->pipeline, config, failure);
  }
  for (unsigned i = 0; may && i < server->pipeline_count; i++) {
    may = is_free_of(server->pipelines[i], config, failure);
  }
  return may;
}

/* -- a pipeline that a reload removes -----------------------------------------------------------------------------------------
 */

bool server_let_hang(struct server *server, struct pipeline *pipeline) {
  const char *path = awaited_file(pipeline);
  struct hanging *hanging = path ? malloc(sizeof *hanging) : NULL;
  if (!hanging) {
    return false;
  }
  *hanging = (struct hanging){.next = server->hanging, .server = server, .pipeline = pipeline};
  server->hanging = hanging;
  log_event(LOG_HANGS, pipeline_config(pipeline)->name, "'%s' does not answer: it is removed, and ends when that does", path);
  pipeline_abandon(pipeline);
  return true;
}

static void release(void *context) { pipeline_release(((struct hanging *)context)->pipeline); }

static void on_released(void *context) {
  struct hanging *hanging = context;
  struct server *server = hanging->server;
  struct hanging **link = &server->hanging;
  while (*link != hanging) {
    link = &(*link)->next;
  }
  *link = hanging->next;
  pipeline_free(hanging->pipeline);
  free(hanging);
  server_sweep(server);
}

bool server_on_hanging(struct server *server, const struct pipeline *pipeline, enum pipeline_event event) {
  struct hanging *hanging = server->hanging;
  while (hanging && hanging->pipeline != pipeline) {
    hanging = hanging->next;
  }
  if (!hanging) {
    return false;
  }
  if (event == PIPELINE_GONE && !loop_job(&server->loop, release, on_released, hanging)) {
    release(hanging);
    on_released(hanging);
  }
  return true;
}

bool server_hangs(const struct server *server) {
  bool hangs = false;
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    hangs = hangs || pipeline_state(hanging->pipeline) != PIPELINE_STOPPED;
  }
  return hangs;
}

/* -- an end without such files ----------------------------------------------------------------------------------- */

/* Nothing here asks a file system: a file that does not answer might not even say what it is. */
void server_close_sockets(void) {
  DIR *folder = opendir("/proc/self/fd");
  const struct dirent *entry;
  while (folder && (entry = readdir(folder)) != NULL) {
    int fd = (int)strtol(entry->d_name, NULL, 10); /* "." and ".." are 0 */
    int kind;
    socklen_t size = sizeof kind;
    if (fd > STDERR_FILENO && fd != dirfd(folder) &&
        (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 || fcntl(fd, F_GETPIPE_SZ) >= 0)) { /* no file */
      close_range((unsigned)fd, (unsigned)fd, 0); /* like the process's end, whatever other threads do with it */
    }
  }
}

static bool hanging_park(struct server *server) {
  int64_t now = clock_now();
  const struct lane_patience patience = {.file = now, .leaves_files = true, .limit = now + LOOK_MS * NS_PER_MS};
  return !server->engine || engine_park(server->engine, &patience);
}

/* No handler of exit() runs: libuv's would wait for the thread that sleeps. */
void server_end_now(struct server *server, enum exit_status status) {
  struct failure failure;
  listener_close(server->status_listener);
  listener_close(server->http_listener);
  listener_block_new();
  fd_store_end();
  log_flush();
  if ((is_opening() || !server_has_files(server, &failure)) && hanging_park(server)) {
    server_close_sockets();
  }
  _exit((int)status);
}

static void hanging_abandon(struct pipeline *pipeline) {
  const char *path = awaited_file(pipeline);
  if (path) {
    log_event(LOG_HANGS, pipeline_config(pipeline)->name, "'%s' does not answer: the daemon ends without it", path);
  }
  pipeline_log_account(pipeline);
  pipeline_abandon(pipeline);
}

void server_end_hanging(struct server *server) {
  for (unsigned i = 0; server->phase != SERVER_STARTING && i < server->pipeline_count; i++) {
    hanging_abandon(server->pipelines[i]);
  }
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    hanging_abandon(hanging->pipeline);
  }
  if (is_opening()) {
    log_event(LOG_HANGS, NULL, "a file that is being opened does not answer: the daemon ends without it");
  }
  server_end_now(server, server->exit_status);
}

static bool only_files_are_left(const struct server *server) {
  bool any = server_hangs(server);
  if (server->phase == SERVER_STARTING || server->reload) {
    return is_opening();
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    bool has_stopped = pipeline_state(server->pipelines[i]) == PIPELINE_STOPPED;
    if (!has_stopped && !awaited_file(server->pipelines[i])) {
      return false;
    }
    any = any || !has_stopped;
  }
  return any;
}

static void on_check(void *context) {
  struct server *server = context;
  if (only_files_are_left(server)) {
    server_end_hanging(server);
  }
}

void server_look_for_hanging(struct server *server) {
  if (!server->look && server->phase != SERVER_ENDING) {
    server->look = loop_timer_new(&server->loop, on_check, server);
  }
  if (server->look) {
    loop_timer_start(server->look, LOOK_MS, LOOK_MS);
  }
}
