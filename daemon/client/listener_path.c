/*
 * The file of a Unix socket: freeing its path, creating it without access for others, setting owner, group and mode, and
 * removing it. A file is new until a pipeline uses it. A process that ends before that removes it; after a kill the next
 * process that binds there replaces it.
 *
 * Another user may be able to write to the folder and replace the file at any moment. So owner and mode are set through a
 * descriptor of the bound file, never by its path.
 */
#include "daemon/client/private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/measure/clock.h"
#include "daemon/wire/folder.h"

enum { LOCK_TRIES = 100, LOCK_PAUSE_MS = 20 };

/* -- the socket ----------------------------------------------------------------------------------------------- */

struct listener *listener_make(const char *path, struct failure *failure) {
  struct listener *listener = calloc(1, sizeof *listener);
  char *copy = strdup(path);
  if (!listener || !copy) {
    free(listener);
    free(copy);
    failure_set_memory(failure, "not enough memory for a listening socket");
    return NULL;
  }
  listener->fd = -1;
  listener->path = copy;
  return listener;
}

bool listener_make_socket(struct listener *listener, int domain, struct failure *failure) {
  listener->fd = socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener->fd < 0) {
    return failure_set_system(failure, errno, "raise the limit of open files (LimitNOFILE=)", "cannot make a socket for '%s'",
                              listener->path);
  }
  rights_refuse(listener->fd);
  return true;
}

bool listener_listen(struct listener *listener, struct failure *failure) {
  if (listen(listener->fd, SOMAXCONN) != 0) {
    return failure_set_system(failure, errno, NULL, "cannot listen on '%s'", listener->path);
  }
  return true;
}

/* -- new listeners -------------------------------------------------------------------------------------------- */

/* Listeners that have a file and are not used by a pipeline yet, for example while a set-up thread prepares a reload. */
static struct {
  pthread_mutex_t lock;
  struct listener *first;
} fresh = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* True if the listener created this file. */
static bool is_made(const struct listener *listener, const struct stat *file) {
  return file->st_dev == listener->device && file->st_ino == listener->inode;
}

/* With `removes`, also removes the file. */
static bool look_for_file(const struct listener *listener, bool removes) {
  struct folder_entry entry;
  struct stat there;
  errno = 0;
  bool is_there = folder_find(listener->path, false, &entry) && folder_look(&entry, "", &there);
  int error = is_there ? 0 : errno;
  bool is_ours = is_there && is_made(listener, &there);
  if (is_ours && removes) {
    folder_remove(&entry, "");
  }
  folder_leave(&entry);
  errno = error;
  return is_ours;
}

bool listener_has_file(const struct listener *listener) { return look_for_file(listener, false); }

static void remove_file(const struct listener *listener) { look_for_file(listener, true); }

/* The caller holds the lock of `fresh`. */
static void take_from_fresh(const struct listener *listener) {
  struct listener **link = &fresh.first;
  while (*link && *link != listener) {
    link = &(*link)->next;
  }
  if (*link) {
    *link = listener->next;
  }
}

void listener_use(const struct listener *listener) {
  pthread_mutex_lock(&fresh.lock);
  take_from_fresh(listener);
  pthread_mutex_unlock(&fresh.lock);
}

void listener_block_new(void) {
  pthread_mutex_lock(&fresh.lock);
  for (const struct listener *listener = fresh.first; listener; listener = listener->next) {
    remove_file(listener);
  }
}

void listener_allow_new(void) { pthread_mutex_unlock(&fresh.lock); }

void listener_remove_file(const struct listener *listener) {
  pthread_mutex_lock(&fresh.lock);
  take_from_fresh(listener);
  remove_file(listener);
  pthread_mutex_unlock(&fresh.lock);
}

/* -- the path ------------------------------------------------------------------------------------------------- */

/* If another user can replace a folder of the path, the address names the last folder by its descriptor. */
static bool path_address(struct sockaddr_un *address, const struct folder_entry *entry, struct failure *failure) {
  const char *path = entry->path;
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof address->sun_path) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "choose a shorter path, such as one in /run/framed",
                       "the socket path '%s' has %zu bytes, and a Unix socket takes at most %zu", path, length,
                       sizeof address->sun_path - 1);
  }
  memcpy(address->sun_path, path, length + 1);
  return entry->guarded ||
         snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", entry->folder, entry->name) <
             (int)sizeof address->sun_path ||
         failure_set(failure, EXIT_STATUS_CONFIG, "choose a shorter name", "the name of the socket '%s' is too long", path);
}

