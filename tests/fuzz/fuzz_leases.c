/*
 * The control memory of a reader that borrows results, written as it pleases at any time, beside a reader that keeps the rules:
 * whatever stands there, the sink lends, takes back and lets go without a wrong step, the books balance after every one, what
 * the other reader holds is neither taken from it nor changed, and in the end every slot is free.
 *
 * The input is a list of steps: one reader writes bytes somewhere in its memory, both take, ring, sleep, leave and come again,
 * and between that results are offered and the sink has its turns. All of it runs on a real lane, as a sink does.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/sink/leases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_SLOTS = 4, BYTES = 16, WILD = 0, HONEST = 1, READERS = 2 };
enum step_kind {
  WRITE,
  OFFER,
  TURN,
  TAKE,
  TAKE_ALL,
  SLEEP,
  RING,
  SPEAK,
  LEAVE,
  JOIN,
  RECLAIM,
  TICK,
  RECALL,
  BREATHE,
  STEP_KINDS
};

static struct input {
  const uint8_t *data;
  size_t size;
} input;

static struct peer {
  int fd; /* -1: it has left */
  struct reader *reader;
  struct native_control *control;
  uint32_t taken;
} peers[READERS];

static uv_loop_t loop;
static struct mailbox control;
static struct lane *lane;
static struct sink *sink;
static struct flow flow;
static struct account account;
static unsigned char memory[MOST_SLOTS][BYTES];
static uint64_t offered;
static bool stopped;

static uint8_t next(void) {
  if (input.size == 0) {
    return 0;
  }
  input.size--;
  return *input.data++;
}

/* -- the lane ----------------------------------------------------------------------------------------------------------- */

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

static void on_lane(void (*function)(void)) {
  struct call call = {.message.run = run_call, .run = function};
  uv_sem_init(&call.done, 0);
  lane_post(lane, &call.message);
  uv_sem_wait(&call.done);
  uv_sem_destroy(&call.done);
}

static void no_wake(void *session) { (void)session; }

static void on_event(void *context, const struct sink_event *event) {
  (void)context;
  stopped |= event->kind == SINK_STOPPED;
  for (unsigned i = 0; i < READERS && event->kind == SINK_DETACHED; i++) {
    if (peers[i].reader == event->reader) {
      assert(i != HONEST || peers[i].fd < 0 || event->code == 0 || event->code == NATIVE_E_TIMEOUT ||
             event->code == NATIVE_E_STOPPING);
      close(peers[i].fd);
      close(event->fd);
      free(peers[i].control);
      peers[i] = (struct peer){.fd = -1, .reader = reader_free(peers[i].reader)};
    }
  }
}

/* -- what holds --------------------------------------------------------------------------------------------------------- */

static void check_books(void) {
  uint64_t settled = 0;
  unsigned aside = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += account.now.ledger.fates[fate];
  }
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    aside += sink->leases.aside[i].slot != NULL;
  }
  assert(account.now.ledger.in == settled + flow_in_flight(&flow));
  assert(slot_count(&flow.ring, SLOT_EMITTING) == sink_count(sink) + aside);
}

/* What it was lent and has not given back is where it was, and as it was. */
static void check_honest(void) {
  const struct peer *peer = &peers[HONEST];
  if (!peer->reader || peer->reader->leaving || peer->fd < 0) {
    return;
  }
  uint32_t completed = atomic_load(&peer->control->daemon.completed);
  assert(completed - peer->taken <= flow.ring.count);
  for (uint32_t at = peer->taken; at != completed; at++) {
    const struct native_completion *completion = &peer->control->completions[at % NATIVE_RING];
    assert(completion->slot < flow.ring.count && completion->fate == FATE_EMITTED);
    assert(flow.ring.slots[completion->slot].state == SLOT_EMITTING);
    assert(memcmp(memory[completion->slot], &completion->result.sequence, sizeof completion->result.sequence) == 0);
  }
}

/* -- steps -------------------------------------------------------------------------------------------------------------- */

static void write_anywhere(void) {
  struct peer *peer = &peers[WILD];
  size_t at = next();
  at |= (size_t)next() << 8;
  size_t count = next() % 80U;
  at %= sizeof *peer->control;
  count = count < sizeof *peer->control - at ? count : sizeof *peer->control - at;
  count = count < input.size ? count : input.size;
  if (peer->control) {
    memcpy((unsigned char *)peer->control + at, input.data, count);
  }
  input.data += count;
  input.size -= count;
}

static void offer(void) {
  struct slot *slot = slot_oldest(&flow.ring, SLOT_FREE);
  while (!slot && !sink->block && sink_reclaim(sink, clock_now())) {
    slot = slot_oldest(&flow.ring, SLOT_FREE);
  }
  if (!slot) {
    assert(sink->block);
    return;
  }
  slot->frame = (struct frame){.sequence = offered, .tag = offered};
  account_open(&account, &slot->frame);
  memcpy(slot->output, &offered, sizeof offered);
  for (enum slot_state state = SLOT_FILLING; state <= SLOT_EMITTING; state++) {
    slot_move(&flow.ring, slot, state);
  }
  sink_offer(sink, &flow, slot);
  offered++;
}

