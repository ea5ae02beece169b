/*
 * From a path to a client: the connection, HELLO, WELCOME, and the memory that may come with it. A greeting goes step by step,
 * so that a client that connects again need not wait within a step.
 *
 * Exactly the bytes of WELCOME are read, since results may follow them. Descriptors are taken as they come, and closed
 * again unless they are just what was promised.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/client/client.h"

#define PATIENCE (10 * NS_PER_S) /* of whoever says nothing else */
#define US_PER_S INT64_C(1000000)

enum { SEND_BUFFER = 512 * 1024, LARGE_FRAME = 64 * 1024 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol is little-endian, and is copied as it lies in memory");

/* -- reading what is awaited ------------------------------------------------------------------------------------------ */

static void take_descriptors(struct greeting *greeting, struct msghdr *message) {
  greeting->cut |= (message->msg_flags & MSG_CTRUNC) != 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (greeting->descriptor_count < MOST_DESCRIPTORS) {
        greeting->descriptors[greeting->descriptor_count++] = fd;
      } else {
        greeting->cut = true;
        close(fd);
      }
    }
  }
}

/* -1 with errno, 0 at the end, or as many bytes as there were. */
static ssize_t receive_some(struct framed *client, void *bytes, size_t count) {
  _Alignas(struct cmsghdr) unsigned char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
  struct iovec vector = {.iov_base = bytes, .iov_len = count};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  ssize_t got = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got >= 0) {
    take_descriptors(&client->greeting, &message);
  }
  return got;
}

/* Until so many bytes are there. */
static enum step receive_until(struct framed *client, unsigned char *bytes, size_t *have, size_t wanted) {
  while (*have < wanted) {
    ssize_t got = receive_some(client, bytes + *have, wanted - *have);
    if (got > 0) {
      *have += (size_t)got;
    } else if (got == 0 || errno == ECONNRESET) {
      client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection before it welcomed this client");
      return STEP_FAILED;
    } else if (errno == EAGAIN) {
      return STEP_WAIT;
    } else if (errno != EINTR) {
      client_break(client, FRAMED_E_SYSTEM, errno, "cannot read the welcome");
      return STEP_FAILED;
    }
  }
  return STEP_DONE;
}

/* -- WELCOME ---------------------------------------------------------------------------------------------------------- */

/* What a socket of another protocol says to whom it turns away: "framed: ..." and a newline. */
static enum step report_sentence(struct framed *client) {
  char text[256];
  memcpy(text, client->message.bytes, client->message.count);
  size_t count = client->message.count;
  ssize_t got = receive_some(client, text + count, sizeof text - 1 - count);
  text[count + (got > 0 ? (size_t)got : 0)] = '\0';
  if (strncmp(text, "framed: ", 8) == 0) {
    client_break(client, FRAMED_E_DAEMON, 0, "this is no native socket: %.*s", (int)strcspn(text + 8, "\n"), text + 8);
  } else {
    client_break(client, FRAMED_E_DAEMON, 0, "what listens there does not speak the native protocol of framed");
  }
  return STEP_FAILED;
}

static bool is_welcome(const struct native_header *header) {
  return header->type == NATIVE_WELCOME && header->length == sizeof(struct native_welcome) && header->flags == 0;
}

/* Anything but a WELCOME is an ERROR, or nothing that may come. */
static enum step read_refusal(struct framed *client) {
  struct message *message = &client->message;
  size_t wanted = message_wanted(client);
  if (wanted > 0 && message_type(client) != NATIVE_ERROR_SAID) {
    client_break(client, FRAMED_E_DAEMON, 0, "a message of type %d came where a welcome was due", (int)message_type(client));
    return STEP_FAILED;
  }
  enum step step = wanted > 0 ? receive_until(client, message->bytes, &message->count, wanted) : STEP_FAILED;
  if (step == STEP_DONE) {
    client_told(client, message);
    return STEP_FAILED;
  }
  return step;
}

static enum step read_welcome(struct framed *client) {
  struct message *message = &client->message;
  struct greeting *greeting = &client->greeting;
  struct native_header header;
  if (message->count < sizeof header) {
    enum step step = receive_until(client, message->bytes, &message->count, sizeof header);
    if (step != STEP_DONE) {
      return step;
    }
  }
  memcpy(&header, message->bytes, sizeof header);
  if (header.magic != NATIVE_MAGIC) {
    return report_sentence(client);
  }
  if (!is_welcome(&header)) {
    return read_refusal(client);
  }
  return receive_until(client, (unsigned char *)&greeting->welcome, &greeting->count, sizeof greeting->welcome);
}

static uint32_t role_of(const struct framed *client) { return (uint32_t)client->info.role; }

static bool makes_sense(const struct framed *client, const struct native_welcome *welcome) {
  uint32_t role = role_of(client);
  return welcome->version == NATIVE_VERSION && welcome->role == role &&
         welcome->transport <= (uint32_t)client->info.transport && welcome->slots > 0 && welcome->slots <= FRAMED_MAX_SLOTS &&
         (role == NATIVE_CONSUMER || welcome->input_bytes > 0) && welcome->output_bytes > 0 &&
         welcome->input_bytes <= SIZE_MAX / 4 && welcome->output_bytes <= SIZE_MAX / 4;
}

