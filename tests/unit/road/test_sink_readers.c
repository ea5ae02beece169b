/*
 * The stream sink beside a simple model: readers with real sockets join, stall, read, half-close, talk and leave at random,
 * while results are offered and slots are reclaimed. Every other time `block` has its session on another lane than the
 * sink's, as far as the sink can tell: this thread is it.
 *
 * The model knows no queue. It holds each reader to what it may see (whole results, in order; under `block` without a gap)
 * and every frame to one fate: emitted if a reader took it, unread if none did.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/handoff.h"
#include "daemon/sink_results.h"

enum { RUNS = 100, STEPS = 250, READERS = 6, MOST_RESULTS = STEPS + 1, ROUNDS_TO_END = 100000 };

#define CHECK(condition)                                                                                                       \
  do {                                                                                                                         \
    if (!(condition)) {                                                                                                        \
      ck_abort_msg("line %d, run %u, step %u: %s", __LINE__, run, step, #condition);                                           \
    }                                                                                                                          \
  } while (0)

static unsigned run, step;
static uint64_t chance_state;

static unsigned chance(unsigned below) {
  chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(chance_state >> 33) % below;
}

/* -- the road, on a real lane ---------------------------------------------------------------------------------------- */

static uv_loop_t loop;
static struct mailbox control;
static struct lane *lane;
static struct sink *sink;
static struct road road;
static struct account account;
static struct handoff handoff;
static struct runner session; /* never woken, since this thread never says that it sleeps */
static struct frame_format format;
static uint64_t offered; /* results so far; each has its number in its bytes */
static bool stopped;

/* A producer of another rate now and then. */
static struct frame_rate rate_of(uint64_t number) {
  return (struct frame_rate){.frames = (uint32_t)(number / 4), .seconds = 1};
}

static unsigned char byte_of(uint64_t number, size_t at) { return (unsigned char)(number * 37 + at * 11 + at / 251); }

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

/* Where the road is. */
static void on_session(void (*function)(void)) {
  if (road.handoff) {
    function();
  } else {
    on_lane(function);
  }
}

static void offer(void) {
  struct slot *slot = slot_oldest(&road.ring, SLOT_FREE);
  if (!slot && sink_reclaim(sink, clock_now())) {
    slot = slot_oldest(&road.ring, SLOT_FREE);
    CHECK(slot);
  }
  if (!slot) {
    return;
  }
  slot->frame = (struct frame){.sequence = offered, .rate = rate_of(offered)};
  account_open(&account, &slot->frame);
  for (size_t at = 0; at < road.output_bytes; at++) {
    slot->output[at] = byte_of(offered, at);
  }
  for (enum slot_state state = SLOT_FILLING; state <= SLOT_EMITTING; state++) {
    slot_move(&road.ring, slot, state);
  }
  sink_offer(sink, &road, slot);
  offered++;
}

static void check_account(void) {
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += account.now.ledger.fates[fate];
    CHECK(fate == FATE_EMITTED || fate == FATE_UNREAD || account.now.ledger.fates[fate] == 0);
  }
  CHECK(!sink->block || account.now.ledger.fates[FATE_UNREAD] == 0);
  CHECK(account.now.ledger.in == settled + road_in_flight(&road));
  CHECK(road.handoff || slot_count(&road.ring, SLOT_EMITTING) == sink->count);
}

static void turn_sink(void) { sink->runner.turn(&sink->runner); }

static void turn_session(void) {
  if (road.handoff) {
    handoff_collect(&handoff);
  }
  check_account();
}

static void turn(void) {
  on_lane(turn_sink);
  on_session(turn_session);
}

/* -- readers --------------------------------------------------------------------------------------------------------- */

static struct peer {
  int fd; /* -1: nobody */
  struct reader *reader;
  uint64_t joined;  /* results that had been offered */
  uint64_t next;    /* the least number that may come */
  uint64_t current; /* the number under way */
  size_t at;        /* bytes of it, prefix included */
  char header[Y4M_HEADER];
  size_t header_bytes;
  bool begun;     /* the header is whole */
  uint64_t taken; /* whole results */
} peers[READERS];
static bool seen[MOST_RESULTS];       /* by some reader, whole */
static uint64_t taken_unseen;         /* results that readers who left had taken and not read */
static unsigned char buffer[1 << 16]; /* what is read at once */

static size_t prefix_bytes(const unsigned char **prefix) { return result_prefix(&sink->results[0], sink->protocol, prefix); }

static size_t result_bytes(void) {
  const unsigned char *unused;
  return prefix_bytes(&unused) + sink->result_bytes;
}

/* A reader's header has the rate of its first result; under `drop` that one may be reclaimed when the header is out. */
static void check_header(const struct peer *peer, uint64_t number) {
  bool found = false;
  for (uint64_t first = sink->block ? number : peer->joined; first <= number; first++) {
    char header[Y4M_HEADER];
    struct frame_rate rate = rate_of(first);
    size_t length = y4m_write_header(&format, &rate, header);
    found |= length == peer->header_bytes && memcmp(header, peer->header, length) == 0;
  }
  CHECK(found);
}

