/* Frames in bands of rows on several devices: chains that can be, what is refused, and a device of several that dies. What each
 * stage computes so is compared by tests/gpu/parity.c. */
#include "gpu/backend.h"
#include "gpu/stages/fault.h"
#include "tests/unit/gpu/rig.h"
#include "tests/unit/runner.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5 };

static struct rig whole, split;
static struct gpu_device *members[MOST];
static struct gpu_error error;

/* A stage, with the first of its parameters. */
struct step {
  const char *name;
  double number;
};

static struct gpu_chain *chain_of(const struct frame_format *format, const struct step *steps) {
  struct gpu_stage_request requests[GPU_MAX_STAGES] = {0};
  unsigned count = 0;
  for (; steps[count].name; count++) {
    struct gpu_stage_request *request = &requests[count];
    request->stage = stage_find(steps[count].name);
    for (unsigned i = 0; i < request->stage->parameter_count; i++) {
      request->values[i] = (struct stage_value){.count = 1, .numbers = {request->stage->parameters[i].fallback}};
    }
    if (request->stage->parameter_count > 0) {
      request->values[0] = (struct stage_value){.given = true, .count = 1, .numbers = {steps[count].number}};
    }
  }
  struct gpu_chain *chain = gpu_chain_new(format, requests, count, &error);
  ck_assert_msg(chain != NULL, "%s", error.text);
  return chain;
}

static void open_split(unsigned devices, const struct frame_format *format, const struct step *steps) {
  for (unsigned i = 0; i < devices; i++) {
    members[i] = gpu_open(GPU_BACKEND_CPU, i, 1, &error);
    ck_assert_ptr_nonnull(members[i]);
  }
  split = (struct rig){.device = gpu_join_rows(members, devices, &error)};
  ck_assert_ptr_nonnull(split.device);
  rig_program_of(&split, 2, chain_of(format, steps));
}

static void close_split(void) {
  rig_close(&split);
  for (unsigned i = 0; i < MOST; i++) {
    members[i] = gpu_close(members[i]);
  }
}

static void fill(unsigned seed) {
  for (size_t i = 0; i < whole.input_bytes; i++) {
    seed = seed * 1664525U + 1013904223U;
    whole.input[0][i] = (unsigned char)(seed >> 24);
  }
}

/* The last frames go through all that a session's do. */
static void compare(unsigned devices, const struct frame_format *format, const struct step *steps) {
  struct gpu_times times;
  char text[FORMAT_TEXT];
  rig_open(&whole, 1);
  rig_program_of(&whole, 1, chain_of(format, steps));
  open_split(devices, format, steps);
  ck_assert(gpu_program_warm_up(split.program, &error));
  ck_assert_int_eq(atomic_load(&split.wakes), 0);
  for (unsigned frame = 0; frame < 4; frame++) {
    const unsigned slot = frame % 2;
    fill(frame + devices);
    memcpy(split.input[slot], whole.input[0], whole.input_bytes);
    memset(split.output[slot], 0xa5, split.output_bytes);
    rig_submit(&whole, 0, frame, false);
    rig_submit(&split, slot, frame, frame >= 2);
    rig_finish(&whole, 0);
    rig_finish(&split, slot);
    ck_assert_msg(memcmp(split.output[slot], whole.output[0], whole.output_bytes) == 0, "%s on %u devices, %s, ...",
                  format_describe(format, text), devices, steps[0].name);
    ck_assert(gpu_times(split.program, slot, &times));
    ck_assert(times.begin <= times.copied_in && times.copied_in <= times.computed && times.computed <= times.copied_out);
    ck_assert(!gpu_late(split.program, slot));
    ck_assert_ptr_null(gpu_refusal(split.program, slot));
  }
  rig_close(&whole);
  close_split();
}

/* Widths whose rows begin at aligned addresses never, now and then, and always; heights that leave devices without a band, or
 * whose bands would reach over all of the frame. */
START_TEST(bands_are_the_frame) {
  static const struct step chains[][4] = {
      {{"affine", 0.5}, {"blur", 1.5}},
      {{"blur", 0.8}, {"sobel", 0}, {"blur", 2}},
      {{"blur", 1.5}, {"stats", 3}},
      {{"stats", 0}},
      {{"sobel", 1}, {"normalize", 0.25}},
      {{"convert", 6}, {"blur", 1}, {"threshold", 90}},
      {{"convert", 1}, {"blur", 2}, {"normalize", 4}},
      {{"blur", 20}, {"threshold", 128}},
  };
  static const uint32_t sizes[][2] = {{64, 64}, {96, 50}, {33, 600}, {256, 3}, {1, 1}, {1024, 40}};
  const struct step *steps = chains[_i];
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const struct frame_format format = format_image(PIXELS_GRAY, sizes[i][0], sizes[i][1]);
    for (unsigned devices = 1; devices <= MOST; devices += 2) {
      compare(devices, &format, steps);
    }
  }
}
END_TEST

