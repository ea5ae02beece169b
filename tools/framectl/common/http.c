#include "tools/framectl/common/http.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 3, WAITER_MS = 200 };

#define LOOK_THERE "see `systemctl status framed` and `journalctl -u framed`"

/* Nobody should join root's group, and a group without write permission cannot connect. */
static bool group_helps(const struct stat *info) { return info->st_gid != 0 && (info->st_mode & S_IWGRP) != 0; }

static bool report_no_permission(const char *path, const char *what, struct problem *problem) {
  struct stat info;
  char remedy[256] = "use sudo";
  if (stat(path, &info) != 0) { /* no permission to enter its folder */
    snprintf(remedy, sizeof remedy, "use sudo, or join the group that owns the socket");
  } else if (group_helps(&info) && getgrgid(info.st_gid)) {
    const char *name = getgrgid(info.st_gid)->gr_name;
    snprintf(remedy, sizeof remedy,
             "use sudo, or join the group '%s' that owns the socket (sudo adduser $USER %s, then log in again)", name, name);
  }
  return problem_set(problem, EXIT_STATUS_NO_DAEMON, remedy, "no permission to talk to %s at %s", what, path);
}

static bool report_unreachable(const char *path, const char *what, int error, struct problem *problem) {
  if (error == EACCES || error == EPERM) {
    return report_no_permission(path, what, problem);
  }
  if (error == EAGAIN) {
    return problem_set(problem, EXIT_STATUS_NO_DAEMON, LOOK_THERE, "%s at %s does not answer, nor does it take connections",
                       what, path);
  }
  return problem_set(problem, EXIT_STATUS_NO_DAEMON,
                     "is it running? Start it by `framed -c FILE` or `systemctl start framed`; another socket is named by "
                     "-s SOCKET or $FRAMED_SOCKET",
                     "%s does not answer at %s: %s", what, path, strerror(error));
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t deadline_of(int timeout_ms) { return timeout_ms < 0 ? 0 : now_ms() + timeout_ms; }

/*
 * Connects, and continues after signals such as a terminal's change of size. False with errno; EAGAIN after `deadline` (0:
 * none).
 */
static bool take_turn(int fd, const struct sockaddr_un *address, int64_t deadline) {
  bool connected, interrupted;
  do {
    int64_t left = deadline - now_ms();
    const struct timeval patience = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    if (deadline && left <= 0) {
      errno = EAGAIN;
      return false;
    }
    if (deadline && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
      return false;
    }
    connected = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    interrupted = !connected && errno == EINTR;
  } while (interrupted);
  return connected;
}

int unix_connect(const char *path, const char *what, int timeout_ms, struct problem *problem) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    problem_set(problem, EXIT_STATUS_USAGE, "name it by a shorter path, for example through a symbolic link",
                "the path of the socket is longer than %zu bytes: %s", sizeof address.sun_path - 1, path);
    return -1;
  }
  memcpy(address.sun_path, path, strlen(path));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no socket: %s", strerror(errno));
    return -1;
  }
  if (!take_turn(fd, &address, deadline_of(timeout_ms))) {
    report_unreachable(path, what, errno, problem);
    close(fd);
    return -1;
  }
  return fd;
}

/* False when `deadline` (0: none) passes first. */
static bool wait_for(int fd, short events, int64_t deadline) {
  for (;;) {
    int64_t left = deadline ? deadline - now_ms() : -1;
    if (deadline && left <= 0) {
      return false;
    }
    struct pollfd ready = {.fd = fd, .events = events};
    int count = poll(&ready, 1, (int)left);
    if (count > 0 || (count < 0 && errno != EINTR)) {
      return true;
    }
  }
}

static bool report_silence(const struct question *question, struct problem *problem) {
  return problem_set(problem, EXIT_STATUS_NO_DAEMON, LOOK_THERE, "framed at %s does not answer", question->socket);
}

static bool send_text(int fd, const struct question *question, const char *text, size_t length, int64_t deadline,
                      struct problem *problem) {
  for (size_t sent = 0; sent < length;) {
    if (!wait_for(fd, POLLOUT, deadline)) {
      return report_silence(question, problem);
    }
    ssize_t count = send(fd, text + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += (size_t)count;
    } else if (errno != EAGAIN && errno != EINTR) {
      return report_unreachable(question->socket, "framed", errno, problem);
    }
  }
  return true;
}

static bool send_question(int fd, const struct question *question, int64_t deadline, struct problem *problem) {
  const char *body = question->body ? question->body : "";
  char text[512];
  int length =
      snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: framed\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
               question->method, question->path, strlen(body), question->body ? "Content-Type: application/json\r\n" : "");
  if (length < 0 || (size_t)length >= sizeof text) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "the name is too long");
  }
  return send_text(fd, question, text, (size_t)length, deadline, problem) &&
         send_text(fd, question, body, strlen(body), deadline, problem);
}

static bool wait_for_reply(int fd, const struct question *question, int64_t deadline) {
  while (question->idle) {
    int64_t step = now_ms() + WAITER_MS;
    if (deadline && step >= deadline) {
      break;
    }
    if (wait_for(fd, POLLIN, step)) {
      return true;
    }
    question->idle(question->idle_context);
  }
  return wait_for(fd, POLLIN, deadline);
}

static bool receive_reply(int fd, const struct question *question, int64_t deadline, struct reply *reply,
                          struct problem *problem) {
  char bytes[65536];
  while (reply->state < REPLY_DONE) {
    if (!wait_for_reply(fd, question, deadline)) {
      return report_silence(question, problem);
    }
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0) {
      reply_feed(reply, bytes, (size_t)count);
    } else if (count == 0) {
      reply_end(reply);
    } else if (errno != EAGAIN && errno != EINTR) {
      return report_unreachable(question->socket, "framed", errno, problem);
    }
  }
  if (reply->state == REPLY_BAD) {
    return problem_set(problem, EXIT_STATUS_NO_DAEMON, "is it framed's status socket, and did it just end?",
                       "what answers at %s cannot be understood: %s", question->socket, reply->problem);
  }
  return true;
}

/* The daemon closes surplus connections before it reads the request. A GET changes nothing, so it is safe to repeat. */
static bool was_cut_off(const struct question *question, const struct reply *reply) {
  return strcmp(question->method, "GET") == 0 && reply->head_length == 0 && reply->line_length == 0;
}

bool http_ask(const struct question *question, struct reply *reply, struct problem *problem) {
  int64_t deadline = deadline_of(question->timeout_ms);
  bool fine = false;
  for (int tries = 0; !fine && tries < TRIES; tries++) {
    int fd = unix_connect(question->socket, "framed", question->timeout_ms, problem);
    if (fd < 0) {
      return false;
    }
    fine = send_question(fd, question, deadline, problem) && receive_reply(fd, question, deadline, reply, problem);
    close(fd);
    if (!was_cut_off(question, reply) || (deadline && now_ms() >= deadline)) {
      return fine;
    }
    reply->state = REPLY_STATUS_LINE;
  }
  return fine;
}
