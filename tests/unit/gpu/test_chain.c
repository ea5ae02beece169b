/* Chains: formats from stage to stage, what an error names, and the memory that a program takes. */
#include "gpu/backend.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static bool give_float(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){plan->input.height, plan->input.width}, 2);
  plan->scratch_bytes = 300;
  return true;
}

static bool take_gray(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  plan->output = plan->input;
  plan->state_bytes = (size_t)values[0].numbers[0];
  if (plan->input.pixels != PIXELS_GRAY) {
    snprintf(problem, STAGE_TEXT, "takes gray only");
  }
  return plan->input.pixels == PIXELS_GRAY;
}

static bool give_too_much(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = format_image(PIXELS_GRAY, FORMAT_MAX_SIDE + 1, 1);
  return true;
}

static const struct stage_descriptor to_float = {STAGE_UNLISTED("to_float"), .prepare = give_float};
static const struct stage_descriptor gray_only = {STAGE_UNLISTED("gray_only"), .prepare = take_gray};
static const struct stage_descriptor huge = {STAGE_UNLISTED("huge"), .prepare = give_too_much};

static struct gpu_chain *chain_of(const struct gpu_stage_request *requests, unsigned count, struct gpu_error *error) {
  struct frame_format format = format_image(PIXELS_GRAY, 10, 7);
  return gpu_chain_new(&format, requests, count, error);
}

static void assert_says(const struct gpu_error *error, const char *part) {
  ck_assert_msg(strstr(error->text, part) != NULL, "'%s' is not in: %s", part, error->text);
}

START_TEST(formats_go_from_stage_to_stage) {
  struct gpu_error error;
  struct gpu_chain *chain = chain_of((struct gpu_stage_request[]){{.own = &gray_only}, {.own = &to_float}}, 2, &error);
  char text[FORMAT_TEXT];
  ck_assert_ptr_nonnull(chain);
  ck_assert_str_eq(format_describe(gpu_chain_output(chain), text), "float32[7,10]");
  ck_assert_ptr_eq(gpu_chain_stage(chain, 0)->stage, &gray_only);
  ck_assert_uint_eq(gpu_chain_stage(chain, 1)->input_bytes, 70);
  ck_assert_uint_eq(gpu_chain_stage(chain, 1)->output_bytes, 280);
  ck_assert_ptr_null(gpu_chain_stage(chain, 2));
  gpu_chain_free(chain);
}
END_TEST

START_TEST(no_stage_gives_what_comes) {
  struct gpu_error error;
  struct gpu_chain *chain = chain_of(NULL, 0, &error);
  ck_assert_ptr_nonnull(chain);
  ck_assert_ptr_null(gpu_chain_stage(chain, 0));
  ck_assert_uint_eq(gpu_chain_output(chain)->width, 10);
  gpu_chain_free(chain);
}
END_TEST

START_TEST(a_mismatch_names_both_stages) {
  struct gpu_error error;
  struct gpu_stage_request requests[] = {{.own = &gray_only}, {.own = &to_float}, {.own = &gray_only}};
  ck_assert_ptr_null(chain_of(requests, 3, &error));
  ck_assert_int_eq(error.stage, 2);
  ck_assert(!error.no_device);
  assert_says(&error, "stages[2] (gray_only)");
  assert_says(&error, "float32[7,10]");
  assert_says(&error, "stages[1] (to_float)");
  assert_says(&error, "takes gray only");
  ck_assert_str_ne(error.remedy, "");
}
END_TEST

START_TEST(the_first_stage_is_held_against_the_source) {
  struct gpu_error error;
  struct frame_format format = format_image(PIXELS_RGB24, 4, 4);
  ck_assert_ptr_null(gpu_chain_new(&format, &(struct gpu_stage_request){.own = &gray_only}, 1, &error));
  ck_assert_int_eq(error.stage, 0);
  assert_says(&error, "stages[0] (gray_only)");
  assert_says(&error, "rgb24 4x4");
  assert_says(&error, "source");
}
END_TEST

START_TEST(sizes_that_cannot_be_are_refused) {
  struct gpu_error error;
  struct frame_format empty = format_image(PIXELS_GRAY, 0, 4);
  ck_assert_ptr_null(gpu_chain_new(&empty, NULL, 0, &error));
  ck_assert_int_eq(error.stage, -1);
  assert_says(&error, "gray 0x4");
  struct gpu_stage_request requests[GPU_MAX_STAGES + 1];
  for (int i = 0; i <= GPU_MAX_STAGES; i++) {
    requests[i] = (struct gpu_stage_request){.own = &gray_only};
  }
  ck_assert_ptr_null(chain_of(requests, GPU_MAX_STAGES + 1, &error));
  assert_says(&error, "17 stages");
  requests[1].own = &huge;
  ck_assert_ptr_null(chain_of(requests, 3, &error));
  ck_assert_int_eq(error.stage, 1);
  assert_says(&error, "too large");
}
END_TEST

/* 70 bytes in (256), 280 out (512), scratch 300 (512): 1280 a slot; states of 8 and 300 bytes: 256 + 512, once. */
START_TEST(device_bytes_add_up) {
  struct gpu_error error;
  struct gpu_stage_request requests[] = {
      {.own = &gray_only, .values[0].numbers[0] = 8}, {.own = &gray_only, .values[0].numbers[0] = 300}, {.own = &to_float}};
  struct gpu_chain *chain = chain_of(requests, 3, &error);
  ck_assert_ptr_nonnull(chain);
  ck_assert_uint_eq(gpu_chain_device_bytes(chain, 1), 1280 + 768);
  ck_assert_uint_eq(gpu_chain_device_bytes(chain, 3), 3 * 1280 + 768);
  gpu_chain_free(chain);
  chain = chain_of(NULL, 0, &error);
  ck_assert_uint_eq(gpu_chain_device_bytes(chain, 2), 2 * 256);
  gpu_chain_free(chain);
}
END_TEST

