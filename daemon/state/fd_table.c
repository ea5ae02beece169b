#include "daemon/state/fd_table.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/base/systemd.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

#define CARRIED "d" /* kind of these descriptors in the store; short, because there are many */

enum { FIRST_ROOM = 64, MOST = 1 << 20, NONE = -1 };

/* One descriptor; its number is the index in the table. */
struct entry {
  int before; /* its number in the previous process; NONE: taken, or opened by this process */
  /* Its number in the store, also after it was closed, until the manager knows; 0: not stored. */
  unsigned kept;
  unsigned char used, wanted, listens, passed;
  unsigned char stale;       /* the store has the descriptor that had this number before */
  uint64_t path;             /* checksum of a listener's path; 0: unknown */
  dev_t device, file_device; /* identify the file, and the file that a listener created */
  ino_t inode, file_inode;
};

struct fd_table {
  unsigned count, room;
  struct entry entries[];
};

static struct {
  pthread_mutex_t lock;
  struct fd_table *table; /* in the image; NULL: none yet */
  bool lacks;             /* a wanted descriptor is not in the table */
  atomic_bool marked;
} own = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP}; /* recursive, because a change may include another one */

/* -- entries ---------------------------------------------------------------------------------------------------------- */

/* Grows the table. Its address changes by one store, so there is a complete table at any time. */
static struct entry *reach(unsigned number) {
  struct fd_table *table = own.table, *larger = table;
  struct image_front *front = image_front();
  unsigned room = table ? table->room : FIRST_ROOM;
  while (room <= number && room < MOST) {
    room *= 2;
  }
  if (!front || number >= room) {
    return NULL;
  }
  if (!table || room > table->room) {
    larger = image_new(IMAGE_TABLE, sizeof *table + room * sizeof *table->entries);
    if (!larger) {
      return NULL;
    }
    if (table) {
      memcpy(larger, table, sizeof *table + table->count * sizeof *table->entries);
    }
    larger->room = room;
    atomic_store(&front->table, larger);
    image_free(table);
    own.table = larger;
  }
  for (; larger->count <= number; larger->count++) {
    larger->entries[larger->count].before = NONE;
  }
  return &larger->entries[number];
}

/* Iterates over the table: `for (struct entry *entry = NULL; (entry = next_of(entry));)`. */
static struct entry *next_of(const struct entry *entry) {
  size_t at = entry ? (size_t)(entry - own.table->entries) + 1 : 0;
  return own.table && at < own.table->count ? &own.table->entries[at] : NULL;
}

static int number_of(const struct entry *entry) { return (int)(entry - own.table->entries); }

/* True if the number is still the same file. */
static bool has_stayed(int fd, const struct entry *entry) {
  struct stat status;
  return fd > STDERR_FILENO && fd != image_left_fd() && fstat(fd, &status) == 0 && status.st_dev == entry->device &&
         status.st_ino == entry->inode;
}

/* Clears the entry, because the number is now another file or closed. */
static void clear_entry(struct entry *entry) {
  *entry = (struct entry){.before = NONE, .kept = entry->kept, .stale = entry->kept != 0};
}

/* -- the store -------------------------------------------------------------------------------------------------------- */

/* The smallest number not used in the store. */
static unsigned unused_number(void) {
  static bool used[SYSTEMD_MOST_KEPT + 2];
  unsigned number = 1;
  memset(used, 0, sizeof used);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    used[entry->kept < sizeof used ? entry->kept : 0] = true;
  }
  while (number < sizeof used && used[number]) {
    number++;
  }
  return number;
}

static bool forget(struct entry *entry) {
  entry->kept = entry->kept == 0 || systemd_forget(CARRIED, entry->kept) ? 0 : entry->kept;
  entry->stale = entry->stale && entry->kept != 0;
  return entry->kept == 0;
}

/* The number is set before the message is sent. So the next process knows it even after a kill in between. */
static bool keep(struct entry *entry) {
  bool is_free = !entry->stale || forget(entry);
  if (is_free && entry->kept == 0) {
    entry->kept = unused_number();
    entry->kept = systemd_keep(number_of(entry), CARRIED, entry->kept) ? entry->kept : 0;
  }
  return is_free && entry->kept != 0;
}

