/* The table of stages: what every descriptor must be for the configuration, the manual and the backends. */
#include "gpu/stage.h"

#include <check.h>
#include <ctype.h>
#include <string.h>

/* What an option and a YAML key may look like. */
static bool is_word(const char *name) {
  for (const char *c = name; *c; c++) {
    if (!islower((unsigned char)*c) && *c != '_' && (c == name || !isdigit((unsigned char)*c))) {
      return false;
    }
  }
  return *name != '\0';
}

/* A sentence may begin with the name of a choice. */
static bool is_sentence(const char *text) { return text && text[0] && text[strlen(text) - 1] == '.'; }

static unsigned count_choices(const struct stage_parameter *parameter) {
  unsigned count = 0;
  while (parameter->choices[count]) {
    ck_assert(is_word(parameter->choices[count]) || strpbrk(parameter->choices[count], "0123456789"));
    count++;
  }
  return count;
}

static void check_parameter(const struct stage_about *stage, const struct stage_parameter *parameter) {
  ck_assert_msg(is_word(parameter->name), "%s: '%s'", stage->name, parameter->name);
  ck_assert_msg(is_sentence(parameter->help), "%s.%s: help is no sentence", stage->name, parameter->name);
  ck_assert_msg((parameter->type == STAGE_CHOICE) == (parameter->choices != NULL), "%s.%s: choices", stage->name,
                parameter->name);
  if (parameter->type == STAGE_WORD || parameter->type == STAGE_FILE || parameter->type == STAGE_SETTINGS) {
    return;
  }
  if (parameter->choices) {
    unsigned count = count_choices(parameter);
    ck_assert_uint_gt(count, 0);
    ck_assert_msg(parameter->fallback < count, "%s.%s: no such default", stage->name, parameter->name);
    return;
  }
  ck_assert_msg(parameter->minimum < parameter->maximum, "%s.%s: bounds", stage->name, parameter->name);
  ck_assert_msg(parameter->required || (parameter->fallback >= parameter->minimum && parameter->fallback <= parameter->maximum),
                "%s.%s: the default is out of bounds", stage->name, parameter->name);
}

START_TEST(stages_are_complete) {
  unsigned count = 0;
  for (; stage_abouts[count]; count++) {
    const struct stage_about *about = stage_abouts[count];
    const struct stage_descriptor *stage = stage_descriptors[count];
    ck_assert_msg(is_word(about->name), "'%s'", about->name);
    ck_assert_msg(is_sentence(about->help), "%s: help is no sentence", about->name);
    ck_assert_msg(stage && stage->about == about && stage_of(about) == stage, "%s is not computed by its own code",
                  about->name);
    ck_assert(stage->prepare && stage->run);
#ifdef FRAMED_CUDA
    ck_assert_msg(stage->enqueue != NULL, "%s has no kernel", about->name);
#endif
    ck_assert_uint_le(about->parameter_count, STAGE_MAX_PARAMETERS);
    for (unsigned i = 0; i < about->parameter_count; i++) {
      check_parameter(about, &about->parameters[i]);
      for (unsigned j = 0; j < i; j++) {
        ck_assert_str_ne(about->parameters[i].name, about->parameters[j].name);
      }
    }
  }
  ck_assert_ptr_null(stage_descriptors[count]);
}
END_TEST

START_TEST(stages_are_found_by_name) {
  for (const struct stage_about *const *entry = stage_abouts; *entry; entry++) {
    ck_assert_msg(stage_about_find((*entry)->name) == *entry, "there are two stages %s", (*entry)->name);
  }
  ck_assert_ptr_nonnull(stage_about_find("affine"));
  ck_assert_ptr_null(stage_about_find("affin"));
  ck_assert_ptr_null(stage_about_find(""));
}
END_TEST

Suite *stages_suite(void);

Suite *stages_suite(void) {
  Suite *suite = suite_create("stages");
  TCase *group = tcase_create("table");
  tcase_add_test(group, stages_are_complete);
  tcase_add_test(group, stages_are_found_by_name);
  suite_add_tcase(suite, group);
  return suite;
}
