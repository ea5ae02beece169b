#include "daemon/client/handshake.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/rights.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"

enum { MOST = 64 }; /* handshakes at the same time */

struct handshake { /* a client whose HELLO is not complete */
  struct handshakes *handshakes;
  struct client client;
  struct loop_watch *watch;
  struct loop_timer *patience;
  unsigned char bytes[NATIVE_HELLO_BYTES];
  size_t count;
  struct handshake *next;
};

struct handshakes {
  struct handshakes_setup setup;
  struct handshake *pending;
  unsigned count;
  bool suspended;
};

struct handshakes *handshakes_new(const struct handshakes_setup *setup, struct failure *failure) {
  struct handshakes *handshakes = image_new(IMAGE_HANDSHAKES, sizeof *handshakes);
  if (!handshakes) {
    failure_set_memory(failure, "not enough memory to greet clients of pipeline '%s'", setup->pipeline);
    return NULL;
  }
  handshakes->setup = *setup;
  return handshakes;
}

/* -- sending ----------------------------------------------------------------------------------------------------- */

void client_send_error(const struct client *client, enum native_error_code code, const char *format, ...) {
  char text[NATIVE_ERROR];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!client->native) {
    peer_send_text(client->fd, "%s", text);
    return;
  }
  unsigned char bytes[NATIVE_ERROR_BYTES];
  size_t length = native_write_error(code, text, bytes);
  (void)!send(client->fd, bytes, length,
              MSG_DONTWAIT | MSG_NOSIGNAL); /* best effort: the client may be gone, or may never read */
}

void client_welcome(const struct client *client, const struct native_welcome *reply, const int *descriptors, size_t count) {
  unsigned char bytes[NATIVE_WELCOME_BYTES];
  _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(WELCOME_DESCRIPTORS * sizeof(int))] = {0};
  struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  struct native_welcome said = *reply;
  said.version = client->hello.version; /* both sides use the client's version from here on */
  native_write_welcome(&said, bytes);
  assert(count <= WELCOME_DESCRIPTORS);
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof *descriptors);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof *descriptors);
    memcpy(CMSG_DATA(header), descriptors, count * sizeof *descriptors);
  }
  /* The WELCOME fits, because nothing was sent on this connection before. But the kernel may refuse to pass descriptors. Then
   * both sides see the end of the connection, so nobody waits for an answer. */
  if (sendmsg(client->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof bytes) {
    shutdown(client->fd, SHUT_RDWR);
  }
}

static_assert((int)NATIVE_TEXT >= (int)FORMAT_TEXT, "a welcome has room for every format");

struct native_welcome hello_reply_of(const struct config_pipeline *config, const struct frame_format *input,
                                     const struct frame_format *output, enum native_role role) {
  struct native_welcome reply = {.role = (uint32_t)role, .transport = NATIVE_STREAM, .slots = config->slots};
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  format_bytes(input, &input_bytes);
  format_bytes(output, &output_bytes);
  reply.input_bytes = input_bytes;
  reply.output_bytes = output_bytes;
  snprintf(reply.pipeline, sizeof reply.pipeline, "%s", config->name);
  format_describe(input, reply.input_format);
  format_describe(output, reply.output_format);
  return reply;
}

const char *welcome_role_name(uint32_t role) {
  static const char *const names[] = {[NATIVE_PRODUCER] = "producer", [NATIVE_CONSUMER] = "consumer", [NATIVE_BOTH] = "both"};
  return role >= NATIVE_PRODUCER && role <= NATIVE_BOTH ? names[role] : "?";
}

const char *client_name(const struct client *client, char text[CLIENT_NAME]) {
  text[0] = '\0';
  if (client->native && client->hello.token != 0) {
    snprintf(text, CLIENT_NAME, " as client %016llx", (unsigned long long)client->hello.token);
  }
  return text;
}

/* -- clients before their HELLO ---------------------------------------------------------------------------------- */

/* Frees a handshake. The caller owns the client's descriptor from here on. */
static void handshake_forget(struct handshake *handshake) {
  struct handshake **link = &handshake->handshakes->pending;
  while (*link != handshake) {
    link = &(*link)->next;
  }
  *link = handshake->next;
  handshake->handshakes->count--;
  handshake->watch = loop_watch_close(handshake->watch);
  handshake->patience = loop_timer_close(handshake->patience);
  image_free(handshake);
}

