/*
 * From a path to a client: the connection, HELLO, WELCOME, and the memory that may come with it.
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

#define CONNECT_TIMEOUT (10 * NS_PER_S)

enum { SEND_BUFFER = 512 * 1024, LARGE_FRAME = 64 * 1024, MOST_DESCRIPTORS = 8 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol is little-endian, and is copied as it lies in memory");

struct greeting {
  int64_t deadline;
  int descriptors[MOST_DESCRIPTORS];
  unsigned count;
  bool cut; /* more came than were taken */
};

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
      if (greeting->count < MOST_DESCRIPTORS) {
        greeting->descriptors[greeting->count++] = fd;
      } else {
        greeting->cut = true;
        close(fd);
      }
    }
  }
}

/* -1 with errno, 0 at the end, or as many bytes as there were. */
static ssize_t receive_some(int fd, void *bytes, size_t count, struct greeting *greeting) {
  _Alignas(struct cmsghdr) unsigned char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
  struct iovec vector = {.iov_base = bytes, .iov_len = count};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got >= 0) {
    take_descriptors(greeting, &message);
  }
  return got;
}

static bool wait_for(struct framed *client, const struct greeting *greeting) {
  struct pollfd ready = {.fd = client->fd, .events = POLLIN};
  for (;;) {
    int64_t left = greeting->deadline - framed_clock();
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

/* Until the client's message has so many bytes. */
static bool receive_until(struct framed *client, unsigned char *bytes, size_t *have, size_t wanted, struct greeting *greeting) {
  while (*have < wanted) {
    ssize_t got = receive_some(client->fd, bytes + *have, wanted - *have, greeting);
    if (got > 0) {
      *have += (size_t)got;
    } else if (got == 0 || errno == ECONNRESET) {
      return client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection before it welcomed this client");
    } else if (errno != EAGAIN && errno != EINTR) {
      return client_break(client, FRAMED_E_SYSTEM, errno, "cannot read the welcome");
    } else if (!wait_for(client, greeting)) {
      return false;
    }
  }
  return true;
}

/* -- WELCOME ---------------------------------------------------------------------------------------------------------- */

/* What a socket of another protocol says to whom it turns away: "framed: ..." and a newline. */
static bool report_sentence(struct framed *client, struct greeting *greeting) {
  char text[256];
  memcpy(text, client->message.bytes, client->message.count);
  size_t count = client->message.count;
  ssize_t got = receive_some(client->fd, text + count, sizeof text - 1 - count, greeting);
  text[count + (got > 0 ? (size_t)got : 0)] = '\0';
  if (strncmp(text, "framed: ", 8) == 0) {
    return client_break(client, FRAMED_E_DAEMON, 0, "this is no native socket: %.*s", (int)strcspn(text + 8, "\n"), text + 8);
  }
  return client_break(client, FRAMED_E_DAEMON, 0, "what listens there does not speak the native protocol of framed");
}

static bool is_welcome(const struct native_header *header) {
  return header->type == NATIVE_WELCOME && header->length == sizeof(struct native_welcome) && header->flags == 0;
}

static bool read_welcome(struct framed *client, struct native_welcome *welcome, struct greeting *greeting) {
  struct message *message = &client->message;
  struct native_header header;
  if (!receive_until(client, message->bytes, &message->count, sizeof header, greeting)) {
    return false;
  }
  memcpy(&header, message->bytes, sizeof header);
  if (header.magic != NATIVE_MAGIC) {
    return report_sentence(client, greeting);
  }
  if (!is_welcome(&header)) {
    size_t wanted = message_wanted(client);
    return wanted > 0 && receive_until(client, message->bytes, &message->count, wanted, greeting) &&
           client_told(client, message);
  }
  size_t have = 0;
  return receive_until(client, (unsigned char *)welcome, &have, sizeof *welcome, greeting);
}

static void copy_text(char to[FRAMED_NAME], const char from[NATIVE_TEXT]) {
  memcpy(to, from, FRAMED_NAME);
  to[FRAMED_NAME - 1] = '\0';
}

static bool accept_welcome(struct framed *client, const struct native_welcome *welcome, uint32_t role, uint32_t transport) {
  if (welcome->version != NATIVE_VERSION || welcome->role != role || welcome->transport > transport || welcome->slots == 0 ||
      welcome->slots > FRAMED_MAX_SLOTS || (role != NATIVE_CONSUMER && welcome->input_bytes == 0) ||
      welcome->output_bytes == 0 || welcome->input_bytes > SIZE_MAX / 4 || welcome->output_bytes > SIZE_MAX / 4) {
    return client_break(client, FRAMED_E_DAEMON, 0,
                        "the welcome makes no sense: version %u, role %u, transport %u, %u slots, %llu and %llu bytes",
                        welcome->version, welcome->role, welcome->transport, welcome->slots,
                        (unsigned long long)welcome->input_bytes, (unsigned long long)welcome->output_bytes);
  }
  struct framed_info *info = &client->info;
  info->role = (int)welcome->role;
  info->transport = (int)welcome->transport;
  info->slots = welcome->slots;
  info->input_bytes = (size_t)welcome->input_bytes;
  info->output_bytes = (size_t)welcome->output_bytes;
  info->session = welcome->session;
  copy_text(info->pipeline, welcome->pipeline);
  copy_text(info->input_format, welcome->input_format);
  copy_text(info->output_format, welcome->output_format);
  return true;
}

static bool open_transport(struct framed *client, const struct native_welcome *welcome, const struct greeting *greeting) {
  unsigned promised = welcome->transport == NATIVE_SHARED ? SHARED_DESCRIPTORS : 0;
  if (greeting->cut && greeting->count < promised) {
    return client_break(client, FRAMED_E_SYSTEM, EMFILE, "no descriptors are left for the memory of pipeline %s",
                        client->info.pipeline);
  }
  if (greeting->cut || greeting->count != promised) {
    return client_break(client, FRAMED_E_DAEMON, 0, "%u descriptors came with the welcome, where %u should", greeting->count,
                        promised);
  }
  return promised > 0 ? shared_open(client, welcome, greeting->descriptors) : stream_open(client);
}

/* -- connecting ------------------------------------------------------------------------------------------------------- */

static bool connect_to(struct framed *client, const char *path, int64_t timeout_ns) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    return client_break(client, FRAMED_E_USAGE, ENAMETOOLONG, "the path of a socket has at most %zu bytes",
                        sizeof address.sun_path - 1);
  }
  memcpy(address.sun_path, path, strlen(path));
  client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client->fd < 0) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "cannot make a socket");
  }
  /* How long connect() may wait for its turn; everything later asks not to wait. */
  const struct timeval patience = {.tv_sec = timeout_ns / NS_PER_S, .tv_usec = timeout_ns % NS_PER_S / 1000 + 1};
  setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(client->fd, (const struct sockaddr *)&address, sizeof address) != 0) {
    return client_break(client, errno == EAGAIN ? FRAMED_E_TIMEOUT : FRAMED_E_SYSTEM, errno, "cannot connect to %s", path);
  }
  return true;
}

