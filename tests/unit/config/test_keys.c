/* The table of keys keeps its own rules. */
#include "config/keys.h"

#include <check.h>
#include <string.h>

START_TEST(every_key_is_explained) {
  for (const struct config_key *key = config_keys; key->name; key++) {
    size_t length = key->help ? strlen(key->help) : 0;
    ck_assert_msg(length > 0 && key->help[length - 1] == '.', "'%s' needs a sentence of help", key->name);
  }
}
END_TEST

START_TEST(no_key_is_twice_in_a_section) {
  for (const struct config_key *key = config_keys; key->name; key++) {
    ck_assert_ptr_eq(keys_find(key->section, key->name), key);
  }
}
END_TEST

START_TEST(numbers_have_bounds) {
  for (const struct config_key *key = config_keys; key->name; key++) {
    bool number = key->type == KEY_COUNT || key->type == KEY_LANES || key->type == KEY_DEVICE || key->type == KEY_DURATION ||
                  key->type == KEY_RATE || key->type == KEY_FREQUENCY || key->type == KEY_SIZE || key->type == KEY_SHAPE ||
                  key->type == KEY_SHAPES || key->type == KEY_DEVICES || key->type == KEY_PROCESSORS || key->type == KEY_WAIT;
    ck_assert_msg(number == (key->maximum > key->minimum), "'%s' has wrong bounds", key->name);
  }
}
END_TEST

START_TEST(choices_and_sections_have_theirs) {
  for (const struct config_key *key = config_keys; key->name; key++) {
    ck_assert_msg((key->type == KEY_CHOICE) == (key->choices != NULL), "'%s' has wrong choices", key->name);
    bool has_section = key->type == KEY_SECTION || key->type == KEY_MODELS || key->type == KEY_PIPELINES;
    ck_assert_msg(has_section == (key->child != SECTION_ROOT), "'%s' has a wrong section", key->name);
  }
}
END_TEST

START_TEST(each_variant_has_one_selector) {
  for (enum key_section section = 0; section < SECTION_COUNT; section++) {
    unsigned variants = 0;
    for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
      ck_assert(!key->selects || keys_has_variants(section));
      ck_assert_msg(!key->selects || __builtin_popcount(key->applies) == 1, "'%s' selects several", key->name);
      ck_assert_msg(!key->selects || (variants & key->applies) == 0, "'%s' selects what another does", key->name);
      variants |= key->selects ? key->applies : 0;
    }
    ck_assert((variants != 0) == keys_has_variants(section));
  }
}
END_TEST

START_TEST(variant_is_what_was_set) {
  struct config_source source = {0};
  struct config_sink sink = {0};
  struct config_format format = {0};
  keys_set_variant(SECTION_SOURCE, &source, CONFIG_FILE);
  keys_set_variant(SECTION_SINK, &sink, CONFIG_REPLY);
  keys_set_variant(SECTION_FORMAT, &format, 1);
  ck_assert_uint_eq(keys_variant(SECTION_SOURCE, &source), CONFIG_FILE);
  ck_assert_uint_eq(keys_variant(SECTION_SINK, &sink), CONFIG_REPLY);
  ck_assert_uint_eq(keys_variant(SECTION_FORMAT, &format), 1);
  ck_assert_uint_eq(keys_variant(SECTION_GPU, &format), 0);
}
END_TEST

Suite *keys_suite(void);

Suite *keys_suite(void) {
  Suite *suite = suite_create("keys");
  TCase *table = tcase_create("table");
  tcase_add_test(table, every_key_is_explained);
  tcase_add_test(table, no_key_is_twice_in_a_section);
  tcase_add_test(table, numbers_have_bounds);
  tcase_add_test(table, choices_and_sections_have_theirs);
  tcase_add_test(table, each_variant_has_one_selector);
  tcase_add_test(table, variant_is_what_was_set);
  suite_add_tcase(suite, table);
  return suite;
}
