/*
 * A process is killed between any two instructions: whatever it was doing, the next one finds every frame in one place, and
 * none in flight that had its fate before. Here it goes one instruction at a time, and what it would leave is adopted after
 * each.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/session/private.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/state.h"
#include "tests/unit/runner.h"

enum { SLOTS = 3, SIZE = 64, STEPS = 40000, FRAMES = 4096 };

static struct config_pipeline config;
static struct frame_format format;
static struct lane *lane;
static struct session *session, *next;
static struct sink blank_sink;
static _Atomic int64_t completion;
static struct retry retry;
static const struct flow_device device = {.completion = &completion, .retry = &retry};

static void no_wake(void *context) { (void)context; }

static struct flow *flow_of_next(void *context, unsigned seat) {
  (void)context;
  return seat == 0 ? &next->flow : NULL;
}

/* Sets what a session and its sink have from their set-up. */
static void set_up_session(struct session *of, struct sink *sink, bool apart) {
  of->setup.config = &config;
  of->sink = sink;
  of->runner.lane = sink->runner.lane = lane; /* as if they had joined */
  slot_ring_init(&of->flow.ring, SLOTS);
  of->flow.account = &of->account;
  of->flow.devices = &device;
  of->flow.device_count = 1;
  of->flow.input_bytes = of->flow.output_bytes = SIZE;
  of->flow.wake = no_wake;
  receive_init(&of->receive, &of->flow, CONFIG_PROTOCOL_RAW, &format, NULL);
  of->source.receive = &of->receive;
  if (apart) {
    relay_init(&of->relay, &of->flow);
    spsc_init(&of->relay.back, lane, &of->runner);
    sink_join_handoff(sink, &of->relay);
  }
}

static struct session *make_session(bool apart) {
  struct failure failure;
  const struct sink_setup setup = {.config = &config, .lane = lane, .output = &format};
  struct session *made = image_new(IMAGE_SESSION, sizeof *made);
  struct sink *sink = sink_new(&setup, &failure);
  ck_assert(made && sink);
  sink_set_kind(sink, true); /* whose results nobody takes by itself */
  blank_sink = *sink;
  set_up_session(made, sink, apart);
  return made;
}

static void set_up(bool apart) {
  static char name[] = "test", path[] = "/nowhere/results";
  struct failure failure;
  lane = lane_new(0, &failure);
  ck_assert_ptr_nonnull(lane);
  config = (struct config_pipeline){.name = name, .sink = {.endpoint = CONFIG_FILE, .path = path}};
  format = format_image(PIXELS_GRAY, SIZE, 1);
  session = make_session(apart);
  next = make_session(apart);
  session->inputs.fd = open("/dev/null", O_RDWR);
  session->outputs.fd = open("/dev/null", O_RDWR);
  session->control.fd = -1;
  session->attached = session->attaches = 1;
  session->source.state = SOURCE_OPEN;
  session_keep(session);
}

/* -- the process that is killed ---------------------------------------------------------------------------------------------
 */

static uint64_t chance_state = 1;

static unsigned chance(unsigned below) {
  chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(chance_state >> 33) % below;
}

/* As a read does, with its mark. */
static void come(void) {
  struct slot *slot = slot_oldest(&session->flow.ring, SLOT_FREE);
  if (!slot) {
    return;
  }
  mark_set(&session->source.mark);
  slot->frame = (struct frame){.sequence = session->receive.sequence++, .producer = 1, .first_byte = 1, .began = 1};
  account_open(&session->account, &slot->frame);
  slot_move(&session->flow.ring, slot, SLOT_FILLING);
  slot_move(&session->flow.ring, slot, SLOT_READY);
  mark_clear(&session->source.mark);
}

static void run_or_drop(void) {
  struct slot *slot = slot_oldest(&session->flow.ring, SLOT_READY);
  if (slot && chance(4) == 0) {
    flow_drop(&session->flow, slot, FATE_LATE, 2);
  } else if (slot) {
    slot_move(&session->flow.ring, slot, SLOT_RUNNING);
    slot->frame.seen = 2;
    slot_move(&session->flow.ring, slot, SLOT_DONE);
  }
}

static void offer(void) {
  struct slot *slot = flow_offer(&session->flow);
  if (slot) {
    sink_offer(session->sink, &session->flow, slot);
  }
}

