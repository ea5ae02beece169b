#include "daemon/state/image.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/state/state.h"

enum { PAGE = 4096, FEWEST_PAGES = 256, AT_ONCE = 512 * 1024 };

#define MOST_PAGES (UINT64_C(1) << 22)

struct head { /* at the start of the memory */
  char version[STATE_VERSION_TEXT];
  uintptr_t base; /* its address in the process that made it */
  uint64_t born;
  _Atomic unsigned char disowned;
};

struct record {
  uint32_t kind, pages; /* IMAGE_FREE: unused */
  uint64_t bytes;
  struct record *next; /* valid in its own process only, while unused */
  _Alignas(64) unsigned char body[];
};

static struct {
  pthread_mutex_t lock; /* protects the fields below, but not records in use */
  unsigned char *base;  /* NULL: none yet */
  int fd;
  uint64_t used, most; /* pages handed out so far, and their maximum */
  struct record *free;
} image = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static struct {
  unsigned char *base;
  size_t bytes;
  int fd;
} left = {.fd = -1};

/* -- of this process ------------------------------------------------------------------------------------------------ */

/* Creates the file with its maximum size; it is sparse. RLIMIT_FSIZE is meant for files on disks, so it is raised to its hard
 * limit meanwhile. Returns -1 without a memfd or a descriptor, or if the limit is too small. */
static int make_file(void) {
  struct rlimit limit = {0};
  (void)getrlimit(RLIMIT_FSIZE, &limit);
  const struct rlimit none = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  image.most = limit.rlim_max / PAGE < MOST_PAGES ? limit.rlim_max / PAGE : MOST_PAGES;
  int fd = image.most < FEWEST_PAGES ? -1 : memfd_create("framed:image", MFD_CLOEXEC);
  bool is_made = fd >= 0 && setrlimit(RLIMIT_FSIZE, &none) == 0 && ftruncate(fd, (off_t)(image.most * PAGE)) == 0;
  if (fd >= 0 && (setrlimit(RLIMIT_FSIZE, &limit) != 0 || !is_made)) {
    close(fd);
    fd = -1;
  }
  image.most = fd >= 0 ? image.most : MOST_PAGES;
  return fd;
}