/* Tests whether a process listens on a socket file: 0 if not, EADDRINUSE if so, otherwise the errno of the test. */
static int probe(const struct sockaddr_un *address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return errno;
  }
  int status = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? EADDRINUSE : errno;
  close(fd);
  switch (status) {
  case ECONNREFUSED:
  case ENOENT:
    return 0;
  case EAGAIN:     /* its queue of connections is full */
  case EPROTOTYPE: /* a datagram socket in use */
    return EADDRINUSE;
  default:
    return status;
  }
}

/* Frees the path: it must be unused, or the socket of a dead daemon, which is removed. */
static bool clear_path(const struct folder_entry *entry, const struct sockaddr_un *address, struct failure *failure) {
  const char *path = entry->path;
  struct stat there;
  if (!folder_look(entry, "", &there)) {
    return true; /* bind() reports any other problem */
  }
  if (!S_ISSOCK(there.st_mode)) {
    return failure_set_in_the_way(failure, "remove that file, or choose another path", "'%s' exists and is not a socket", path);
  }
  int status = probe(address);
  if (status == EADDRINUSE) {
    return failure_set_in_the_way(failure, "stop the other daemon, or choose another path",
                                  "the socket '%s' is in use by another process", path);
  }
  if (status != 0) {
    return failure_set_system(failure, status, "remove the file if nobody needs it, or choose another path",
                              "cannot tell whether the socket '%s' is in use", path);
  }
  if (!folder_remove(entry, "") && errno != ENOENT) {
    return failure_set_system(failure, errno, "give the daemon's user write access to the directory",
                              "cannot replace the left over socket '%s'", path);
  }
  return true;
}

static bool cannot_bind(const char *path, int error, struct failure *failure) {
  const char *remedy = NULL, *slash = strrchr(path, '/');
  char own[FAILURE_REMEDY];
  if (error == EROFS) { /* ProtectSystem= makes all folders read-only except those of the service */
    snprintf(own, sizeof own, "in the service, write /run/framed/%s; elsewhere choose a directory that can be written to",
             slash ? slash + 1 : path);
    remedy = own;
  } else if (error == ENOENT) {
    remedy = "create the directory, or let systemd do so with RuntimeDirectory=";
  } else if (error == EACCES || error == EPERM) {
    remedy = "give the daemon's user write access to the directory, or choose another path";
  } else if (error == EADDRINUSE) {
    remedy = "another daemon took the path at this moment; choose another one";
  } else if (error == ELOOP) {
    remedy = "name a directory that only root or the daemon's user may replace";
  }
  return failure_set_system(failure, error, remedy, "cannot make the socket '%s'", path);
}

/* Opens the socket file. -1: it is missing, or another user put it there. */
static int open_made(const struct folder_entry *entry, struct stat *made) {
  int file = openat(entry->folder, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    return -1;
  }
  bool is_known = fstat(file, made) == 0;
  if (is_known && S_ISSOCK(made->st_mode) && made->st_uid == geteuid()) {
    return file;
  }
  int error = is_known ? EADDRINUSE : errno;
  close(file);
  errno = error;
  return -1;
}

/* Binds without access for others, whatever the umask is: Linux takes the file's mode from the socket. The caller holds the
 * lock. */
static bool bind_closed(struct listener *listener, const struct folder_entry *entry, const struct sockaddr_un *address,
                        struct failure *failure) {
  if (fchmod(listener->fd, S_IRUSR | S_IWUSR) != 0 ||
      bind(listener->fd, (const struct sockaddr *)address, sizeof *address) != 0) {
    return cannot_bind(listener->path, errno, failure);
  }
  struct stat made;
  int file = open_made(entry, &made);
  if (file < 0) {
    int error = errno;
    if (error != EADDRINUSE) { /* nobody could tell later whose file it is */
      folder_remove(entry, "");
    }
    return cannot_bind(listener->path, error, failure);
  }
  close(file);
  listener->device = made.st_dev;
  listener->inode = made.st_ino;
  listener->created = true;
  listener->next = fresh.first;
  fresh.first = listener;
  return true;
}

/* EPERM is permanent: the daemon's user may not change files to that owner. */
static bool cannot_give(const struct listener *listener, const struct config_socket_access *access, int error,
                        struct failure *failure) {
  failure_set_system(failure, error, "run the daemon as root or as a member of that group, or leave out 'owner' and 'group'",
                     "cannot give the socket '%s' to user %d, group %d", listener->path, (int)access->owner,
                     (int)access->group);
  if (error == EPERM) {
    failure->status = EXIT_STATUS_CONFIG;
    failure->passes = false;
  }
  return false;
}

/* Owner and mode that are right already are not set again, because the file system may be read-only by now. Before 6.6 Linux
 * cannot set the mode through an O_PATH descriptor, but its path in /proc/self/fd leads to the same file. */
