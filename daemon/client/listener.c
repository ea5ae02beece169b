/* The life of a listening socket: found or made, handed over, begun with, closed. */
#include "daemon/client/listener_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/base/rights.h"
#include "daemon/base/systemd.h"
#include "daemon/state/fd_store.h"

struct listener *listener_make(const char *path, struct failure *failure) {
  struct listener *listener = calloc(1, sizeof *listener);
  char *copy = strdup(path);
  if (!listener || !copy) {
    free(listener);
    free(copy);
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for a listening socket");
    return NULL;
  }
  listener->fd = -1;
  listener->path = copy;
  return listener;
}

bool listener_make_socket(struct listener *listener, int domain, struct failure *failure) {
  listener->fd = socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener->fd < 0) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, "raise the limit of open files (LimitNOFILE=)",
                       "cannot make a socket for '%s': %s", listener->path, strerror(errno));
  }
  rights_refuse(listener->fd);
  return true;
}

bool listener_listen(struct listener *listener, struct failure *failure) {
  if (listen(listener->fd, SOMAXCONN) != 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "cannot listen on '%s': %s", listener->path, strerror(errno));
  }
  return true;
}

/* -- those that systemd passed ------------------------------------------------------------------------------------ */

/* Nobody uses them since a reload has removed their pipelines. Systemd goes on listening there, and passes them at the next
 * start only, so that a pipeline which comes back has to find them here. */
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

/* A worker thread that prepares a reload may be at them. */
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

/* The one of the process before, with the connections that wait there. */
static bool take_kept(struct listener *listener) {
  struct stat there;
  listener->fd = fd_store_take_listener(listener->path, &listener->passed);
  if (listener->fd < 0) {
    return false;
  }
  if (lstat(listener->path, &there) != 0 || !S_ISSOCK(there.st_mode)) {
    rights_close(listener->fd); /* nobody can connect to it any more */
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
  /* who might connect to it before may not be who may now */
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
  other->created = false; /* what is there is not its file */
  listener_close(other);
  return true;
}
