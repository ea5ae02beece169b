/*
 * What a native client may send: any bytes as its HELLO, and any as the FRAMEs behind it, in pieces of any size. A HELLO
 * that is taken is one that says something, a refused one gets a sentence; frames are counted as they should be, payloads
 * never leave their slots, and the same bytes in other pieces give the same frames.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/receive.h"
#include "daemon/wire/native.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 24, SLOTS = 3 };

struct outcome {
  bool malformed;
  uint64_t in, invalid;
  uint64_t hash; /* of all frames and what they say */
};

static void hash_in(uint64_t *hash, const void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    *hash = (*hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
  }
}

static void take_frames(struct flow *flow, struct outcome *outcome) {
  for (struct slot *slot = slot_oldest(&flow->ring, SLOT_READY); slot; slot = slot_oldest(&flow->ring, SLOT_READY)) {
    hash_in(&outcome->hash, slot->input, BYTES);
    hash_in(&outcome->hash, &slot->frame.tag, sizeof slot->frame.tag);
    hash_in(&outcome->hash, &slot->frame.flags, sizeof slot->frame.flags);
    assert((slot->frame.flags & ~NATIVE_FRAME_FLAGS) == 0);
    hash_in(&outcome->hash, &slot->frame.deadline, sizeof slot->frame.deadline);
    assert(slot->frame.began >= 0 && slot->frame.began <= 1);
    flow_drop(flow, slot, FATE_EMITTED, 1);
  }
}

/* Puts up to `piece` of the bytes where the fill step wants them; returns how many, SIZE_MAX: malformed. */
static size_t give(struct receive *receive, const uint8_t *data, size_t size, size_t piece) {
  struct iovec vector[RECEIVE_VECTORS];
  int count = receive_vector(receive, vector, 1);
  size_t given = 0;
  if (count < 0) {
    return SIZE_MAX;
  }
  for (int i = 0; i < count && given < size && given < piece; i++) {
    size_t part = vector[i].iov_len < size - given ? vector[i].iov_len : size - given;
    part = part < piece - given ? part : piece - given;
    memcpy(vector[i].iov_base, data + given, part);
    given += part;
  }
  return given == 0 || receive_advance(receive, given, 1, 1) ? given : SIZE_MAX;
}

static struct outcome pass(const uint8_t *data, size_t size, size_t piece) {
  static struct account account;
  struct outcome outcome = {0};
  struct flow flow = {.account = &account, .input_bytes = BYTES, .output_bytes = BYTES};
  struct frame_format format = format_image(PIXELS_GRAY, BYTES, 1);
  struct receive receive;
  memset(&account, 0, sizeof account);
  slot_ring_init(&flow.ring, SLOTS);
  for (unsigned i = 0; i < SLOTS; i++) {
    flow.ring.slots[i].input = malloc(BYTES); /* each alone, so that the sanitizer sees its end */
  }
  receive_init(&receive, &flow, CONFIG_PROTOCOL_NATIVE, &format, NULL);
  receive_start(&receive);
  size_t given = 1;
  while (!outcome.malformed && (given > 0 || size > 0)) {
    given = give(&receive, data, size, piece);
    outcome.malformed = given == SIZE_MAX;
    if (!outcome.malformed) {
      assert(given > 0 || size == 0 || slot_count(&flow.ring, SLOT_READY) > 0);
      data += given;
      size -= given;
    }
    take_frames(&flow, &outcome);
  }
  receive_end(&receive, FATE_INVALID, 1);
  take_frames(&flow, &outcome);
  outcome.in = account.now.ledger.in;
  outcome.invalid = account.now.ledger.fates[FATE_INVALID];
  assert(flow_in_flight(&flow) == 0);
  assert(outcome.in == account.now.ledger.fates[FATE_EMITTED] + outcome.invalid);
  for (unsigned i = 0; i < SLOTS; i++) {
    free(flow.ring.slots[i].input);
  }
  return outcome;
}

static void greet(const uint8_t *data, size_t size) {
  struct native_hello hello;
  enum native_error_code code;
  char problem[PROTOCOL_PROBLEM] = "";
  unsigned char bytes[NATIVE_HELLO_BYTES] = {0};
  memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
  if (native_read_hello(bytes, &hello, &code, problem)) {
    assert(native_may_begin(bytes, sizeof bytes));
    assert(hello.version == NATIVE_VERSION && hello.role >= NATIVE_PRODUCER && hello.role <= NATIVE_BOTH);
    assert(hello.transport <= NATIVE_SHARED && (hello.flags & ~(uint32_t)NATIVE_HELLO_ACKS) == 0);
  } else {
    assert(problem[0] != '\0' && (code == NATIVE_E_PROTOCOL || code == NATIVE_E_VERSION));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  greet(data + 1, size - 1);
  struct outcome whole = pass(data + 1, size - 1, SIZE_MAX);
  struct outcome pieces = pass(data + 1, size - 1, (size_t)data[0] + 1);
  if (whole.malformed != pieces.malformed || whole.in != pieces.in || whole.invalid != pieces.invalid ||
      whole.hash != pieces.hash) {
    abort();
  }
  return 0;
}
