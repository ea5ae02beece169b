/* Frames by a kernel that stays: each is done whenever the kernel leaves, and whatever it has heard by then. */
#include "tests/unit/cuda/fake_world.h"
#include "tests/unit/cuda/fixture.h"

#include "gpu/cuda/mailbox.h"

#include <stdlib.h>
#include <string.h>

/* -- a kernel that stays, as the fake runtime has it ---------------------------------------------------------------- */

static unsigned launches, deaf; /* so many of the next ones leave without having heard a doorbell */
static unsigned seed;
static struct resident_run runs[64]; /* of which few are on a stream at once */

/* Adds one to each sample, whatever the steps are. */
static void answer(const struct resident_run *run, unsigned slot, uint32_t number) {
  const unsigned char *input = run->inputs[slot];
  unsigned char *output = run->outputs[slot];
  for (uint64_t i = 0; i < run->samples; i++) {
    output[i] = (unsigned char)(input[i] + 1);
  }
  atomic_store(&run->mailbox->answers[slot].word, number);
}

static void stay(void *argument) {
  const struct resident_run *run = argument;
  bool hears = deaf == 0 || run->linger_ns == 0;
  deaf -= !hears;
  for (unsigned slot = 0; slot < run->slots && hears; slot++) {
    uint32_t number = atomic_load(&run->mailbox->doorbells[slot].word);
    if (number != atomic_load(&run->mailbox->answers[slot].word)) {
      answer(run, slot, number);
    }
  }
  atomic_store(&run->mailbox->left.word, run->number);
}

int cuda_mailbox_launch(const struct resident_run *run, void *stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  struct resident_run *own = &runs[launches % 64];
  if (status == cudaSuccess) {
    *own = *run;
    launches++;
    fake_launch(stream, stay, own, KERNEL_NS);
  }
  return (int)status;
}

static void tell(void *argument) {
  struct mailbox_line *const answer_line = argument;
  const struct mailbox_line *doorbell = answer_line - (offsetof(struct mailbox_words, answers) / sizeof *doorbell);
  atomic_store(&answer_line->word, atomic_load(&doorbell->word));
}

int cuda_mailbox_answer(struct mailbox_words *words, unsigned slot, void *stream) {
  cudaError_t status = fake_begin_on_stream(stream);
  if (status == cudaSuccess) {
    fake_launch(stream, tell, &words->answers[slot], 0);
  }
  return (int)status;
}

/* -- tests ---------------------------------------------------------------------------------------------------------- */

static bool keep(struct stage_plan *plan, const struct stage_value *values, char unused[STAGE_TEXT]) {
  (void)unused;
  (void)values;
  plan->output = plan->input;
  return true;
}

static int enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  (void)plan;
  return (int)cudaMemcpyAsync(call->output, call->input, WIDTH, cudaMemcpyDeviceToDevice, stream);
}

static const struct stage_descriptor sample = {STAGE_UNLISTED("affine"), .prepare = keep, .enqueue = enqueue};

static void make_resident(unsigned slots) {
  launches = deaf = 0;
  options.resident = true;
  options.linger_ns = 1000;
  make_program(slots, &sample, 0);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
}

START_TEST(one_kernel_takes_many_frames) {
  make_resident(3);
  fake_set_polling(false);
  for (unsigned slot = 0; slot < 3; slot++) {
    inputs[slot][1] = (unsigned char)(10 * slot);
    ck_assert(submit(slot, slot, false));
    ck_assert_int_eq(gpu_ask(program, slot, &problem), GPU_PENDING);
  }
  ck_assert_uint_eq(launches, 1);
  fake_run_all();
  for (unsigned slot = 0; slot < 3; slot++) {
    struct gpu_times times;
    ck_assert_int_eq(gpu_told(program, slot), GPU_DONE);
    ck_assert_int_eq(gpu_ask(program, slot, &problem), GPU_DONE);
    ck_assert_uint_eq(outputs[slot][1], 10 * slot + 1);
    ck_assert(!gpu_times(program, slot, &times));
  }
  ck_assert_uint_eq(launches, 1);
  ck_assert_uint_eq(wakes, 0);
}
END_TEST