static void handshake_refuse(struct handshake *handshake, enum native_error_code code, const char *problem) {
  struct handshakes *handshakes = handshake->handshakes;
  struct client client = handshake->client;
  client.native = true; /* the socket is native, whatever its client sends */
  handshake_forget(handshake);
  client_send_error(&client, code, "%s", problem);
  refusals_add(handshakes->setup.refusals, LOG_REFUSED, handshakes->setup.pipeline, refusals_remedy(code),
               "%s pid %d (user %u) was refused: %s", handshakes->setup.who, (int)client.pid, (unsigned)client.uid, problem);
  rights_close(client.fd);
}

static void refuse_foreign(struct handshake *handshake) {
  enum stranger other = protocol_recognise(handshake->bytes, handshake->count);
  char problem[PROTOCOL_PROBLEM];
  if (other) {
    snprintf(problem, sizeof problem, "framed's native protocol is expected here, and this is %s", stranger_names[other]);
  } else {
    snprintf(problem, sizeof problem, "a native client begins with FRMD: does it send raw frames?");
  }
  handshake_refuse(handshake, NATIVE_E_PROTOCOL, problem);
}

static void handshake_pass_on(struct handshake *handshake) {
  struct handshakes *handshakes = handshake->handshakes;
  struct client client = handshake->client;
  handshake_forget(handshake);
  handshakes->setup.on_hello(handshakes->setup.context, &client);
}

static void finish_hello(struct handshake *handshake) {
  enum native_error_code code;
  char problem[PROTOCOL_PROBLEM];
  if (native_read_hello(handshake->bytes, &handshake->client.hello, &code, problem)) {
    handshake->client.native = true;
    handshake_pass_on(handshake);
  } else {
    handshake_refuse(handshake, code, problem);
  }
}

/* The first byte distinguishes y4m producers from native ones. It stays unread, for the session. Returns true if the client was
 * passed on. */
static bool is_y4m(struct handshake *handshake) {
  unsigned char first;
  if (!handshake->handshakes->setup.y4m_too || handshake->count > 0 ||
      recv(handshake->client.fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) != sizeof first ||
      native_may_begin(&first, 1)) {
    return false;
  }
  handshake_pass_on(handshake);
  return true;
}

static void read_hello(struct handshake *handshake) {
  size_t wanted = native_hello_bytes(handshake->bytes, handshake->count) - handshake->count;
  struct iovec rest = {.iov_base = handshake->bytes + handshake->count, .iov_len = wanted};
  ssize_t got = rights_read(handshake->client.fd, &rest, 1);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got <= 0 && handshake->count == 0) {
    /* A client that hangs up without a byte only checked that the socket accepts, as monitors do. That is no refusal. */
    int fd = handshake->client.fd;
    handshake_forget(handshake);
    rights_close(fd);
    return;
  }
  if (got <= 0) {
    handshake_refuse(handshake, NATIVE_E_PROTOCOL, "it left within its HELLO");
    return;
  }
  handshake->count += (size_t)got;
  if (!native_may_begin(handshake->bytes, handshake->count)) {
    refuse_foreign(handshake);
  } else if (handshake->count == native_hello_bytes(handshake->bytes, handshake->count)) {
    finish_hello(handshake);
  }
}

static void on_handshake_readable(void *context) {
  struct handshake *handshake = context;
  if (!is_y4m(handshake)) {
    read_hello(handshake);
  }
}

static void on_impatient(void *context) { handshake_refuse(context, NATIVE_E_TIMEOUT, "it did not say HELLO in time"); }

static void handshake_start(struct handshake *handshake) {
  uint64_t patience_ms = (uint64_t)(handshake->handshakes->setup.timeout_ns / NS_PER_MS);
  loop_watch_start(handshake->watch);
  loop_timer_start(handshake->patience, patience_ms > 0 ? patience_ms : 1, 0);
}

struct client client_of(int fd, const struct peer *peer) {
  struct client client = {.fd = fd, .pid = peer->pid, .uid = peer->uid, .since = clock_now()};
  memcpy(client.process, peer->process, sizeof client.process);
  return client;
}

