/* The life of a listening socket: found or made, handed over, begun with, closed. One that systemd passed is never closed. */
#include "daemon/client/private.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/base/rights.h"
#include "daemon/base/systemd.h"
#include "daemon/state/fd_store.h"

/* -- those that systemd passed ------------------------------------------------------------------------------------ */

/* Listeners that systemd passed and that nobody uses since a reload has removed their pipelines. Systemd goes on listening at
 * them and passes them again only at the next start, so a pipeline that comes back has to find its listener here. */
static struct {
  pthread_mutex_t lock;
  struct listener *first;
} unused = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lay_aside(struct listener *listener) {
  pthread_mutex_lock(&unused.lock);
  listener->next = unused.first;
  unused.first = listener;
  pthread_mutex_unlock(&unused.lock);
}

static struct listener *take_unused(const char *path) {
  pthread_mutex_lock(&unused.lock);
  struct listener **link = &unused.first;
  while (*link && strcmp((*link)->path, path) != 0) {
    link = &(*link)->next;
  }
  struct listener *found = *link;
  if (found) {
    *link = found->next;
  }
  pthread_mutex_unlock(&unused.lock);
  return found;
}

/* Holds the lock, since a worker thread that prepares a reload may take listeners off the list. */
static void put_unused(struct codec *codec) {
  unsigned count = 0;
  pthread_mutex_lock(&unused.lock);
  for (const struct listener *listener = unused.first; listener; listener = listener->next) {
    count++;
  }
  CODEC_PASS(codec, count);
  for (struct listener *listener = unused.first; listener; listener = listener->next) {
    listener_pass(listener, codec);
  }
  pthread_mutex_unlock(&unused.lock);
}

void listener_pass_unused(struct codec *codec) {
  unsigned count = 0;
  if (codec->writing) {
    put_unused(codec);
    return;
  }
  CODEC_PASS(codec, count);
  for (unsigned i = 0; i < count && !codec->broken; i++) {
    struct listener *listener = listener_pass(NULL, codec);
    if (listener) {
      lay_aside(listener);
    }
  }
}

struct listener *listener_close(struct listener *listener) {
  if (!listener) {
    return NULL;
  }
  if (listener->passed) {
    lay_aside(listener);
    return NULL;
  }
  if (listener->created) {
    listener_remove_file(listener);
  }
  if (listener->fd >= 0) {
    rights_close(listener->fd);
  }
  free(listener->path);
  free(listener);
  return NULL;
}

struct listener *listener_pass(struct listener *listener, struct codec *codec) {
  bool there = listener != NULL;
  CODEC_PASS(codec, there);
  if (!there || codec->broken) {
    return codec->writing ? listener : NULL;
  }
  struct listener *passed = codec->writing ? listener : calloc(1, sizeof *passed);
  if (!passed) {
    codec_break(codec);
    return NULL;
  }
  codec_pass_text(codec, &passed->path);
  CODEC_PASS(codec, passed->passed);
  if (!passed->passed || !codec->by_manager) {
    codec_pass_descriptor(codec, &passed->fd);
  } else if (!codec->writing && passed->path) {
    passed->fd = systemd_take_listener(NULL, passed->path);
    rights_refuse(passed->fd);
  }
  CODEC_PASS(codec, passed->created);
  CODEC_PASS(codec, passed->device);
  CODEC_PASS(codec, passed->inode);
  if (!passed->path || passed->fd < 0) {
    codec_break(codec);
  }
  return passed;
}

bool listener_is_passed(const struct listener *listener) { return listener->passed; }

int listener_fd(const struct listener *listener) { return listener->fd; }
const char *listener_path(const struct listener *listener) { return listener->path; }

/* Takes over the listening socket of the process before, with the connections that wait at it. */
static bool take_kept(struct listener *listener) {
  struct stat there;
  listener->fd = fd_store_take_listener(listener->path, &listener->passed);
  if (listener->fd < 0) {
    return false;
  }
  if (lstat(listener->path, &there) != 0 || !S_ISSOCK(there.st_mode)) {
    rights_close(listener->fd); /* its file has gone, so nobody can connect to this socket */
    listener->fd = -1;
    return false;
  }
  rights_refuse(listener->fd);
  listener->created = !listener->passed;
  listener->device = there.st_dev;
  listener->inode = there.st_ino;
  return true;
}

struct listener *listener_open(const char *name, const char *path, const struct config_socket_access *access,
                               struct failure *failure) {
  struct listener *listener = take_unused(path);
  if (listener) {
    return listener;
  }
  listener = listener_make(path, failure);
  if (!listener) {
    return NULL;
  }
  listener->fd = systemd_take_listener(name, path);
  listener->passed = listener->fd >= 0;
  if (listener->passed) {
    rights_refuse(listener->fd);
    return listener;
  }
  /* the configuration may let other users connect than the process before did */
  bool opened =
      take_kept(listener) ? listener_set_access(listener, access, failure) : listener_create(listener, access, failure);
  return opened ? listener : listener_close(listener);
}

bool listener_begin(struct listener *listener, const struct config_socket_access *access, struct failure *failure) {
  listener_use(listener);
  if (!listener->created || listener_has_file(listener) || (errno != 0 && errno != ENOENT)) {
    return true;
  }
  struct listener *other = listener_make(listener->path, failure);
  if (!other) {
    return false;
  }
  if (!listener_create(other, access, failure)) {
    listener_close(other);
    return false;
  }
  listener_use(other);
  struct listener gone = *listener;
  *listener = *other;
  *other = gone;
  other->created = false; /* the file at the path is now the other socket's, and stays */
  listener_close(other);
  return true;
}

/* -- an address of TCP, for status alone --------------------------------------------------------------------------- */

/* Splits "host:port" in place. */
static bool split_address(char *text, char **host, char **port) {
  char *colon = strrchr(text, ':');
  if (!colon || colon == text || colon[1] == '\0') {
    return false;
  }
  *colon = '\0';
  *port = colon + 1;
  *host = text;
  size_t length = strlen(text);
  if (text[0] == '[' && text[length - 1] == ']') {
    text[length - 1] = '\0';
    *host = text + 1;
  }
  return true;
}

static struct addrinfo *resolve(const char *address, struct failure *failure) {
  char *text = strdup(address);
  char *host, *port;
  struct addrinfo *result = NULL;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
  if (!text || !split_address(text, &host, &port) ||
      getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &result) != 0) {
    failure_set(failure, EXIT_STATUS_CONFIG, "write it as 127.0.0.1:9464 or [::1]:9464",
                "'%s' is not a numeric address with a port", address);
    result = NULL;
  }
  free(text);
  return result;
}

static bool bind_tcp(struct listener *listener, const struct addrinfo *target, struct failure *failure) {
  listener->fd = fd_store_take_listener_at(target->ai_addr, target->ai_addrlen);
  if (listener->fd >= 0) {
    return true;
  }
  if (!listener_make_socket(listener, target->ai_family, failure)) {
    return false;
  }
  int on = 1;
  setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait for TIME_WAIT */
  if (bind(listener->fd, target->ai_addr, target->ai_addrlen) != 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "stop what uses the port, or choose another one", "cannot listen on %s: %s",
                       listener->path, strerror(errno));
  }
  return listener_listen(listener, failure);
}

struct listener *listener_open_tcp(const char *address, struct failure *failure) {
  struct addrinfo *target = resolve(address, failure);
  if (!target) {
    return NULL;
  }
  struct listener *listener = listener_make(address, failure);
  if (listener && !bind_tcp(listener, target, failure)) {
    listener = listener_close(listener);
  }
  freeaddrinfo(target);
  return listener;
}