static bool set_access(const struct listener *listener, int file, const struct stat *there,
                       const struct config_socket_access *access, struct failure *failure) {
  char link[64];
  bool is_given = (access->owner == (uid_t)-1 || access->owner == there->st_uid) &&
                  (access->group == (gid_t)-1 || access->group == there->st_gid);
  if (!is_given && fchownat(file, "", access->owner, access->group, AT_EMPTY_PATH) != 0) {
    return cannot_give(listener, access, errno, failure);
  }
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  return (there->st_mode & ALLPERMS) == access->mode || chmod(link, access->mode) == 0 ||
         failure_set_system(failure, errno, NULL, "cannot set the mode of the socket '%s'", listener->path);
}

bool listener_set_access(struct listener *listener, const struct config_socket_access *access, struct failure *failure) {
  struct folder_entry entry;
  struct stat there;
  if (!listener->created) {
    return true; /* systemd's unit defines who may connect */
  }
  int file =
      folder_find(listener->path, false, &entry) ? openat(entry.folder, entry.name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
  int error = errno;
  folder_leave(&entry);
  bool is_ours = file >= 0 && fstat(file, &there) == 0 && is_made(listener, &there);
  bool is_set = is_ours && set_access(listener, file, &there, access, failure);
  if (file >= 0 && !is_ours) {
    failure_set(failure, EXIT_STATUS_CONFIG, "remove that file, or choose another path",
                "another file is where the socket '%s' was", listener->path);
  } else if (file < 0) {
    failure_set_system(failure, error, NULL, "cannot find the socket '%s'", listener->path);
  }
  if (file >= 0) {
    close(file);
  }
  return is_set;
}

/*
 * Two daemons that find the same dead socket would each remove what the other one created. A socket that does not listen yet
 * also looks dead. So a daemon holds a lock in the folder from its first look until it listens.
 *
 * Any user who can open a file can lock it. So the lock is a file that only this user can open, and not the folder. If another
 * user created that file, or the file system has no locks, the daemon continues without a lock.
 */
#define LOCK_NAME ".framed.lock"

enum lock_try { LOCK_TAKEN, LOCK_BUSY, LOCK_NONE };

static enum lock_try try_lock(const struct folder_entry *entry, int *lock) {
  struct stat own, there;
  *lock = openat(entry->folder, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (*lock < 0 || fstat(*lock, &own) != 0 || !S_ISREG(own.st_mode) || own.st_uid != geteuid() || (own.st_mode & 077) != 0) {
    return LOCK_NONE;
  }
  if (flock(*lock, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? LOCK_BUSY : LOCK_NONE;
  }
  /* The daemon that held it may have removed it since it was opened here. */
  bool is_same = fstatat(entry->folder, LOCK_NAME, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == own.st_ino &&
                 there.st_dev == own.st_dev;
  return is_same ? LOCK_TAKEN : LOCK_BUSY;
}

/* `lock` is -1 if locking is not possible. */
static bool lock_folder(const struct folder_entry *entry, int *lock, struct failure *failure) {
  for (int tries = 0; tries < LOCK_TRIES; tries++) {
    enum lock_try outcome = try_lock(entry, lock);
    if (outcome == LOCK_TAKEN) {
      return true;
    }
    if (*lock >= 0) {
      close(*lock);
      *lock = -1;
    }
    if (outcome == LOCK_NONE) {
      return true;
    }
    nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_MS * NS_PER_MS}, NULL);
  }
  return failure_set_system(failure, EWOULDBLOCK, "find the other framed that starts there, or choose another directory",
                            "another daemon of this user keeps '" LOCK_NAME "' in the directory of '%s' locked", entry->path);
}

static void unlock_folder(const struct folder_entry *entry, int lock) {
  if (lock >= 0) {
    unlinkat(entry->folder, LOCK_NAME, 0);
    close(lock);
  }
}

static bool create_locked(struct listener *listener, const struct folder_entry *entry, const struct sockaddr_un *address,
                          const struct config_socket_access *access, struct failure *failure) {
  if (!clear_path(entry, address, failure) || !listener_make_socket(listener, AF_UNIX, failure)) {
    return false;
  }
  pthread_mutex_lock(&fresh.lock);
  bool bound = bind_closed(listener, entry, address, failure);
  pthread_mutex_unlock(&fresh.lock);
  return bound && listener_set_access(listener, access, failure) && listener_listen(listener, failure);
}

bool listener_create(struct listener *listener, const struct config_socket_access *access, struct failure *failure) {
  struct sockaddr_un address;
  struct folder_entry entry;
  int lock = -1;
  bool made = folder_find(listener->path, false, &entry) || cannot_bind(listener->path, errno, failure);
  made = made && path_address(&address, &entry, failure) && lock_folder(&entry, &lock, failure) &&
         create_locked(listener, &entry, &address, access, failure);
  unlock_folder(&entry, lock);
  folder_leave(&entry);
  return made;
}
