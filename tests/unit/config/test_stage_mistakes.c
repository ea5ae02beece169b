/* Stages and their parameters. Each gets exactly one report. */
#include "tests/unit/config/fixture.h"

static const struct mistake mistakes[] = {
    {"unknown stage", PIPELINE("    stages: [afine: {scale: 2}]\n"),
     "t.yaml:5:14: unknown stage 'afine' in pipeline 'cam0'\n"
     "    stages: [afine: {scale: 2}]\n"
     "             ^~~~~\n"
     "  did you mean 'affine'?\n"},
    {"stage like none", PIPELINE("    stages: [banana]\n"),
     "t.yaml:5:14: unknown stage 'banana' in pipeline 'cam0'\n"
     "    stages: [banana]\n"
     "             ^~~~~~\n"
     "  stages are affine, convert, normalize, work, sobel, run, model\n"},
    {"unknown parameter", PIPELINE("    stages: [affine: {scael: 2}]\n"),
     "t.yaml:5:23: unknown parameter 'scael' of stage 'affine' in pipeline 'cam0'\n"
     "    stages: [affine: {scael: 2}]\n"
     "                      ^~~~~\n"
     "  did you mean 'scale'?\n"},
    {"parameter like none", PIPELINE("    stages: [affine: {zebra: 2}]\n"),
     "t.yaml:5:23: unknown parameter 'zebra' of stage 'affine' in pipeline 'cam0'\n"
     "    stages: [affine: {zebra: 2}]\n"
     "                      ^~~~~\n"
     "  parameters are scale, offset\n"},
    {"parameter of a stage without any", PIPELINE("    stages: [sobel: {size: 2}]\n"),
     "t.yaml:5:22: unknown parameter 'size' of stage 'sobel' in pipeline 'cam0'\n"
     "    stages: [sobel: {size: 2}]\n"
     "                     ^~~~\n"
     "  it takes no parameters\n"},
    {"missing parameter", PIPELINE("    stages: [convert: {matrix: bt601}]\n"),
     "t.yaml:5:14: stage 'convert' needs 'to'\n"
     "    stages: [convert: {matrix: bt601}]\n"
     "             ^~~~~~~\n"
     "  Pixel format of the result.\n"},
    {"parameter that is a text", PIPELINE("    stages: [affine: {scale: much}]\n"),
     "t.yaml:5:30: 'scale' must be a number, not 'much'\n"
     "    stages: [affine: {scale: much}]\n"
     "                             ^~~~\n"},
    {"parameter that is not finite", PIPELINE("    stages: [affine: {scale: .nan, offset: .inf}]\n"),
     "t.yaml:5:30: 'scale' must be a number, not '.nan'\n"
     "    stages: [affine: {scale: .nan, offset: .inf}]\n"
     "                             ^~~~\n"
     "t.yaml:5:44: 'offset' must be a number, not '.inf'\n"
     "    stages: [affine: {scale: .nan, offset: .inf}]\n"
     "                                           ^~~~\n"},
    {"parameter that overflows", PIPELINE("    stages: [affine: {scale: 1e999}]\n"),
     "t.yaml:5:30: 'scale' is too large: 1e999\n"
     "    stages: [affine: {scale: 1e999}]\n"
     "                             ^~~~~\n"},
    {"parameter above its bound", PIPELINE("    stages: [affine: {scale: 2e6}]\n"),
     "t.yaml:5:30: 'scale' must be between -1000000 and 1000000, not 2e6\n"
     "    stages: [affine: {scale: 2e6}]\n"
     "                             ^~~\n"
     "  Factor.\n"},
    {"parameter that must be whole", PIPELINE("    stages: [work: {rounds: 2.5}]\n"),
     "t.yaml:5:29: 'rounds' must be a whole number, not '2.5'\n"
     "    stages: [work: {rounds: 2.5}]\n"
     "                            ^~~\n"},
    {"parameter with an unknown choice", PIPELINE("    stages: [convert: {to: grey}]\n"),
     "t.yaml:5:28: 'to' must be one of: gray, rgb24, yuv420p, not 'grey'\n"
     "    stages: [convert: {to: grey}]\n"
     "                           ^~~~\n"
     "  did you mean 'gray'?\n"},
    {"parameter with too many numbers", PIPELINE("    stages: [normalize: {mean: [1, 2, 3, 4, 5]}]\n"),
     "t.yaml:5:45: 'mean' has more than 4 numbers\n"
     "    stages: [normalize: {mean: [1, 2, 3, 4, 5]}]\n"
     "                                            ^\n"},
    {"parameter without a number", PIPELINE("    stages: [normalize: {mean: []}]\n"),
     "t.yaml:5:32: 'mean' has no number\n"
     "    stages: [normalize: {mean: []}]\n"
     "                               ^\n"
     "  Subtracted.\n"},
    {"parameter with a wrong number", PIPELINE("    stages: [normalize: {std: [1, 0]}]\n"),
     "t.yaml:5:35: 'std' must be between 0.001 and 1000, not 0\n"
     "    stages: [normalize: {std: [1, 0]}]\n"
     "                                  ^\n"
     "  Divisor.\n"},
    {"stages that are a mapping", PIPELINE("    stages: {sobel: {}}\n"),
     "t.yaml:5:13: 'stages' must be a list, not a mapping\n"
     "    stages: {sobel: {}}\n"
     "            ^\n"
     "  begin each stage with '- '\n"},
    {"stage that is a list", PIPELINE("    stages: [[sobel]]\n"),
     "t.yaml:5:14: a stage must be a name with parameters, not a list\n"
     "    stages: [[sobel]]\n"
     "             ^\n"
     "  write for example - affine: {scale: 2}\n"},
    {"stage that is nothing", PIPELINE("    stages: [~]\n"),
     "t.yaml:5:14: a stage must be a name with parameters, not an empty value\n"
     "    stages: [~]\n"
     "             ^\n"
     "  write for example - affine: {scale: 2}\n"},
    {"two stages in one item", PIPELINE("    stages:\n      - affine: {scale: 2}\n        sobel: {}\n"),
     "t.yaml:7:9: 'sobel' beside stage 'affine' in one item\n"
     "    sobel: {}\n"
     "    ^~~~~\n"
     "  begin each stage with '- ', and write parameters in {}\n"},
    {"parameters without braces", PIPELINE("    stages:\n      - affine:\n        scale: 2\n"),
     "t.yaml:7:9: 'scale' beside stage 'affine' in one item\n"
     "    scale: 2\n"
     "    ^~~~~\n"
     "  begin each stage with '- ', and write parameters in {}\n"},
    {"parameters that are a list", PIPELINE("    stages: [affine: [2]]\n"),
     "t.yaml:5:22: the parameters of 'affine' must be a mapping, not a list\n"
     "    stages: [affine: [2]]\n"
     "                     ^\n"
     "  write them as {name: value}\n"},
    {"settings that are a number", PIPELINE("    stages: [run: {file: x, settings: 3}]\n"),
     "t.yaml:5:39: 'settings' must be a mapping, not '3'\n"
     "    stages: [run: {file: x, settings: 3}]\n"
     "                                      ^\n"
     "  write it as {name: value}\n"},
    {"file that is a number", PIPELINE("    stages: [run: {file: 7}]\n"),
     "t.yaml:5:26: 'file' must be a text, not '7'\n"
     "    stages: [run: {file: 7}]\n"
     "                         ^\n"
     "  put it in quotes\n"},
    {"too many stages", PIPELINE("    stages: [" EIGHT EIGHT "sobel]\n"),
     "t.yaml:5:126: more than 16 stages in pipeline 'cam0'\n"
     "    ...el, sobel, sobel, sobel, sobel, sobel, sobel, sobel, sobel, sobel]\n"
     "                                                                   ^~~~~\n"},
};

START_TEST(mistake_is_reported) { fixture_check_mistake(&mistakes[_i]); }
END_TEST

Suite *stage_mistakes_suite(void);

Suite *stage_mistakes_suite(void) {
  Suite *suite = suite_create("stage mistakes");
  TCase *reports = tcase_create("reports");
  tcase_add_loop_test(reports, mistake_is_reported, 0, sizeof mistakes / sizeof mistakes[0]);
  suite_add_tcase(suite, reports);
  return suite;
}
