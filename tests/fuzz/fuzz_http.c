/*
 * The status socket as a client may use it: any bytes, in pieces of any size, with commands answered at once or later.
 * Whatever comes, the server answers in HTTP or closes, and then serves the next client.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/status/status.h"
#include "tests/unit/status/fake_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ANSWER_LATER = 1, HALF_CLOSE = 2, LEAVE = 4 }; /* bits of the first byte */
enum { MAX_TURNS = 1000 };

static struct server *server;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* An abstract address of this process, which leaves no file behind. */
static void start(void) {
  struct failure failure;
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "framed-fuzz-http-%d", (int)getpid());
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 16) != 0) {
    abort();
  }
  server = fake_server_new();
  if (!server || !status_new(&server->ops, listener, false, &failure)) {
    abort();
  }
}

static void turn(void) { uv_run(&server->loop, UV_RUN_NOWAIT); }

static void send_pieces(int fd, const uint8_t *data, size_t size, size_t piece) {
  for (unsigned turns = 0; size > 0 && turns < MAX_TURNS; turns++) {
    ssize_t sent = send(fd, data, size < piece ? size : piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) {
      return; /* the server has closed */
    }
    data += sent > 0 ? sent : 0;
    size -= sent > 0 ? (size_t)sent : 0;
    turn();
  }
}

/* Takes the answers to the end of the connection; what comes must be HTTP. */
static void receive_all(int fd) {
  char text[65536];
  size_t total = 0;
  for (unsigned turns = 0; turns < MAX_TURNS; turns++) {
    ssize_t count = recv(fd, text, sizeof text, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
      return;
    }
    if (count > 0 && total == 0 && memcmp(text, "HTTP/1.1 ", count < 9 ? (size_t)count : 9) != 0) {
      abort();
    }
    total += count > 0 ? (size_t)count : 0;
    fake_server_answer(server);
    turn();
  }
  abort(); /* neither answered nor closed */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  if (!server) {
    start();
  }
  unsigned mode = data[0];
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    abort();
  }
  server->answer_later = mode & ANSWER_LATER;
  send_pieces(fd, data + 1, size - 1, mode & 0x80 ? (mode >> 3 & 15) + 1 : 65536);
  if (!(mode & LEAVE)) {
    shutdown(fd, mode & HALF_CLOSE ? SHUT_WR : SHUT_RDWR);
    receive_all(fd);
  }
  close(fd);
  for (int i = 0; i < 4; i++) { /* so that one input does not leave its end to the next */
    fake_server_answer(server);
    turn();
  }
  return 0;
}
