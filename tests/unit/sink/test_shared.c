/*
 * Readers with shared memory beside a simple model: they join, receive, hold, give back, lie and leave at random, among readers
 * over the stream, while results are offered and slots reclaimed.
 *
 * The model holds each reader to its promises: every result whole and in order, under `block` without a gap, and unchanged as
 * long as it is held; and every frame to one fate, emitted if a reader took it, unread if none did.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/sink/leases.h"
#include "tests/unit/sink/sink_walk.h"

enum { RUNS = 100, STEPS = 250, READERS = 5, MOST_RESULTS = STEPS + 1, ROUNDS_TO_END = 100000, BYTES = 600 };

static unsigned memory_of[MOST_RESULTS]; /* in which each result lies */

static bool is_result(const unsigned char *bytes, uint64_t number) {
  for (size_t at = 0; at < BYTES; at++) {
    if (bytes[at] != byte_of(number, at)) {
      return false;
    }
  }
  return true;
}

static void offer(void) {
  memory_of[offered] = flow.memory;
  offer_frame((struct frame){.sequence = offered, .tag = offered});
}

/* -- readers --------------------------------------------------------------------------------------------------------- */

static struct peer {
  int fd; /* -1: nobody */
  struct reader *reader;
  struct native_control *control; /* NULL: it reads from the connection */
  uint32_t received, taken;       /* cursors */
  unsigned memory;
  uint64_t numbers[NATIVE_RING]; /* of the results that it holds */
  unsigned slots[NATIVE_RING];
  uint64_t joined;            /* results that had been offered */
  uint64_t next;              /* the least number that may come */
  uint64_t whole;             /* results that it took */
  unsigned char bytes[BYTES]; /* over the connection: of the result under way */
  size_t count;
  bool renewed; /* it sees memory that is the session's no more */
  bool doomed;  /* it may have to go at any moment */
} peers[READERS];
static bool seen[MOST_RESULTS]; /* taken by some reader, whole */
static uint64_t taken_unseen;   /* results that readers who left had taken and not read */

static void take(struct peer *peer, uint64_t number) {
  seen[number] = true;
  peer->whole++;
}

static void read_some(struct peer *peer, size_t most) {
  ssize_t got;
  do {
    size_t room = BYTES - peer->count;
    got = recv(peer->fd, peer->bytes + peer->count, room < most ? room : most, MSG_DONTWAIT);
    CHECK(got > 0 || (got < 0 && errno == EAGAIN));
    peer->count += got > 0 ? (size_t)got : 0;
    if (peer->count == BYTES) {
      while (!sink->block && peer->next < offered && byte_of(peer->next, 0) != peer->bytes[0]) {
        peer->next++;
      }
      CHECK(peer->next < offered && is_result(peer->bytes, peer->next));
      take(peer, peer->next++);
      peer->count = 0;
    }
  } while (got > 0 && most >= BYTES);
}

static bool receive(struct peer *peer) {
  struct native_completion completion;
  uint32_t completed = atomic_load_explicit(&peer->control->daemon.completed, memory_order_acquire);
  CHECK(completed - peer->taken <= flow.ring.count);
  if (completed == peer->received) {
    return false;
  }
  memcpy(&completion, &peer->control->completions[peer->received % NATIVE_RING], sizeof completion);
  uint64_t number = completion.result.sequence;
  CHECK(completion.fate == FATE_EMITTED && completion.slot < flow.ring.count && number < offered);
  CHECK(sink->block ? number == peer->next : number >= peer->next);
  CHECK(memory_of[number] == peer->memory);
  CHECK(is_result(flow.ring.slots[completion.slot].output, number));
  peer->numbers[peer->received % NATIVE_RING] = number;
  peer->slots[peer->received % NATIVE_RING] = completion.slot;
  peer->next = number + 1;
  peer->received++;
  return true;
}

/* What it holds is as it was. */
static bool give_back(struct peer *peer) {
  if (peer->taken == peer->received) {
    return false;
  }
  uint64_t number = peer->numbers[peer->taken % NATIVE_RING];
  CHECK(is_result(flow.ring.slots[peer->slots[peer->taken % NATIVE_RING]].output, number));
  take(peer, number);
  peer->taken++;
  atomic_store_explicit(&peer->control->client.taken, peer->taken, memory_order_release);
  return true;
}

static void join(struct peer *peer, bool shares) {
  *peer = (struct peer){0};
  peer->fd = connect_reader(&peer->reader);
  if (shares) {
    peer->control = aligned_alloc(4096, sizeof *peer->control);
    CHECK(peer->control);
    memset(peer->control, 0, sizeof *peer->control);
    peer->memory = flow.memory;
    CHECK(reader_share(peer->reader, peer->control, peer->memory));
  }
  peer->joined = offered;
  peer->next = attach(peer->reader);
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
  if (peer->control) { /* what it had given back counts, and nothing else */
    CHECK(event->emitted == peer->whole);
    CHECK(event->code == 0 || event->code == NATIVE_E_STOPPING || peer->doomed);
  } else {
    CHECK(event->emitted >= peer->whole && event->code == 0);
    taken_unseen += event->emitted - peer->whole;
  }
  if (peer->fd >= 0) {
    CHECK(peer->doomed || sink->stopping);
    leave(peer);
  }
  reader_free(event->reader);
  close(event->fd);
  free(peer->control);
  peer->control = NULL;
  peer->reader = NULL;
}

/* -- steps ------------------------------------------------------------------------------------------------------------- */

static void lie(struct peer *peer) {
  turn(); /* what it gave back before is counted */
  peer->doomed = true;
  atomic_store(&peer->control->client.taken, peer->taken + 1 + flow.ring.count + chance(1000));
}

