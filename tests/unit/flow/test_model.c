/*
 * A million random steps on the road of a session, beside a model that knows no slots.
 *
 * The real fill, dispatch, completion and emit steps run with a device and a sink that the test moves by chance. The
 * model keeps a plain list of frames, each with the place it must be in; after every step both must agree on how many
 * frames are where, on every fate, and on the content and order of what comes out.
 */
#include <check.h>
#include <string.h>

#include "daemon/frame/completion.h"
#include "daemon/frame/dispatch.h"
#include "daemon/frame/receive.h"
#include "daemon/sink/results.h"
#include "tests/unit/chance.h"

enum { FRAME_BYTES = 12, STEPS_A_RUN = 2000, RUNS = 500, MAX_FRAMES = STEPS_A_RUN * 40, DEADLINE = 100 };

/* -- the device: completes what the test tells it to -------------------------------------------------------------- */

static bool device_done[GPU_MAX_SLOTS];
static struct flow flow;
static struct account account;

static bool must_restart(uint64_t number);
static int64_t deadline_of(uint64_t number);

bool device_submit(struct device_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error) {
  (void)program, (void)error;
  CHECK(frame->sequence == flow.ring.slots[slot].frame.sequence);
  CHECK(frame->restart == must_restart(frame->sequence));
  CHECK(frame->deadline == deadline_of(frame->sequence));
  device_done[slot] = false;
  memcpy(flow.ring.slots[slot].output, flow.ring.slots[slot].input, FRAME_BYTES);
  return true;
}

enum gpu_progress device_ask(struct device_program *program, unsigned slot, struct gpu_error *error) {
  (void)program, (void)error;
  return device_done[slot] ? GPU_DONE : GPU_PENDING;
}

void device_abandon_slot(struct device_program *program, unsigned slot, const struct gpu_error *reason) {
  (void)program, (void)slot, (void)reason;
}

bool device_serves(const struct device_program *program) {
  (void)program;
  return true;
}

bool device_times(struct device_program *program, unsigned slot, struct gpu_times *times) {
  (void)program, (void)slot, (void)times;
  return false;
}

/* Some frames no stage can compute. */
static bool is_refused(uint64_t number) { return number % 5 == 4; }

const char *device_refusal(struct device_program *program, unsigned slot) {
  (void)program;
  return is_refused(flow.ring.slots[slot].frame.sequence) ? "it cannot be computed" : NULL;
}

/* And some it has not begun when they are late. */
static bool is_begun_late(uint64_t number) { return flow.deadline_ns > 0 && number % 7 == 3; }

bool device_late(struct device_program *program, unsigned slot) {
  (void)program;
  return is_begun_late(flow.ring.slots[slot].frame.sequence);
}

/* -- the model: where each frame is ----------------------------------------------------------------------------------- */

enum place { FILLING, DISCARDING, READY, RUNNING, DONE, AT_SINK, GONE };

static struct {
  enum place place;
  uint64_t number;
  int64_t first_byte;
  unsigned producer;
  bool done_on_device;
} frames[MAX_FRAMES];
static unsigned frame_count;
static unsigned producer;  /* counted from 1 */
static unsigned on_device; /* the producer whose frame was submitted last */
static uint64_t fates[FATE_COUNT];
static unsigned counts[GONE + 1];

static void place(unsigned frame, enum place to) {
  counts[frames[frame].place]--;
  frames[frame].place = to;
  counts[to]++;
}

static unsigned oldest(enum place wanted) {
  for (unsigned i = 0; i < frame_count; i++) {
    if (frames[i].place == wanted) {
      return i;
    }
  }
  return MAX_FRAMES;
}

static void model_fate(unsigned frame, enum fate fate) {
  fates[fate]++;
  place(frame, GONE);
}

/* State on the device starts anew with the first frame of a producer that gets there, whichever that is. */
static bool must_restart(uint64_t number) {
  bool anew = frames[number].producer != on_device;
  on_device = frames[number].producer;
  return anew;
}

static int64_t deadline_of(uint64_t number) { return flow.deadline_ns > 0 ? frames[number].first_byte + flow.deadline_ns : 0; }

static unsigned model_free(void) {
  return flow.ring.count - counts[FILLING] - counts[READY] - counts[RUNNING] - counts[DONE] - counts[AT_SINK];
}

static void model_begin(uint64_t number, int64_t now) {
  unsigned frame = frame_count++;
  CHECK(frame < MAX_FRAMES && number == frame);
  bool fits = model_free() > 0;
  frames[frame].place = fits ? FILLING : DISCARDING;
  frames[frame].number = number;
  frames[frame].first_byte = now;
  frames[frame].producer = producer;
  counts[frames[frame].place]++;
  if (!fits) {
    CHECK(flow.overload == CONFIG_OVERLOAD_DROP_NEWEST);
    fates[FATE_NEWEST]++;
  }
}