static struct entry *enter(int fd) {
  struct stat status;
  struct entry *entry = fd >= 0 && fstat(fd, &status) == 0 ? reach((unsigned)fd) : NULL;
  if (!entry || (entry->used && entry->device == status.st_dev && entry->inode == status.st_ino)) {
    return entry;
  }
  clear_entry(entry);
  forget(entry);
  entry->used = 1;
  entry->device = status.st_dev;
  entry->inode = status.st_ino;
  return entry;
}

/* -- of this process ------------------------------------------------------------------------------------------------ */

void fd_table_mark(void) { own.marked = true; }
bool fd_table_is_marked(void) { return own.marked; }

void fd_table_begin(void) {
  own.marked = false;
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    entry->wanted = entry->listens;
  }
  own.lacks = false;
  pthread_mutex_unlock(&own.lock);
}

void fd_table_want(int fd) {
  pthread_mutex_lock(&own.lock);
  struct entry *entry = fd >= 0 ? enter(fd) : NULL;
  if (entry) {
    entry->wanted = 1;
  }
  own.lacks = own.lacks || (fd >= 0 && !entry);
  pthread_mutex_unlock(&own.lock);
}

unsigned fd_table_needed(void) {
  unsigned needed = 0;
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    needed += entry->wanted && !entry->passed;
  }
  pthread_mutex_unlock(&own.lock);
  return needed;
}

bool fd_table_forget(bool wanted_too) {
  bool all = true;
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    if (!entry->wanted) {
      clear_entry(entry);
    }
    all = ((entry->wanted && !wanted_too) || forget(entry)) && all;
  }
  pthread_mutex_unlock(&own.lock);
  return all;
}

bool fd_table_keep(bool listeners_only, unsigned room) {
  unsigned others = 0;
  pthread_mutex_lock(&own.lock);
  bool all = !own.lacks || listeners_only;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    entry->wanted = entry->wanted && (entry->listens || !listeners_only);
    others += entry->kept != 0 && !entry->wanted;
  }
  if (fd_table_needed() + others > room) { /* otherwise the store would silently leave out others */
    fd_table_forget(false);
  }
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    all = (!entry->wanted || entry->passed || keep(entry)) && all;
  }
  pthread_mutex_unlock(&own.lock);
  return all;
}

bool fd_table_stay(void) {
  pthread_mutex_lock(&own.lock);
  bool all = !own.lacks;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    int fd = number_of(entry);
    all = (!entry->wanted || (has_stayed(fd, entry) && fcntl(fd, F_SETFD, 0) == 0)) && all;
  }
  pthread_mutex_unlock(&own.lock);
  return all;
}

/* -- listeners ------------------------------------------------------------------------------------------------------ */

static bool fd_table_listens(int fd) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer;
}

void fd_table_listen(int fd, const char *path, bool passed, const struct stat *file) {
  own.marked = true;
  pthread_mutex_lock(&own.lock);
  struct entry *entry = enter(fd);
  if (entry) { /* without an entry, the next process creates its own socket */
    entry->before = NONE;
    entry->listens = 1;
    entry->passed = passed;
    entry->path = state_checksum(path, strlen(path));
    entry->file_device = file->st_dev;
    entry->file_inode = file->st_ino;
  }
  pthread_mutex_unlock(&own.lock);
}

void fd_table_leave(int fd, bool is_aside) {
  own.marked = true;
  pthread_mutex_lock(&own.lock);
  bool is_there = fd >= 0 && own.table && (unsigned)fd < own.table->count && own.table->entries[fd].used;
  if (is_there && is_aside) {
    own.table->entries[fd].before = fd;
  } else if (is_there) {
    clear_entry(&own.table->entries[fd]);
  }
  pthread_mutex_unlock(&own.lock);
}

