/* Pictures: which rows a lane copies, who holds them, and what is drawn of each format. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/flow.h"
#include "daemon/status/picture_file.h"

static struct picture *picture_of(struct frame_format input, struct frame_format output, enum picture_side side) {
  const char *reason;
  struct picture *picture = picture_new(&input, &output, side, &reason);
  ck_assert_msg(picture, "%s", reason ? reason : "no memory");
  return picture;
}

/* Takes the bytes as the frame and the result of it. */
static void take(struct picture *picture, const void *input, const void *output) {
  atomic_fetch_add(&picture->holders, 1);
  picture_take(picture, input, output, 7);
  ck_assert_int_eq(atomic_load(&picture->state), PICTURE_TAKEN);
  ck_assert_uint_eq(picture->sequence, 7);
}

/* One pixel of the frame, drawn in its own size. */
static void check_pixel(const struct picture *picture, unsigned x, unsigned y, const unsigned char expected[3]) {
  unsigned width = picture->format.width;
  unsigned height = picture->format.height;
  unsigned char *rgb = malloc((size_t)width * height * 3);
  picture_render(picture, width, height, rgb);
  const unsigned char *pixel = rgb + 3 * ((size_t)y * width + x);
  ck_assert_msg(memcmp(pixel, expected, 3) == 0, "%u, %u is %u %u %u and not %u %u %u", x, y, pixel[0], pixel[1], pixel[2],
                expected[0], expected[1], expected[2]);
  free(rgb);
}

#define PIXEL(...) ((const unsigned char[3]){__VA_ARGS__})

static const struct {
  enum pixel_format pixels;
  unsigned char frame[24]; /* of 3 x 3 pixels: all black but the middle one, or its block, which is white */
} images[] = {
    {PIXELS_GRAY, {[4] = 255}},
    {PIXELS_RGB24, {0}},
    {PIXELS_BGR24, {0}},
    {PIXELS_NV12, {16, 16, 16, 16, 235, 16, 16, 16, 16, 128, 128, 128, 128, 128, 128, 128, 128}},
    {PIXELS_YUV420P, {16, 16, 16, 16, 235, 16, 16, 16, 16, 128, 128, 128, 128, 128, 128, 128, 128}},
    {PIXELS_YUYV422,
     {16, 128, 16, 128, 16, 128, 16, 128, 16, 128, 235, 128, 16, 128, 16, 128, 16, 128, 16, 128, 16, 128, 16, 128}},
};

START_TEST(each_pixel_format_is_drawn) {
  unsigned char frame[3 * 3 * 3] = {0};
  memcpy(frame, images[_i].frame, sizeof images[_i].frame);
  if (images[_i].pixels == PIXELS_RGB24 || images[_i].pixels == PIXELS_BGR24) {
    memset(frame + 4 * 3, 255, 3);
  }
  struct frame_format format = format_image(images[_i].pixels, 3, 3);
  struct picture *picture = picture_of(format, format, PICTURE_OUT);
  take(picture, NULL, frame);
  check_pixel(picture, 0, 0, PIXEL(0, 0, 0));
  check_pixel(picture, 1, 1, PIXEL(255, 255, 255));
  check_pixel(picture, 2, 2, PIXEL(0, 0, 0));
  picture_drop(picture);
}
END_TEST

START_TEST(colours_stand_in_their_order) {
  const unsigned char frame[3] = {10, 20, 30};
  struct frame_format rgb = format_image(PIXELS_RGB24, 1, 1);
  struct frame_format bgr = format_image(PIXELS_BGR24, 1, 1);
  struct picture *picture = picture_of(rgb, rgb, PICTURE_IN);
  take(picture, frame, NULL);
  check_pixel(picture, 0, 0, PIXEL(10, 20, 30));
  picture_drop(picture);
  picture = picture_of(bgr, bgr, PICTURE_IN);
  take(picture, frame, NULL);
  check_pixel(picture, 0, 0, PIXEL(30, 20, 10));
  picture_drop(picture);
}
END_TEST

START_TEST(numbers_are_grey_between_the_least_and_the_greatest) {
  const float frame[] = {-2, 0, 2, 0};
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, 2, 2}, 3);
  struct picture *picture = picture_of(format, format, PICTURE_OUT);
  take(picture, NULL, frame);
  check_pixel(picture, 0, 0, PIXEL(0, 0, 0));
  check_pixel(picture, 1, 0, PIXEL(127, 127, 127));
  check_pixel(picture, 0, 1, PIXEL(255, 255, 255));
  picture_drop(picture);
}
END_TEST

START_TEST(heat_goes_from_black_to_yellow) {
  unsigned char rgb[] = {0, 0, 0, 64, 64, 64, 128, 128, 128, 255, 255, 255};
  picture_heat(rgb, 4);
  ck_assert_mem_eq(rgb, "\0\0\0", 3);
  ck_assert_uint_gt(rgb[5], rgb[4]);             /* blue before green, */
  ck_assert(rgb[6] > rgb[7] && rgb[6] > rgb[8]); /* then red, */
  ck_assert_mem_eq(rgb + 9, "\xff\xff\xa5", 3);  /* and yellow at the end */
}
END_TEST

