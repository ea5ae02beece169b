#include "tests/unit/session/channel_rig.h"

#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/source/private.h"

struct channel_rig rig;

void set_up(bool replies, uint32_t cursors) {
  struct frame_format format = format_image(PIXELS_GRAY, 8, 1);
  memset(&rig.control, 0, sizeof rig.control);
  memset(&rig.account, 0, sizeof rig.account);
  memset(&rig.flow, 0, sizeof rig.flow);
  slot_ring_init(&rig.flow.ring, SLOTS);
  rig.flow.account = &rig.account;
  rig.flow.input_bytes = rig.flow.output_bytes = 8;
  rig.flow.depth = SLOTS;
  rig.flow.held_back = true; /* what is submitted waits for run_one() */
  receive_init(&rig.receive, &rig.flow, CONFIG_PROTOCOL_NATIVE, &format, NULL);
  receive_start(&rig.receive);
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, rig.ends), 0);
  rig.source = (struct source){.state = SOURCE_OPEN,
                               .kind = DESCRIPTOR_SHARED,
                               .operations = &source_shared_operations,
                               .runner = &rig.runner,
                               .receive = &rig.receive,
                               .fd = rig.ends[0],
                               .channel = &rig.channel};
  channel_open(&rig.channel, &rig.control, &rig.flow, &rig.source.mark, rig.ends[0], replies, false);
  rig.took_too_much = false;
  rig.channel.submitted = rig.channel.completed = rig.channel.taken = cursors;
  atomic_store(&rig.control.client.submitted, cursors);
  atomic_store(&rig.control.client.taken, cursors);
  atomic_store(&rig.control.daemon.completed, cursors);
  rig.now = 1000;
}

void tear_down(void) {
  close(rig.ends[0]);
  close(rig.ends[1]);
}

void submit(uint32_t slot, const struct native_frame *frame) {
  uint32_t at = atomic_load(&rig.control.client.submitted);
  rig.control.submissions[at % NATIVE_RING] = (struct native_submission){.slot = slot, .frame = *frame};
  atomic_store(&rig.control.client.submitted, at + 1);
}

bool take(void) { return source_turn(&rig.source, rig.now); }

bool give(void) {
  enum completions_progress progress = completions_turn(&rig.channel, rig.now);
  rig.took_too_much = rig.took_too_much || progress == COMPLETIONS_BROKEN;
  return progress != COMPLETIONS_QUIET;
}

bool is_broken(void) { return rig.took_too_much || rig.source.reason == DETACH_MALFORMED; }

bool run_one(bool late) {
  struct slot *slot = slot_oldest(&rig.flow.ring, SLOT_READY);
  if (slot && late) {
    flow_drop(&rig.flow, slot, FATE_LATE, rig.now);
  } else if (slot) {
    slot_move(&rig.flow.ring, slot, SLOT_RUNNING);
    slot_move(&rig.flow.ring, slot, SLOT_DONE);
  }
  return slot != NULL;
}
