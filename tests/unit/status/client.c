#include "tests/unit/status/client.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address_of(const struct site *site) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", site->path);
  return address;
}

void site_open(struct site *site, bool read_only) {
  memset(site, 0, sizeof *site);
  snprintf(site->path, sizeof site->path, "/tmp/framed-test-%d.sock", (int)getpid());
  unlink(site->path);
  site->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = address_of(site);
  ck_assert_int_eq(bind(site->listener, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(site->listener, 128), 0);
  site->server = fake_server_new();
  struct failure failure;
  site->status = status_new(&site->server->ops, site->listener, read_only, &failure);
  ck_assert_msg(site->status != NULL, "%s", failure.text);
}

static void on_closed(void *context) { *(bool *)context = true; }

void site_stop(struct site *site) {
  status_close(site->status, on_closed, &site->closed);
  while (!site->closed) {
    site_turn(site);
  }
}

void site_close(struct site *site) {
  if (!site->closed) {
    site_stop(site);
  }
  ck_assert_msg(fcntl(site->listener, F_GETFD) >= 0, "the listener is the caller's");
  close(site->listener);
  unlink(site->path);
  ck_assert(fake_server_free(site->server));
}

int site_connect(const struct site *site) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = address_of(site);
  ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

void site_turn(struct site *site) { uv_run(&site->server->loop, UV_RUN_ONCE); }

char *site_receive(struct site *site, int fd) {
  size_t length = 0, room = 1 << 16;
  char *text = malloc(room);
  ssize_t got = 0;
  while ((got = recv(fd, text + length, room - length - 1, MSG_DONTWAIT)) != 0) {
    if (got > 0) {
      length += (size_t)got;
      ck_assert_uint_lt(length, room - 1);
    } else if (errno == EAGAIN) {
      site_turn(site);
    } else {
      break; /* reset: the end, too */
    }
  }
  text[length] = '\0';
  close(fd);
  return text;
}

char *site_ask(struct site *site, const char *method, const char *path) {
  int fd = site_connect(site);
  dprintf(fd, "%s %s HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n", method, path);
  return site_receive(site, fd);
}

const char *body_of(const char *answer) {
  const char *end = strstr(answer, "\r\n\r\n");
  ck_assert_msg(end != NULL, "no head in '%s'", answer);
  return end + 4;
}
