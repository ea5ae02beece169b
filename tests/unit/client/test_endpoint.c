/* What is opened how: files, FIFOs, devices and what cannot be opened. */
#include "daemon/client/endpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static char folder[64];
static char path[96];
static struct failure failure;
static struct endpoint endpoint;

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/framed-unit-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/end", folder);
}

static void remove_folder(void) {
  endpoint_close(&endpoint);
  endpoint_close(&endpoint);
  unlink(path);
  ck_assert_int_eq(rmdir(folder), 0);
}

static bool open_source(const char *where) {
  const struct config_source source = {.endpoint = CONFIG_FILE, .path = (char *)where};
  return endpoint_open_source(&source, &endpoint, &failure);
}

static bool open_sink(const char *where) {
  const struct config_sink sink = {.endpoint = CONFIG_FILE, .path = (char *)where};
  return endpoint_open_sink(&sink, &endpoint, &failure);
}

START_TEST(a_sink_makes_its_file_and_keeps_what_is_in_it) {
  ck_assert(open_sink(path));
  ck_assert_int_eq(endpoint.kind, ENDPOINT_FILE);
  ck_assert_int_eq(write(endpoint.fd, "abc", 3), 3);
  endpoint_close(&endpoint);
  ck_assert(open_sink(path));
  struct stat status;
  ck_assert_int_eq(fstat(endpoint.fd, &status), 0);
  ck_assert_int_eq(status.st_size, 3);
}
END_TEST

START_TEST(a_source_file_must_be_there) {
  ck_assert(!open_source(path));
  ck_assert(failure.passes && failure.status != EXIT_STATUS_CONFIG); /* it may come */
  ck_assert_ptr_nonnull(strstr(failure.text, path));
  ck_assert_int_eq(endpoint.fd, -1);
}
END_TEST

START_TEST(a_directory_is_refused) {
  ck_assert(!open_source(folder));
  ck_assert_ptr_nonnull(strstr(failure.text, "directory"));
  ck_assert(!open_sink(folder));
  ck_assert_ptr_nonnull(strstr(failure.text, "directory"));
}
END_TEST

START_TEST(a_socket_is_refused) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  close(fd);
  ck_assert(!open_source(path));
  ck_assert_ptr_nonnull(strstr(failure.remedy, "socket:"));
  ck_assert(!open_sink(path));
  ck_assert_ptr_nonnull(strstr(failure.remedy, "socket:"));
}
END_TEST

START_TEST(a_fifo_never_waits_for_its_other_side) {
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  ck_assert(open_sink(path)); /* nobody reads: nothing to write to yet */
  ck_assert_int_eq(endpoint.kind, ENDPOINT_FIFO);
  ck_assert_int_eq(endpoint.fd, -1);
  ck_assert(open_source(path));
  ck_assert_int_eq(endpoint.kind, ENDPOINT_FIFO);
  int reader = dup(endpoint.fd);
  endpoint_close(&endpoint);
  ck_assert(open_sink(path));
  ck_assert_int_ge(endpoint.fd, 0);
  ck_assert_int_ne(fcntl(endpoint.fd, F_GETFL) & O_NONBLOCK, 0);
  close(reader);
}
END_TEST

START_TEST(a_device_is_a_stream) {
  ck_assert(open_source("/dev/zero"));
  ck_assert_int_eq(endpoint.kind, ENDPOINT_ONCE);
  endpoint_close(&endpoint);
  ck_assert(open_sink("/dev/null"));
  ck_assert_int_eq(endpoint.kind, ENDPOINT_ONCE);
}
END_TEST

/* A pipe is shared with whoever made it, who may not expect its end not to block. */
START_TEST(standard_input_stops_blocking_for_us_only) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  int before = dup(STDIN_FILENO);
  ck_assert_int_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  ck_assert(open_source("-"));
  ck_assert_int_eq(endpoint.kind, ENDPOINT_ONCE);
  ck_assert_int_ne(fcntl(endpoint.fd, F_GETFL) & O_NONBLOCK, 0);
  ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK, 0);
  ck_assert_int_eq(write(ends[1], "x", 1), 1);
  char byte;
  ck_assert_int_eq(read(endpoint.fd, &byte, 1), 1);
  dup2(before, STDIN_FILENO);
  close(before);
  close(ends[0]);
  close(ends[1]);
}
END_TEST

START_TEST(standard_output_may_be_a_file) {
  int file = open(path, O_RDWR | O_CREAT, 0600);
  int before = dup(STDOUT_FILENO);
  fflush(stdout);
  dup2(file, STDOUT_FILENO);
  bool opened = open_sink("-");
  dup2(before, STDOUT_FILENO);
  close(before);
  close(file);
  ck_assert(opened);
  ck_assert_int_eq(endpoint.kind, ENDPOINT_FILE);
  ck_assert_int_gt(endpoint.fd, STDERR_FILENO);
}
END_TEST

Suite *endpoint_suite(void);
Suite *endpoint_suite(void) {
  Suite *suite = suite_create("endpoint");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, make_folder, remove_folder);
  tcase_add_test(all, a_sink_makes_its_file_and_keeps_what_is_in_it);
  tcase_add_test(all, a_source_file_must_be_there);
  tcase_add_test(all, a_directory_is_refused);
  tcase_add_test(all, a_socket_is_refused);
  tcase_add_test(all, a_fifo_never_waits_for_its_other_side);
  tcase_add_test(all, a_device_is_a_stream);
  tcase_add_test(all, standard_input_stops_blocking_for_us_only);
  tcase_add_test(all, standard_output_may_be_a_file);
  suite_add_tcase(suite, all);
  return suite;
}
