/*
 * What always holds: libmicrohttpd runs from pump() and from the end alone, so never from inside itself; and the listener
 * is polled only while another client may come in.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http_private.h"
#include "daemon/rights.h"

enum {
  TICK_MS = 1000,
  MEMORY_LIMIT = 32 * 1024,  /* a connection: request line, headers, buffers */
  ROUNDS_BEFORE_CLOSING = 8, /* of the library's state machine, for the last answers */
  LOOP_HANDLES = 4
};

/* The library reads by this function, and what a client passes would be dropped in it: the linker takes this one before libc's.
 */
ssize_t recv(int fd, void *bytes, size_t length, int flags) {
  struct iovec vector = {.iov_base = bytes, .iov_len = length};
  return flags == 0 || flags == MSG_DONTWAIT ? rights_read(fd, &vector, 1) : recvfrom(fd, bytes, length, flags, NULL, NULL);
}

/* -- connections -------------------------------------------------------------------------------------------------- */

static void connection_add(struct http *http, struct MHD_Connection *handle, void **state) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct http_connection *connection = calloc(1, sizeof *connection);
  if (!connection || !info) { /* requests on it will be refused, for they find no connection */
    free(connection);
    return;
  }
  connection->fd = info->connect_fd;
  connection->since = uv_now(http->setup.loop);
  connection->next = http->connections;
  connection->link = &http->connections;
  if (connection->next) {
    connection->next->link = &connection->next;
  }
  http->connections = connection;
  *state = connection;
}

static void on_connection(void *context, struct MHD_Connection *handle, void **state,
                          enum MHD_ConnectionNotificationCode code) {
  struct http_connection *connection = *state;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    connection_add(context, handle, state);
  } else if (connection) {
    rights_leave(connection->fd);
    *connection->link = connection->next;
    if (connection->next) {
      connection->next->link = connection->link;
    }
    free(connection);
    *state = NULL;
  }
}

/* A client that drips bytes defeats the library's idle time-out; its socket is shut and the library sees the end. */
static void shut_slow_connections(struct http *http) {
  uint64_t now = uv_now(http->setup.loop);
  for (struct http_connection *connection = http->connections; connection; connection = connection->next) {
    if (!connection->suspended && now - connection->since >= http->setup.limits.seconds * UINT64_C(1000)) {
      shutdown(connection->fd, SHUT_RDWR);
    }
  }
}

static bool has_room(struct http *http) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
  return info && info->num_connections < http->setup.limits.connections;
}

static void on_listener(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

static void update(struct http *http) {
  bool room = has_room(http);
  if (!http->accepting && room) {
    http->accepting = uv_poll_start(&http->listener, UV_READABLE, on_listener) == 0;
  } else if (http->accepting && !room) {
    uv_poll_stop(&http->listener);
    http->accepting = false;
  }
}

/* Runs the library's state machine and asks when it wants to run next. */
static void pump(struct http *http) {
  MHD_run(http->daemon);
  MHD_UNSIGNED_LONG_LONG wait_ms = 0;
  if (MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES) {
    uv_timer_start(&http->timer, on_timer, wait_ms, 0);
  } else {
    uv_timer_stop(&http->timer);
  }
}

static void on_timer(uv_timer_t *timer) {
  pump(timer->data);
  update(timer->data);
}

void http_wake(struct http *http) { uv_timer_start(&http->timer, on_timer, 0, 0); }

static void on_events(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  pump(poll->data);
  update(poll->data);
}

static void on_tick(uv_timer_t *tick) {
  struct http *http = tick->data;
  shut_slow_connections(http);
  update(http);
}

static void on_listener(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  struct http *http = poll->data;
  const struct sockaddr address = {.sa_family = AF_UNIX};
  while (has_room(http)) {
    int fd = accept4(http->setup.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      rights_refuse(fd);
      MHD_add_connection(http->daemon, fd, &address, sizeof address); /* closes it on error */
      pump(http);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      /* No descriptor or no memory: the listener stays readable, so leave it until the next tick. */
      uv_poll_stop(&http->listener);
      http->accepting = false;
      return;
    }
  }
  update(http);
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static bool start_library(struct http *http) {
  const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
  http->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_CONNECTION_LIMIT, http->setup.limits.connections,
      MHD_OPTION_CONNECTION_TIMEOUT, http->setup.limits.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_LIMIT,
      MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
  return http->daemon != NULL;
}

/* Counts the handles that were made, so that closing knows them. */
static int start_handles(struct http *http) {
  uv_loop_t *loop = http->setup.loop;
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  uv_timer_init(loop, &http->timer);
  uv_timer_init(loop, &http->tick);
  http->open_handles = 2;
  int status = info ? uv_poll_init(loop, &http->events, info->epoll_fd) : UV_EINVAL;
  if (status != 0) {
    return status;
  }
  http->open_handles = 3;
  status = uv_poll_init(loop, &http->listener, http->setup.fd);
  if (status != 0) {
    return status;
  }
  http->open_handles = LOOP_HANDLES;
  http->timer.data = http->tick.data = http->events.data = http->listener.data = http;
  status = uv_poll_start(&http->events, UV_READABLE, on_events);
  return status != 0 ? status : uv_timer_start(&http->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_handle_closed(uv_handle_t *handle) {
  struct http *http = handle->data;
  if (--http->open_handles > 0) {
    return;
  }
  MHD_stop_daemon(http->daemon);
  if (http->done) {
    http->done(http->done_context);
  }
  free(http);
}

static void close_handles(struct http *http) {
  uv_handle_t *handles[LOOP_HANDLES] = {(uv_handle_t *)&http->timer, (uv_handle_t *)&http->tick, (uv_handle_t *)&http->events,
                                        (uv_handle_t *)&http->listener};
  unsigned made = http->open_handles;
  for (unsigned i = 0; i < made; i++) {
    handles[i]->data = http;
    uv_close(handles[i], on_handle_closed);
  }
}

struct http *http_new(const struct http_setup *setup, struct failure *failure) {
  struct http *http = calloc(1, sizeof *http);
  if (!http) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "no memory for the status server");
    return NULL;
  }
  http->setup = *setup;
  if (!start_library(http)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, "see that the limit of open files (LimitNOFILE) is not reached",
                "the status server cannot start: %s", strerror(errno));
    free(http);
    return NULL;
  }
  int status = start_handles(http);
  if (status != 0) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the status server cannot listen: %s", uv_strerror(status));
    close_handles(http);
    return NULL;
  }
  update(http);
  return http;
}

void http_close(struct http *http, void (*done)(void *context), void *context) {
  http->closing = true;
  http->done = done;
  http->done_context = context;
  http_refuse_waiting(http);
  for (int i = 0; i < ROUNDS_BEFORE_CLOSING; i++) {
    MHD_run(http->daemon);
  }
  close_handles(http);
}