static void take_header(struct peer *peer, unsigned char byte) {
  CHECK(peer->header_bytes < Y4M_HEADER);
  peer->header[peer->header_bytes++] = (char)byte;
  peer->begun = byte == '\n';
}

/* The number shows in the first bytes; among those that may come, the next that fits. */
static void begin_result(struct peer *peer, unsigned char byte) {
  uint64_t number = peer->next;
  while (!sink->block && number < offered && byte_of(number, 0) != byte) {
    number++;
  }
  CHECK(number < offered);
  peer->current = number;
  if (sink->protocol == CONFIG_PROTOCOL_Y4M && peer->taken == 0) {
    check_header(peer, number);
  }
}

static void take_byte(struct peer *peer, unsigned char byte) {
  if (sink->protocol == CONFIG_PROTOCOL_Y4M && !peer->begun) {
    take_header(peer, byte);
    return;
  }
  const unsigned char *prefix;
  size_t prefix_length = prefix_bytes(&prefix);
  if (peer->at < prefix_length) {
    CHECK(byte == prefix[peer->at]);
  } else {
    if (peer->at == prefix_length) {
      begin_result(peer, byte);
    }
    CHECK(byte == byte_of(peer->current, peer->at - prefix_length));
  }
  if (++peer->at == result_bytes()) {
    seen[peer->current] = true;
    peer->taken++;
    peer->next = peer->current + 1;
    peer->at = 0;
  }
}

static bool read_some(struct peer *peer, size_t most) {
  ssize_t got = recv(peer->fd, buffer, most < sizeof buffer ? most : sizeof buffer, MSG_DONTWAIT);
  CHECK(got > 0 || (got < 0 && errno == EAGAIN));
  for (ssize_t i = 0; i < got; i++) {
    take_byte(peer, buffer[i]);
  }
  return got > 0;
}

static struct peer *joining;

/* Under `block` a reader starts at the first result that nobody took. Nothing moves between the look and the join: what was
 * taken is collected here, while this session's thread waits. */
static void attach_joining(void) {
  if (road.handoff) {
    handoff_collect(&handoff);
  }
  joining->joined = offered;
  joining->next = sink->block ? account.now.ledger.fates[FATE_EMITTED] : offered;
  sink_attach_here(sink, joining->reader);
}

static void join(struct peer *peer) {
  int pair[2];
  int size = 4096;
  struct failure failure;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  *peer = (struct peer){.fd = pair[0], .reader = reader_new(sink, pair[1], &failure)};
  CHECK(peer->reader);
  joining = peer;
  on_lane(attach_joining);
}

static void leave(struct peer *peer) {
  close(peer->fd);
  peer->fd = -1;
}

static struct peer *peer_of(const struct reader *reader) {
  struct peer *peer = peers;
  while (peer->reader != reader) {
    peer++;
  }
  return peer;
}

static void on_event(void *context, const struct sink_event *event) {
  (void)context;
  if (event->kind == SINK_STOPPED) {
    stopped = true;
    return;
  }
  CHECK(event->kind == SINK_DETACHED);
  struct peer *peer = peer_of(event->reader);
  CHECK(event->emitted >= peer->taken);
  taken_unseen += event->emitted - peer->taken;
  reader_free(event->reader);
  close(event->fd);
  peer->reader = NULL;
}

static void misbehave(struct peer *peer) {
  switch (chance(12)) {
  case 0:
    leave(peer);
    break;
  case 1:
    shutdown(peer->fd, SHUT_WR);
    break;
  case 2:
    (void)!send(peer->fd, "nonsense", 8, MSG_DONTWAIT | MSG_NOSIGNAL);
    break;
  default:
    read_some(peer, chance(2) ? sizeof buffer : chance(3000) + 1);
  }
}

static void one_step(void) {
  struct peer *peer = &peers[chance(READERS)];
  if (chance(3) == 0) {
    on_session(offer);
  }
  if (chance(2) == 0) {
    turn();
  }
  if (peer->fd >= 0) {
    misbehave(peer);
  } else if (!peer->reader && chance(4) == 0) {
    join(peer);
  }
  uv_run(&loop, UV_RUN_NOWAIT);
}

/* -- one run ----------------------------------------------------------------------------------------------------------- */

static void no_wake(void *context) { (void)context; }

