/* Creates and frees a client: options, the first greeting, which the caller waits for, and the choice of transport. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/client/adopt.h"
#include "tools/client/client.h"

#define PATIENCE (10 * NS_PER_S) /* the default timeout */

static bool set_path(struct framed *client, const char *path) {
  client->address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof client->address.sun_path) {
    return client_break(client, FRAMED_E_USAGE, ENAMETOOLONG, "the path of a socket has at most %zu bytes",
                        sizeof client->address.sun_path - 1);
  }
  memcpy(client->address.sun_path, path, strlen(path));
  return true;
}

static bool wait_for(struct framed *client, int64_t deadline) {
  struct pollfd ready = {.fd = client->fd, .events = POLLIN};
  for (;;) {
    int64_t left = deadline - framed_clock();
    if (left <= 0) {
      return client_break(client, FRAMED_E_TIMEOUT, ETIMEDOUT, "no welcome came; does the socket speak the native protocol?");
    }
    const struct timespec timeout = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
    int count = ppoll(&ready, 1, &timeout, NULL);
    if (count > 0) {
      return true;
    }
    if (count < 0 && errno != EINTR) {
      return client_break(client, FRAMED_E_SYSTEM, errno, "cannot wait for the welcome");
    }
  }
}

static bool greet(struct framed *client, int64_t deadline) {
  enum step step = greeting_begin(client, deadline) ? greeting_step(client) : STEP_FAILED;
  while (step == STEP_WAIT) {
    step = wait_for(client, deadline) ? greeting_step(client) : STEP_FAILED;
  }
  return step == STEP_DONE;
}

static void copy_text(char to[FRAMED_NAME], const char from[NATIVE_TEXT]) {
  memcpy(to, from, FRAMED_NAME);
  to[FRAMED_NAME - 1] = '\0';
}

static void take_info(struct framed *client) {
  const struct native_welcome *welcome = &client->greeting.welcome;
  struct framed_info *info = &client->info;
  info->transport = (int)welcome->transport;
  info->slots = welcome->slots;
  info->input_bytes = (size_t)welcome->input_bytes;
  info->output_bytes = (size_t)welcome->output_bytes;
  info->session = welcome->session;
  copy_text(info->pipeline, welcome->pipeline);
  copy_text(info->input_format, welcome->input_format);
  copy_text(info->output_format, welcome->output_format);
}

/* `path` is NULL if the client has its connection already, and cannot connect again. */
static bool open_client(struct framed *client, const char *path, int64_t reconnect_for_ns) {
  int64_t deadline = framed_after(framed_clock(), client->timeout_ns);
  bool fine = (!path || (set_path(client, path) && reconnect_open(client, reconnect_for_ns))) && greet(client, deadline);
  if (fine) {
    take_info(client);
    client->transport = client->info.transport == FRAMED_SHARED ? &shared_transport : &stream_transport;
    connection_tune(client);
    fine = client->transport->open(client) && client->transport->resume(client);
  }
  greeting_end(client);
  return fine;
}

static bool check_options(struct framed *client, const struct framed_options *options) {
  for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++) {
    if (options->reserved[i] != 0) {
      return client_break(client, FRAMED_E_USAGE, EINVAL, "an option is set that this version of libframed does not know");
    }
  }
  if (options->role < 0 || options->role > FRAMED_BOTH || options->spin_ns < 0 || options->connect_timeout_ns < 0) {
    return client_break(client, FRAMED_E_USAGE, EINVAL, "an option is out of its range");
  }
  return true;
}

static void say_no_memory(struct framed_error *error) {
  if (error) {
    *error = (struct framed_error){.code = FRAMED_E_SYSTEM, .system = ENOMEM, .text = "no memory for a client"};
  }
}

/* Takes `fd`, also on failure; -1: connects to `path`. */
static struct framed *client_new(const char *path, int fd, const struct framed_options *options, struct framed_error *error) {
  const struct framed_options defaults = {0};
  struct framed *client = calloc(1, sizeof *client);
  if (!client) {
    say_no_memory(error);
    return NULL;
  }
  options = options ? options : &defaults;
  client->fd = fd;
  client->reconnect.descriptor = client->reconnect.timer = -1;
  client->spin_ns = options->spin_ns;
  client->fates = options->fates != 0;
  client->info.role = options->role != 0 ? options->role : FRAMED_BOTH;
  client->info.transport = options->stream_only ? FRAMED_STREAM : FRAMED_SHARED;
  client->timeout_ns = options->connect_timeout_ns > 0 ? options->connect_timeout_ns : PATIENCE;
  int64_t reconnect_for_ns = options->reconnect_for_ns != 0 ? options->reconnect_for_ns : PATIENCE;
  if (!check_options(client, options) || !open_client(client, path, reconnect_for_ns)) {
    if (error) {
      *error = client->problem;
    }
    return framed_close(client);
  }
  if (error) {
    *error = (struct framed_error){0};
  }
  return client;
}

struct framed *framed_connect(const char *path, const struct framed_options *options, struct framed_error *error) {
  return client_new(path, -1, options, error);
}

struct framed *framed_adopt(int fd, const struct framed_options *options, struct framed_error *error) {
  return client_new(NULL, fd, options, error);
}

struct framed *framed_close(struct framed *client) {
  if (!client) {
    return NULL;
  }
  if (client->fd >= 0) {
    close(client->fd);
  }
  reconnect_close(client);
  greeting_end(client);
  lot_free(client->lot);
  free(client);
  return NULL;
}
