#include "daemon/camera/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/program.h"
#include "daemon/camera/message.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct program program = {.name = "framed-camera", .variable = "FRAMED_CAMERA", .fd = -1}; /* with `lock` */

bool launch_open(struct failure *failure) {
  pthread_mutex_lock(&lock);
  bool opened = program_open(&program, failure);
  pthread_mutex_unlock(&lock);
  return opened;
}

static void close_pair(const int pair[2]) {
  for (int i = 0; i < 2; i++) {
    if (pair[i] >= 0) {
      close(pair[i]);
    }
  }
}

/* The process gets the second descriptor, which is high enough for program_spawn(). */
static bool make_pair(int type, int pair[2], struct failure *failure) {
  bool made = socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0 && (pair[1] = program_descriptor(pair[1])) >= 0;
  return made || failure_set_system(failure, errno, NULL, "no socket for framed-camera");
}

static bool make_connection(int frames[2], struct failure *failure) {
  return make_pair(SOCK_STREAM, frames, failure) &&
         (fcntl(frames[0], F_SETFL, O_NONBLOCK) == 0 ||
          failure_set_system(failure, errno, NULL, "no connection for framed-camera"));
}

/* The process writes errors to the daemon's standard error: the dynamic loader names a missing library there. */
static bool execute(int control, int frames, pid_t *pid, struct failure *failure) {
  char name[] = "framed-camera", version[] = FRAMED_VERSION;
  char *const arguments[] = {name, version, NULL};
  const int descriptors[] = {CHILD_NULL, CHILD_NULL, CHILD_KEEPS, control, frames};
  if (!launch_open(failure)) {
    return false;
  }
  int error = program_spawn(&program, arguments, descriptors, sizeof descriptors / sizeof *descriptors, pid);
  return error == 0 || failure_set_system(failure, error, NULL, "cannot execute framed-camera");
}

bool launch_process(const struct config_pipeline *pipeline, const char *pixels, struct launched *launched,
                    struct failure *failure) {
  int control[] = {-1, -1}, frames[] = {-1, -1};
  bool started = make_pair(SOCK_SEQPACKET, control, failure) && make_connection(frames, failure) &&
                 message_send(control[0], pipeline, pixels, failure) && execute(control[1], frames[1], &launched->pid, failure);
  if (started) {
    launched->control = control[0];
    launched->frames = frames[0];
    control[0] = frames[0] = -1;
  }
  close_pair(control);
  close_pair(frames);
  return started;
}

bool launch_connection(int control, int *frames, struct failure *failure) {
  char text[] = "{\"version\": 1, \"connection\": true}";
  _Alignas(struct cmsghdr) unsigned char room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec vector = {.iov_base = text, .iov_len = sizeof text - 1};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int))};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  int pair[] = {-1, -1};
  bool sent = make_connection(pair, failure);
  if (sent) {
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &pair[1], sizeof(int));
    sent = sendmsg(control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)vector.iov_len ||
           failure_set_system(failure, errno, NULL, "framed-camera takes no other connection");
  }
  if (sent) {
    *frames = pair[0];
    pair[0] = -1;
  }
  close_pair(pair);
  return sent;
}
