#include "tests/unit/sink/sink_walk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

uv_loop_t loop;
struct sink *sink;
struct flow flow;
struct account account;
uint64_t offered;
bool stopped;

static struct mailbox control;
static struct lane *lane;
static struct relay relay;
static struct runner session; /* never woken, since the test's thread never says that it sleeps */

/* -- threads ----------------------------------------------------------------------------------------------------------- */

struct call {
  struct message message;
  void (*run)(void);
  uv_sem_t done;
};

static void run_call(struct message *message) {
  struct call *call = (struct call *)message;
  call->run();
  uv_sem_post(&call->done);
}

void on_lane(void (*function)(void)) {
  struct call call = {.message.run = run_call, .run = function};
  uv_sem_init(&call.done, 0);
  lane_post(lane, &call.message);
  uv_sem_wait(&call.done);
  uv_sem_destroy(&call.done);
}

void on_session(void (*function)(void)) {
  if (flow.relay) {
    function();
  } else {
    on_lane(function);
  }
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

unsigned char byte_of(uint64_t number, size_t at) { return (unsigned char)(number * 37 + at * 11 + at / 251); }

unsigned slots_set_aside(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    count += sink->leases.aside[i].slot != NULL;
  }
  return count;
}

/* Under `drop` there is always a slot: not all are lent. */
bool offer_frame(struct frame frame) {
  struct slot *slot = slot_oldest(&flow.ring, SLOT_FREE);
  while (!slot && !sink->block && sink_reclaim(sink, clock_now())) {
    slot = slot_oldest(&flow.ring, SLOT_FREE);
    CHECK(slot || slots_set_aside() > 0);
  }
  CHECK(slot || sink->block);
  if (!slot) {
    return false;
  }
  slot->frame = frame;
  account_open(&account, &slot->frame);
  for (size_t at = 0; at < flow.output_bytes; at++) {
    slot->output[at] = byte_of(offered, at);
  }
  for (enum slot_state state = SLOT_FILLING; state <= SLOT_EMITTING; state++) {
    slot_move(&flow.ring, slot, state);
  }
  sink_offer(sink, &flow, slot);
  offered++;
  return true;
}

static void check_account(void) {
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += account.now.ledger.fates[fate];
    CHECK(fate == FATE_EMITTED || fate == FATE_UNREAD || account.now.ledger.fates[fate] == 0);
  }
  CHECK(!sink->block || account.now.ledger.fates[FATE_UNREAD] == 0);
  CHECK(account.now.ledger.in == settled + flow_in_flight(&flow));
  CHECK(flow.relay || slot_count(&flow.ring, SLOT_EMITTING) == sink_count(sink) + slots_set_aside());
}

static void turn_sink(void) { sink->runner.turn(&sink->runner); }

static void turn_session(void) {
  if (flow.relay) {
    relay_collect(&relay);
  }
  check_account();
}

void turn(void) {
  on_lane(turn_sink);
  on_session(turn_session);
}

static bool in_flight;

static void look(void) { in_flight = slot_count(&flow.ring, SLOT_EMITTING) > 0 || flow_in_flight(&flow) > 0; }

bool are_in_flight(void) {
  on_session(look);
  return in_flight;
}

/* -- readers ----------------------------------------------------------------------------------------------------------- */

static struct reader *joining;
static uint64_t first;

/* Nothing moves between the look and the join: what was taken is collected here, while the session's thread waits. */
static void attach_joining(void) {
  turn_sink();
  if (flow.relay) {
    relay_collect(&relay);
  }
  first = sink->block ? account.now.ledger.fates[FATE_EMITTED] : offered;
  sink_attach_here(sink, joining);
}

uint64_t attach(struct reader *reader) {
  joining = reader;
  on_lane(attach_joining);
  return first;
}

int connect_reader(struct reader **reader) {
  int pair[2];
  int size = 4096;
  struct failure failure;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  *reader = reader_new(sink, pair[1], &failure);
  CHECK(*reader && reader_bring_room(*reader, &failure));
  return pair[0];
}

void check_fates(const bool *seen, uint64_t others) {
  uint64_t seen_count = 0;
  for (uint64_t number = 0; number < offered; number++) {
    seen_count += seen[number];
  }
  const uint64_t *fates = account.now.ledger.fates;
  CHECK(flow_in_flight(&flow) == 0 && fates[FATE_EMITTED] + fates[FATE_UNREAD] == offered);
  CHECK(fates[FATE_EMITTED] >= seen_count && fates[FATE_EMITTED] <= seen_count + others);
}

void check_reader(const struct reader *reader, uint64_t taken, uint64_t next, uint64_t joined) {
  uint64_t emitted, missed;
  reader_read(reader, &emitted, &missed);
  CHECK(emitted == taken);
  CHECK(sink->block ? missed == 0 && next == offered : emitted + missed == offered - joined);
}

/* -- one walk ---------------------------------------------------------------------------------------------------------- */

static void no_wake(void *context) { (void)context; }

static void make_road(void) {
  memset(&account, 0, sizeof account);
  memset(&flow, 0, sizeof flow);
  slot_ring_init(&flow.ring, chance(4) + 1);
  flow.depth = flow.ring.count;
  flow.account = &account;
  flow.output_bytes = sink->result_bytes;
  flow.wake = no_wake;
  if (sink->block && chance(2)) {
    memset(&relay, 0, sizeof relay);
    relay_init(&relay, &flow);
    spsc_init(&relay.back, lane, &session);
    sink_join_handoff(sink, &relay);
  }
  for (unsigned i = 0; i < flow.ring.count; i++) {
    flow.ring.slots[i].output = malloc(flow.output_bytes);
  }
}

void sink_walk_begin(struct config_pipeline *config, const struct frame_format *format, sink_listener *listener) {
  struct failure failure;
  config->name = "test";
  config->sink.endpoint = CONFIG_SOCKET;
  config->sink.overload = chance(2) ? CONFIG_SINK_DROP : CONFIG_SINK_BLOCK;
  config->sink.slow_readers = chance(2) ? 64 : chance(3) + 1;
  const struct sink_setup setup = {
      .config = config, .lane = lane, .control = &control, .listener = listener, .context = NULL, .output = format};
  offered = 0;
  stopped = false;
  sink = sink_new(&setup, &failure);
  CHECK(sink);
  make_road();
}

void sink_walk_end(void) {
  sink_stop(sink);
  while (!stopped) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  for (unsigned i = 0; i < flow.ring.count; i++) {
    free(flow.ring.slots[i].output);
  }
  sink_free(sink);
}

void sink_walks(unsigned runs, uint64_t seed, void (*walk)(void)) {
  struct failure failure;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(mailbox_open(&control, &loop), 0);
  lane = lane_new(0, &failure);
  ck_assert_ptr_nonnull(lane);
  for (run = 0; run < runs; run++) {
    chance_begin(seed + run);
    walk();
  }
  lane = lane_free(lane);
  mailbox_close(&control);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}