static bool is_at(int fd, const char *path, const struct sockaddr *tcp, socklen_t length) {
  struct sockaddr_storage there = {0};
  socklen_t size = sizeof there;
  bool is_known = getsockname(fd, (struct sockaddr *)&there, &size) == 0;
  return is_known && (tcp ? size == length && memcmp(&there, tcp, length) == 0
                          : there.ss_family == AF_UNIX && strcmp(((struct sockaddr_un *)&there)->sun_path, path) == 0);
}

int fd_table_take_listener(const char *path, const struct sockaddr *tcp, socklen_t length, bool *passed, struct stat *file) {
  int found = NONE;
  const uint64_t sum = state_checksum(path, strlen(path));
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; found < 0 && (entry = next_of(entry));) {
    int fd = number_of(entry);
    bool is_free = entry->before >= 0 && entry->listens && has_stayed(fd, entry);
    if (is_free && (is_at(fd, path, tcp, length) || (!tcp && entry->path == sum))) {
      found = fd;
      entry->before = NONE;
      *passed = entry->passed;
      *file = (struct stat){.st_dev = entry->file_device, .st_ino = entry->file_inode};
    }
  }
  pthread_mutex_unlock(&own.lock);
  return found;
}

/* -- receiving from the previous process ---------------------------------------------------------------------------- */

static const struct fd_table *left_table(void) {
  static const struct fd_table none;
  size_t bytes = 0;
  const struct image_front *front = image_left_front();
  const struct fd_table *table = front ? image_left(front->table, IMAGE_TABLE, &bytes) : NULL;
  bool sound = table && bytes >= sizeof *table && table->count <= (bytes - sizeof *table) / sizeof *table->entries;
  return sound ? table : &none;
}

/* A descriptor that does not match the received table is of use only if it listens. */
static void receive(int fd, int before, const struct entry *left, unsigned kept) {
  bool is_known = left && left->used && has_stayed(fd, left);
  struct stat status = {0};
  struct entry *entry = fstat(fd, &status) == 0 ? reach((unsigned)fd) : NULL;
  if (!entry) {
    return; /* without memory it stays open and unused until this process ends */
  }
  *entry = is_known ? *left : (struct entry){.used = 1, .device = status.st_dev, .inode = status.st_ino};
  entry->before = before;
  entry->kept = kept;
  entry->listens = fd_table_listens(fd);
  entry->wanted = 1;
  entry->passed = entry->passed && entry->listens && kept == 0;
  if (!is_known && !entry->listens) {
    rights_close(fd);
    clear_entry(entry);
  }
}

/* Only numbers that are open now can be received. Any other number may belong to a descriptor that this process opens
 * itself. */
static void receive_by_exec(const struct fd_table *left) {
  for (unsigned fd = 0; fd < left->count && fd < MOST; fd++) {
    const struct entry *entry = &left->entries[fd];
    if (entry->used && has_stayed((int)fd, entry)) {
      receive((int)fd, (int)fd, entry, entry->kept);
    } else if (entry->kept != 0 && reach(fd)) {
      own.table->entries[fd].kept = entry->kept;
    }
  }
}

void fd_table_receive(bool by_manager) {
  uint64_t kept;
  const struct fd_table *left = left_table();
  if (!by_manager) {
    receive_by_exec(left);
    return;
  }
  for (int fd = systemd_take_kept(CARRIED, &kept); fd >= 0; fd = systemd_take_kept(CARRIED, &kept)) {
    unsigned at = 0;
    while (at < left->count && left->entries[at].kept != kept) {
      at++;
    }
    bool is_there = at < left->count && at < MOST;
    receive(fd, is_there ? (int)at : fd, is_there ? &left->entries[at] : NULL, (unsigned)kept);
  }
}

int fd_table_take(int before) {
  int found = NONE;
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; before >= 0 && found < 0 && (entry = next_of(entry));) {
    if (entry->before == before && !entry->listens) {
      found = number_of(entry);
      entry->before = NONE;
    }
  }
  pthread_mutex_unlock(&own.lock);
  return found;
}

void fd_table_close_rest(bool listeners) {
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    if (entry->before >= 0 && (!entry->listens || (listeners && !entry->passed))) {
      rights_close(number_of(entry));
      clear_entry(entry);
    }
  }
  pthread_mutex_unlock(&own.lock);
}
