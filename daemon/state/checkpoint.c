#include "daemon/state/checkpoint.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/state/state.h"

/* A name is the owner's serial number with the page's index below it. */
#define INDEX_BITS 13

static_assert(CHRONICLE_PAGES == 1 << INDEX_BITS, "the index of every page fits a name");

struct book {
  char version[STATE_VERSION_TEXT];
  struct page pages[CHRONICLE_PAGES];
};

static struct {
  pthread_mutex_t lock; /* for what follows, but for the pages that somebody has */
  struct book *book;    /* NULL: none */
  int fd;
  uint64_t serial;
  struct page *free;
  unsigned used;           /* pages that were ever given */
  const struct book *last; /* of the process before */
} chronicle = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* -- writing ------------------------------------------------------------------------------------------------------- */

bool chronicle_open(void) {
  int fd = memfd_create("framed:chronicle", MFD_CLOEXEC);
  void *book = fd >= 0 && ftruncate(fd, sizeof(struct book)) == 0
                   ? mmap(NULL, sizeof(struct book), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)
                   : MAP_FAILED;
  if (book == MAP_FAILED) {
    if (fd >= 0) {
      close(fd);
    }
    return false;
  }
  chronicle.fd = fd;
  chronicle.book = book;
  state_version(chronicle.book->version);
  return true;
}

int chronicle_fd(void) { return chronicle.fd; }

static struct page *take_page(void) {
  struct page *page = chronicle.free;
  if (page) {
    chronicle.free = page->next;
  } else if (chronicle.used < CHRONICLE_PAGES) {
    page = &chronicle.book->pages[chronicle.used++];
  }
  return page;
}

/* What was noted of another owner goes before the new one has the page, and a lane meets no page fault at its first notes. */
static void clear(struct page *page, uint64_t serial) {
  for (int i = 0; i < 2; i++) {
    atomic_store(&page->notes[i].number, 0);
    memset(page->notes[i].bytes, 0, PAGE_PREFAULTED);
  }
  page->last = 0;
  atomic_store(&page->touched, 0);
  page->serial = serial;
}

struct page *page_new(void) {
  if (!chronicle.book) {
    return NULL;
  }
  pthread_mutex_lock(&chronicle.lock);
  struct page *page = take_page();
  uint64_t serial = ++chronicle.serial;
  pthread_mutex_unlock(&chronicle.lock);
  if (page) {
    clear(page, serial);
  }
  return page;
}

struct page *page_free(struct page *page) {
  if (page) {
    page->serial = 0;
    pthread_mutex_lock(&chronicle.lock);
    page->next = chronicle.free;
    chronicle.free = page;
    pthread_mutex_unlock(&chronicle.lock);
  }
  return NULL;
}

uint64_t page_name(const struct page *page) {
  return page ? page->serial << INDEX_BITS | (uint64_t)(page - chronicle.book->pages) : 0;
}

/* The older of the two. */
static struct note *place_of(struct page *page) { return &page->notes[page->last % 2]; }

void page_begin(struct page *page, struct tape *tape) {
  struct note *note = place_of(page);
  atomic_store_explicit(&note->number, NOTE_BEGUN, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  tape_begin_in(tape, note->bytes, sizeof note->bytes);
  tape->live = true;
}

void page_end(struct page *page, const struct tape *tape) {
  struct note *note = place_of(page);
  if (tape->broken) {
    atomic_store(&page->notes[0].number, 0);
    atomic_store(&page->notes[1].number, 0);
    page->last++; /* which is nowhere */
    page_touch(page);
    return;
  }
  note->length = (uint32_t)tape->length;
  note->checksum = state_checksum(note->bytes, tape->length);
  page->last++;
  atomic_signal_fence(memory_order_seq_cst);
  atomic_store_explicit(&note->number, page->last, memory_order_release);
  page_untouch(page);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

bool chronicle_look_into(int fd) {
  struct stat status;
  char version[STATE_VERSION_TEXT];
  if (fstat(fd, &status) != 0 || status.st_size != (off_t)sizeof(struct book)) {
    return false;
  }
  const void *book = mmap(NULL, sizeof(struct book), PROT_READ, MAP_SHARED, fd, 0);
  if (book == MAP_FAILED) {
    return false;
  }
  chronicle.last = book;
  if (strncmp(chronicle.last->version, state_version(version), STATE_VERSION_TEXT) != 0) {
    chronicle_look_away();
    return false;
  }
  return true;
}

void chronicle_look_away(void) {
  if (chronicle.last) {
    munmap((void *)(uintptr_t)chronicle.last, sizeof(struct book));
  }
  chronicle.last = NULL;
}

static bool is_whole(const struct note *note) {
  return note->length <= sizeof note->bytes && state_checksum(note->bytes, note->length) == note->checksum;
}

/* No note is later than the last one. */
static bool is_late(const struct note *note, uint64_t last) {
  uint64_t number = atomic_load(&note->number);
  return number != NOTE_BEGUN && number > last;
}

/* The last note; NULL, and `lost` if there was one that cannot be believed. A note that was being committed is none yet. */
static const struct note *last_note(const struct page *page, bool *lost) {
  uint64_t last = page->last;
  const struct note *note = last > 0 ? &page->notes[(last - 1) % 2] : NULL;
  if (note && atomic_load(&note->number) == NOTE_BEGUN) {
    last--;
    note = last > 0 ? &page->notes[(last - 1) % 2] : NULL;
  }
  *lost = is_late(&page->notes[0], page->last) || is_late(&page->notes[1], page->last) ||
          (note && (atomic_load(&note->number) != last || !is_whole(note)));
  return *lost ? NULL : note;
}

enum page_state chronicle_read(uint64_t name, struct tape *tape, bool *noted) {
  const struct page *page = chronicle.last ? &chronicle.last->pages[name % CHRONICLE_PAGES] : NULL;
  *tape = (struct tape){.broken = true};
  *noted = false;
  if (!page || name == 0 || page->serial != name >> INDEX_BITS) {
    return PAGE_UNKNOWN;
  }
  bool lost;
  const struct note *note = last_note(page, &lost);
  bool touched = atomic_load(&page->touched) != 0;
  if (lost) {
    return PAGE_UNKNOWN;
  }
  if (!note) {
    return touched ? PAGE_TOUCHED : PAGE_EMPTY;
  }
  unsigned char *bytes = malloc(note->length > 0 ? note->length : 1);
  if (!bytes) {
    return PAGE_UNKNOWN;
  }
  memcpy(bytes, note->bytes, note->length);
  tape_load(tape, bytes, note->length);
  tape->live = true;
  *noted = true;
  return touched ? PAGE_TOUCHED : PAGE_NOTED;
}
