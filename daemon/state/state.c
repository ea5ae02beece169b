#include "daemon/state/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A codec is as long as its readers' rests are large; more than this is none. */
#define LONGEST_TAPE (UINT64_C(1) << 36)

static const char magic[8] = "FRMDSTAT";

struct header {
  char magic[sizeof magic];
  char version[STATE_VERSION_TEXT];
  uint64_t length; /* of the codec behind it */
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

static bool state_write_all(int fd, const void *bytes, size_t length) {
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

int state_write(const struct codec *codec, struct failure *failure) {
  struct header header = {.length = codec->length};
  memcpy(header.magic, magic, sizeof magic);
  state_version(header.version);
  header.checksum = state_checksum(codec->bytes, codec->length);
  header.own_checksum = state_checksum(&header, offsetof(struct header, own_checksum));
  int fd = codec->broken ? -1 : memfd_create("framed:state", MFD_CLOEXEC);
  if (fd < 0 || !state_write_all(fd, &header, sizeof header) || !state_write_all(fd, codec->bytes, codec->length)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the state cannot be kept: %s",
                codec->broken ? "not enough memory" : strerror(errno));
    if (fd >= 0) {
      close(fd);
    }
    return -1;
  }
  return fd;
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static bool state_read_all(int fd, void *bytes, size_t length, off_t offset) {
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

bool state_read(int fd, struct codec *codec, struct failure *failure) {
  struct header header;
  struct stat status;
  if (fstat(fd, &status) != 0 || !state_read_all(fd, &header, sizeof header, 0)) {
    return is_wrong(failure, "it cannot be read");
  }
  if (!check(&header, status.st_size, failure)) {
    return false;
  }
  unsigned char *bytes = malloc((size_t)header.length + 1);
  if (!bytes) {
    return is_wrong(failure, "there is not enough memory for it");
  }
  if (!state_read_all(fd, bytes, (size_t)header.length, sizeof header) ||
      state_checksum(bytes, (size_t)header.length) != header.checksum) {
    free(bytes);
    return is_wrong(failure, "its checksum is wrong");
  }
  codec_load(codec, bytes, (size_t)header.length);
  codec->same_descriptors = true;
  return true;
}

/* -- of all process images ------------------------------------------------------------------------------------------ */

void history_pass(struct history *history, struct codec *codec) {
  unsigned cause = history->cause;
  CODEC_PASS(codec, history->counts);
  codec_pass_below(codec, &cause, HISTORY_CAUSE_COUNT);
  history->cause = (enum history_cause)cause;
  CODEC_PASS(codec, history->text);
  codec_pass_time(codec, &history->stopped);
  codec_pass_time(codec, &history->longest);
  codec_pass_time(codec, &history->total);
  CODEC_PASS(codec, history->closed);
  CODEC_PASS(codec, history->suspect);
  CODEC_PASS(codec, history->is_broken);
  for (unsigned i = 0; i < HISTORY_FAULTS; i++) {
    codec_pass_time(codec, &history->faults[i]);
  }
  history->text[sizeof history->text - 1] = '\0';
}

bool history_replace(struct history *history, struct codec *codec, size_t at) {
  struct codec part;
  codec_begin(&part);
  history_pass(history, &part);
  bool fits = !part.broken && at <= codec->length && part.length <= codec->length - at;
  if (fits) {
    memcpy(codec->bytes + at, part.bytes, part.length);
  }
  codec_clear(&part);
  return fits;
}

void trouble_pass(struct trouble *trouble, struct codec *codec) {
  CODEC_PASS(codec, trouble->count);
  codec_pass_time(codec, &trouble->since);
  codec_pass_time(codec, &trouble->last);
  codec_pass(codec, trouble->text, sizeof trouble->text);
  codec_pass(codec, trouble->remedy, sizeof trouble->remedy);
  if (!codec->writing) {
    trouble->text[sizeof trouble->text - 1] = trouble->remedy[sizeof trouble->remedy - 1] = '\0';
  }
}