static void model_end_frame(void) {
  unsigned frame = oldest(FILLING);
  if (frame == MAX_FRAMES) {
    place(oldest(DISCARDING), GONE);
  } else {
    place(frame, READY);
  }
}

static void model_dispatch(int64_t now) {
  while (counts[READY] > 0 && counts[RUNNING] + counts[DONE] + counts[AT_SINK] < flow.depth) {
    unsigned frame = oldest(READY);
    if (flow.deadline_ns > 0 && now - frames[frame].first_byte > flow.deadline_ns) {
      model_fate(frame, FATE_LATE);
    } else {
      place(frame, RUNNING);
      frames[frame].done_on_device = false;
    }
  }
  while (flow.overload == CONFIG_OVERLOAD_DROP_OLDEST && counts[READY] > 1) {
    model_fate(oldest(READY), FATE_OLDEST);
  }
}

/* -- the producer: numbered frames, any number of bytes at a time ---------------------------------------------------------- */

static struct receive receive;
static uint64_t next_number;
static size_t sent; /* bytes of the frame under way */

static unsigned char byte_of(uint64_t number, size_t at) { return (unsigned char)(number * 31 + at * 7); }

static void feed(int64_t now) {
  struct iovec vector[RECEIVE_VECTORS];
  int count = receive_vector(&receive, vector, now);
  CHECK(count >= 0);
  bool may_read = sent > 0 || (!receive.held && (model_free() > 0 || flow.overload == CONFIG_OVERLOAD_DROP_NEWEST));
  CHECK((count > 0) == may_read);
  size_t room = 0;
  for (int i = 0; i < count; i++) {
    room += vector[i].iov_len;
  }
  size_t bytes = room ? chance((unsigned)room) + 1 : 0;
  size_t left = bytes;
  for (int i = 0; i < count && left > 0; i++) {
    for (size_t at = 0; at < vector[i].iov_len && left > 0; at++, left--) {
      if (sent == 0) {
        model_begin(next_number, now);
      }
      ((unsigned char *)vector[i].iov_base)[at] = byte_of(next_number, sent);
      if (++sent == FRAME_BYTES) {
        model_end_frame();
        next_number++;
        sent = 0;
      }
    }
  }
  if (bytes > 0) {
    CHECK(receive_advance(&receive, bytes, now, now));
  }
}

static void end_producer(int64_t now) {
  CHECK(receive_end(&receive, FATE_INVALID, now) == (sent == 0));
  unsigned frame = oldest(FILLING);
  if (frame != MAX_FRAMES) {
    model_fate(frame, FATE_INVALID);
  } else if (counts[DISCARDING] > 0) {
    place(oldest(DISCARDING), GONE);
  }
  if (sent > 0) {
    next_number++;
  }
  sent = 0;
  producer++;
  bool held = receive.held;
  receive_start(&receive);
  receive.held = held;
  receive.sequence = next_number; /* so that numbers stay unique within a run */
}

/* -- the device and the sink, moved by chance ----------------------------------------------------------------------------- */

static void complete_one(void) {
  if (counts[RUNNING] == 0) {
    return;
  }
  unsigned pick = chance(counts[RUNNING]);
  struct slot *slot = slot_at(&flow.ring, SLOT_RUNNING, pick);
  device_done[slot->index] = true;
  for (unsigned i = oldest(RUNNING), n = 0; i < frame_count; i++) {
    if (frames[i].place == RUNNING && n++ == pick) {
      frames[i].done_on_device = true;
    }
  }
}

static void model_complete(void) {
  for (unsigned frame = oldest(RUNNING); frame != MAX_FRAMES && frames[frame].done_on_device; frame = oldest(RUNNING)) {
    if (is_begun_late(frames[frame].number)) {
      model_fate(frame, FATE_LATE);
    } else if (is_refused(frames[frame].number)) {
      model_fate(frame, FATE_INVALID);
    } else {
      place(frame, DONE);
    }
  }
}

static _Atomic int64_t completions[2];
static const struct flow_device devices[2] = {{.completion = &completions[0]}, {.number = 1, .completion = &completions[1]}};

static void no_offer(struct sink *sink) { (void)sink; }
static void no_wake(void *session) { (void)session; }
static const struct sink_operations test_sink = {.offered = no_offer};
static struct sink sink;

