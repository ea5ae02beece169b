/*
 * The y4m stream as a producer may send it: any bytes, in reads of any size. Whatever comes, frames are counted as they
 * should be, payloads never leave their slots, and the same bytes in other pieces give the same frames.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/receive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WIDTH = 5, HEIGHT = 3, BYTES = 15 + 2 * 3 * 2, SLOTS = 3 };

struct outcome {
  bool malformed;
  uint64_t in;
  uint64_t hash; /* of all complete frames */
};

static void take_frames(struct flow *flow, struct outcome *outcome) {
  for (struct slot *slot = slot_oldest(&flow->ring, SLOT_READY); slot; slot = slot_oldest(&flow->ring, SLOT_READY)) {
    for (size_t i = 0; i < BYTES; i++) {
      outcome->hash = (outcome->hash ^ slot->input[i]) * UINT64_C(1099511628211);
    }
    flow_drop(flow, slot, FATE_EMITTED, 1);
  }
}

/* One pass over the bytes in pieces of `piece`; a place the fill step gives is always used. */
static struct outcome pass(const uint8_t *data, size_t size, size_t piece) {
  static struct account account;
  struct outcome outcome = {0};
  struct flow flow = {.account = &account, .input_bytes = BYTES, .output_bytes = BYTES};
  struct frame_format format = format_image(PIXELS_YUV420P, WIDTH, HEIGHT);
  struct receive receive;
  memset(&account, 0, sizeof account);
  slot_ring_init(&flow.ring, SLOTS);
  for (unsigned i = 0; i < SLOTS; i++) {
    flow.ring.slots[i].input = malloc(BYTES); /* each alone, so that the sanitizer sees its end */
  }
  receive_init(&receive, &flow, CONFIG_PROTOCOL_Y4M, &format, NULL);
  while (!outcome.malformed) {
    struct iovec vector[RECEIVE_VECTORS];
    int count = receive_vector(&receive, vector, 1);
    size_t given = 0;
    outcome.malformed = count < 0;
    for (int i = 0; i < count && size > 0 && given < piece; i++) {
      size_t part = vector[i].iov_len < size ? vector[i].iov_len : size;
      part = part < piece - given ? part : piece - given;
      memcpy(vector[i].iov_base, data, part);
      data += part;
      size -= part;
      given += part;
    }
    if (count > 0 && given > 0) {
      outcome.malformed = !receive_advance(&receive, given, 1, 1);
    }
    bool stuck = count == 0 && slot_count(&flow.ring, SLOT_READY) == 0;
    assert(!stuck);
    take_frames(&flow, &outcome);
    if (count > 0 && given == 0) {
      break; /* the end of the stream */
    }
  }
  receive_end(&receive, FATE_INVALID, 1);
  take_frames(&flow, &outcome);
  outcome.in = account.now.ledger.in;
  assert(flow_in_flight(&flow) == 0);
  assert(account.now.ledger.in == account.now.ledger.fates[FATE_EMITTED] + account.now.ledger.fates[FATE_INVALID]);
  for (unsigned i = 0; i < SLOTS; i++) {
    free(flow.ring.slots[i].input);
  }
  return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  struct outcome whole = pass(data + 1, size - 1, SIZE_MAX);
  struct outcome pieces = pass(data + 1, size - 1, (size_t)data[0] + 1);
  if (whole.malformed != pieces.malformed || whole.in != pieces.in || whole.hash != pieces.hash) {
    abort();
  }
  return 0;
}
