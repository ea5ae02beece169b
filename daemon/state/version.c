/* What must be equal in two programs for one to understand what the other left. */
#include <stdio.h>
#include <string.h>

#include "daemon/state/state.h"

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
