#include "tests/unit/libframed/resume_fixture.h"

#include <string.h>

struct fake fake;
struct framed *client;

void open_for(int role, int transport, int64_t reconnect_for_ns) {
  fake_open(&fake, role, transport);
  fake.options.reconnect_for_ns = reconnect_for_ns;
  client = fake_connect(&fake);
  ck_assert_msg(client != NULL, "%s", fake.problem.text);
}

void close_both(void) {
  client = framed_close(client);
  fake_close(&fake);
}

uint32_t expect_frame(uint64_t sequence, bool again) {
  unsigned char bytes[FRAME_BYTES + FAKE_INPUT];
  struct native_frame frame;
  fake_read(&fake, bytes, sizeof bytes);
  memcpy(&frame, bytes + sizeof(struct native_header), sizeof frame);
  ck_assert_uint_eq(frame.sequence, sequence);
  ck_assert_int_eq(frame.timestamp, 11);
  ck_assert_int_eq(frame.deadline, 22);
  ck_assert_uint_eq(frame.zero, 0);
  ck_assert_int_eq((frame.flags & NATIVE_AGAIN) != 0, again);
  ck_assert_uint_eq(bytes[FRAME_BYTES], (unsigned char)sequence);
  ck_assert_uint_eq(bytes[sizeof bytes - 1], (unsigned char)sequence);
  return frame.flags & NATIVE_MARK;
}

void say_result(uint64_t sequence, uint64_t dropped, uint32_t flags) {
  unsigned char bytes[FAKE_RESULT];
  const struct native_result result = {.sequence = sequence, .dropped = dropped, .flags = flags};
  fake_result_bytes(bytes, &result, (unsigned char)sequence);
  fake_send(&fake, bytes, sizeof bytes);
}

void expect_result(uint64_t sequence) {
  struct framed_result result;
  ck_assert_int_eq(framed_receive(client, &result), 1);
  ck_assert_uint_eq(result.sequence, sequence);
  ck_assert_ptr_nonnull(result.data);
  ck_assert_uint_eq(((const unsigned char *)result.data)[FAKE_OUTPUT - 1], (unsigned char)sequence);
  ck_assert_uint_eq(result.flags & ~(unsigned)(FRAMED_AGAIN | FRAMED_STATE_RESTARTED), 0);
  framed_release(client, &result);
}

void expect_no_result(void) {
  struct framed_result result;
  ck_assert_int_eq(framed_receive(client, &result), 0);
}

const struct native_submission *submission(unsigned number) { return &fake.control->submissions[number]; }

void expect_submission(unsigned number, uint64_t sequence, bool again) {
  const struct native_submission *said = submission(number);
  ck_assert_uint_gt(atomic_load(&fake.control->client.submitted), number);
  ck_assert_uint_eq(said->frame.sequence, sequence);
  ck_assert_int_eq((said->frame.flags & NATIVE_AGAIN) != 0, again);
  ck_assert_uint_eq(fake.input[said->slot * FAKE_STRIDE], (unsigned char)sequence);
  ck_assert_uint_eq(fake.input[said->slot * FAKE_STRIDE + FAKE_INPUT - 1], (unsigned char)sequence);
}

void complete(uint32_t slot, uint32_t fate, uint64_t sequence) {
  memset(fake.output + slot * FAKE_STRIDE, (int)sequence, FAKE_OUTPUT);
  fake_complete(&fake, slot, fate, sequence);
}