/* What a kernel leaves without having heard, the next one hears: asking sends it. */
START_TEST(a_kernel_that_leaves_loses_no_frame) {
  make_resident(1);
  fake_set_polling(false);
  deaf = 3;
  ck_assert(submit(0, 0, false));
  for (unsigned i = 1; i <= 4; i++) {
    ck_assert_uint_eq(launches, i);
    ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_PENDING);
    fake_run_all();
    ck_assert_int_eq(gpu_told(program, 0), i == 4 ? GPU_DONE : GPU_PENDING);
    ck_assert_int_eq(gpu_ask(program, 0, &problem), i == 4 ? GPU_DONE : GPU_PENDING);
  }
  ck_assert(submit(0, 1, false)); /* nobody is there */
  ck_assert_uint_eq(launches, 5);
}
END_TEST

/* A lane that sleeps is woken when its frame is done, also where the kernel that was there went without it. */
START_TEST(an_armed_frame_wakes_when_it_is_done) {
  make_resident(2);
  fake_set_polling(false);
  deaf = _i ? 1 : 0;
  unsigned before = fake_host_functions();
  ck_assert(submit(0, 0, false));
  ck_assert(gpu_arm(program, 0, &problem));
  ck_assert(gpu_arm(program, 0, &problem));
  ck_assert_uint_eq(fake_host_functions() - before, 1);
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_PENDING);
  fake_run_all();
  ck_assert_uint_eq(wakes, 1);
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
}
END_TEST

/* A lane at random. */
START_TEST(every_frame_is_done_in_its_slot) {
  enum { SLOTS = 4, FRAMES = 2000 };
  make_resident(SLOTS);
  fake_set_seed(seed = (unsigned)_i + 1);
  for (unsigned frame = 0, oldest = 0; oldest < FRAMES;) {
    unsigned choice = (unsigned)rand_r(&seed) % 8;
    if (choice < 4 && frame < FRAMES && frame - oldest < SLOTS) {
      inputs[frame % SLOTS][0] = (unsigned char)frame;
      ck_assert(submit(frame % SLOTS, frame, choice == 0 && _i % 2));
      frame++;
    } else if (frame > oldest) {
      ck_assert(choice != 7 || gpu_arm(program, oldest % SLOTS, &problem));
      enum gpu_progress progress = gpu_ask(program, oldest % SLOTS, &problem);
      ck_assert_int_ne(progress, GPU_DEAD);
      ck_assert(progress == GPU_PENDING || outputs[oldest % SLOTS][0] == (unsigned char)(oldest + 1) || _i % 2);
      oldest += progress == GPU_DONE;
    }
    deaf = deaf > 0 ? deaf : (unsigned)rand_r(&seed) % 3;
  }
  ck_assert_uint_lt(launches, FRAMES);
}
END_TEST

/* Whatever fails, the device is dead and asks for nothing more; what it has broken is found by asking. */
START_TEST(a_broken_device_is_found) {
  make_resident(1);
  fake_set_polling(false);
  fake_fail(0, cudaErrorLaunchFailure, true);
  bool submitted = _i == 0 || submit(0, 0, false);
  ck_assert(submitted == (_i == 0));
  if (submitted) {
    fake_heal();
    ck_assert(submit(0, 0, false));
    fake_die(cudaErrorIllegalAddress);
  }
  enum gpu_progress progress = GPU_PENDING;
  for (unsigned i = 0; i < MAX_TRIES && progress == GPU_PENDING; i++) {
    progress = gpu_ask(program, 0, &problem);
  }
  ck_assert_int_eq(progress, GPU_DEAD);
  ck_assert(gpu_device_is_dead(device, NULL));
  ck_assert(!gpu_arm(program, 0, &problem));
}
END_TEST

