/* framed-camera: frames of one network camera for framed, which starts it. Arguments, signals, the message of the start. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <libavformat/avformat.h>

#include "tools/camera/avlog.h"
#include "tools/camera/camera.h"
#include "tools/camera/confine.h"

enum { USAGE = 64, PATIENCE_MS = 10000 };

/* It ends with its daemon and by nobody else's signal. */
static void ignore_signals(void) {
  static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
    signal(ignored[i], SIG_IGN);
  }
}

static bool is_socket(int fd, int wanted) {
  int type = 0;
  socklen_t length = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == wanted;
}

/* The name servers' time counts too, and cannot be interrupted: 2 tries of 2 s each. */
static void limit_lookups(void) { setenv("RES_OPTIONS", "timeout:2 attempts:2", 1); }

static bool read_settings(struct settings *settings, struct reason *reason) {
  char text[SETTINGS_MOST];
  struct pollfd control = {.fd = CAMERA_CONTROL, .events = POLLIN};
  ssize_t got = poll(&control, 1, PATIENCE_MS) == 1 ? recv(CAMERA_CONTROL, text, sizeof text, MSG_DONTWAIT) : -1;
  bool good = got > 0 ? settings_read(settings, text, (size_t)got, reason)
                      : reason_set(reason, REASON_URL, "the daemon sent no message of the start");
  explicit_bzero(text, sizeof text);
  return good;
}

static int serve(void) {
  struct settings settings = {.width = 0};
  struct reason reason;
  confine_secrets();
  camera_alive();
  int status = EXIT_FAILURE;
  bool good = read_settings(&settings, &reason);
  if (good && settings.width == 0) {
    good = reason_set(&reason, REASON_URL, "the message of the start has no width and height");
  }
  if (good && !confine_all(settings.address.kind == ADDRESS_V4L2)) {
    good = reason_set(&reason, REASON_URL, "the system refuses a limit that framed-camera sets for itself");
  }
  if (good) {
    status = camera_run(&settings);
  } else {
    camera_refuse(&reason);
  }
  settings_clear(&settings);
  return status;
}

static int refuse_version(const char *other) {
  struct reason reason;
  reason_set(&reason, REASON_URL, "this is framed-camera " FRAMED_VERSION " and framed is %.40s: install both of one version",
             other);
  camera_refuse(&reason);
  return USAGE;
}

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "--version") == 0) {
    printf("framed-camera %s (libavformat %s)\n", FRAMED_VERSION, av_version_info());
    return EXIT_SUCCESS;
  }
  avlog_begin();
  limit_lookups();
  if (count == 2 && strcmp(arguments[1], "--try") == 0) {
    return try_run();
  }
  if (count != 2 || !is_socket(CAMERA_CONTROL, SOCK_SEQPACKET) || !is_socket(CAMERA_FRAMES, SOCK_STREAM)) {
    fputs("framed-camera: framed starts it; by hand, use `framectl camera try URL`\n", stderr);
    return USAGE;
  }
  ignore_signals();
  prctl(PR_SET_NAME, "framed-camera");
  return strcmp(arguments[1], FRAMED_VERSION) == 0 ? serve() : refuse_version(arguments[1]);
}