static void write_out(void) {
  struct sink *sink = session->sink;
  sink_take_handed_over(sink);
  if (sink_count(sink) > 0) {
    result_release(sink, sink_result(sink, sink->first), chance(4) == 0 ? FATE_SINK_ERROR : FATE_EMITTED, 3);
  }
}

static void collect(void) {
  if (session->flow.relay) {
    relay_collect(session->flow.relay);
  }
}

static _Noreturn void live(void) {
  static void (*const steps[])(void) = {come, come, run_or_drop, offer, write_out, collect};
  for (;;) {
    steps[chance(sizeof steps / sizeof *steps)]();
  }
}

/* -- and the one after it ---------------------------------------------------------------------------------------------------
 */

static int at_step;
static bool gone[FRAMES]; /* these have their fate */

static void begin_next(bool apart) {
  struct sink *sink = next->sink;
  memset(next, 0, sizeof *next);
  *sink = blank_sink;
  set_up_session(next, sink, apart);
  next->inputs = next->outputs = next->control = ARENA_NONE;
}

static void adopt_next(void) {
  struct failure failure = {0};
  fd_table_leave(session->inputs.fd, true); /* as if they had just come */
  fd_table_leave(session->outputs.fd, true);
  require(session_adopt(next, session, true, &failure), "%s", failure.text);
  const struct sink *left = sink_left(session->sink);
  require(left && sink_adopt(next->sink, left, flow_of_next, NULL), "the sink");
  require(session_taken(next, &failure), "%s", failure.text);
}

static unsigned places_of(uint64_t sequence) {
  unsigned places = 0;
  for (unsigned i = 0; i < SLOTS; i++) {
    const struct slot *slot = &next->flow.ring.slots[i];
    places += slot->state != SLOT_FREE && slot->frame.sequence == sequence && (slot->frame.open || slot->awaits_fate);
  }
  return places;
}

/* Nothing is lost but a frame whose bytes were being taken. */
static void require_sense(bool marked) {
  const struct ledger *ledger = &next->account.now.ledger;
  uint64_t in = 0, settled = 0;
  for (uint64_t sequence = 0; sequence < next->receive.sequence && sequence < FRAMES; sequence++) {
    unsigned places = places_of(sequence);
    require(places <= 1, "frame %llu is in %u places", (unsigned long long)sequence, places);
    require(places == 0 || !gone[sequence], "frame %llu is there again", (unsigned long long)sequence);
    gone[sequence] |= places == 0 && !marked;
    in += places;
  }
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += ledger->fates[fate];
  }
  require(in == ledger->in_flight && ledger->in == settled + in, "%llu came, %llu are in flight",
          (unsigned long long)ledger->in, (unsigned long long)in);
  uint64_t lost = ledger->fates[FATE_INVALID];
  require(lost <= marked && (marked || ledger->in == next->receive.sequence), "%llu are lost, %llu of %llu came, step %d",
          (unsigned long long)lost, (unsigned long long)ledger->in, (unsigned long long)next->receive.sequence, at_step);
}

START_TEST(it_makes_sense_after_each_instruction) {
  bool apart = _i == 1;
  int status = 0;
  set_up(apart);
  ck_assert(image_open_left(dup(image_fd())));
  image_front()->use = IMAGE_IS_LIVE; /* as of one that is killed */
  state_receive(true);
  pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    live();
  }
  for (int step = 0; step < STEPS; step++) {
    ck_assert(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    at_step = step;
    bool marked = mark_is_set(&session->source.mark);
    begin_next(apart);
    adopt_next();
    require_sense(marked);
    ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ck_assert_uint_gt(next->account.now.ledger.fates[FATE_EMITTED], 1);
  ck_assert_uint_gt(next->account.now.ledger.fates[FATE_LATE], 0);
}
END_TEST

Suite *adopt_suite(void);
Suite *adopt_suite(void) {
  Suite *suite = suite_create("adopt");
  TCase *cases = tcase_create("session_adopt");
  tcase_set_timeout(cases, 120);
  tcase_set_tags(cases, NO_THREADS);
  tcase_add_loop_test(cases, it_makes_sense_after_each_instruction, 0, 2);
  suite_add_tcase(suite, cases);
  return suite;
}
