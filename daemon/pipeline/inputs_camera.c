/*
 * Sources that are URLs: the process framed-camera is a producer on a connection that the daemon made itself. The connection
 * goes the way of one that was accepted: HELLO, seat, session. Quotas do not count this producer: the configuration asked for a
 * camera.
 */
#include <stdio.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"
#include "gpu/format.h"

static void on_connected(void *context, int fd, pid_t pid) {
  struct inputs *inputs = context;
  struct peer peer = {.pid = pid, .uid = geteuid()};
  snprintf(peer.process, sizeof peer.process, "framed-camera");
  rights_refuse(fd);
  inputs_on_accepted(inputs, fd, &peer);
}

/* A connection that is being greeted, waits for the seat, or has it. */
static bool is_connected(void *context) {
  const struct inputs *inputs = context;
  return !inputs->camera_started || inputs->seats[0].client.fd >= 0 || inputs->waiting_count > 0 ||
         handshakes_any(inputs->handshakes);
}

static struct camera_setup setup_of(struct inputs *inputs) {
  static const char *const names[PIXELS_COUNT] = {[PIXELS_NV12] = "nv12",
                                                  [PIXELS_RGB24] = "rgb24",
                                                  [PIXELS_BGR24] = "bgr24",
                                                  [PIXELS_GRAY] = "gray8",
                                                  [PIXELS_YUV420P] = "yuv420p"};
  return (struct camera_setup){.loop = inputs->loop,
                               .cameras = inputs->cameras,
                               .config = inputs->config,
                               .pixels = names[inputs->pixels],
                               .connected = on_connected,
                               .is_connected = is_connected,
                               .context = inputs};
}

bool inputs_start_camera(struct inputs *inputs, struct failure *failure) {
  const struct camera_setup setup = setup_of(inputs);
  int fd = inputs->camera_connection;
  inputs->camera_connection = -1;
  if (fd >= 0) {
    on_connected(inputs, fd, camera_process(inputs->camera).pid);
  }
  inputs->camera = inputs->camera ? inputs->camera : camera_new(&setup, &inputs->camera_process);
  inputs->camera_process = (struct camera_process){.control = -1};
  inputs->camera_started = inputs->camera;
  return inputs->camera || failure_set_memory(failure, "not enough memory for a camera");
}

void inputs_move_camera(struct inputs *inputs, struct inputs *from) {
  const struct camera_setup setup = setup_of(inputs);
  if (from->camera && camera_move(from->camera, &setup, &inputs->camera_connection)) {
    inputs->camera = from->camera;
    from->camera = NULL;
  }
}

void inputs_close_camera(struct inputs *inputs) {
  inputs->camera = camera_close(inputs->camera);
  if (inputs->camera_connection >= 0) {
    close(inputs->camera_connection);
  }
  inputs->camera_connection = -1;
}

void inputs_keep_camera(struct inputs *inputs) {
  if (inputs->camera) {
    inputs->camera_process = camera_process(inputs->camera);
    fd_table_want(inputs->camera_process.control);
  }
}

bool inputs_adopt_camera(struct inputs *inputs, const struct camera_process *left) {
  bool sound = left->pid >= 0 && left->control >= -1;
  if (sound && left->pid > 0) {
    inputs->camera_process = (struct camera_process){.pid = left->pid, .control = fd_table_take(left->control)};
  }
  return sound;
}

const struct camera *inputs_camera(const struct inputs *inputs) { return inputs->camera; }
