/*
 * Who has which of the server's places: so that one client, or one user's hundred, keeps nobody else out.
 *
 * Clients of a Unix socket are told apart by their user, those of TCP by their address. Where a newcomer finds no place, it
 * takes that of a connection on which no whole request has come, of whoever has most: so whoever asks at once is served. The
 * daemon's own user and root are held to no share, and some places are theirs alone. Where all places are taken by
 * connections that have only just come, newcomers wait in the listener's queue, so that a burst cuts off nobody who is about to
 * ask: others than the daemon's own user and root never take all places.
 */
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/status/private.h"

enum { GRACE_MS = 1000, ASKING_MS = 250 };

/* -- who it is -------------------------------------------------------------------------------------------------------- */

static void identify_user(int fd, struct http_client *client) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  client->number = (uid_t)-1; /* the kernel does not say */
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
    client->number = peer.uid;
    client->trusted = peer.uid == 0 || peer.uid == geteuid();
  }
}

/* Whoever is on this machine has all of its own addresses, and whoever has one of a network of IPv6 has 2^64. */
static void identify_address(const struct sockaddr_storage *address, struct http_client *client) {
  uint32_t four = 0;
  if (address->ss_family == AF_INET) {
    four = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
    client->number = four >> 24 == IN_LOOPBACKNET ? INADDR_LOOPBACK : four;
    return;
  }
  const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(six)) {
    memcpy(&four, &six->s6_addr[12], sizeof four);
    four = ntohl(four);
    client->number = four >> 24 == IN_LOOPBACKNET ? INADDR_LOOPBACK : four;
  } else {
    memcpy(&client->number, six->s6_addr, sizeof client->number);
  }
}

void http_identify(int fd, const struct sockaddr_storage *address, struct http_client *client) {
  *client = (struct http_client){0};
  client->tcp = address->ss_family == AF_INET || address->ss_family == AF_INET6;
  if (client->tcp) {
    identify_address(address, client);
  } else {
    identify_user(fd, client);
  }
}

/* -- places ----------------------------------------------------------------------------------------------------------- */

static bool is_same_client(const struct http_client *one, const struct http_client *other) {
  return one->number == other->number && one->trusted == other->trusted;
}

static bool takes_place(const struct http_connection *connection) { return !connection->shut && !connection->live; }

static unsigned places_of(const struct http *http, const struct http_client *client) {
  unsigned count = 0;
  for (const struct http_connection *connection = http->connections; connection; connection = connection->next) {
    count += takes_place(connection) && is_same_client(&connection->client, client);
  }
  return count;
}

/* Counts the places that are taken from this client's view: those of trusted clients are in the way of trusted ones alone. */
static unsigned places_taken(const struct http *http, const struct http_client *client) {
  unsigned count = 0;
  for (const struct http_connection *connection = http->connections; connection; connection = connection->next) {
    count += takes_place(connection) && (client->trusted || !connection->client.trusted);
  }
  return count;
}

static void shut(struct http *http, struct http_connection *connection) {
  connection->shut = true;
  shutdown(connection->fd, SHUT_RDWR); /* the library sees the end */
  if (connection->suspended) {
    http_refuse_one(http, connection);
  }
}

/* Over TCP also one that is being answered gives way, as a last resort: a user of this machine is no other address than the
 * rest of it, and whoever does not ask for what takes long is answered before the next one comes. */
static bool may_give_way(const struct http_connection *connection, const struct http_client *to, bool own, bool answered) {
  const struct http_client *client = &connection->client;
  bool may = connection->answering ? answered && client->tcp : !answered;
  return may && takes_place(connection) && (own ? is_same_client(client, to) : to->trusted || !client->trusted);
}

/* The connection that has been longest without a request, or its answer, among those of whoever has most. */
static struct http_connection *find_to_shut(const struct http *http, const struct http_client *to, bool own, bool answered) {
  struct http_connection *found = NULL;
  unsigned most = 0;
  for (struct http_connection *connection = http->connections; connection; connection = connection->next) {
    unsigned places = may_give_way(connection, to, own, answered) ? places_of(http, &connection->client) : 0;
    if (places > most || (found && places == most && connection->since <= found->since)) {
      found = connection;
      most = places;
    }
  }
  return found;
}

static bool place_make_room(struct http *http, const struct http_client *to, bool own) {
  struct http_connection *connection = find_to_shut(http, to, own, false);
  connection = connection ? connection : find_to_shut(http, to, own, true);
  if (connection) {
    shut(http, connection);
  }
  return connection != NULL;
}

/* Whether nothing more of a request can come, although the library may wait for more: the kernel tells it of the end once,
 * perhaps before it has read what came before that. */
static bool has_said_all(const struct http_connection *connection) {
  struct pollfd state = {.fd = connection->fd, .events = POLLRDHUP};
  int unread = 0;
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 &&
         (ioctl(connection->fd, FIONREAD, &unread) != 0 || unread == 0);
}

bool http_must_wait(const struct http *http) {
  const struct http_client root = {.trusted = true};
  if (places_taken(http, &root) < http->setup.limits.connections) {
    return false;
  }
  const struct http_connection *oldest = find_to_shut(http, &root, false, false);
  return oldest && uv_now(http->setup.loop) - oldest->since < ASKING_MS && !has_said_all(oldest);
}

bool http_find_place(struct http *http, const struct http_client *client) {
  const struct http_limits *limits = &http->setup.limits;
  if (!client->trusted && places_of(http, client) >= limits->share && !place_make_room(http, client, true)) {
    return false;
  }
  unsigned places = limits->connections - (client->trusted ? 0 : limits->kept);
  return places_taken(http, client) < places || place_make_room(http, client, false);
}

/* -- time ------------------------------------------------------------------------------------------------------------- */

static bool place_is_over(const struct http *http, const struct http_connection *connection, uint64_t now) {
  uint64_t age = now - connection->since;
  if (connection->answering) {
    return age >= http->setup.limits.answer_seconds * UINT64_C(1000);
  }
  return age >= http->setup.limits.request_seconds * UINT64_C(1000) || (age >= GRACE_MS && has_said_all(connection));
}

void http_shut_slow(struct http *http) {
  uint64_t now = uv_now(http->setup.loop);
  for (struct http_connection *connection = http->connections; connection; connection = connection->next) {
    if (!connection->suspended && takes_place(connection) && place_is_over(http, connection, now)) {
      shut(http, connection);
    }
  }
}