static void set_up(void) {
  static const uint32_t widths[] = {1, 40, 1000, 5000, 60000};
  static struct config_pipeline config;
  memset(&account, 0, sizeof account);
  memset(&road, 0, sizeof road);
  memset(seen, 0, sizeof seen);
  offered = taken_unseen = 0;
  stopped = false;
  config = (struct config_pipeline){.name = "test"};
  config.sink.endpoint = CONFIG_SOCKET;
  config.sink.overload = chance(2) ? CONFIG_SINK_DROP : CONFIG_SINK_BLOCK;
  config.sink.protocol = chance(2) ? CONFIG_PROTOCOL_RAW : CONFIG_PROTOCOL_Y4M;
  format = format_image(PIXELS_GRAY, widths[chance(5)], 1);
  struct sink_setup setup = {
      .config = &config, .lane = lane, .control = &control, .listener = on_event, .context = NULL, .output = &format};
  struct failure failure;
  sink = sink_new(&setup, &failure);
  CHECK(sink);
  slot_ring_init(&road.ring, chance(4) + 1);
  road.account = &account;
  road.output_bytes = sink->result_bytes;
  road.wake = no_wake;
  if (sink->block && chance(2)) {
    memset(&handoff, 0, sizeof handoff);
    handoff_init(&handoff, &road);
    ring_init(&handoff.back, lane, &session);
    sink_join_handoff(sink, &handoff);
  }
  for (unsigned i = 0; i < road.ring.count; i++) {
    road.ring.slots[i].output = malloc(sink->result_bytes);
  }
  for (unsigned i = 0; i < READERS; i++) {
    peers[i] = (struct peer){.fd = -1};
  }
}

static bool in_flight;

static void look(void) { in_flight = slot_count(&road.ring, SLOT_EMITTING) > 0 || road_in_flight(&road) > 0; }

/* What moved to a reader's own buffer is no longer in flight, and waits for the loop to find the reader writable. */
static bool is_anybody_within_a_result(void) {
  for (unsigned i = 0; i < READERS; i++) {
    if (peers[i].fd >= 0 && peers[i].at != 0) {
      return true;
    }
  }
  return false;
}

/* Everybody who is there reads on until no result is on its way to anybody. */
static void read_to_the_end(void) {
  bool moved = true;
  in_flight = true;
  for (unsigned round = 0; moved || in_flight || is_anybody_within_a_result(); round++) {
    CHECK(round < ROUNDS_TO_END);
    turn();
    on_session(look);
    moved = false;
    for (unsigned i = 0; i < READERS; i++) {
      while (peers[i].fd >= 0 && read_some(&peers[i], sizeof buffer)) {
        moved = true;
      }
    }
  }
}

static void check_readers(void) {
  uint64_t seen_count = 0;
  for (uint64_t number = 0; number < offered; number++) {
    seen_count += seen[number];
  }
  const uint64_t *fates = account.now.ledger.fates;
  CHECK(road_in_flight(&road) == 0 && fates[FATE_EMITTED] + fates[FATE_UNREAD] == offered);
  CHECK(fates[FATE_EMITTED] >= seen_count && fates[FATE_EMITTED] <= seen_count + taken_unseen);
  for (unsigned i = 0; i < READERS; i++) {
    uint64_t emitted, missed;
    if (peers[i].fd < 0) {
      continue;
    }
    reader_read(peers[i].reader, &emitted, &missed);
    CHECK(peers[i].at == 0 && emitted == peers[i].taken);
    CHECK(sink->block ? missed == 0 && peers[i].next == offered : emitted + missed == offered - peers[i].joined);
  }
}

static void tear_down(void) {
  sink_stop(sink);
  while (!stopped) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  for (unsigned i = 0; i < READERS; i++) {
    CHECK(!peers[i].reader);
    if (peers[i].fd >= 0) {
      leave(&peers[i]);
    }
  }
  for (unsigned i = 0; i < road.ring.count; i++) {
    free(road.ring.slots[i].output);
  }
  sink_free(sink);
}

static void walk(void) {
  set_up();
  for (step = 0; step < STEPS; step++) {
    one_step();
  }
  for (unsigned i = 0; i < READERS; i++) { /* under `block` somebody has to take the last ones */
    while (peers[i].fd < 0 && peers[i].reader) {
      uv_run(&loop, UV_RUN_ONCE);
    }
  }
  if (peers[0].fd < 0) {
    join(&peers[0]);
  }
  read_to_the_end();
  on_lane(check_readers);
  tear_down();
}

START_TEST(test_readers_at_random) {
  struct failure failure;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(mailbox_open(&control, &loop), 0);
  lane = lane_new(0, &failure);
  ck_assert_ptr_nonnull(lane);
  for (run = 0; run < RUNS; run++) {
    chance_state = 7700 + run;
    walk();
  }
  lane = lane_free(lane);
  mailbox_close(&control);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

Suite *sink_readers_suite(void);

Suite *sink_readers_suite(void) {
  Suite *suite = suite_create("sink_readers");
  TCase *tests = tcase_create("readers");
  tcase_set_timeout(tests, 120);
  tcase_add_test(tests, test_readers_at_random);
  suite_add_tcase(suite, tests);
  return suite;
}
