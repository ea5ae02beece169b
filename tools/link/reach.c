#include "tools/link/reach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/link/broker.h"
#include "tools/link/mqtt_client.h"

enum { PATIENCE_S = 2 };

/*
 * Sends a datagram to the stream socket. The kernel reports whether a listener exists, and the daemon sees no client. A real
 * connection could receive results, which would be lost. Returns an errno.
 */
static int look_at(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    return ENAMETOOLONG;
  }
  memcpy(address.sun_path, path, strlen(path));
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int error = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
  if (fd >= 0) {
    close(fd);
  }
  return error == EPROTOTYPE ? 0 : error;
}

static const char *describe(int error) { return error == ECONNREFUSED ? "nobody has it open; start framed" : strerror(error); }

static void reach_sockets(const struct settings *settings) {
  int error = look_at(settings->status);
  if (error != 0) {
    fprintf(stderr, "framed-link: warning: cannot reach the status socket %s of the daemon: %s\n", settings->status,
            describe(error));
  }
  for (unsigned i = 0; i < settings->link_count; i++) {
    const struct link_settings *link = &settings->links[i];
    error = look_at(link->socket);
    if (error != 0) {
      fprintf(stderr, "framed-link: warning: %s %s: cannot reach its socket %s: %s\n", settings_role(link), link->name,
              link->socket, describe(error));
    }
  }
}

/* An address may contain a password before '@'. */
static void reach_server(const struct settings *settings, const char *server) {
  char why[BROKER_TEXT];
  const char *host = strrchr(server, '@');
  if (!broker_try(settings, server, PATIENCE_S * 1000, why)) {
    fprintf(stderr, "framed-link: warning: cannot reach the server %.*s%s: %s\n", host ? (int)strcspn(server, ":") + 3 : 0,
            server, host ? host + 1 : server, why);
  }
}

static void reach_mqtt(const struct settings *settings) {
  const struct itimerspec patience = {.it_value = {.tv_sec = PATIENCE_S}};
  struct mqtt_client client = {0};
  int stop = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (stop < 0 || timerfd_settime(stop, 0, &patience, NULL) != 0) {
    snprintf(client.why, sizeof client.why, "%s", strerror(errno));
  } else if (mqtt_client_connect(&client, settings, NULL, stop)) {
    mqtt_client_disconnect(&client);
  }
  if (client.why[0]) {
    fprintf(stderr, "framed-link: warning: cannot reach the broker of MQTT: %s\n", client.why);
  }
  if (stop >= 0) {
    close(stop);
  }
}

void reach_all(const struct settings *settings) {
  reach_sockets(settings);
  for (unsigned i = 0; i < settings->server_count; i++) {
    reach_server(settings, settings->servers[i]);
  }
  if (settings->mqtt_server) {
    mqtt_client_init();
    reach_mqtt(settings);
  }
}
