#include "daemon/state/fd_table.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/base/systemd.h"
#include "daemon/state/fd_front.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

#define CARRIED "d" /* the name there begins so, and ends with the place; short, since there are many */

enum { FIRST_ROOM = 64, MOST = 1 << 20, NONE = -1 };

/* A place in the table. */
struct entry {
  int fd;              /* its number; NONE: the place is free, or (`there`) is to be once the manager was told */
  int before;          /* which number it had in the process before; NONE: it was taken, or is this one's */
  unsigned char there; /* it lies in the store */
  unsigned char wanted, listens, passed, is_new, came;
  uint64_t path;             /* of a listener, which is known by its checksum; 0: nobody knows */
  dev_t device, file_device; /* what it is, and which file a listener made */
  ino_t inode, file_inode;
};

struct fd_table {
  unsigned count, room;
  struct entry entries[];
};

static struct {
  pthread_mutex_t lock;
  struct fd_table *table; /* in the image; NULL: none yet */
  unsigned *places;       /* by number: the place, and 1 more; 0: none */
  unsigned numbers, came; /* so many of the former, and descriptors from the process before */
  bool lacks;             /* what is wanted and not in the table */
  atomic_bool marked;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- places ----------------------------------------------------------------------------------------------------------- */

/* The name of the table changes in one step, so that there is a whole one at any time. */
static bool reach_place(unsigned place) {
  struct fd_table *table = own.table, *larger;
  struct fd_store_front *front = image_front();
  unsigned room = table ? table->room : FIRST_ROOM;
  while (room <= place) {
    room *= 2;
  }
  larger = table && room == table->room ? table
           : front && room <= MOST      ? image_new(IMAGE_TABLE, sizeof *table + room * sizeof *table->entries)
                                        : NULL;
  if (!larger) {
    return false;
  }
  if (larger != table) {
    if (table) {
      memcpy(larger, table, sizeof *table + table->count * sizeof *table->entries);
    }
    larger->room = room;
    atomic_store(&front->table, image_name(larger));
    image_free(table);
    own.table = larger;
  }
  for (; larger->count <= place; larger->count++) {
    larger->entries[larger->count] = (struct entry){.fd = NONE, .before = NONE};
  }
  return true;
}

static bool reach_number(unsigned number) {
  unsigned numbers = own.numbers > 0 ? own.numbers : FIRST_ROOM;
  while (numbers <= number && numbers < MOST) {
    numbers *= 2;
  }
  unsigned *places = numbers == own.numbers ? own.places : realloc(own.places, numbers * sizeof *places);
  if (!places || number >= numbers) {
    return false;
  }
  memset(places + own.numbers, 0, (numbers - own.numbers) * sizeof *places);
  own.places = places;
  own.numbers = numbers;
  return true;
}

static struct entry *entry_of(int fd) {
  unsigned place = fd >= 0 && (unsigned)fd < own.numbers ? own.places[fd] : 0;
  return place > 0 && own.table->entries[place - 1].fd == fd ? &own.table->entries[place - 1] : NULL;
}

static struct entry *put(unsigned place, struct entry entry) {
  if (!reach_place(place) || (entry.fd >= 0 && !reach_number((unsigned)entry.fd))) {
    return NULL;
  }
  own.table->entries[place] = entry;
  if (entry.fd >= 0) {
    own.places[entry.fd] = place + 1;
  }
  return &own.table->entries[place];
}

/* The number means another file by now, or none. */
static void let_go(struct entry *entry) {
  own.places[entry->fd] = 0;
  entry->fd = entry->before = NONE;
  entry->wanted = entry->listens = entry->passed = entry->is_new = entry->came = 0;
}

static struct entry *enter(int fd) {
  struct stat status;
  struct entry *entry = entry_of(fd);
  bool is_open = fd >= 0 && fstat(fd, &status) == 0;
  if (entry && is_open && entry->device == status.st_dev && entry->inode == status.st_ino) {
    return entry;
  }
  if (entry) {
    let_go(entry);
  }
  unsigned place = 0;
  while (own.table && place < own.table->count && (own.table->entries[place].fd >= 0 || own.table->entries[place].there)) {
    place++;
  }
  const struct entry next = {.fd = fd, .before = NONE, .device = status.st_dev, .inode = status.st_ino};
  return is_open ? put(place, next) : NULL;
}

static const char *name_of(const struct entry *entry, char name[NAME]) {
  snprintf(name, NAME, CARRIED "%u", (unsigned)(entry - own.table->entries));
  return name;
}

/* Goes through the table: `for (struct entry *entry = NULL; (entry = next_of(entry));)`. */
static struct entry *next_of(const struct entry *entry) {
  size_t at = entry ? (size_t)(entry - own.table->entries) + 1 : 0;
  return own.table && at < own.table->count ? &own.table->entries[at] : NULL;
}

/* Whether it lies in the store; and whether it does not any more. */
static bool keep(struct entry *entry) {
  char name[NAME];
  entry->there = entry->there || systemd_keep(entry->fd, name_of(entry, name));
  return entry->there;
}

static bool forget(struct entry *entry) {
  char name[NAME];
  entry->there = entry->there && !systemd_forget(name_of(entry, name));
  return !entry->there;
}

/* -- this process's ------------------------------------------------------------------------------------------------- */

void fd_table_mark(void) { own.marked = true; }
bool fd_table_is_marked(void) { return own.marked; }

void fd_table_begin(void) {
  own.marked = false;
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    entry->wanted = entry->listens && entry->fd >= 0;
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

static unsigned count_needed(void) {
  unsigned needed = 0;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    needed += entry->wanted && !entry->passed;
  }
  return needed;
}

unsigned fd_table_needed(void) {
  pthread_mutex_lock(&own.lock);
  unsigned needed = count_needed();
  pthread_mutex_unlock(&own.lock);
  return needed;
}

static bool forget_others(void) {
  bool all = true;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    if (!entry->wanted && entry->fd >= 0) {
      let_go(entry);
    }
    all = (entry->wanted || forget(entry)) && all;
  }
  return all;
}

