/*
 * What always holds: libmicrohttpd runs from pump() and from the end alone, so never from inside itself; and the listener
 * is polled unless there was no descriptor for another client, or no place that another one gives up already.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/status/private.h"

enum {
  TICK_MS = 1000,
  WAIT_MS = 50,              /* until there may be a place again */
  MEMORY_LIMIT = 32 * 1024,  /* a connection: request line, headers, buffers */
  ROUNDS_BEFORE_CLOSING = 8, /* of the library's state machine, for the last answers */
  ACCEPTS_A_TURN = 64,
  SPARE = 2, /* the library may not have closed yet what gave way */
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
  if (!connection || !info) { /* requests on this connection are refused later, since they find no record of it */
    free(connection);
    return;
  }
  connection->fd = info->connect_fd;
  connection->client = http->newcomer;
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

static void on_listener(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

static void listen_again(struct http *http) {
  http->accepting = http->accepting || uv_poll_start(&http->listener, UV_READABLE, on_listener) == 0;
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

static void on_timer(uv_timer_t *timer) { pump(timer->data); }

static void on_events(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  pump(poll->data);
}

static void on_tick(uv_timer_t *tick) {
  struct http *http = tick->data;
  http_shut_slow(http);
  http_refuse_gone(http);
  listen_again(http);
}

/* Best effort: the client may have gone, or be something that never reads. */
static void http_turn_away(int fd) {
  static const char body[] =
      "{\"error\": \"your other requests take all your places\", \"remedy\": \"let some of them end\"}\n";
  char answer[sizeof body + 160];
  int length = snprintf(answer, sizeof answer,
                        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                        "Connection: close\r\n\r\n%s",
                        sizeof body - 1, body);
  (void)!send(fd, answer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
  rights_close(fd);
}

static void let_in(struct http *http, int fd, const struct sockaddr_storage *address, socklen_t length) {
  http_identify(fd, address, &http->newcomer);
  if (!http_find_place(http, &http->newcomer)) {
    http_turn_away(fd);
    return;
  }
  MHD_add_connection(http->daemon, fd, (const struct sockaddr *)address, length); /* closes it on error */
  pump(http);
}

static void stop_listening(struct http *http) {
  uv_poll_stop(&http->listener);
  http->accepting = false;
}

static void on_listener(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  struct http *http = poll->data;
  pump(http); /* what has asked by now gives no place up */
  for (int i = 0; i < ACCEPTS_A_TURN; i++) {
    if (http_must_wait(http)) {
      stop_listening(http);
      uv_timer_start(&http->tick, on_tick, WAIT_MS, TICK_MS);
      return;
    }
    struct sockaddr_storage address = {.ss_family = AF_UNIX};
    socklen_t length = sizeof address;
    int fd = accept4(http->setup.fd, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      rights_refuse(fd);
      let_in(http, fd, &address, length);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      /* No descriptor or no memory: the listener stays readable, so leave it until the next tick. */
      stop_listening(http);
      return;
    }
  }
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static bool start_library(struct http *http) {
  const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
  http->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_CONNECTION_LIMIT, SPARE * http->setup.limits.connections,
      MHD_OPTION_CONNECTION_TIMEOUT, http->setup.limits.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_LIMIT,
      MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
  return http->daemon != NULL;
}

/* Starts the loop's handles and counts those that were made, so that closing knows which to close. */
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

static void http_close_handles(struct http *http) {
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
    failure_set_memory(failure, "no memory for the status server");
    return NULL;
  }
  http->setup = *setup;
  http->on_timer = on_timer;
  if (!start_library(http)) {
    failure_set_system(failure, errno, "see that the limit of open files (LimitNOFILE) is not reached",
                       "the status server cannot start");
    free(http);
    return NULL;
  }
  int status = start_handles(http);
  if (status != 0) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the status server cannot listen: %s", uv_strerror(status));
    http_close_handles(http);
    return NULL;
  }
  listen_again(http);
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
  http_close_handles(http);
}