/* Nothing of it is left, also where any call fails in between. */
START_TEST(it_is_opened_and_closed_cleanly) {
  static struct mailbox_words shared;
  bool over = false;
  for (unsigned tries = 0; !over; tries++) {
    unsigned alive = fake_alive();
    options.resident = true;
    options.mailbox = _i ? &shared : NULL;
    make_program(2, &sample, 0);
    fake_fail(tries, cudaErrorInvalidValue, false);
    bool ready = gpu_program_warm_up(program, &problem);
    over = fake_heal();
    ck_assert(ready == over || gpu_device_is_dead(device, NULL));
    bool dead = gpu_device_is_dead(device, NULL);
    program = gpu_program_free(program);
    chain = gpu_chain_free(chain);
    ck_assert(dead || fake_alive() == alive);
    tear_down();
    set_up();
  }
}
END_TEST

/* -- frames that another process rings for ----------------------------------------------------------------------------- */

static struct mailbox_words words;

static void make_rung(unsigned slots) {
  memset(&words, 0, sizeof words);
  options.mailbox = &words;
  make_resident(slots);
  fake_set_polling(false);
  ck_assert(gpu_program_is_rung(program));
  ck_assert_int_ne(gpu_attend(program, &problem), GPU_DEAD);
  fake_run_all();
  launches = 0;
}

static void ring(unsigned slot) { atomic_fetch_add(&words.doorbells[slot].word, 1); }

static bool is_done(unsigned slot) {
  return atomic_load(&words.doorbells[slot].word) == atomic_load(&words.answers[slot].word);
}

/* Each look launches one run at most, and two are on the stream at most; without frames there is none. */
START_TEST(a_kernel_is_there_while_frames_are_rung) {
  make_rung(2);
  ck_assert_int_eq(gpu_attend(program, &problem), GPU_DONE);
  ck_assert_uint_eq(launches, 0);
  for (unsigned frame = 1; frame <= 4; frame++) {
    ring(frame % 2);
    ck_assert_int_eq(gpu_attend(program, &problem), GPU_PENDING);
    ck_assert_uint_eq(launches, frame < 2 ? frame : 2);
    ck_assert_uint_eq(atomic_load(&words.launched.word), atomic_load(&words.left.word) + launches);
  }
  fake_run_all();
  ck_assert(is_done(0) && is_done(1));
  ck_assert_uint_eq(atomic_load(&words.launched.word), atomic_load(&words.left.word));
  ck_assert_int_eq(gpu_attend(program, &problem), GPU_DONE);
  ck_assert_uint_eq(launches, 2);
}
END_TEST

START_TEST(a_rung_frame_waits_for_the_next_run) {
  make_rung(1);
  deaf = 3;
  ring(0);
  for (unsigned i = 1; i <= 4; i++) {
    ck_assert_int_eq(gpu_attend(program, &problem), GPU_PENDING);
    ck_assert_uint_eq(launches, i);
    fake_run_all();
    ck_assert(is_done(0) == (i == 4));
  }
}
END_TEST

/* The number of a frame is the one behind that at the doorbell, whoever gave the one before. */
START_TEST(both_may_give_a_slot_frames) {
  make_rung(1);
  for (unsigned frame = 0; frame < 6; frame++) {
    if (frame % 3 == 0) {
      ck_assert(submit(0, frame, false));
      ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
    } else {
      ring(0);
      ck_assert_int_eq(gpu_attend(program, &problem), GPU_PENDING);
    }
    ck_assert(!is_done(0));
    fake_run_all();
    ck_assert(is_done(0));
    ck_assert(frame % 3 != 0 || gpu_told(program, 0) == GPU_DONE);
  }
}
END_TEST

START_TEST(attending_finds_a_broken_device) {
  make_rung(1);
  ring(0);
  ck_assert(_i == 0 || gpu_attend(program, &problem) == GPU_PENDING);
  fake_die(cudaErrorIllegalAddress);
  ck_assert_int_eq(gpu_attend(program, &problem), GPU_DEAD);
  ck_assert(gpu_device_is_dead(device, NULL));
  ck_assert_int_eq(gpu_attend(program, &problem), GPU_DEAD);
}
END_TEST