static bool say_hello(struct framed *client, uint32_t role, uint32_t transport) {
  struct {
    struct native_header header;
    struct native_hello hello;
  } hello = {{.magic = NATIVE_MAGIC, .type = NATIVE_HELLO, .length = sizeof hello.hello},
             {.version = NATIVE_VERSION, .role = role, .transport = transport}};
  if (send(client->fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello && errno != EPIPE) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "cannot say hello");
  }
  return true; /* a daemon that closed the connection may have said why */
}

static bool greet(struct framed *client, const char *path, uint32_t role, uint32_t transport, int64_t timeout_ns) {
  struct greeting greeting = {.deadline = framed_clock() + timeout_ns};
  struct native_welcome welcome = {0};
  bool fine = connect_to(client, path, timeout_ns) && say_hello(client, role, transport) &&
              read_welcome(client, &welcome, &greeting) && accept_welcome(client, &welcome, role, transport) &&
              open_transport(client, &welcome, &greeting);
  for (unsigned i = 0; i < greeting.count; i++) {
    close(greeting.descriptors[i]);
  }
  client->message.count = 0;
  if (fine && client->info.transport == FRAMED_STREAM && client->info.input_bytes > LARGE_FRAME) {
    const int size = SEND_BUFFER; /* fewer and larger pieces; the system may give less */
    setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
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
  client->fd = -1;
  client->spin_ns = options->spin_ns;
  uint32_t role = options->role != 0 ? (uint32_t)options->role : NATIVE_BOTH;
  int64_t timeout_ns = options->connect_timeout_ns > 0 ? options->connect_timeout_ns : CONNECT_TIMEOUT;
  if (!check_options(client, options) ||
      !greet(client, path, role, options->stream_only ? NATIVE_STREAM : NATIVE_SHARED, timeout_ns)) {
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
  region_drop(&client->inputs);
  region_drop(&client->outputs);
  region_drop(&client->control);
  free(client);
  return NULL;
}
