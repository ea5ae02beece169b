/*
 * The greeting: connecting, HELLO, WELCOME, and the descriptors of shared memory. It proceeds in steps, so that a reconnecting
 * client never waits.
 *
 * Only the bytes of WELCOME are read, since results may follow. Descriptors are accepted as they come, and closed unless their
 * number matches.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/client/client.h"

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

/* Returns -1 with errno, 0 at the end, or the number of bytes read. */
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

/* Reads until `have` reaches `wanted`. */
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

/* Reads the refusal of a socket with another protocol: "framed: ..." and a newline. */
static enum step report_sentence(struct framed *client) {
  char text[256];
  memcpy(text, client->message.bytes, client->message.count);
  size_t count = client->message.count;
  ssize_t got = receive_some(client, text + count, sizeof text - 1 - count);
  text[count + (got > 0 ? (size_t)got : 0)] = '\0';
  if (strncmp(text, "framed: ", 8) == 0) {
    client_break(client, FRAMED_E_DAEMON, 0, "this is no native socket: %.*s", (int)strcspn(text + 8, "\n"), text + 8);
  } else {
    client_break(client, FRAMED_E_DAEMON, 0, "the listener does not speak the native protocol of framed");
  }
  return STEP_FAILED;
}

static bool is_welcome(const struct native_header *header) {
  return header->type == NATIVE_WELCOME && header->length == sizeof(struct native_welcome) && header->flags == 0;
}

/* Reads an ERROR. Any other message is a violation of the protocol. */
static enum step read_refusal(struct framed *client) {
  struct message *message = &client->message;
  size_t wanted = message_wanted(client);
  if (wanted > 0 && message_type(client) != NATIVE_ERROR_SAID) {
    client_break(client, FRAMED_E_DAEMON, 0, "a message of type %d came where a welcome was due", (int)message_type(client));
    return STEP_FAILED;
  }
  enum step step = wanted > 0 ? receive_until(client, message->bytes, &message->count, wanted) : STEP_FAILED;
  if (step == STEP_DONE) {
    client_break_by_error(client, message);
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
  return welcome->role == role && welcome->transport <= (uint32_t)client->info.transport && welcome->slots > 0 &&
         welcome->slots <= FRAMED_MAX_SLOTS && (role == NATIVE_CONSUMER || welcome->input_bytes > 0) &&
         welcome->output_bytes > 0 && welcome->input_bytes <= SIZE_MAX / 4 && welcome->output_bytes <= SIZE_MAX / 4;
}

static bool check_welcome(struct framed *client) {
  const struct greeting *greeting = &client->greeting;
  const struct native_welcome *welcome = &greeting->welcome;
  unsigned descriptors = welcome->role == NATIVE_CONSUMER ? SHARED_DESCRIPTORS - 1 : SHARED_DESCRIPTORS;
  unsigned promised = welcome->transport == NATIVE_SHARED ? descriptors : 0;
  if (welcome->version != NATIVE_VERSION) { /* first, since other fields may differ between versions */
    return client_break(
        client, FRAMED_E_DAEMON, 0,
        "the daemon speaks version %u of the protocol, this libframed version %d: use the libframed of the daemon's version",
        welcome->version, NATIVE_VERSION);
  }
  if (!makes_sense(client, welcome)) {
    return client_break(client, FRAMED_E_DAEMON, 0,
                        "the welcome makes no sense: role %u, transport %u, %u slots, %llu and %llu bytes", welcome->role,
                        welcome->transport, welcome->slots, (unsigned long long)welcome->input_bytes,
                        (unsigned long long)welcome->output_bytes);
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

/* connect() waits for the listener, and a signal interrupts it. False with errno; EAGAIN after the deadline. */
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

/* Sends the short HELLO unless the client reconnects, so that older daemons accept it. */
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
  return true; /* a daemon that closed the connection may have sent the reason */
}

bool greeting_begin(struct framed *client, int64_t deadline) {
  client->greeting = (struct greeting){0};
  client->message.count = 0;
  bool connected = client->fd >= 0; /* adopted */
  return (connected || connect_to(client, deadline)) && say_hello(client);
}

void connection_tune(const struct framed *client) {
  const int size = SEND_BUFFER; /* larger writes are faster; the system may grant less */
  if (client->info.transport == FRAMED_STREAM && client->info.input_bytes > LARGE_FRAME) {
    setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
}