START_TEST(regions_are_aligned_and_apart) {
  struct gpu_error error;
  struct gpu_stage_request requests[] = {
      {.own = &gray_only, .values[0].numbers[0] = 8}, {.own = &gray_only, .values[0].numbers[0] = 300}, {.own = &to_float}};
  struct gpu_chain *chain = chain_of(requests, 3, &error);
  for (int ends = 0; ends < 2; ends++) {
    struct chain_layout layout;
    chain_layout(chain, ends, 2, &layout);
    ck_assert_uint_eq((layout.buffer[0] | layout.buffer[1] | layout.scratch | layout.slot_bytes | layout.state[1]) % 256, 0);
    ck_assert_uint_ge(layout.buffer[1] - layout.buffer[0], 70);
    ck_assert_uint_ge(layout.scratch - layout.buffer[1], ends ? 280 : 70);
    ck_assert_uint_ge(layout.slot_bytes - layout.scratch, 300);
    ck_assert_uint_eq(layout.state[1], 256);
    ck_assert_uint_eq(layout.total_bytes, 2 * layout.slot_bytes + layout.state_bytes);
  }
  ck_assert_int_eq(chain->first_stateful, 0);
  ck_assert_int_eq(chain->last_stateful, 1);
  gpu_chain_free(chain);
}
END_TEST

/* -- what came in -------------------------------------------------------------------------------------------------- */

static bool give_what_came(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = plan->source;
  plan->takes_source = true;
  return true;
}

static const struct stage_descriptor bring_back = {STAGE_UNLISTED("bring_back"), .prepare = give_what_came};

START_TEST(what_came_in_has_a_place_of_its_own_where_a_stage_takes_it) {
  struct gpu_error error;
  struct chain_layout layout;
  struct gpu_chain *chain = chain_of((struct gpu_stage_request[]){{.own = &to_float}, {.own = &bring_back}}, 2, &error);
  ck_assert_ptr_nonnull(chain);
  ck_assert(format_equal(gpu_chain_output(chain), gpu_chain_input(chain)));
  chain_layout(chain, true, 1, &layout);
  ck_assert_uint_ge(layout.input, layout.scratch + 300);
  ck_assert_uint_ge(layout.slot_bytes, layout.input + 70);
  chain_layout(chain, false, 1, &layout); /* pinned memory is nobody's to write to */
  ck_assert_uint_eq(layout.slot_bytes, layout.input);
  gpu_chain_free(chain);
  chain = chain_of((struct gpu_stage_request[]){{.own = &to_float}}, 1, &error);
  chain_layout(chain, true, 1, &layout);
  ck_assert_uint_eq(layout.input, layout.buffer[0]);
  gpu_chain_free(chain);
}
END_TEST

START_TEST(a_tensor_has_the_view_of_its_image) {
  struct gpu_error error;
  struct gpu_chain *chain = chain_of((struct gpu_stage_request[]){{.own = &gray_only}, {.own = &to_float}}, 2, &error);
  const struct frame_view *view = &gpu_chain_output(chain)->view;
  ck_assert_uint_eq(view->width, 10);
  ck_assert_uint_eq(view->picture_height, 7);
  ck_assert_float_eq(view->scale_x, 1);
  ck_assert_float_eq(view->offset_y, 0);
  gpu_chain_free(chain);
}
END_TEST

static bool give_twice_the_width(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = format_image(PIXELS_GRAY, 2 * plan->input.width, plan->input.height);
  return true;
}

static const struct stage_descriptor twice = {STAGE_UNLISTED("twice"), .prepare = give_twice_the_width};

START_TEST(an_image_of_another_size_shows_all_of_the_one_before) {
  struct gpu_error error;
  struct gpu_chain *chain = chain_of((struct gpu_stage_request[]){{.own = &twice}, {.own = &twice}}, 2, &error);
  const struct frame_view *view = &gpu_chain_output(chain)->view;
  ck_assert_uint_eq(view->width, 40);
  ck_assert_uint_eq(view->picture_width, 10);
  ck_assert_float_eq(view->scale_x, 0.25F);
  ck_assert_float_eq(view->scale_y, 1);
  gpu_chain_free(chain);
}
END_TEST

Suite *chain_suite(void);

Suite *chain_suite(void) {
  Suite *suite = suite_create("chain");
  TCase *group = tcase_create("negotiation");
  tcase_add_test(group, formats_go_from_stage_to_stage);
  tcase_add_test(group, no_stage_gives_what_comes);
  tcase_add_test(group, a_mismatch_names_both_stages);
  tcase_add_test(group, the_first_stage_is_held_against_the_source);
  tcase_add_test(group, sizes_that_cannot_be_are_refused);
  tcase_add_test(group, device_bytes_add_up);
  tcase_add_test(group, what_came_in_has_a_place_of_its_own_where_a_stage_takes_it);
  tcase_add_test(group, a_tensor_has_the_view_of_its_image);
  tcase_add_test(group, an_image_of_another_size_shows_all_of_the_one_before);
  tcase_add_test(group, regions_are_aligned_and_apart);
  suite_add_tcase(suite, group);
  return suite;
}
