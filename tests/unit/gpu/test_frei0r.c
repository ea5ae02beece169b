/* frei0r: every filter that Debian has, each in a process of its own, since some end theirs. */
#include "gpu/stages/frei0r/frei0r.h"
#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct stage_descriptor frei0r_stage;

/* Of frei0r-plugins 1.8 the one ends the process, and the other never ends, as framed.yaml(5) says. */
static const char *const broken[] = {"3dflippo", "curves"};

enum { WIDTH = 64, HEIGHT = 48, FRAMES = 12, SLOTS = 3 };

static struct gpu_chain *chain_of(const char *name, enum pixel_format pixels, struct gpu_error *error) {
  struct gpu_stage_request request = {.stage = &frei0r_stage};
  struct frame_format format = format_image(pixels, WIDTH, HEIGHT);
  request.values[0].text = name;
  request.values[2].numbers[0] = 25;
  return gpu_chain_new(&format, &request, 1, error);
}

/* Runs some frames through three slots. */
static void run_filter(const char *name, enum pixel_format pixels) {
  struct rig rig = {0};
  struct gpu_error error;
  rig_open(&rig, 2);
  rig_program_of(&rig, SLOTS, chain_of(name, pixels, &error));
  for (unsigned frame = 0; frame < FRAMES; frame++) {
    unsigned slot = frame % SLOTS;
    for (size_t i = 0; i < rig.input_bytes; i++) {
      rig.input[slot][i] = (unsigned char)(i * (frame + 1) / 7);
    }
    rig_submit(&rig, slot, frame, false);
    rig_finish(&rig, slot);
  }
  rig_free_program(&rig);
  rig_close(&rig);
}

struct tally {
  unsigned filters;
  char failed[1024];
};

static bool is_broken(const char *name) { return strcmp(name, broken[0]) == 0 || strcmp(name, broken[1]) == 0; }

static void try_filter(const char *name, void *context) {
  struct tally *tally = context;
  int status;
  if (is_broken(name)) {
    return;
  }
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    struct gpu_error error;
    struct gpu_chain *chain = chain_of(name, PIXELS_RGB24, &error);
    if (!chain) {
      _exit(strstr(error.text, "not a filter of one picture") ? 2 : 3);
    }
    gpu_chain_free(chain);
    alarm(RIG_PATIENCE_S);
    run_filter(name, PIXELS_RGB24);
    run_filter(name, PIXELS_GRAY);
    _exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    return;
  }
  tally->filters++;
  if (status != 0) {
    size_t used = strlen(tally->failed);
    snprintf(tally->failed + used, sizeof tally->failed - used, " %s (%d)", name, status);
  }
}

START_TEST(every_filter_runs) {
  struct tally tally = {0};
  frei0r_list(try_filter, &tally);
  if (tally.filters == 0) {
    puts("no filter is installed: apt install frei0r-plugins");
    return;
  }
  ck_assert_str_eq(tally.failed, "");
}
END_TEST

Suite *frei0r_suite(void);

Suite *frei0r_suite(void) {
  Suite *suite = suite_create("frei0r");
  TCase *all = tcase_create("all");
  tcase_set_timeout(all, 300);
  tcase_add_test(all, every_filter_runs);
  suite_add_tcase(suite, all);
  return suite;
}