static void scribble(struct peer *peer) {
  turn();
  peer->doomed = true;
  uint32_t lies = peer->taken + NATIVE_RING + 1 + chance(UINT32_MAX / 2);
  memset(&peer->control->daemon, (int)chance(256), sizeof peer->control->daemon);
  memset(peer->control->completions, (int)chance(256), sizeof peer->control->completions);
  atomic_store(&peer->control->client.sleeps, chance(3));
  atomic_store(&peer->control->client.taken, lies);
}

static void act_shared(struct peer *peer) {
  if (peer->doomed) {
    (void)(peer->renewed && receive(peer));
    return;
  }
  switch (chance(30)) {
  case 0:
    leave(peer);
    break;
  case 1:
    peer->doomed = true;
    (void)!send(peer->fd, "nonsense", 8, MSG_DONTWAIT | MSG_NOSIGNAL);
    break;
  case 2:
    lie(peer);
    break;
  case 3:
    scribble(peer);
    break;
  case 4:
    (void)!send(peer->fd, "\0\0\0", 3, MSG_DONTWAIT | MSG_NOSIGNAL);
    break;
  case 5:
    atomic_store(&peer->control->client.sleeps, 1);
    break;
  default:
    (void)(chance(2) ? receive(peer) : give_back(peer));
  }
}

static void act(struct peer *peer) {
  if (peer->control) {
    act_shared(peer);
  } else if (chance(12) == 0) {
    leave(peer);
  } else {
    read_some(peer, chance(2) ? BYTES : chance(500) + 1);
  }
}

/* The session, which has nothing under way, has other memory: whoever sees the old one has to go. */
static void renew(void) {
  if (slot_count(&flow.ring, SLOT_FREE) < flow.ring.count) {
    return;
  }
  flow.memory++;
  for (unsigned i = 0; i < READERS; i++) {
    peers[i].renewed |= peers[i].control && !peers[i].doomed;
    peers[i].doomed |= peers[i].control != NULL;
  }
}

static void pass_over(void) { leases_recall(sink); }

static void one_step(void) {
  struct peer *peer = &peers[chance(READERS)];
  if (chance(3) == 0) {
    on_session(offer);
  }
  if (chance(2) == 0) {
    turn();
  }
  if (chance(20) == 0) {
    on_session(renew);
  }
  if (chance(50) == 0) {
    on_lane(pass_over); /* a hand-over that does not come about */
  }
  if (peer->fd >= 0) {
    act(peer);
  } else if (!peer->reader && chance(4) == 0) {
    join(peer, (sink->block || flow.depth > 1) && chance(3) > 0);
  }
  uv_run(&loop, UV_RUN_NOWAIT);
}

/* -- one run ----------------------------------------------------------------------------------------------------------- */

static void set_up(void) {
  static struct config_pipeline config;
  struct frame_format format = format_image(PIXELS_GRAY, BYTES, 1);
  memset(seen, 0, sizeof seen);
  taken_unseen = 0;
  config = (struct config_pipeline){0};
  sink_walk_begin(&config, &format, on_event);
  sink->speaks_native = true; /* while those over the connection are spared its headers */
  for (unsigned i = 0; i < READERS; i++) {
    peers[i] = (struct peer){.fd = -1};
  }
}

static bool take_all(struct peer *peer) {
  bool moved = false;
  if (!peer->control) {
    size_t before = peer->count;
    uint64_t whole = peer->whole;
    read_some(peer, BYTES);
    return peer->count != before || peer->whole != whole || peer->count > 0;
  }
  while (receive(peer)) {
    moved = true;
  }
  while (give_back(peer)) {
    moved = true;
  }
  return moved;
}

/* Everybody who is there takes what comes until no result is on its way to anybody. */
static void take_to_the_end(void) {
  bool moved = true, in_flight = true;
  for (unsigned round = 0; moved || in_flight; round++) {
    CHECK(round < ROUNDS_TO_END);
    turn();
    in_flight = are_in_flight();
    moved = false;
    for (unsigned i = 0; i < READERS; i++) {
      moved |= peers[i].fd >= 0 && take_all(&peers[i]);
    }
  }
}

static void check_readers(void) {
  check_fates(seen, taken_unseen);
  CHECK(!sink_has_leases(sink) && slots_set_aside() == 0);
  for (unsigned i = 0; i < READERS; i++) {
    if (peers[i].fd >= 0) {
      check_reader(peers[i].reader, peers[i].whole, peers[i].next, peers[i].joined);
    }
  }
}

static void tear_down(void) {
  sink_walk_end();
  for (unsigned i = 0; i < READERS; i++) {
    CHECK(!peers[i].reader && peers[i].fd < 0);
  }
}

static void walk(void) {
  set_up();
  for (step = 0; step < STEPS; step++) {
    one_step();
  }
  for (unsigned i = 0; i < READERS; i++) {
    if (peers[i].fd >= 0 && peers[i].doomed) {
      leave(&peers[i]);
    }
    while (peers[i].fd < 0 && peers[i].reader) {
      uv_run(&loop, UV_RUN_ONCE);
    }
  }
  if (peers[0].fd < 0) { /* under `block` somebody has to take the last ones */
    join(&peers[0], sink->block);
  }
  take_to_the_end();
  on_lane(check_readers);
  tear_down();
}

START_TEST(test_loans_at_random) { sink_walks(RUNS, 9900, walk); }
END_TEST

Suite *shared_suite(void);

Suite *shared_suite(void) {
  Suite *suite = suite_create("shared");
  TCase *tests = tcase_create("loans");
  tcase_set_timeout(tests, 120);
  tcase_add_test(tests, test_loans_at_random);
  suite_add_tcase(suite, tests);
  return suite;
}