static void refused(const struct frame_format *format, const struct step *steps, int stage, const char *text) {
  struct gpu_chain *chain = chain_of(format, steps);
  ck_assert(!gpu_chain_splits(chain, &error));
  ck_assert_int_eq(error.stage, stage);
  ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
  gpu_chain_free(chain);
}

START_TEST(what_needs_the_whole_frame_is_refused) {
  const struct frame_format gray = format_image(PIXELS_GRAY, 64, 48), floats = format_image(PIXELS_GRAYF32LE, 64, 48),
                            planes = format_image(PIXELS_NV12, 64, 48);
  refused(&gray, (const struct step[]){{0}}, -1, "no stages");
  refused(&gray, (const struct step[]){{"affine", 1}, {"motion", 1}, {0}}, 1, "stages[1] (motion) cannot");
  refused(&planes, (const struct step[]){{"affine", 1}, {0}}, 0, "lie row by row");
  refused(&gray, (const struct step[]){{"convert", 3}, {0}}, 0, "lie row by row");
  refused(&floats, (const struct step[]){{"blur", 1}, {"stats", 0}, {0}}, 1, "not for this format");
  refused(&gray, (const struct step[]){{"stats", 0}, {"affine", 1}, {0}}, 1, "lie row by row");
}
END_TEST

START_TEST(its_program_is_refused_too) {
  const struct frame_format gray = format_image(PIXELS_GRAY, 64, 48);
  struct gpu_chain *chain = chain_of(&gray, (const struct step[]){{"motion", 1}, {0}});
  struct gpu_buffers buffers = {0};
  open_split(2, &gray, (const struct step[]){{"affine", 1}, {0}});
  ck_assert_ptr_null(gpu_program_new(split.device, chain, &buffers, 1, &(struct gpu_options){0}, &error));
  ck_assert_int_eq(error.stage, 0);
  gpu_chain_free(chain);
  close_split();
}
END_TEST

/* The name of the joint device stays that of the devices, whose memory it takes and which are counted. */
START_TEST(it_is_one_device) {
  const struct frame_format gray = format_image(PIXELS_GRAY, 64, 48);
  open_split(3, &gray, (const struct step[]){{"stats", 0}, {0}});
  ck_assert_str_eq(gpu_backend_name(split.device), "cpu");
  rig_submit(&split, 1, 0, true);
  rig_wait_for_wakes(&split, 3);
  ck_assert_int_eq(gpu_told(split.program, 1), GPU_DONE);
  rig_submit(&split, 0, 1, false);
  ck_assert(gpu_arm(split.program, 0, &error));
  rig_finish(&split, 0);
  close_split();
}
END_TEST

START_TEST(a_late_frame_is_late_everywhere) {
  const struct frame_format gray = format_image(PIXELS_GRAY, 64, 48);
  open_split(2, &gray, (const struct step[]){{"affine", 1}, {0}});
  ck_assert(gpu_submit(split.program, 0, &(struct gpu_frame){.deadline = 1}, &error));
  rig_finish(&split, 0);
  ck_assert(gpu_late(split.program, 0));
  close_split();
}
END_TEST

/* Whichever it is: the frame is lost with one of its bands, and the others are free of what it was. */
START_TEST(one_dead_device_is_the_end_of_the_frame) {
  const struct frame_format gray = format_image(PIXELS_GRAY, 64, 48);
  open_split(3, &gray, (const struct step[]){{"blur", 1}, {0}});
  rig_submit(&split, 0, 0, false);
  rig_finish(&split, 0);
  gpu_abandon(members[_i], "it is broken");
  ck_assert_int_eq(rig_wait(&split, 0, &error), GPU_DONE);
  ck_assert(!gpu_submit(split.program, 1, &(struct gpu_frame){.sequence = 1}, &error));
  ck_assert_str_eq(error.text, "it is broken");
  ck_assert_int_eq(rig_wait(&split, 1, &error), GPU_DEAD);
  close_split();
}
END_TEST

Suite *split_suite(void);

Suite *split_suite(void) {
  Suite *suite = suite_create("split");
  TCase *group = tcase_create("bands");
  tcase_add_loop_test(group, bands_are_the_frame, 0, 1);
  tcase_add_test(group, what_needs_the_whole_frame_is_refused);
  tcase_add_test(group, its_program_is_refused_too);
  tcase_add_test(group, it_is_one_device);
  tcase_add_test(group, a_late_frame_is_late_everywhere);
  tcase_add_loop_test(group, one_dead_device_is_the_end_of_the_frame, 0, 3);
  suite_add_tcase(suite, group);
  TCase *others = tcase_create("bands of other chains");
  tcase_set_tags(others, NO_THREADS);
  tcase_add_loop_test(others, bands_are_the_frame, 1, 8);
  suite_add_tcase(suite, others);
  return suite;
}
