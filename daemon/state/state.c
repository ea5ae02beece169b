#include "daemon/state/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tape is as long as its readers' rests are large; more than this is none. */
#define LONGEST_TAPE (UINT64_C(1) << 36)

static const char magic[8] = "FRMDSTAT";

struct header {
  char magic[sizeof magic];
  char version[STATE_VERSION_TEXT];
  uint64_t length; /* of the tape behind it */
  uint64_t checksum;
  uint64_t own_checksum; /* of the fields before */
};

static uint64_t mix(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return sum ^ (sum >> 29);
}

/* FNV-1a by words of 8 bytes, and a last mix, so that every bit of the input changes half of those that come out. */
uint64_t state_checksum(const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ length;
  const unsigned char *end = at + length;
  for (; (size_t)(end - at) >= sizeof sum; at += sizeof sum) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    sum = mix(sum, word);
  }
  if (at < end) {
    uint64_t word = 0;
    memcpy(&word, at, (size_t)(end - at));
    sum = mix(sum, word);
  }
  sum *= UINT64_C(0xbf58476d1ce4e5b9);
  return sum ^ (sum >> 32);
}

static unsigned layout; /* a hash of what is passed whole; set once, before any thread */

void state_set_layout(const size_t *sizes, size_t count) {
  layout = (unsigned)(state_checksum(sizes, count * sizeof *sizes) >> 32);
}

const char *state_version(char text[STATE_VERSION_TEXT]) {
  snprintf(text, STATE_VERSION_TEXT, "%d.%08x", STATE_VERSION, layout);
  return text;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static bool write_all(int fd, const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  while (length > 0) {
    ssize_t part = write(fd, at, length);
    if (part < 0 && errno == EINTR) {
      continue;
    }
    if (part <= 0) {
      return false;
    }
    at += part;
    length -= (size_t)part;
  }
  return true;
}

int state_write(const struct tape *tape, struct failure *failure) {
  struct header header = {.length = tape->length};
  memcpy(header.magic, magic, sizeof magic);
  state_version(header.version);
  header.checksum = state_checksum(tape->bytes, tape->length);
  header.own_checksum = state_checksum(&header, offsetof(struct header, own_checksum));
  int fd = tape->broken ? -1 : memfd_create("framed:state", MFD_CLOEXEC);
  if (fd < 0 || !write_all(fd, &header, sizeof header) || !write_all(fd, tape->bytes, tape->length)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the state cannot be kept: %s",
                tape->broken ? "not enough memory" : strerror(errno));
    if (fd >= 0) {
      close(fd);
    }
    return -1;
  }
  return fd;
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static bool read_all(int fd, void *bytes, size_t length, off_t offset) {
  unsigned char *at = bytes;
  while (length > 0) {
    ssize_t part = pread(fd, at, length, offset);
    if (part < 0 && errno == EINTR) {
      continue;
    }
    if (part <= 0) {
      return false;
    }
    at += part;
    offset += part;
    length -= (size_t)part;
  }
  return true;
}

static bool is_wrong(struct failure *failure, const char *what) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "%s", what);
}

static bool check(const struct header *header, off_t size, struct failure *failure) {
  char version[STATE_VERSION_TEXT];
  if (memcmp(header->magic, magic, sizeof magic) != 0) {
    return is_wrong(failure, "it is none of framed");
  }
  if (header->own_checksum != state_checksum(header, offsetof(struct header, own_checksum))) {
    return is_wrong(failure, "the checksum of its header is wrong");
  }
  if (strncmp(header->version, state_version(version), STATE_VERSION_TEXT) != 0) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "it has version %.*s, and this program takes %s",
                       STATE_VERSION_TEXT, header->version, version);
  }
  return (header->length <= LONGEST_TAPE && (uint64_t)size == sizeof *header + header->length) ||
         is_wrong(failure, "its length is wrong");
}

bool state_read(int fd, struct tape *tape, struct failure *failure) {
  struct header header;
  struct stat status;
  if (fstat(fd, &status) != 0 || !read_all(fd, &header, sizeof header, 0)) {
    return is_wrong(failure, "it cannot be read");
  }
  if (!check(&header, status.st_size, failure)) {
    return false;
  }
  unsigned char *bytes = malloc((size_t)header.length + 1);
  if (!bytes) {
    return is_wrong(failure, "there is not enough memory for it");
  }
  if (!read_all(fd, bytes, (size_t)header.length, sizeof header) ||
      state_checksum(bytes, (size_t)header.length) != header.checksum) {
    free(bytes);
    return is_wrong(failure, "its checksum is wrong");
  }
  tape_load(tape, bytes, (size_t)header.length);
  tape->same_descriptors = true;
  return true;
}

/* -- of all process images ------------------------------------------------------------------------------------------ */

void succession_pass(struct succession *succession, struct tape *tape) {
  unsigned cause = succession->cause;
  TAPE_PASS(tape, succession->counts);
  tape_pass_below(tape, &cause, SUCCESSION_CAUSE_COUNT);
  succession->cause = (enum succession_cause)cause;
  TAPE_PASS(tape, succession->text);
  tape_pass_time(tape, &succession->stopped);
  tape_pass_time(tape, &succession->longest);
  tape_pass_time(tape, &succession->total);
  TAPE_PASS(tape, succession->closed);
  for (unsigned i = 0; i < SUCCESSION_FAULTS; i++) {
    tape_pass_time(tape, &succession->faults[i]);
  }
  succession->text[sizeof succession->text - 1] = '\0';
}

bool succession_replace(struct succession *succession, struct tape *tape, size_t at) {
  struct tape part;
  tape_begin(&part);
  succession_pass(succession, &part);
  bool fits = !part.broken && at <= tape->length && part.length <= tape->length - at;
  if (fits) {
    memcpy(tape->bytes + at, part.bytes, part.length);
  }
  tape_clear(&part);
  return fits;
}