START_TEST(a_row_of_numbers_is_no_picture) {
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){260}, 1);
  const char *reason;
  ck_assert_ptr_null(picture_new(&format, &format, PICTURE_OUT, &reason));
  ck_assert_ptr_nonnull(reason);
}
END_TEST

START_TEST(boxes_are_drawn_into_what_came_in) {
  unsigned char frame[32 * 32] = {0};
  const float boxes[2][6] = {{8, 8, 16, 16, 0.5F, 1}};
  struct frame_format input = format_image(PIXELS_GRAY, 32, 32);
  struct frame_format output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){2, 6}, 2);
  output.meaning = MEANING_BOXES;
  struct picture *picture = picture_of(input, output, PICTURE_OUT);
  take(picture, frame, (const unsigned char *)boxes);
  check_pixel(picture, 7, 7, PIXEL(0, 0, 0));
  check_pixel(picture, 8, 8, PIXEL(0x20, 0xff, 0x40));
  check_pixel(picture, 23, 23, PIXEL(0x20, 0xff, 0x40));
  check_pixel(picture, 16, 16, PIXEL(0, 0, 0));
  picture_drop(picture);
}
END_TEST

START_TEST(large_frames_lose_rows) {
  struct frame_format format = format_image(PIXELS_NV12, 8192, 4096);
  struct picture *picture = picture_of(format, format, PICTURE_IN);
  size_t bytes;
  ck_assert(format_bytes(&format, &bytes));
  size_t kept = 0;
  for (unsigned i = 0; i < picture->plane_count; i++) {
    kept += picture->planes[i].row_bytes * picture->planes[i].rows;
  }
  ck_assert_uint_le(kept, PICTURE_MOST_BYTES);
  unsigned char *frame = calloc(bytes, 1);
  memset(frame, 16, (size_t)8192 * 4096);
  memset(frame + (size_t)8192 * picture->step, 235, 8192);
  memset(frame + (size_t)8192 * 4096, 128, bytes - (size_t)8192 * 4096);
  take(picture, frame, NULL);
  unsigned char rgb[4][3];
  unsigned rows = picture->planes[0].rows;
  unsigned char *all = malloc((size_t)rows * 3);
  picture_render(picture, 1, rows, all);
  memcpy(rgb, all, sizeof rgb);
  ck_assert_uint_eq(rgb[0][0], 0);
  ck_assert_uint_eq(rgb[1][0], 255);
  ck_assert_uint_eq(rgb[2][0], 0);
  free(all);
  free(frame);
  picture_drop(picture);
}
END_TEST

START_TEST(a_picture_that_waits_gives_way_to_the_next) {
  struct flow flow = {0};
  struct frame_format format = format_image(PIXELS_GRAY, 2, 2);
  struct picture *first = picture_of(format, format, PICTURE_IN);
  struct picture *second = picture_of(format, format, PICTURE_IN);
  flow_request_picture(&flow, PICTURE_IN, first);
  ck_assert_int_eq(atomic_load(&first->state), PICTURE_REQUESTED);
  flow_request_picture(&flow, PICTURE_IN, second);
  ck_assert_int_eq(atomic_load(&first->state), PICTURE_GONE);
  flow_request_picture(&flow, PICTURE_IN, NULL);
  ck_assert_int_eq(atomic_load(&second->state), PICTURE_GONE);
  ck_assert_uint_eq(atomic_load(&first->holders), 1);
  ck_assert_uint_eq(atomic_load(&second->holders), 1);
  picture_drop(first);
  picture_drop(second);
}
END_TEST

START_TEST(a_file_is_no_wider_than_asked) {
  unsigned char frame[64 * 32] = {0};
  struct frame_format format = format_image(PIXELS_GRAY, 64, 32);
  struct picture *picture = picture_of(format, format, PICTURE_IN);
  take(picture, frame, NULL);
  size_t length;
  unsigned char *file = picture_file(picture, 16, false, &length);
  ck_assert_uint_gt(length, 100);
  ck_assert_mem_eq(file, "\xff\xd8\xff", 3);
  free(file);
  picture_drop(picture);
}
END_TEST

Suite *picture_suite(void);

Suite *picture_suite(void) {
  Suite *suite = suite_create("picture");
  TCase *drawn = tcase_create("drawn");
  tcase_add_loop_test(drawn, each_pixel_format_is_drawn, 0, sizeof images / sizeof images[0]);
  tcase_add_test(drawn, colours_stand_in_their_order);
  tcase_add_test(drawn, numbers_are_grey_between_the_least_and_the_greatest);
  tcase_add_test(drawn, heat_goes_from_black_to_yellow);
  tcase_add_test(drawn, a_row_of_numbers_is_no_picture);
  tcase_add_test(drawn, boxes_are_drawn_into_what_came_in);
  tcase_add_test(drawn, large_frames_lose_rows);
  tcase_add_test(drawn, a_file_is_no_wider_than_asked);
  suite_add_tcase(suite, drawn);
  TCase *held = tcase_create("held");
  tcase_add_test(held, a_picture_that_waits_gives_way_to_the_next);
  suite_add_tcase(suite, held);
  return suite;
}