/* What it is done with was there. The other one says so of anything. */
static void take(struct peer *peer, unsigned count) {
  if (!peer->control || peer->fd < 0) {
    return;
  }
  uint32_t there = atomic_load(&peer->control->daemon.completed) - peer->taken;
  peer->taken += count < there ? count : there;
  atomic_store(&peer->control->client.taken, peer->taken);
}

static void say(struct peer *peer, const char *bytes, size_t count) {
  if (peer->fd >= 0) {
    (void)!send(peer->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

static void join(struct peer *peer) {
  int ends[2];
  struct failure failure;
  if (peer->reader || (!sink->block && flow.depth < 2)) {
    return;
  }
  assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  *peer = (struct peer){.fd = ends[0], .reader = reader_new(sink, ends[1], &failure)};
  peer->control = aligned_alloc(64, sizeof *peer->control); /* alone, so that the sanitizer sees its end */
  assert(peer->reader && peer->control);
  memset(peer->control, 0, sizeof *peer->control);
  assert(reader_share(peer->reader, peer->control, flow.memory));
  sink_attach_here(sink, peer->reader);
}

static void leave(struct peer *peer) {
  if (peer->fd >= 0) {
    close(peer->fd);
    peer->fd = -1;
  }
}

/* False: the loop goes on before the next. */
static bool step(void) {
  uint8_t byte = next();
  struct peer *peer = &peers[byte >= 128 ? HONEST : WILD];
  switch ((enum step_kind)(byte % STEP_KINDS)) {
  case WRITE:
    write_anywhere();
    break;
  case OFFER:
    offer();
    break;
  case TURN:
    sink->runner.turn(&sink->runner);
    break;
  case TAKE:
    take(peer, 1);
    break;
  case TAKE_ALL:
    take(peer, NATIVE_RING);
    break;
  case SLEEP:
    if (peer->control) {
      atomic_store(&peer->control->client.sleeps, 1);
    }
    break;
  case RING:
    say(peer, "\0\0", 2);
    break;
  case SPEAK:
    say(&peers[WILD], "what", 4);
    break;
  case LEAVE:
    leave(peer);
    break;
  case JOIN:
    join(peer);
    break;
  case RECLAIM:
    if (!sink->block) {
      sink_reclaim(sink, clock_now());
    }
    break;
  case TICK:
    if (sink->runner.tick) {
      sink->runner.tick(&sink->runner, clock_now());
    }
    break;
  case RECALL:
    leases_recall(sink); /* a hand-over that does not come about */
    break;
  default:
    return false;
  }
  return true;
}

static void run_steps(void) {
  bool goes_on = true;
  while (input.size > 0 && goes_on) {
    goes_on = step();
    check_books();
    check_honest();
  }
}

/* -- one input ---------------------------------------------------------------------------------------------------------- */

static void open_lane(void) {
  struct failure failure;
  assert(uv_loop_init(&loop) == 0 && mailbox_open(&control, &loop) == 0);
  lane = lane_new(0, &failure);
  assert(lane);
}

static void set_up(void) {
  static struct config_pipeline config;
  struct frame_format format = format_image(PIXELS_GRAY, BYTES, 1);
  struct failure failure;
  uint8_t shape = next();
  config = (struct config_pipeline){.name = "fuzz"};
  config.sink.endpoint = CONFIG_SOCKET;
  config.sink.overload = shape & 1U ? CONFIG_SINK_DROP : CONFIG_SINK_BLOCK;
  const struct sink_setup setup = {
      .config = &config, .lane = lane, .control = &control, .listener = on_event, .output = &format};
  sink = sink_new(&setup, &failure);
  assert(sink);
  sink->speaks_native = true;
  memset(&account, 0, sizeof account);
  memset(&flow, 0, sizeof flow);
  slot_ring_init(&flow.ring, 1 + (shape >> 1) % MOST_SLOTS);
  flow.depth = flow.ring.count;
  flow.account = &account;
  flow.output_bytes = BYTES;
  flow.wake = no_wake;
  for (unsigned i = 0; i < flow.ring.count; i++) {
    flow.ring.slots[i].output = memory[i];
  }
  offered = 0;
  stopped = false;
}

static void join_both(void) {
  join(&peers[WILD]);
  join(&peers[HONEST]);
}

/* As a session does at its end. */
static void discard(void) {
  sink_discard_all(sink, FATE_SHUTDOWN, clock_now());
  check_books();
  assert(slot_count(&flow.ring, SLOT_FREE) == flow.ring.count && flow_in_flight(&flow) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!lane) {
    open_lane();
  }
  input = (struct input){.data = data, .size = size};
  memset(peers, 0, sizeof peers);
  peers[WILD].fd = peers[HONEST].fd = -1;
  set_up();
  on_lane(join_both);
  while (input.size > 0) {
    on_lane(run_steps);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  on_lane(discard);
  sink_stop(sink);
  while (!stopped) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  assert(!peers[WILD].reader && !peers[HONEST].reader);
  sink = sink_free(sink);
  return 0;
}