static struct handshake *handshake_receive(struct handshakes *handshakes, struct client client) {
  int fd = client.fd;
  struct handshake *handshake = handshakes->count < MOST ? image_new(IMAGE_HANDSHAKE, sizeof *handshake) : NULL;
  if (handshake) {
    handshake->watch = loop_watch_new(handshakes->setup.loop, fd, on_handshake_readable, handshake);
    handshake->patience = loop_timer_new(handshakes->setup.loop, on_impatient, handshake);
  }
  if (!handshake || !handshake->watch || !handshake->patience) {
    if (handshake) {
      loop_watch_close(handshake->watch);
      loop_timer_close(handshake->patience);
      image_free(handshake);
    }
    client.native = true;
    client_send_error(&client, NATIVE_E_BUSY, "too many clients are waiting to be greeted; try again later");
    refusals_add(handshakes->setup.refusals, LOG_REFUSED, handshakes->setup.pipeline,
                 "end clients that connect and say nothing, or try again later",
                 "%s pid %d (user %u) was refused: %u clients wait to be greeted", handshakes->setup.who, (int)client.pid,
                 (unsigned)client.uid, handshakes->count);
    rights_close(fd);
    return NULL;
  }
  handshake->handshakes = handshakes;
  handshake->client = client;
  handshake->next = handshakes->pending;
  handshakes->pending = handshake;
  handshakes->count++;
  if (!handshakes->suspended) {
    handshake_start(handshake);
  }
  return handshake;
}

void handshakes_receive(struct handshakes *handshakes, int fd, const struct peer *peer) {
  (void)handshake_receive(handshakes, client_of(fd, peer));
}

/* -- taking over from the previous process ----------------------------------------------------------------------------- */

bool client_adopt(struct client *client, const struct client *left) {
  bool sound = IMAGE_IS_FLAG(left->native) && image_is_time(left->since);
  *client = (struct client){.fd = -1};
  if (sound) {
    *client = *left;
    client->process[sizeof client->process - 1] = '\0';
    client->fd = fd_table_take(left->fd);
  }
  return sound;
}

void handshakes_keep(const struct handshakes *handshakes) {
  for (const struct handshake *each = handshakes ? handshakes->pending : NULL; each; each = each->next) {
    fd_table_want(each->client.fd);
  }
}

bool handshakes_left(const struct handshakes *address) {
  const struct handshakes *left = image_left_at(address, IMAGE_HANDSHAKES, sizeof *left);
  return left && left->count > 0;
}

void handshakes_adopt(struct handshakes *handshakes, const struct handshakes *address) {
  const struct handshakes *left = image_left_at(address, IMAGE_HANDSHAKES, sizeof *left);
  const struct handshake *each = left ? image_left_at(left->pending, IMAGE_HANDSHAKE, sizeof *each) : NULL;
  for (unsigned i = 0; each && i < MOST; i++) {
    struct client client;
    bool sound = client_adopt(&client, &each->client) && client.fd >= 0 && each->count < sizeof each->bytes;
    struct handshake *handshake = sound ? handshake_receive(handshakes, client) : NULL;
    if (handshake) {
      memcpy(handshake->bytes, each->bytes, sizeof handshake->bytes);
      handshake->count = each->count;
    }
    each = image_left_at(each->next, IMAGE_HANDSHAKE, sizeof *each);
  }
}

/* -- control ----------------------------------------------------------------------------------------------------- */

bool handshakes_any(const struct handshakes *handshakes) { return handshakes && handshakes->count > 0; }

void handshakes_suspend(struct handshakes *handshakes) {
  handshakes->suspended = true;
  for (struct handshake *handshake = handshakes->pending; handshake; handshake = handshake->next) {
    loop_watch_stop(handshake->watch);
    loop_timer_stop(handshake->patience);
  }
}

void handshakes_resume(struct handshakes *handshakes) {
  handshakes->suspended = false;
  for (struct handshake *handshake = handshakes->pending; handshake; handshake = handshake->next) {
    handshake_start(handshake);
  }
}

struct handshakes *handshakes_close(struct handshakes *handshakes) {
  struct handshake *next;
  for (struct handshake *handshake = handshakes ? handshakes->pending : NULL; handshake; handshake = next) {
    struct client client = handshake->client;
    client.native = true;
    next = handshake->next;
    handshake_forget(handshake);
    client_send_error(&client, NATIVE_E_STOPPING, "pipeline %s is stopping", handshakes->setup.pipeline);
    rights_close(client.fd);
  }
  return image_free(handshakes);
}
