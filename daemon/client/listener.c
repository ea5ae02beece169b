/* The life of a listening socket: finding or creating it, taking it over, starting to use it, closing it. A socket that systemd
 * passed is never closed. */
#include "daemon/client/private.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/base/systemd.h"
#include "daemon/state/fd_table.h"

struct listener *listener_close(struct listener *listener) {
  if (!listener) {
    return NULL;
  }
  if (listener->passed) { /* systemd keeps listening there, and passes it again only at the next start */
    fd_table_leave(listener->fd, true);
  } else if (listener->fd >= 0) {
    fd_table_leave(listener->fd, false);
    if (listener->created) {
      listener_remove_file(listener);
    }
    rights_close(listener->fd);
  }
  free(listener->path);
  free(listener);
  return NULL;
}

int listener_fd(const struct listener *listener) { return listener->fd; }
const char *listener_path(const struct listener *listener) { return listener->path; }

/* Registers the socket for the next process. */
static void listener_enter(const struct listener *listener) {
  const struct stat file = {.st_dev = listener->device, .st_ino = listener->inode};
  fd_table_listen(listener->fd, listener->path, listener->passed, &file);
}

/* Takes a listening socket that nobody uses. It comes from the previous process, with its waiting connections, or from systemd
 * for a pipeline that a reload removed. If nobody knows which file it created, the file at its path counts. */
static bool take_kept(struct listener *listener) {
  struct stat file, there;
  listener->fd = fd_table_take_listener(listener->path, NULL, 0, &listener->passed, &file);
  if (listener->fd < 0) {
    return false;
  }
  bool is_known = file.st_ino != 0 || lstat(listener->path, &there) != 0 || !S_ISSOCK(there.st_mode);
  listener->created = !listener->passed;
  listener->device = is_known ? file.st_dev : there.st_dev;
  listener->inode = is_known ? file.st_ino : there.st_ino;
  return true;
}

/* The configuration may allow other users than before. A socket file that was deleted is created again later. */
struct listener *listener_open(const char *name, const char *path, const struct config_socket_access *access,
                               struct failure *failure) {
  struct listener *listener = listener_make(path, failure);
  if (!listener) {
    return NULL;
  }
  listener->fd = systemd_take_listener(name, listener->path);
  listener->passed = listener->fd >= 0;
  bool is_there = listener->passed || take_kept(listener);
  rights_refuse(listener->fd);
  if (!is_there) {
    return listener_create(listener, access, failure) ? listener : listener_close(listener);
  }
  if (listener_has_file(listener) && !listener_set_access(listener, access, failure)) { /* the socket is used as it is */
    log_event(LOG_FAILED, name, "a socket may have other rights than the configuration says: %s", failure->text);
  }
  listener_enter(listener);
  return listener;
}

bool listener_begin(struct listener *listener, const struct config_socket_access *access, struct failure *failure) {
  listener_use(listener);
  listener_enter(listener);
  if (!listener->created || listener_has_file(listener) || (errno != 0 && errno != ENOENT)) {
    return true;
  }
  struct listener *other = listener_make(listener->path, failure);
  if (!other) {
    return false;
  }
  if (!listener_create(other, access, failure)) {
    listener_close(other);
    return false;
  }
  listener_use(other);
  listener_enter(other);
  struct listener gone = *listener;
  *listener = *other;
  *other = gone;
  other->created = false; /* the file at the path belongs to the other socket now, and stays */
  listener_close(other);
  return true;
}

/* -- a TCP address, for status only -------------------------------------------------------------------------------- */

/* Splits "host:port" in place. */
static bool split_address(char *text, char **host, char **port) {
  char *colon = strrchr(text, ':');
  if (!colon || colon == text || colon[1] == '\0') {
    return false;
  }
  *colon = '\0';
  *port = colon + 1;
  *host = text;
  size_t length = strlen(text);
  if (text[0] == '[' && text[length - 1] == ']') {
    text[length - 1] = '\0';
    *host = text + 1;
  }
  return true;
}

static struct addrinfo *listener_resolve(const char *address, struct failure *failure) {
  char *text = strdup(address);
  char *host, *port;
  struct addrinfo *result = NULL;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
  if (!text || !split_address(text, &host, &port) ||
      getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &result) != 0) {
    failure_set(failure, EXIT_STATUS_CONFIG, "write it as 127.0.0.1:9464 or [::1]:9464",
                "'%s' is not a numeric address with a port", address);
    result = NULL;
  }
  free(text);
  return result;
}

static bool bind_tcp(struct listener *listener, const struct addrinfo *target, struct failure *failure) {
  struct stat none;
  listener->fd = fd_table_take_listener(listener->path, target->ai_addr, target->ai_addrlen, &listener->passed, &none);
  if (listener->fd >= 0) {
    return true;
  }
  if (!listener_make_socket(listener, target->ai_family, failure)) {
    return false;
  }
  int on = 1;
  setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait for TIME_WAIT */
  if (bind(listener->fd, target->ai_addr, target->ai_addrlen) != 0) {
    return failure_set_system(failure, errno, "stop what uses the port, or choose another one", "cannot listen on %s",
                              listener->path);
  }
  return listener_listen(listener, failure);
}

struct listener *listener_open_tcp(const char *address, struct failure *failure) {
  struct addrinfo *target = listener_resolve(address, failure);
  if (!target) {
    return NULL;
  }
  struct listener *listener = listener_make(address, failure);
  if (listener && !bind_tcp(listener, target, failure)) {
    listener = listener_close(listener);
  } else if (listener) {
    listener_enter(listener);
  }
  freeaddrinfo(target);
  return listener;
}
