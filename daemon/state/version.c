/* The version of the state: what must be equal in two programs for one to take over from the other. */
#include <stdio.h>
#include <string.h>

#include "daemon/state/state.h"

/* FNV-1a over words of 8 bytes with a final mix, so that every input bit changes half of the output bits. */
uint64_t state_checksum(const void *bytes, size_t length) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ length;
  for (size_t at = 0; at < length; at += sizeof sum) {
    uint64_t word = 0;
    memcpy(&word, (const unsigned char *)bytes + at, length - at < sizeof word ? length - at : sizeof word);
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    sum ^= sum >> 29;
  }
  sum *= UINT64_C(0xbf58476d1ce4e5b9);
  return sum ^ (sum >> 32);
}

static unsigned layout; /* hash of the layout; set once, before any thread */

void state_set_layout(const size_t *sizes, size_t count) {
  layout = (unsigned)(state_checksum(sizes, count * sizeof *sizes) >> 32);
}

const char *state_version(char text[STATE_VERSION_TEXT]) {
  snprintf(text, STATE_VERSION_TEXT, "%d.%08x", STATE_VERSION, layout);
  return text;
}