/* Whatever is written there, a run is launched at most. */
START_TEST(wild_words_harm_nobody) {
  make_rung(2);
  for (unsigned i = 0; i < 200; i++) {
    mailbox_word *const all[] = {&words.doorbells[0].word, &words.doorbells[1].word, &words.answers[0].word,
                                 &words.answers[1].word,   &words.left.word,         &words.launched.word};
    atomic_store(all[(unsigned)rand_r(&seed) % 6], (uint32_t)rand_r(&seed));
    unsigned before = launches;
    ck_assert_int_ne(gpu_attend(program, &problem), GPU_DEAD);
    ck_assert_uint_le(launches, before + 1);
    fake_run_all();
  }
}
END_TEST

START_TEST(what_cannot_stay_is_refused) {
  static const char *const texts[] = {"stages[0] (plus_one)", "frames of 65537 bytes", "cannot read the host's memory"};
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){65537}, 1);
  struct gpu_stage_request request = {.own = &sample};
  tear_down();
  fake_set_blind(_i == 2);
  device = cuda_open(0, NULL, &problem);
  options.resident = true;
  if (_i == 1) {
    chain = gpu_chain_new(&format, &request, 1, &problem);
    ck_assert(!gpu_chain_resides(chain, &problem));
  } else {
    make_program(1, _i == 0 ? &plus_one : &sample, 0);
    ck_assert(!gpu_program_warm_up(program, &problem));
  }
  ck_assert_ptr_nonnull(strstr(problem.text, texts[_i]));
  ck_assert_ptr_nonnull(strstr(problem.remedy, "completion: spin"));
}
END_TEST

/* Frames of a graph in which kernels copy, without times and without being told of, need no event. */
START_TEST(replayed_frames_answer) {
  options.graph = GPU_GRAPH_ON;
  options.copy = GPU_COPY_KERNEL;
  options.timed_one_in = GPU_TIMED_NEVER;
  make_program(2, &plus_one, 0);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  fake_set_polling(false);
  unsigned records = fake_records();
  for (unsigned frame = 0; frame < 4; frame++) {
    inputs[frame % 2][1] = (unsigned char)(10 * frame);
    ck_assert(submit(frame % 2, frame, false));
    ck_assert_int_eq(gpu_ask(program, frame % 2, &problem), GPU_PENDING);
    ck_assert(frame != 3 || gpu_arm(program, frame % 2, &problem));
    fake_run_all();
    ck_assert_int_eq(gpu_told(program, frame % 2), GPU_DONE);
    ck_assert_uint_eq(outputs[frame % 2][1], 10 * frame + 1);
  }
  ck_assert_uint_eq(fake_records(), records);
  ck_assert_uint_eq(wakes, 1);
  ck_assert(submit(0, 4, false));
  fake_die(cudaErrorIllegalAddress);
  enum gpu_progress progress = GPU_PENDING;
  for (unsigned i = 0; i < MAX_TRIES && progress == GPU_PENDING; i++) {
    progress = gpu_ask(program, 0, &problem);
  }
  ck_assert_int_eq(progress, GPU_DEAD);
}
END_TEST

Suite *mailbox_suite(void);
Suite *mailbox_suite(void) {
  Suite *suite = suite_create("mailbox");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_test(group, one_kernel_takes_many_frames);
  tcase_add_test(group, a_kernel_that_leaves_loses_no_frame);
  tcase_add_loop_test(group, an_armed_frame_wakes_when_it_is_done, 0, 2);
  tcase_add_loop_test(group, every_frame_is_done_in_its_slot, 0, 6);
  tcase_add_loop_test(group, a_broken_device_is_found, 0, 2);
  tcase_add_loop_test(group, it_is_opened_and_closed_cleanly, 0, 2);
  tcase_add_test(group, a_kernel_is_there_while_frames_are_rung);
  tcase_add_test(group, a_rung_frame_waits_for_the_next_run);
  tcase_add_test(group, both_may_give_a_slot_frames);
  tcase_add_loop_test(group, attending_finds_a_broken_device, 0, 2);
  tcase_add_test(group, wild_words_harm_nobody);
  tcase_add_test(group, replayed_frames_answer);
  tcase_add_loop_test(group, what_cannot_stay_is_refused, 0, 3);
  suite_add_tcase(suite, group);
  return suite;
}
