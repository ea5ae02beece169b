#include "daemon/base/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 8 * 1024 * 1024 }; /* send buffer for unread messages, if the system allows so much */

static bool datagram_set_address(struct datagram *datagram, const char *address) {
  size_t length = strlen(address);
  bool abstract = address[0] == '@';
  if ((address[0] != '/' && !abstract) || length < 2 || length >= sizeof datagram->address.sun_path) {
    return false;
  }
  datagram->address = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(datagram->address.sun_path, address, length);
  if (abstract) {
    datagram->address.sun_path[0] = '\0';
  }
  datagram->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + !abstract);
  return true;
}

bool datagram_open(struct datagram *datagram, const char *address) {
  *datagram = DATAGRAM_NONE;
  if (!datagram_set_address(datagram, address)) {
    return false;
  }
  datagram->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (datagram->fd < 0) {
    return false;
  }
  (void)setsockopt(datagram->fd, SOL_SOCKET, SO_SNDBUF, &(int){ROOM}, sizeof(int)); /* otherwise it keeps the default size */
  return true;
}

void datagram_close(struct datagram *datagram) {
  if (datagram->fd >= 0) {
    close(datagram->fd);
  }
  *datagram = DATAGRAM_NONE;
}

static void datagram_attach(struct msghdr *message, void *room, size_t size, int fd) {
  message->msg_control = room;
  message->msg_controllen = size;
  struct cmsghdr *head = CMSG_FIRSTHDR(message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(head), &fd, sizeof fd);
}

bool datagram_send(const struct datagram *datagram, const struct iovec *parts, int count, int fd, bool waits) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } room = {0};
  struct sockaddr_un address = datagram->address;
  struct msghdr message = {.msg_name = &address,
                           .msg_namelen = datagram->length,
                           .msg_iov = (struct iovec *)(uintptr_t)parts,
                           .msg_iovlen = (size_t)count};
  if (fd >= 0) {
    datagram_attach(&message, &room, sizeof room, fd);
  }
  ssize_t sent;
  do {
    sent = sendmsg(datagram->fd, &message, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT));
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

static bool write_parts(int fd, const struct iovec *parts, int count) {
  for (int i = 0; i < count; i++) {
    const char *at = parts[i].iov_base;
    for (size_t left = parts[i].iov_len; left > 0;) {
      ssize_t written = write(fd, at, left);
      if (written <= 0 && errno != EINTR) {
        return false;
      }
      at += written > 0 ? written : 0;
      left -= written > 0 ? (size_t)written : 0;
    }
  }
  return true;
}

bool datagram_send_large(const struct datagram *datagram, const struct iovec *parts, int count) {
  if (datagram_send(datagram, parts, count, -1, false)) {
    return true;
  }
  if (errno != EMSGSIZE && errno != ENOBUFS) {
    return false;
  }
  int memory = memfd_create("framed:entry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  bool sent = memory >= 0 && write_parts(memory, parts, count) &&
              fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0 &&
              datagram_send(datagram, NULL, 0, memory, false);
  if (memory >= 0) {
    close(memory);
  }
  return sent;
}