bool fd_table_keep(bool listeners_only, unsigned room) {
  unsigned others = 0;
  pthread_mutex_lock(&own.lock);
  bool all = !own.lacks || listeners_only;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    entry->wanted = entry->wanted && (entry->listens || !listeners_only);
    others += entry->there && !entry->wanted;
  }
  if (count_needed() + others > room) { /* else the store would leave out others without a word */
    forget_others();
  }
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    all = (!entry->wanted || entry->passed || keep(entry)) && all;
  }
  pthread_mutex_unlock(&own.lock);
  return all;
}

bool fd_table_forget_others(void) {
  pthread_mutex_lock(&own.lock);
  bool all = forget_others();
  pthread_mutex_unlock(&own.lock);
  return all;
}

void fd_table_withdraw(void) {
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    (void)forget(entry);
  }
  pthread_mutex_unlock(&own.lock);
}

static bool stay_open(int fd, bool stays) {
  int flags = fcntl(fd, F_GETFD);
  return flags >= 0 && fcntl(fd, F_SETFD, stays ? flags & ~FD_CLOEXEC : flags | FD_CLOEXEC) == 0;
}

bool fd_table_stay(bool stay) {
  pthread_mutex_lock(&own.lock);
  bool all = stay_open(image_fd(), stay) && !own.lacks;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    all = (!entry->wanted || entry->is_new || stay_open(entry->fd, stay)) && all;
  }
  pthread_mutex_unlock(&own.lock);
  return all;
}

/* Whether the number is still what it was. */
static bool has_stayed(const struct entry *entry) {
  struct stat status;
  return entry->fd > STDERR_FILENO && entry->fd != image_left_fd() && fstat(entry->fd, &status) == 0 &&
         status.st_dev == entry->device && status.st_ino == entry->inode;
}

static void keep_at_once(struct entry *entry) { (void)(count_needed() + OTHERS < systemd_keeps() && keep(entry)); }

void fd_table_enter(int fd) {
  fd_table_want(fd);
  pthread_mutex_lock(&own.lock);
  struct entry *entry = entry_of(fd);
  if (entry) {
    keep_at_once(entry);
  }
  pthread_mutex_unlock(&own.lock);
  own.marked = true;
}

/* -- listeners ------------------------------------------------------------------------------------------------------ */

bool fd_table_is_listener(int fd) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer;
}

void fd_table_listen(int fd, const char *path, bool passed, bool is_new, const struct stat *file) {
  own.marked = true;
  pthread_mutex_lock(&own.lock);
  struct entry *entry = enter(fd);
  if (entry) { /* else the next process makes its own */
    entry->before = NONE;
    entry->listens = 1;
    entry->passed = passed;
    entry->is_new = is_new;
    entry->path = state_checksum(path, strlen(path));
    entry->file_device = file->st_dev;
    entry->file_inode = file->st_ino;
    if (is_new) {
      keep_at_once(entry);
    }
  }
  pthread_mutex_unlock(&own.lock);
}

void fd_table_leave(int fd, bool is_aside) {
  own.marked = true;
  pthread_mutex_lock(&own.lock);
  struct entry *entry = entry_of(fd);
  if (entry && is_aside) {
    entry->before = fd;
  } else if (entry) {
    let_go(entry);
  }
  pthread_mutex_unlock(&own.lock);
}

/* Whether it listens there; `rival`: or at another address of TCP, if it is one of TCP that is looked for. */
static bool is_at(int fd, const char *path, const struct sockaddr *tcp, socklen_t length, bool *rival) {
  struct sockaddr_storage there = {0};
  socklen_t size = sizeof there;
  bool is_known = getsockname(fd, (struct sockaddr *)&there, &size) == 0, is_unix = there.ss_family == AF_UNIX;
  *rival = is_known && !is_unix && tcp;
  return tcp ? *rival && size == length && memcmp(&there, tcp, length) == 0
             : is_unix && strcmp(((struct sockaddr_un *)&there)->sun_path, path) == 0;
}

