/*
 * The stream sink beside a simple model: readers with real sockets join, stall, read, half-close, talk and leave at random,
 * while results are offered and slots are reclaimed.
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

#include "tests/unit/sink/sink_walk.h"

enum { RUNS = 100, STEPS = 250, READERS = 6, MOST_RESULTS = STEPS + 1, ROUNDS_TO_END = 100000 };
enum { LARGE = 256 << 10, LARGE_RUNS = 20 };

static struct frame_format format;

/* A producer of another rate now and then. */
static struct frame_rate rate_of(uint64_t number) {
  return (struct frame_rate){.frames = (uint32_t)(number / 4), .seconds = 1};
}

static void offer(void) { offer_frame((struct frame){.sequence = offered, .rate = rate_of(offered)}); }

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
    size_t length = y4m_write_header(&format, &rate, &(struct y4m_look){0}, header);
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

static void join(struct peer *peer) {
  *peer = (struct peer){0};
  peer->fd = connect_reader(&peer->reader);
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

static void set_up(void) {
  static const uint32_t widths[] = {1, 40, 1000, 5000, 60000};
  static struct config_pipeline config;
  memset(seen, 0, sizeof seen);
  taken_unseen = 0;
  config = (struct config_pipeline){.sink.protocol = chance(2) ? CONFIG_PROTOCOL_RAW : CONFIG_PROTOCOL_Y4M};
  format = format_image(PIXELS_GRAY, widths[chance(5)], 1);
  sink_walk_begin(&config, &format, on_event);
  for (unsigned i = 0; i < READERS; i++) {
    peers[i] = (struct peer){.fd = -1};
  }
}

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
  bool moved = true, in_flight = true;
  for (unsigned round = 0; moved || in_flight || is_anybody_within_a_result(); round++) {
    CHECK(round < ROUNDS_TO_END);
    turn();
    in_flight = are_in_flight();
    moved = false;
    for (unsigned i = 0; i < READERS; i++) {
      while (peers[i].fd >= 0 && read_some(&peers[i], sizeof buffer)) {
        moved = true;
      }
    }
  }
}

static void check_readers(void) {
  check_fates(seen, taken_unseen);
  for (unsigned i = 0; i < READERS; i++) {
    if (peers[i].fd >= 0) {
      CHECK(peers[i].at == 0);
      check_reader(peers[i].reader, peers[i].taken, peers[i].next, peers[i].joined);
    }
  }
}

static void tear_down(void) {
  sink_walk_end();
  for (unsigned i = 0; i < READERS; i++) {
    CHECK(!peers[i].reader);
    if (peers[i].fd >= 0) {
      leave(&peers[i]);
    }
  }
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

START_TEST(test_readers_at_random) { sink_walks(RUNS, 7700, walk); }
END_TEST

/* -- large results ----------------------------------------------------------------------------------------------------- */

/* The other end keeps writes apart: each brings one result, whose slot is free before the next is written. */
static void join_apart(struct peer *peer) {
  int pair[2], room = LARGE;
  struct failure failure;
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  *peer = (struct peer){.fd = pair[0], .reader = reader_new(sink, pair[1], &failure)};
  CHECK(peer->reader && reader_bring_room(peer->reader, &failure));
  attach(peer->reader);
}

static void walk_large(void) {
  static struct config_pipeline config;
  config = (struct config_pipeline){.sink.protocol = CONFIG_PROTOCOL_RAW};
  format = format_image(PIXELS_GRAY, LARGE / 256, 256);
  sink_walk_begin(&config, &format, on_event);
  join_apart(&peers[0]);
  for (unsigned i = 0; i < flow.ring.count; i++) {
    on_session(offer);
  }
  for (unsigned rounds = 0, came = 0; came < flow.ring.count; rounds++) {
    CHECK(rounds < ROUNDS_TO_END);
    turn();
    ssize_t got = recv(peers[0].fd, buffer, sizeof buffer, MSG_DONTWAIT | MSG_TRUNC);
    CHECK(got == LARGE || (got < 0 && errno == EAGAIN));
    came += got > 0;
  }
  peers[0].taken = flow.ring.count;
  leave(&peers[0]);
  sink_walk_end();
}

START_TEST(test_a_large_result_is_written_alone) { sink_walks(LARGE_RUNS, 7800, walk_large); }
END_TEST

Suite *readers_suite(void);

Suite *readers_suite(void) {
  Suite *suite = suite_create("readers");
  TCase *tests = tcase_create("readers");
  tcase_set_timeout(tests, 120);
  tcase_add_test(tests, test_readers_at_random);
  tcase_add_test(tests, test_a_large_result_is_written_alone);
  suite_add_tcase(suite, tests);
  return suite;
}
