#include "daemon/state/checkpoint.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/state/state.h"

/* A name is the owner's serial number with the record's index below it. */
#define INDEX_BITS 13

static_assert(CHECKPOINT_RECORDS == 1 << INDEX_BITS, "the index of every page fits a name");

struct book {
  char version[STATE_VERSION_TEXT];
  struct record pages[CHECKPOINT_RECORDS];
};

static struct {
  pthread_mutex_t lock; /* for what follows, but for the records that somebody has */
  struct book *book;    /* NULL: none */
  int fd;
  uint64_t serial;
  struct record *free;
  unsigned used;           /* records that were ever given */
  const struct book *last; /* of the process before */
} checkpoint = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* -- writing ------------------------------------------------------------------------------------------------------- */

bool checkpoint_open(void) {
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
  checkpoint.fd = fd;
  checkpoint.book = book;
  state_version(checkpoint.book->version);
  return true;
}

int checkpoint_fd(void) { return checkpoint.fd; }

static struct record *take_page(void) {
  struct record *record = checkpoint.free;
  if (record) {
    checkpoint.free = record->next;
  } else if (checkpoint.used < CHECKPOINT_RECORDS) {
    record = &checkpoint.book->pages[checkpoint.used++];
  }
  return record;
}

/* What was noted of another owner goes before the new one has the record, and a lane meets no page fault at its first notes.
 */
static void clear(struct record *record, uint64_t serial) {
  for (int i = 0; i < 2; i++) {
    atomic_store(&record->notes[i].number, 0);
    memset(record->notes[i].bytes, 0, RECORD_PREFAULTED);
  }
  record->last = 0;
  atomic_store(&record->touched, 0);
  record->serial = serial;
}

struct record *record_new(void) {
  if (!checkpoint.book) {
    return NULL;
  }
  pthread_mutex_lock(&checkpoint.lock);
  struct record *record = take_page();
  uint64_t serial = ++checkpoint.serial;
  pthread_mutex_unlock(&checkpoint.lock);
  if (record) {
    clear(record, serial);
  }
  return record;
}

struct record *record_free(struct record *record) {
  if (record) {
    record->serial = 0;
    pthread_mutex_lock(&checkpoint.lock);
    record->next = checkpoint.free;
    checkpoint.free = record;
    pthread_mutex_unlock(&checkpoint.lock);
  }
  return NULL;
}

uint64_t record_name(const struct record *record) {
  return record ? record->serial << INDEX_BITS | (uint64_t)(record - checkpoint.book->pages) : 0;
}

/* The older of the two notes, which the next one replaces. */
static struct note *checkpoint_place_of(struct record *record) { return &record->notes[record->last % 2]; }

void record_begin(struct record *record, struct codec *codec) {
  struct note *note = checkpoint_place_of(record);
  atomic_store_explicit(&note->number, NOTE_BEGUN, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  codec_begin_in(codec, note->bytes, sizeof note->bytes);
  codec->live = true;
}

void record_end(struct record *record, const struct codec *codec) {
  struct note *note = checkpoint_place_of(record);
  if (codec->broken) {
    atomic_store(&record->notes[0].number, 0);
    atomic_store(&record->notes[1].number, 0);
    record->last++; /* which is nowhere */
    record_touch(record);
    return;
  }
  note->length = (uint32_t)codec->length;
  note->checksum = state_checksum(note->bytes, codec->length);
  record->last++;
  atomic_signal_fence(memory_order_seq_cst);
  atomic_store_explicit(&note->number, record->last, memory_order_release);
  record_untouch(record);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

bool checkpoint_look_into(int fd) {
  struct stat status;
  char version[STATE_VERSION_TEXT];
  if (fstat(fd, &status) != 0 || status.st_size != (off_t)sizeof(struct book)) {
    return false;
  }
  const void *book = mmap(NULL, sizeof(struct book), PROT_READ, MAP_SHARED, fd, 0);
  if (book == MAP_FAILED) {
    return false;
  }
  checkpoint.last = book;
  if (strncmp(checkpoint.last->version, state_version(version), STATE_VERSION_TEXT) != 0) {
    checkpoint_look_away();
    return false;
  }
  return true;
}

void checkpoint_look_away(void) {
  if (checkpoint.last) {
    munmap((void *)(uintptr_t)checkpoint.last, sizeof(struct book));
  }
  checkpoint.last = NULL;
}

static bool checkpoint_is_whole(const struct note *note) {
  return note->length <= sizeof note->bytes && state_checksum(note->bytes, note->length) == note->checksum;
}

/* No note is later than the last one. */
static bool checkpoint_is_late(const struct note *note, uint64_t last) {
  uint64_t number = atomic_load(&note->number);
  return number != NOTE_BEGUN && number > last;
}

/* The last note; NULL, and `lost` if there was one that cannot be believed. A note that was being committed is none yet. */
static const struct note *last_note(const struct record *record, bool *lost) {
  uint64_t last = record->last;
  const struct note *note = last > 0 ? &record->notes[(last - 1) % 2] : NULL;
  if (note && atomic_load(&note->number) == NOTE_BEGUN) {
    last--;
    note = last > 0 ? &record->notes[(last - 1) % 2] : NULL;
  }
  *lost = checkpoint_is_late(&record->notes[0], record->last) || checkpoint_is_late(&record->notes[1], record->last) ||
          (note && (atomic_load(&note->number) != last || !checkpoint_is_whole(note)));
  return *lost ? NULL : note;
}

enum record_state checkpoint_read(uint64_t name, struct codec *codec, bool *noted) {
  const struct record *record = checkpoint.last ? &checkpoint.last->pages[name % CHECKPOINT_RECORDS] : NULL;
  *codec = (struct codec){.broken = true};
  *noted = false;
  if (!record || name == 0 || record->serial != name >> INDEX_BITS) {
    return RECORD_UNKNOWN;
  }
  bool lost;
  const struct note *note = last_note(record, &lost);
  bool touched = atomic_load(&record->touched) != 0;
  if (lost) {
    return RECORD_UNKNOWN;
  }
  if (!note) {
    return touched ? RECORD_TOUCHED : RECORD_EMPTY;
  }
  unsigned char *bytes = malloc(note->length > 0 ? note->length : 1);
  if (!bytes) {
    return RECORD_UNKNOWN;
  }
  memcpy(bytes, note->bytes, note->length);
  codec_load(codec, bytes, note->length);
  codec->live = true;
  *noted = true;
  return touched ? RECORD_TOUCHED : RECORD_NOTED;
}