int fd_table_take_listener(const char *path, const struct sockaddr *tcp, socklen_t length, bool *passed, struct stat *file) {
  int found = NONE;
  const uint64_t sum = state_checksum(path, strlen(path));
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    bool rival = false, is_free = entry->before >= 0 && entry->listens && has_stayed(entry);
    bool is_it = is_free && (is_at(entry->fd, path, tcp, length, &rival) || (!tcp && entry->path == sum));
    if (is_it && found < 0) {
      found = entry->fd;
      entry->before = NONE;
      *passed = entry->passed;
      *file = (struct stat){.st_dev = entry->file_device, .st_ino = entry->file_inode};
    } else if (rival) {
      rights_close(entry->fd);
      let_go(entry);
      forget(entry);
    }
  }
  pthread_mutex_unlock(&own.lock);
  return found;
}

/* -- what came from the process before ------------------------------------------------------------------------------ */

static const struct fd_table *left_table(void) {
  size_t bytes = 0;
  const struct fd_store_front *front = image_left_front();
  const struct fd_table *table = front ? image_left(front->table, IMAGE_TABLE, &bytes) : NULL;
  return table && bytes >= sizeof *table && table->count <= (bytes - sizeof *table) / sizeof *table->entries ? table : NULL;
}

/* Nobody can connect there, since a reload was making it when its process was killed. */
static void remove_new(int fd, const struct entry *left) {
  struct sockaddr_un address = {0};
  socklen_t length = sizeof address - 1;
  struct stat there;
  if (getsockname(fd, (struct sockaddr *)&address, &length) == 0 && lstat(address.sun_path, &there) == 0 &&
      S_ISSOCK(there.st_mode) && there.st_dev == left->file_device && there.st_ino == left->file_inode) {
    unlink(address.sun_path); /* whoever binds there next replaces one that stays */
  }
}

/* What is not what the table that was left says is of use only if it listens. */
static void receive(unsigned place, int fd, const struct entry *left, bool is_there) {
  struct stat status = {0};
  bool is_known =
      fstat(fd, &status) == 0 && left && left->fd >= 0 && left->device == status.st_dev && left->inode == status.st_ino;
  struct entry entry = is_known ? *left : (struct entry){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
  bool is_new = is_known && left->is_new;
  entry.before = entry.fd;
  entry.fd = fd;
  entry.there = is_there;
  entry.came = 1;
  entry.listens = fd_table_is_listener(fd);
  entry.wanted = entry.is_new = 0;
  entry.passed = entry.passed && entry.listens && !is_there;
  if (is_new) {
    remove_new(fd, left);
  }
  if (is_new || (!is_known && !entry.listens)) {
    rights_close(fd);
    entry = (struct entry){.fd = NONE, .before = NONE, .there = is_there};
  }
  own.came += put(place, entry) && entry.came; /* without memory it stays open for nothing, until this process ends */
}

/* A number that makes no sense may be that of a descriptor which this process opens for itself: only those that are open by now
 * are to be had, and each once. */
static void receive_by_exec(const struct fd_table *left) {
  for (unsigned place = 0; left && place < left->count && place < MOST; place++) {
    const struct entry *entry = &left->entries[place];
    if (has_stayed(entry) && !entry_of(entry->fd)) {
      receive(place, entry->fd, entry, entry->there);
    } else if (entry->there) {
      (void)put(place, (struct entry){.fd = NONE, .before = NONE, .there = 1});
    }
  }
}

void fd_table_receive(bool by_manager) {
  char text[NAME];
  const struct fd_table *left = left_table();
  if (!by_manager) {
    receive_by_exec(left);
    return;
  }
  for (int fd = systemd_take_kept(CARRIED, text, sizeof text); fd >= 0; fd = systemd_take_kept(CARRIED, text, sizeof text)) {
    unsigned place = (unsigned)strtoul(text, NULL, 10);
    if (place < MOST) {
      receive(place, fd, left && place < left->count ? &left->entries[place] : NULL, true);
    }
  }
}

int fd_table_take(int before) {
  int found = NONE;
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; before >= 0 && found < 0 && (entry = next_of(entry));) {
    if (entry->before == before && !entry->listens) {
      found = entry->fd;
      entry->before = NONE;
    }
  }
  pthread_mutex_unlock(&own.lock);
  return found;
}

bool fd_table_stay_as_received(void) {
  unsigned stayed = 0;
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    stayed += entry->came && has_stayed(entry) && stay_open(entry->fd, true);
  }
  return stayed == own.came && stay_open(image_left_fd(), true);
}

void fd_table_close_rest(bool listeners) {
  pthread_mutex_lock(&own.lock);
  for (struct entry *entry = NULL; (entry = next_of(entry));) {
    if (entry->before >= 0 && (!entry->listens || (listeners && !entry->passed))) {
      rights_close(entry->fd);
      let_go(entry);
    }
  }
  pthread_mutex_unlock(&own.lock);
}