/* Without a file, uses ordinary memory, which ends with this process. */
static bool open_image(void) {
  int fd = make_file(), flags = MAP_NORESERVE | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  void *base = mmap(NULL, image.most * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) { /* if the address space is limited, try less */
    image.most /= 16;
    base = mmap(NULL, image.most * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
  }
  if (base == MAP_FAILED) {
    if (fd >= 0) {
      close(fd);
    }
    return false;
  }
  image.fd = fd;
  image.base = base;
  image.used = IMAGE_FRONT / PAGE + 1;
  /* otherwise a core dump would fill the holes */
  (void)madvise(image.base + image.used * PAGE, (image.most - image.used) * PAGE, MADV_DONTDUMP);
  struct head *head = base;
  head->base = (uintptr_t)base;
  head->born = (uint64_t)clock_now();
  state_version(head->version);
  return true;
}

static struct record *take_record(uint64_t pages) {
  struct record **link = &image.free;
  while (*link && (*link)->pages != pages) {
    link = &(*link)->next;
  }
  struct record *record = *link;
  if (record) {
    *link = record->next;
  } else if ((image.base || open_image()) && image.used + pages <= image.most) {
    record = (struct record *)(image.base + image.used * PAGE);
    (void)madvise(record, pages * PAGE, MADV_DODUMP);
    image.used += pages;
  }
  return record;
}

/* Returns zeroed memory, so that a lane meets no page fault in it unless it is large. Sizes are powers of two, so a free record
 * fits a later owner. */
void *image_new(enum image_kind kind, size_t bytes) {
  uint64_t pages = 1;
  while (pages < MOST_PAGES && pages * PAGE - sizeof(struct record) < bytes) {
    pages *= 2;
  }
  pthread_mutex_lock(&image.lock);
  struct record *record = take_record(pages);
  pthread_mutex_unlock(&image.lock);
  if (!record) {
    return NULL;
  }
  if (bytes <= AT_ONCE) {
    memset(record->body, 0, bytes);
  }
  record->pages = (uint32_t)pages;
  record->bytes = bytes;
  record->kind = kind;
  return record->body;
}

bool image_may_be_taken_over(void) {
  struct rlimit limit;
  return image.fd >= 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_max >= image.most * PAGE;
}

struct image_front *image_front(void) {
  pthread_mutex_lock(&image.lock);
  bool is_there = image.base || open_image();
  pthread_mutex_unlock(&image.lock);
  return is_there ? (struct image_front *)(image.base + IMAGE_FRONT) : NULL;
}

static struct record *record_of(const void *body) { return (struct record *)((uintptr_t)body - offsetof(struct record, body)); }

void *image_free(void *body) {
  if (!body) {
    return NULL;
  }
  struct record *record = record_of(body);
  record->kind = IMAGE_FREE;
  if (record->bytes > AT_ONCE && image.fd >= 0) { /* its pages become holes, which read as zeros */
    off_t at = (off_t)((unsigned char *)record - image.base);
    (void)fallocate(image.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at + PAGE, (off_t)(record->pages - 1) * PAGE);
    memset(record->body, 0, PAGE - sizeof *record);
  }
  pthread_mutex_lock(&image.lock);
  record->next = image.free;
  image.free = record;
  pthread_mutex_unlock(&image.lock);
  return NULL;
}

int image_fd(void) { return image.fd; }

uint64_t image_born(void) { return image.base ? ((const struct head *)image.base)->born : 0; }

void image_disown(void) {
  if (image.base) {
    ((struct head *)image.base)->disowned = 1;
  }
}

/* -- of the previous process ---------------------------------------------------------------------------------------- */

static void forget_left(void) {
  if (left.base) {
    munmap(left.base, left.bytes);
  }
  left.base = NULL;
}

bool image_open_left(int fd) {
  struct stat status;
  char version[STATE_VERSION_TEXT];
  image_close_left();
  left.fd = fd;
  left.bytes = fstat(fd, &status) == 0 ? (size_t)status.st_size / PAGE * PAGE : 0;
  void *base = left.bytes < FEWEST_PAGES * PAGE
                   ? MAP_FAILED
                   : mmap(NULL, left.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  left.base = base != MAP_FAILED && madvise(base, left.bytes, MADV_DONTDUMP) == 0 ? base : NULL;
  const struct head *head = (const struct head *)left.base;
  if (head && strncmp(head->version, state_version(version), STATE_VERSION_TEXT) != 0) {
    forget_left();
  }
  return left.base && head->disowned == 0;
}

uint64_t image_left_born(void) { return left.base ? ((const struct head *)left.base)->born : 0; }

struct image_front *image_left_front(void) {
  return left.base ? (struct image_front *)(left.base + IMAGE_FRONT) : NULL;
}

int image_left_fd(void) { return left.fd; }

void image_close_left(void) {
  forget_left();
  if (left.fd >= 0) {
    close(left.fd);
  }
  left.fd = -1;
}

void *image_left(const void *address, enum image_kind kind, size_t *bytes) {
  uintptr_t base = left.base ? ((const struct head *)left.base)->base : 0;
  uintptr_t at = (uintptr_t)address - offsetof(struct record, body) - base;
  if (!left.base || !address || at % PAGE != 0 || at == 0 || at >= left.bytes) {
    return NULL;
  }
  struct record *record = (struct record *)(left.base + at);
  *bytes = record->bytes;
  return record->kind == (uint32_t)kind && *bytes <= left.bytes - at - sizeof *record ? record->body : NULL;
}

void *image_left_at(const void *address, enum image_kind kind, size_t bytes) {
  size_t found = 0;
  void *record = image_left(address, kind, &found);
  return found == bytes ? record : NULL;
}