static bool check_welcome(struct framed *client) {
  const struct greeting *greeting = &client->greeting;
  const struct native_welcome *welcome = &greeting->welcome;
  unsigned lent = welcome->role == NATIVE_CONSUMER ? SHARED_DESCRIPTORS - 1 : SHARED_DESCRIPTORS;
  unsigned promised = welcome->transport == NATIVE_SHARED ? lent : 0;
  if (!makes_sense(client, welcome)) {
    return client_break(client, FRAMED_E_DAEMON, 0,
                        "the welcome makes no sense: version %u, role %u, transport %u, %u slots, %llu and %llu bytes",
                        welcome->version, welcome->role, welcome->transport, welcome->slots,
                        (unsigned long long)welcome->input_bytes, (unsigned long long)welcome->output_bytes);
  }
  if (greeting->cut && greeting->descriptor_count < promised) {
    return client_break(client, FRAMED_E_SYSTEM, EMFILE, "no descriptors are left for the memory of pipeline %.*s", FRAMED_NAME,
                        welcome->pipeline);
  }
  if (greeting->cut || greeting->descriptor_count != promised) {
    return client_break(client, FRAMED_E_DAEMON, 0, "%u descriptors came with the welcome, where %u should",
                        greeting->descriptor_count, promised);
  }
  return true;
}

enum step greeting_step(struct framed *client) {
  enum step step = read_welcome(client);
  return step == STEP_DONE && !check_welcome(client) ? STEP_FAILED : step;
}

void greeting_end(struct framed *client) {
  for (unsigned i = 0; i < client->greeting.descriptor_count; i++) {
    close(client->greeting.descriptors[i]);
  }
  client->greeting = (struct greeting){0};
  client->message.count = 0;
}

/* -- connecting ------------------------------------------------------------------------------------------------------- */

static bool set_path(struct framed *client, const char *path) {
  client->address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof client->address.sun_path) {
    return client_break(client, FRAMED_E_USAGE, ENAMETOOLONG, "the path of a socket has at most %zu bytes",
                        sizeof client->address.sun_path - 1);
  }
  memcpy(client->address.sun_path, path, strlen(path));
  return true;
}

/* connect() waits for its turn, and a signal ends that. False with errno, EAGAIN if the turn did not come. */
static bool take_turn(const struct framed *client, int64_t deadline) {
  const struct sockaddr_un *address = &client->address;
  bool connected, interrupted;
  do {
    int64_t us = (deadline - framed_clock()) / 1000 + 1;
    const struct timeval patience = {.tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S};
    if (deadline != 0 && us <= 0) {
      errno = EAGAIN;
      return false;
    }
    if (deadline != 0 && setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
      return false;
    }
    connected = connect(client->fd, (const struct sockaddr *)address, sizeof *address) == 0;
    interrupted = !connected && errno == EINTR;
  } while (interrupted);
  return connected;
}

static bool connect_to(struct framed *client, int64_t deadline) {
  client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (deadline != 0 ? 0 : SOCK_NONBLOCK), 0);
  if (client->fd < 0) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "cannot make a socket");
  }
  if (!take_turn(client, deadline)) {
    return client_break(client, errno == EAGAIN ? FRAMED_E_TIMEOUT : FRAMED_E_SYSTEM, errno, "cannot connect to %s",
                        client->address.sun_path);
  }
  return true;
}

/* A client that does not connect again has nothing to say that daemons of before did not know. */
static bool say_hello(struct framed *client) {
  struct {
    struct native_header header;
    struct native_hello hello;
  } hello = {{.magic = NATIVE_MAGIC, .type = NATIVE_HELLO},
             {.version = NATIVE_VERSION, .role = role_of(client), .transport = (uint32_t)client->info.transport}};
  if (client->keeps) {
    hello.hello.flags = client->info.role == FRAMED_CONSUMER ? 0 : NATIVE_HELLO_ACKS;
    hello.hello.token = client->reconnect.token;
  }
  hello.header.length = client->keeps ? sizeof hello.hello : offsetof(struct native_hello, token);
  size_t bytes = sizeof hello.header + (size_t)hello.header.length;
  if (send(client->fd, &hello, bytes, MSG_NOSIGNAL) != (ssize_t)bytes && errno != EPIPE) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "cannot say hello");
  }
  return true; /* a daemon that closed the connection may have said why */
}

bool greeting_begin(struct framed *client, int64_t deadline) {
  client->greeting = (struct greeting){0};
  client->message.count = 0;
  return connect_to(client, deadline) && say_hello(client);
}

void connection_tune(const struct framed *client) {
  const int size = SEND_BUFFER; /* fewer and larger pieces; the system may give less */
  if (client->info.transport == FRAMED_STREAM && client->info.input_bytes > LARGE_FRAME) {
    setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
}

/* -- the first time --------------------------------------------------------------------------------------------------- */

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

static bool open_client(struct framed *client, const char *path, int64_t reconnect_for_ns) {
  int64_t deadline = framed_after(framed_clock(), client->timeout_ns);
  bool fine = set_path(client, path) && reconnect_open(client, reconnect_for_ns) && greet(client, deadline);
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

struct framed *framed_connect(const char *path, const struct framed_options *options, struct framed_error *error) {
  const struct framed_options defaults = {0};
  struct framed *client = calloc(1, sizeof *client);
  if (!client) {
    say_no_memory(error);
    return NULL;
  }
  options = options ? options : &defaults;
  client->fd = client->reconnect.descriptor = client->reconnect.timer = -1;
  client->spin_ns = options->spin_ns;
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
