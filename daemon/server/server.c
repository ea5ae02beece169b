#include "daemon/server/server.h"

#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/camera/camera.h"
#include "daemon/server/private.h"
#include "daemon/state/fd_store.h"

static void server_loop(struct server *server) {
  struct failure failure;
  if (!server_open_loop(server, &failure)) {
    if (server->left) {
      server_start_over(failure.text);
    }
    log_event(LOG_FAILED, NULL, "%s", failure.text);
    server->exit_status = failure.status;
    return;
  }
  if (!server_start(server, &failure)) {
    server_fail_start(server, &failure);
  }
  uv_run(&server->loop, UV_RUN_DEFAULT);
}

enum exit_status server_run(const char *path, struct config *config, const struct left *left, bool reload) {
  struct server *server = image_new(IMAGE_SERVER, sizeof *server);
  struct generation *generation = server ? generation_new(config) : NULL;
  struct quota *quota = quota_new();
  struct cameras *cameras = cameras_new();
  log_open(config->log_level);
  if ((!generation || !quota || !cameras) && left) {
    server_start_over("not enough memory");
  }
  if (!generation || !quota || !cameras) {
    log_event(LOG_FAILED, NULL, "not enough memory to start");
    quota_free(quota);
    cameras_free(cameras);
    free(generation); /* without the configuration that it would have taken */
    image_free(server);
    config_free(config);
    return EXIT_STATUS_INTERNAL;
  }
  server->path = path;
  server->ops = server_ops(server);
  server_follow_phases(server);
  server->quota = quota;
  server->cameras = cameras;
  server->left = left;
  server->reload_at_once = reload;
  server->started = clock_now();
  server_adopt(server, generation);
  server_loop(server);
  server_close(server);
  fd_store_end();
  log_flush();
  enum exit_status status = server->exit_status;
  image_free(server);
  return status;
}