static void sink_one(int64_t now) {
  static const enum fate possible[] = {FATE_EMITTED, FATE_UNREAD, FATE_SINK_ERROR, FATE_CLIENT_GONE, FATE_SHUTDOWN};
  if (sink_count(&sink) == 0) {
    return;
  }
  enum fate fate = possible[chance(sizeof possible / sizeof possible[0])];
  struct result *result = sink_result(&sink, sink.first);
  unsigned frame = oldest(AT_SINK);
  CHECK(frames[frame].number == result->slot->frame.sequence);
  for (size_t at = 0; at < FRAME_BYTES; at++) {
    CHECK(result->slot->output[at] == byte_of(frames[frame].number, at));
  }
  result_release(&sink, result, fate, now);
  model_fate(frame, fate);
}

/* -- one run ------------------------------------------------------------------------------------------------------- */

static void compare(void) {
  const struct ledger *ledger = &account.now.ledger;
  CHECK(slot_count(&flow.ring, SLOT_FREE) == model_free());
  CHECK(slot_count(&flow.ring, SLOT_FILLING) == counts[FILLING]);
  CHECK(slot_count(&flow.ring, SLOT_READY) == counts[READY]);
  CHECK(slot_count(&flow.ring, SLOT_RUNNING) == counts[RUNNING]);
  CHECK(slot_count(&flow.ring, SLOT_DONE) == counts[DONE]);
  CHECK(slot_count(&flow.ring, SLOT_EMITTING) == counts[AT_SINK]);
  CHECK(ledger->in == frame_count);
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    CHECK(ledger->fates[fate] == fates[fate]);
    settled += fates[fate];
  }
  CHECK(ledger->in == settled + flow_in_flight(&flow));
}

static void one_step(int64_t now) {
  switch (chance(9)) {
  case 0:
  case 1:
  case 2:
    feed(now);
    break;
  case 3:
    complete_one();
    break;
  case 4:
    CHECK(completion_check(&flow, INT64_C(1) << 58, now) == (counts[RUNNING] > 0 && frames[oldest(RUNNING)].done_on_device));
    completion_turn(&flow);
    model_complete();
    break;
  case 5:
    while (counts[DONE] > 0) {
      place(oldest(DONE), AT_SINK);
    }
    while (slot_count(&flow.ring, SLOT_DONE) > 0) {
      sink_offer(&sink, &flow, flow_offer(&flow));
    }
    break;
  case 6:
    dispatch_turn(&flow, now);
    model_dispatch(now);
    break;
  case 7:
    sink_one(now);
    break;
  default:
    if (chance(20) == 0) {
      end_producer(now);
    } else if (chance(10) == 0) {
      receive.held = !receive.held;
    }
  }
}

static unsigned char memory[2][GPU_MAX_SLOTS][FRAME_BYTES];
static unsigned char discard[RECEIVE_DISCARD];

static void set_up(void) {
  unsigned slots = chance(GPU_MAX_SLOTS) + 1;
  struct frame_format format = format_image(PIXELS_GRAY, FRAME_BYTES, 1);
  memset(&account, 0, sizeof account);
  memset(&flow, 0, sizeof flow);
  memset(counts, 0, sizeof counts);
  memset(fates, 0, sizeof fates);
  memset(&sink, 0, sizeof sink);
  frame_count = 0;
  producer = 1;
  on_device = 0;
  sent = 0;
  next_number = 0;
  slot_ring_init(&flow.ring, slots);
  flow.account = &account;
  flow.devices = devices;
  flow.device_count = 1 + chance(2);
  flow.input_bytes = flow.output_bytes = FRAME_BYTES;
  flow.overload = slots >= 3 ? chance(3) : 2 * chance(2); /* drop-oldest needs three slots */
  flow.deadline_ns = chance(2) ? DEADLINE : 0;
  flow.spin = chance(2);
  flow.depth = flow_depth(flow.overload, slots, flow.deadline_ns > 0);
  flow.wake = no_wake;
  for (unsigned i = 0; i < slots; i++) {
    flow.ring.slots[i].input = memory[0][i];
    flow.ring.slots[i].output = memory[1][i];
  }
  sink.operations = &test_sink;
  sink.runner.lane = (struct lane *)&sink; /* it has joined, as far as sink_offer() asks */
  receive_init(&receive, &flow, CONFIG_PROTOCOL_RAW, &format, discard);
}

static void walk(void) {
  set_up();
  int64_t now = 1;
  for (step = 0; step < STEPS_A_RUN; step++) {
    now += chance(30);
    one_step(now);
    compare();
  }
}

START_TEST(test_a_million_steps) {
  for (run = 0; run < RUNS; run++) {
    chance_begin(20261121 + run);
    walk();
  }
}
END_TEST

Suite *model_suite(void);

Suite *model_suite(void) {
  Suite *suite = suite_create("model");
  TCase *tests = tcase_create("road");
  tcase_set_timeout(tests, 120);
  tcase_add_test(tests, test_a_million_steps);
  suite_add_tcase(suite, tests);
  return suite;
}
