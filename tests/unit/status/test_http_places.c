/* Who gets a place, and who gives way for it. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/status/private.h"

enum { MOST = 8 };

static struct http http;
static struct http_connection connections[MOST];
static unsigned count;

static const struct http_client root = {.number = 0, .trusted = true}, one = {.number = 1}, two = {.number = 2},
                                three = {.number = 3};

static void set_up(void) {
  http = (struct http){.setup.limits = {.connections = MOST, .share = 3, .kept = 2}};
  count = 0;
}

/* A connection that has its place, and asked or did not. */
static struct http_connection *add(const struct http_client *client, bool answering) {
  ck_assert_uint_lt(count, MOST);
  struct http_connection *connection = &connections[count];
  *connection = (struct http_connection){
      .next = http.connections, .fd = -1, .client = *client, .since = count + 1, .answering = answering};
  count++;
  http.connections = connection;
  return connection;
}

START_TEST(a_share_is_not_exceeded_and_who_asks_is_served) {
  struct http_connection *busy = add(&one, true), *first = add(&one, false), *second = add(&one, false);
  ck_assert(http_find_place(&http, &two));
  ck_assert(!first->shut);
  ck_assert(http_find_place(&http, &one));
  ck_assert(first->shut && !second->shut && !busy->shut);
  add(&one, true);
  second->answering = true;
  ck_assert(!http_find_place(&http, &one));
}
END_TEST

START_TEST(whoever_has_most_gives_way) {
  struct http_connection *other = add(&two, false), *oldest = add(&one, false);
  add(&one, false);
  add(&one, false);
  add(&two, true);
  add(&three, true);
  ck_assert(http_find_place(&http, &three));
  ck_assert(oldest->shut && !other->shut);
}
END_TEST

START_TEST(some_places_are_for_the_trusted_alone) {
  for (unsigned i = 0; i < 6; i++) {
    add(i < 3 ? &one : &two, true);
  }
  ck_assert(!http_find_place(&http, &three));
  for (unsigned i = 0; i < 2; i++) {
    ck_assert(http_find_place(&http, &root));
    add(&root, true);
  }
  ck_assert(!http_find_place(&http, &root));
  connections[7].answering = false;
  ck_assert(!http_find_place(&http, &three));
  ck_assert(http_find_place(&http, &root));
  ck_assert(connections[7].shut);
}
END_TEST

START_TEST(over_tcp_a_newcomer_comes_in) {
  const struct http_client address = {.number = 1, .tcp = true};
  struct http_connection *oldest = add(&address, true);
  add(&address, true);
  add(&address, true);
  ck_assert(http_find_place(&http, &address));
  ck_assert(oldest->shut);
}
END_TEST

static uint64_t number_of(const char *text) {
  struct sockaddr_storage address = {.ss_family = AF_INET};
  struct http_client client;
  if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&address)->sin_addr) != 1) {
    address.ss_family = AF_INET6;
    ck_assert_int_eq(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&address)->sin6_addr), 1);
  }
  http_identify(-1, &address, &client);
  ck_assert(client.tcp && !client.trusted);
  return client.number;
}

START_TEST(addresses_that_one_client_may_have_are_one) {
  ck_assert_uint_eq(number_of("127.0.0.1"), number_of("127.9.8.7"));
  ck_assert_uint_eq(number_of("127.0.0.1"), number_of("::ffff:127.0.0.2"));
  ck_assert_uint_eq(number_of("10.0.0.1"), number_of("::ffff:10.0.0.1"));
  ck_assert_uint_ne(number_of("10.0.0.1"), number_of("10.0.0.2"));
  ck_assert_uint_eq(number_of("2001:db8::1"), number_of("2001:db8::2"));
  ck_assert_uint_ne(number_of("2001:db8::1"), number_of("2001:db8:0:1::1"));
}
END_TEST

START_TEST(users_are_told_apart_by_the_kernel) {
  int ends[2];
  struct sockaddr_storage address = {.ss_family = AF_UNIX};
  struct http_client client;
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  http_identify(ends[0], &address, &client);
  ck_assert(client.trusted && !client.tcp);
  ck_assert_uint_eq(client.number, geteuid());
  close(ends[0]);
  close(ends[1]);
}
END_TEST

Suite *http_places_suite(void);

Suite *http_places_suite(void) {
  Suite *suite = suite_create("http_places");
  TCase *places = tcase_create("places");
  tcase_add_checked_fixture(places, set_up, NULL);
  tcase_add_test(places, a_share_is_not_exceeded_and_who_asks_is_served);
  tcase_add_test(places, whoever_has_most_gives_way);
  tcase_add_test(places, some_places_are_for_the_trusted_alone);
  tcase_add_test(places, over_tcp_a_newcomer_comes_in);
  tcase_add_test(places, addresses_that_one_client_may_have_are_one);
  tcase_add_test(places, users_are_told_apart_by_the_kernel);
  suite_add_tcase(suite, places);
  return suite;
}
