#include "tests/unit/libframed/fake.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void fake_open(struct fake *fake, int role, int transport) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  *fake = (struct fake){.options = {.role = role, .stream_only = transport == FRAMED_STREAM, .reconnect_for_ns = -1},
                        .welcome = {.version = NATIVE_VERSION,
                                    .role = (uint32_t)role,
                                    .transport = (uint32_t)transport,
                                    .slots = FAKE_SLOTS,
                                    .input_bytes = FAKE_INPUT,
                                    .output_bytes = FAKE_OUTPUT,
                                    .session = 77,
                                    .pipeline = "cam0",
                                    .input_format = "gray 10x10",
                                    .output_format = "gray 20x10"},
                        .type = NATIVE_WELCOME,
                        .fd = -1};
  if (transport == FRAMED_SHARED) {
    fake->welcome.input_stride = fake->welcome.output_stride = FAKE_STRIDE;
    fake->welcome.control_bytes = NATIVE_CONTROL;
    fake->descriptors = role == FRAMED_CONSUMER ? SHARED_DESCRIPTORS - 1 : SHARED_DESCRIPTORS;
  }
  snprintf(fake->folder, sizeof fake->folder, "/tmp/framed-unit-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(fake->folder));
  snprintf(fake->path, sizeof fake->path, "%s/socket", fake->folder);
  memcpy(address.sun_path, fake->path, sizeof fake->path);
  fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ck_assert_int_eq(bind(fake->listener, (const struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(fake->listener, 1), 0);
  for (int i = 0; i < SHARED_DESCRIPTORS; i++) {
    fake->memory[i] = -1;
  }
}

/* -- memory ------------------------------------------------------------------------------------------------------------ */

static void *make_memory(struct fake *fake, unsigned which, size_t bytes) {
  fake->memory[which] = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ck_assert_int_ge(fake->memory[which], 0);
  ck_assert_int_eq(ftruncate(fake->memory[which], (off_t)(bytes - fake->shorter[which])), 0);
  if (!fake->unsealed) {
    ck_assert_int_eq(fcntl(fake->memory[which], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fake->memory[which], 0);
  ck_assert_ptr_ne(base, MAP_FAILED);
  return base;
}

static void make_all_memory(struct fake *fake) {
  fake->input = make_memory(fake, SHARED_INPUT, FAKE_SLOTS * FAKE_STRIDE);
  fake->output = make_memory(fake, SHARED_OUTPUT, FAKE_SLOTS * FAKE_STRIDE);
  fake->control = make_memory(fake, SHARED_CONTROL, NATIVE_CONTROL);
}

/* -- the greeting ------------------------------------------------------------------------------------------------------ */

static void say_welcome(struct fake *fake) {
  struct {
    struct native_header header;
    struct native_welcome welcome;
  } said = {{.magic = NATIVE_MAGIC, .type = fake->type, .length = sizeof said.welcome}, fake->welcome};
  _Alignas(struct cmsghdr) unsigned char room[CMSG_SPACE(16 * sizeof(int))] = {0};
  struct iovec vector = {.iov_base = &said, .iov_len = fake->cut > 0 ? fake->cut : sizeof said};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  if (fake->descriptors > 0) {
    int descriptors[16];
    unsigned first = fake->welcome.role == NATIVE_CONSUMER ? SHARED_OUTPUT : SHARED_INPUT;
    for (unsigned i = 0; i < fake->descriptors; i++) {
      descriptors[i] = fake->memory[(first + i) % SHARED_DESCRIPTORS];
    }
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(fake->descriptors * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fake->descriptors * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, fake->descriptors * sizeof(int));
  }
  ck_assert_int_eq(sendmsg(fake->fd, &message, MSG_NOSIGNAL), (ssize_t)vector.iov_len);
}

static void read_hello(struct fake *fake) {
  struct native_header header;
  fake_read(fake, &header, sizeof header);
  fake->hello = (struct native_hello){0};
  fake_read(fake, &fake->hello, (size_t)header.length);
}

static void *greet(void *argument) {
  struct fake *fake = argument;
  fake->fd = accept(fake->listener, NULL, NULL);
  read_hello(fake);
  if (fake->error != 0) {
    fake_error(fake, fake->error, fake->text);
  } else if (fake->text) {
    fake_send(fake, fake->text, strlen(fake->text));
  } else if (!fake->silent) {
    say_welcome(fake);
  }
  if (fake->text) {
    shutdown(fake->fd, SHUT_RDWR);
  }
  return NULL;
}

struct framed *fake_connect(struct fake *fake) {
  pthread_t thread;
  make_all_memory(fake);
  ck_assert_int_eq(pthread_create(&thread, NULL, greet, fake), 0);
  struct framed *client = framed_connect(fake->path, &fake->options, &fake->problem);
  pthread_join(thread, NULL);
  return client;
}

struct framed *fake_client(struct fake *fake, int role, int transport) {
  fake_open(fake, role, transport);
  struct framed *client = fake_connect(fake);
  ck_assert_msg(client != NULL, "%s", fake->problem.text);
  return client;
}

/* -- another life ------------------------------------------------------------------------------------------------------ */

static void drop_memory(struct fake *fake) {
  for (int i = 0; i < SHARED_DESCRIPTORS; i++) {
    if (fake->memory[i] >= 0) {
      close(fake->memory[i]);
    }
    fake->memory[i] = -1;
  }
  if (fake->control) {
    munmap(fake->input, FAKE_SLOTS * FAKE_STRIDE);
    munmap(fake->output, FAKE_SLOTS * FAKE_STRIDE);
    munmap(fake->control, NATIVE_CONTROL);
  }
  fake->control = NULL;
}

void fake_die(struct fake *fake) {
  if (fake->fd >= 0) {
    close(fake->fd);
  }
  fake->fd = -1;
  drop_memory(fake);
}

void fake_accept(struct fake *fake, struct framed *client) {
  struct pollfd ready = {.fd = fake->listener, .events = POLLIN};
  while (poll(&ready, 1, 0) == 0) {
    ck_assert_int_ge(framed_poll(client, 0, 1000000), 0);
  }
  fake->fd = accept(fake->listener, NULL, NULL);
  read_hello(fake);
}

void fake_welcome(struct fake *fake) {
  make_all_memory(fake);
  say_welcome(fake);
}

void fake_return(struct fake *fake, struct framed *client) {
  fake_accept(fake, client);
  fake->welcome.session++;
  fake_welcome(fake);
  ck_assert_int_ge(framed_poll(client, 0, 0), 0);
}

void *fake_submit(struct framed *client, uint64_t sequence) {
  void *frame = framed_acquire(client);
  ck_assert_ptr_nonnull(frame);
  memset(frame, (int)sequence, FAKE_INPUT);
  ck_assert_int_eq(framed_submit(client, frame, sequence, 11, 22), 0);
  return frame;
}

void fake_close(struct fake *fake) {
  if (fake->listener >= 0) {
    close(fake->listener);
  }
  fake_die(fake);
  unlink(fake->path);
  rmdir(fake->folder);
}

/* -- afterwards -------------------------------------------------------------------------------------------------------- */

void fake_send(struct fake *fake, const void *bytes, size_t count) {
  ck_assert_int_eq(send(fake->fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
}

void fake_read(struct fake *fake, void *bytes, size_t count) {
  ck_assert_int_eq(recv(fake->fd, bytes, count, MSG_WAITALL), (ssize_t)count);
}

void fake_result_bytes(unsigned char bytes[FAKE_RESULT], const struct native_result *result, unsigned char byte) {
  const struct native_header header = {
      .magic = NATIVE_MAGIC, .type = NATIVE_RESULT, .length = sizeof *result + (uint64_t)FAKE_OUTPUT};
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + sizeof header, result, sizeof *result);
  memset(bytes + RESULT_BYTES, byte, FAKE_OUTPUT);
}

void fake_result(struct fake *fake, uint64_t sequence, unsigned char byte) {
  const struct native_result result = {
      .sequence = sequence, .dropped = 3, .timestamp = 5, .session = 1, .steps = {[NATIVE_TOTAL] = 9}};
  unsigned char bytes[FAKE_RESULT];
  fake_result_bytes(bytes, &result, byte);
  fake_send(fake, bytes, sizeof bytes);
}

void fake_ack(struct fake *fake, uint64_t frames) {
  const struct {
    struct native_header header;
    struct native_ack ack;
  } said = {{.magic = NATIVE_MAGIC, .type = NATIVE_ACK, .length = sizeof said.ack}, {.frames = frames}};
  fake_send(fake, &said, sizeof said);
}

void fake_error(struct fake *fake, uint32_t code, const char *sentence) {
  struct {
    struct native_header header;
    struct native_error error;
    char text[NATIVE_ERROR];
  } said = {.header = {.magic = NATIVE_MAGIC, .type = NATIVE_ERROR_SAID, .length = sizeof said.error + strlen(sentence)},
            .error = {.code = code}};
  snprintf(said.text, sizeof said.text, "%s", sentence);
  fake_send(fake, &said, ERROR_BYTES + strlen(sentence));
}

bool fake_complete(struct fake *fake, uint32_t slot, uint32_t fate, uint64_t sequence) {
  struct native_control *control = fake->control;
  uint32_t cursor = atomic_load(&control->daemon.completed);
  const struct native_completion completion = {.slot = slot, .fate = fate, .result = {.sequence = sequence, .dropped = 2}};
  memcpy(&control->completions[cursor % NATIVE_RING], &completion, sizeof completion);
  atomic_store(&control->daemon.completed, cursor + 1);
  if (atomic_load(&control->client.sleeps) == 0) {
    return false;
  }
  atomic_store(&control->client.sleeps, 0);
  fake_send(fake, "", 1);
  return true;
}
