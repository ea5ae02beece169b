/* The schema and the manual page: both whole, both from the same table. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"
#include "tests/unit/config/fixture.h"

typedef void printer(FILE *out, const struct config_vocabulary *vocabulary);

static char *print(printer *print_to) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  print_to(out, &fixture_vocabulary);
  ck_assert_int_eq(fclose(out), 0);
  return text;
}

static json_t *read_schema(void) {
  char *text = print(config_print_schema);
  json_error_t error;
  json_t *schema = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  ck_assert_msg(schema, "line %d: %s", error.line, error.text);
  free(text);
  return schema;
}

/* Counts closed objects, and fails at one that is not. */
static unsigned count_closed(const json_t *schema) {
  unsigned closed = 0;
  const char *name;
  size_t index;
  json_t *value;
  if (json_is_object(schema) && json_is_object(json_object_get(schema, "properties")) && json_object_get(schema, "type")) {
    ck_assert_ptr_nonnull(json_object_get(schema, "additionalProperties"));
    ck_assert(json_is_false(json_object_get(schema, "additionalProperties")));
    closed++;
  }
  json_object_foreach((json_t *)schema, name, value) { closed += count_closed(value); }
  json_array_foreach(schema, index, value) { closed += count_closed(value); }
  return closed;
}

START_TEST(every_object_of_the_schema_is_closed) {
  json_t *schema = read_schema();
  ck_assert_str_eq(json_string_value(json_object_get(schema, "$schema")), "https://json-schema.org/draft/2020-12/schema");
  ck_assert_uint_gt(count_closed(schema), 15);
  json_decref(schema);
}
END_TEST

static const json_t *pipeline_key(const json_t *schema, const char *key) {
  const json_t *pipelines = json_object_get(json_object_get(schema, "properties"), "pipelines");
  const json_t *pipeline = json_object_get(json_object_get(pipelines, "patternProperties"), "^[A-Za-z0-9_.-]{1,64}$");
  const json_t *found = json_object_get(json_object_get(pipeline, "properties"), key);
  ck_assert_ptr_nonnull(found);
  return found;
}

START_TEST(schema_has_types_bounds_and_defaults) {
  json_t *schema = read_schema();
  const json_t *slots = pipeline_key(schema, "slots");
  ck_assert_str_eq(json_string_value(json_object_get(slots, "type")), "integer");
  ck_assert_int_eq(json_integer_value(json_object_get(slots, "minimum")), 1);
  ck_assert_int_eq(json_integer_value(json_object_get(slots, "maximum")), 16);
  ck_assert_int_eq(json_integer_value(json_object_get(slots, "default")), 2);
  ck_assert_uint_eq(json_array_size(json_object_get(pipeline_key(schema, "overload"), "enum")), 3);
  json_decref(schema);
}
END_TEST

START_TEST(schema_has_a_variant_for_each_endpoint) {
  json_t *schema = read_schema();
  const json_t *sources = json_object_get(pipeline_key(schema, "source"), "oneOf");
  ck_assert_uint_eq(json_array_size(sources), 3);
  ck_assert_uint_eq(json_array_size(json_object_get(pipeline_key(schema, "sink"), "oneOf")), 3);
  const json_t *from_socket = json_object_get(json_array_get(sources, 0), "properties");
  const json_t *from_file = json_object_get(json_array_get(sources, 1), "properties");
  ck_assert(json_object_get(from_socket, "clients") && !json_object_get(from_socket, "rate"));
  ck_assert(json_object_get(from_file, "rate") && !json_object_get(from_file, "clients"));
  const json_t *from_url = json_array_get(sources, 2);
  ck_assert(json_object_get(json_object_get(from_url, "properties"), "credentials"));
  ck_assert_uint_eq(json_array_size(json_object_get(from_url, "required")), 1); /* a URL needs no format */
  json_decref(schema);
}
END_TEST

START_TEST(schema_has_the_stages_of_the_vocabulary) {
  json_t *schema = read_schema();
  const json_t *items = json_object_get(json_object_get(pipeline_key(schema, "stages"), "items"), "oneOf");
  const json_t *bare = json_object_get(json_array_get(items, 0), "enum");
  const json_t *stages = json_object_get(json_array_get(items, 1), "properties");
  ck_assert_uint_eq(json_object_size(stages), fixture_vocabulary.stage_count);
  ck_assert_uint_eq(json_array_size(bare), fixture_vocabulary.stage_count - 3); /* convert, run and model need a parameter */
  const json_t *convert = json_object_get(stages, "convert");
  ck_assert_str_eq(json_string_value(json_array_get(json_object_get(convert, "required"), 0)), "to");
  json_decref(schema);
}
END_TEST

START_TEST(manual_has_every_key_and_stage) {
  char *text = print(config_print_manual);
  ck_assert_int_eq(strncmp(text, ".SH KEYS\n", 9), 0);
  ck_assert_ptr_nonnull(strstr(text, ".SS pipelines.NAME.source.format\n"));
  ck_assert_ptr_nonnull(strstr(text, "\n.SH STAGES\n.SS affine\nScales.\n"));
  for (const struct config_key *key = config_keys; key->name; key++) {
    char term[64];
    snprintf(term, sizeof term, key->child != SECTION_ROOT ? "%s" : "\\fB%s\\fR: ", key->name);
    ck_assert_msg(strstr(text, term), "'%s' is missing", key->name);
  }
  free(text);
}
END_TEST

START_TEST(manual_says_defaults_and_conditions) {
  char *text = print(config_print_manual);
  ck_assert_ptr_nonnull(strstr(text, "Only with socket. Default: 10s.\n"));
  ck_assert_ptr_nonnull(strstr(text, "Default: gpu.device.\n"));
  ck_assert_ptr_nonnull(strstr(text, "block | drop\\-oldest | drop\\-newest\n"));
  ck_assert_ptr_nonnull(strstr(text, "\\fBto\\fR: gray | rgb24 | yuv420p\nPixel format of the result. Required.\n"));
  ck_assert_ptr_nonnull(strstr(text, "\\fBmatrix\\fR: bt601 | bt709\nWeights of the colours. Default: bt709.\n"));
  free(text);
}
END_TEST

Suite *print_suite(void);

Suite *print_suite(void) {
  Suite *suite = suite_create("print");
  TCase *schema = tcase_create("schema");
  tcase_add_test(schema, every_object_of_the_schema_is_closed);
  tcase_add_test(schema, schema_has_types_bounds_and_defaults);
  tcase_add_test(schema, schema_has_a_variant_for_each_endpoint);
  tcase_add_test(schema, schema_has_the_stages_of_the_vocabulary);
  suite_add_tcase(suite, schema);
  TCase *manual = tcase_create("manual");
  tcase_add_test(manual, manual_has_every_key_and_stage);
  tcase_add_test(manual, manual_says_defaults_and_conditions);
  suite_add_tcase(suite, manual);
  return suite;
}
