/*
 * The control memory that a client shares, written as it pleases at any time: whatever stands there, the lane's end takes,
 * gives and lets go without a wrong step, the books balance after every one, and in the end every slot is free.
 *
 * The input is a list of steps: the client writes bytes somewhere, or submits and takes as it should, and between that the
 * lane takes, runs, gives, holds and sleeps.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/channel.h"
#include "daemon/sink/completions.h"
#include "daemon/source/private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 4 };
enum step_kind { WRITE, SUBMIT, TAKE, RUN, DROP, GIVE, TAKEN, SLEEP, HOLD, EMIT, STEP_KINDS };

struct input {
  const uint8_t *data;
  size_t size;
};

struct rig {
  struct native_control *control;
  struct flow flow;
  struct account account;
  struct receive receive;
  struct channel channel;
  struct runner runner; /* on no lane */
  struct source source;
  int64_t now;
};

static uint8_t next(struct input *input) {
  if (input->size == 0) {
    return 0;
  }
  input->size--;
  return *input->data++;
}

static void client_writes(struct rig *rig, struct input *input) {
  size_t at = next(input);
  at |= (size_t)next(input) << 8;
  size_t count = next(input) % 80U;
  at %= sizeof *rig->control;
  count = count < sizeof *rig->control - at ? count : sizeof *rig->control - at;
  count = count < input->size ? count : input->size;
  memcpy((unsigned char *)rig->control + at, input->data, count);
  input->data += count;
  input->size -= count;
}

static void client_submits(struct rig *rig, struct input *input) {
  uint32_t at = atomic_load(&rig->control->client.submitted);
  rig->control->submissions[at % NATIVE_RING] = (struct native_submission){.slot = next(input) % (SLOTS + 1U)};
  atomic_store(&rig->control->client.submitted, at + 1);
}

static void run(struct rig *rig) {
  struct slot *slot = slot_oldest(&rig->flow.ring, SLOT_READY);
  if (slot) {
    slot_move(&rig->flow.ring, slot, SLOT_RUNNING);
    slot_move(&rig->flow.ring, slot, SLOT_DONE);
  }
}

static void drop(struct rig *rig, enum slot_state state, enum fate fate) {
  struct slot *slot = slot_oldest(&rig->flow.ring, state);
  if (slot) {
    flow_drop(&rig->flow, slot, fate, rig->now);
  }
}

/* Where the results go elsewhere. */
static void emit(struct rig *rig) {
  struct slot *slot = slot_oldest(&rig->flow.ring, SLOT_DONE);
  if (slot && !rig->channel.replies) {
    slot_move(&rig->flow.ring, slot, SLOT_EMITTING);
    flow_drop(&rig->flow, slot, FATE_EMITTED, rig->now);
  }
}

static void check(const struct rig *rig) {
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += rig->account.now.ledger.fates[fate];
  }
  assert(rig->account.now.ledger.in == settled + flow_in_flight(&rig->flow));
  for (unsigned i = 0; i < SLOTS; i++) {
    bool used = rig->flow.ring.slots[i].state != SLOT_FREE;
    assert(!used || rig->channel.owners[i] != CHANNEL_CLIENT);
  }
}

/* False: the client is thrown out. */
static bool step(struct rig *rig, struct input *input) {
  rig->now++;
  switch ((enum step_kind)(next(input) % STEP_KINDS)) {
  case WRITE:
    client_writes(rig, input);
    break;
  case SUBMIT:
    client_submits(rig, input);
    break;
  case TAKE:
    source_turn(&rig->source, rig->now);
    return rig->source.state == SOURCE_OPEN;
  case RUN:
    run(rig);
    break;
  case DROP:
    drop(rig, SLOT_READY, FATE_LATE);
    break;
  case GIVE:
    if (completions_turn(&rig->channel, rig->now) == COMPLETIONS_BROKEN) {
      return false;
    }
    completions_ring(&rig->channel);
    break;
  case TAKEN:
    atomic_store(&rig->control->client.taken, atomic_load(&rig->control->daemon.completed));
    break;
  case SLEEP:
    source_may_sleep(&rig->source);
    break;
  case HOLD:
    rig->receive.held = !rig->receive.held;
    break;
  default:
    emit(rig);
    break;
  }
  return true;
}

/* As a session does when its client has left. */
static void let_go(struct rig *rig) {
  completions_abandon(&rig->channel, FATE_CLIENT_GONE, rig->now);
  for (unsigned i = 0; i < SLOTS; i++) {
    drop(rig, SLOT_READY, FATE_CLIENT_GONE);
    drop(rig, SLOT_DONE, FATE_CLIENT_GONE);
  }
  assert(!channel_has_unread(&rig->channel));
  assert(slot_count(&rig->flow.ring, SLOT_FREE) == SLOTS && flow_in_flight(&rig->flow) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct rig rig;
  struct input input = {.data = data, .size = size};
  struct frame_format format = format_image(PIXELS_GRAY, 8, 1);
  memset(&rig, 0, sizeof rig);
  rig.control = calloc(1, sizeof *rig.control); /* alone, so that the sanitizer sees its end */
  assert(rig.control);
  slot_ring_init(&rig.flow.ring, SLOTS);
  rig.flow.account = &rig.account;
  rig.flow.input_bytes = rig.flow.output_bytes = 8;
  rig.flow.held_back = true; /* what is submitted waits until it is run here */
  rig.now = 1000;
  receive_init(&rig.receive, &rig.flow, CONFIG_PROTOCOL_NATIVE, &format, NULL);
  receive_start(&rig.receive);
  rig.source = (struct source){.state = SOURCE_OPEN,
                               .kind = DESCRIPTOR_SHARED,
                               .operations = &source_shared_operations,
                               .runner = &rig.runner,
                               .receive = &rig.receive,
                               .fd = -1,
                               .channel = &rig.channel};
  channel_open(&rig.channel, rig.control, &rig.flow, &rig.source.mark, -1, (next(&input) & 1U) != 0, false);
  while (input.size > 0 && step(&rig, &input)) {
    check(&rig);
  }
  check(&rig);
  let_go(&rig);
  check(&rig);
  free(rig.control);
  return 0;
}
