#include "daemon/client/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS /* Linux 4.13; missing in some libc headers */
#define SO_PEERGROUPS 59
#endif

static void peer_process(pid_t pid, char name[PEER_PROCESS]) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  ssize_t length = fd >= 0 ? read(fd, name, PEER_PROCESS - 1) : 0;
  if (fd >= 0) {
    close(fd);
  }
  name[length > 0 ? length : 0] = '\0';
  name[strcspn(name, "\n")] = '\0';
  for (char *letter = name; *letter; letter++) {
    *letter = *letter < ' ' || *letter > '~' ? '?' : *letter; /* the owner of the process chooses its name */
  }
}

bool peer_read(int fd, struct peer *peer) {
  struct ucred credentials;
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return false;
  }
  length = 0; /* called without a buffer, the kernel returns the size of the supplementary groups */
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &length) == 0 || errno != ERANGE) {
    length = 0;
  }
  *peer = (struct peer){
      .pid = credentials.pid, .uid = credentials.uid, .group_count = 1, .groups = malloc(sizeof *peer->groups + length)};
  if (!peer->groups) {
    return false;
  }
  peer_process(peer->pid, peer->process);
  peer->groups[0] = credentials.gid;
  if (length > 0 && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups + 1, &length) == 0) {
    peer->group_count += (unsigned)(length / sizeof peer->groups[0]);
  }
  return true;
}

void peer_clear(struct peer *peer) {
  free(peer->groups);
  *peer = (struct peer){0};
}

bool peer_allowed(const struct peer *peer, const struct config_allow *allow) {
  if (peer->uid == 0 || (allow->user_count == 0 && allow->group_count == 0)) {
    return true;
  }
  for (unsigned i = 0; i < allow->user_count; i++) {
    if (allow->users[i] == peer->uid) {
      return true;
    }
  }
  for (unsigned i = 0; i < allow->group_count; i++) {
    for (unsigned j = 0; j < peer->group_count; j++) {
      if (peer->groups[j] == allow->groups[i]) {
        return true;
      }
    }
  }
  return false;
}

void peer_send_text(int fd, const char *format, ...) {
  char text[480];
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  int length = snprintf(line, sizeof line, "framed: %s\n", text);
  /* Best effort: the client may be gone, or never read. */
  (void)!send(fd, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool peer_hung_up(int fd) {
  struct pollfd poll_one = {.fd = fd, .events = POLLRDHUP};
  return poll(&poll_one, 1, 0) == 1 && (poll_one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}
