/* Listening at an address of TCP, for status alone. */
#include "daemon/client/listener_private.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/state/fd_store.h"

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

static struct addrinfo *resolve(const char *address, struct failure *failure) {
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
  listener->fd = fd_store_take_listener_at(target->ai_addr, target->ai_addrlen);
  if (listener->fd >= 0) {
    return true;
  }
  if (!listener_make_socket(listener, target->ai_family, failure)) {
    return false;
  }
  int on = 1;
  setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait for TIME_WAIT */
  if (bind(listener->fd, target->ai_addr, target->ai_addrlen) != 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "stop what uses the port, or choose another one", "cannot listen on %s: %s",
                       listener->path, strerror(errno));
  }
  return listener_listen(listener, failure);
}

struct listener *listener_open_tcp(const char *address, struct failure *failure) {
  struct addrinfo *target = resolve(address, failure);
  if (!target) {
    return NULL;
  }
  struct listener *listener = listener_make(address, failure);
  if (listener && !bind_tcp(listener, target, failure)) {
    listener = listener_close(listener);
  }
  freeaddrinfo(target);
  return listener;
}
