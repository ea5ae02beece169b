/* What is wrong before any key is looked at. Each gets exactly one report. */
#include "tests/unit/config/fixture.h"

static const struct mistake mistakes[] = {
    {"list for a file", "- pipelines\n",
     "t.yaml:1:1: 'the file' must be a mapping of keys, not a list\n"
     "    - pipelines\n"
     "    ^\n"},
    {"key twice", PIPELINE("    slots: 2\n    slots: 3\n"),
     "t.yaml:6:5: 'slots' is here twice; the first is on line 5\n"
     "    slots: 3\n"
     "    ^~~~~\n"
     "  remove one of the two\n"},
    {"pipeline twice", PIPELINE("") "  cam0: {}\n",
     "t.yaml:5:3: 'cam0' is here twice; the first is on line 2\n"
     "    cam0: {}\n"
     "    ^~~~\n"
     "  remove one of the two\n"},
    {"alias", "lanes: &many 4\n" PIPELINE("    slots: *many\n"),
     "t.yaml:1:8: anchors and tags are not supported\n"
     "    lanes: &many 4\n"
     "           ^~~~~\n"
     "  remove the word that begins with '&' or '!'\n"
     "t.yaml:6:12: aliases are not supported\n"
     "    slots: *many\n"
     "           ^~~~~\n"
     "  write the value out\n"},
    {"tag", PIPELINE("    slots: !!int 3\n"),
     "t.yaml:5:12: anchors and tags are not supported\n"
     "    slots: !!int 3\n"
     "           ^~~~~\n"
     "  remove the word that begins with '&' or '!'\n"},
    {"key that is a list", PIPELINE("") "[a]: 5\n",
     "t.yaml:5:1: a key must be a text, not a list\n"
     "    [a]: 5\n"
     "    ^\n"},
    {"key that is an alias", PIPELINE("") "*a : 5\n",
     "t.yaml:5:1: aliases are not supported\n"
     "    *a : 5\n"
     "    ^~\n"
     "  write the value out\n"},
    {"second document", PIPELINE("") "---\nlanes: 2\n",
     "t.yaml:5:1: a second document in one file\n"
     "    ---\n"
     "    ^~~\n"
     "  remove the line '---' or use a file of its own in conf.d\n"},
    {"control character", PIPELINE("    slots: \"a\\e[31m\"\n"),
     "t.yaml:5:12: a text holds a control character\n"
     "    slots: \"a\\e[31m\"\n"
     "           ^~~~~~~~~\n"
     "  write it on one line, without escapes\n"},
    {"text that could not be printed raw", "status: {socket: \"a\\uFFFF\", http: \"\\u2028\"}\n" PIPELINE(""),
     "t.yaml:1:18: a text holds a control character\n"
     "    status: {socket: \"a\\uFFFF\", http: \"\\u2028\"}\n"
     "                     ^~~~~~~~~\n"
     "  write it on one line, without escapes\n"
     "t.yaml:1:35: a text holds a control character\n"
     "    status: {socket: \"a\\uFFFF\", http: \"\\u2028\"}\n"
     "                                      ^~~~~~~~\n"
     "  write it on one line, without escapes\n"},
    {"standard input without quotes", "pipelines:\n  cam0:\n    source:\n      file: -\n",
     "t.yaml:4:13: not valid YAML: block sequence entries are not allowed in this context\n"
     "    file: -\n"
     "          ^\n"
     "  a '-' that stands for standard input or output needs quotes: \"-\"\n"},
    {"tab", "pipelines:\n  cam0:\n\tsource: {}\n",
     "t.yaml:3:1: not valid YAML: found character that cannot start any token (while scanning for the next token from line 3 "
     "on)\n"
     "    source: {}\n"
     "    ^~~~~~\n"
     "  indent with spaces, not tabs; put a text that begins with a special character in quotes\n"},
    {"bracket that is not closed", "pipelines: {cam0: {\n",
     "t.yaml:2:1: not valid YAML: did not find expected node content (while parsing a flow node from line 2 on)\n"},
    {"colon in a text", "status: a: b\n",
     "t.yaml:1:10: not valid YAML: mapping values are not allowed in this context\n"
     "    status: a: b\n"
     "             ^\n"
     "  check the indentation, and put a text with ': ' in quotes\n"},
    {"text that is not UTF-8", "log: {level: \"\xff\"}\n",
     "t.yaml:1:15: not valid YAML: invalid leading UTF-8 octet\n"
     "    log: {level: \"?\"}\n"
     "                  ^~\n"
     "  the file must be UTF-8 text without control characters\n"},
    {"control character behind others than ASCII's", "log: {level: \"h\xC3\xB6\xC3\xB6r\x01\"}\n",
     "t.yaml:1:19: not valid YAML: control characters are not allowed\n"
     "    log: {level: \"h\xC3\xB6\xC3\xB6r?\"}\n"
     "                      ^~\n"
     "  the file must be UTF-8 text without control characters\n"},
    {"control character behind line breaks of other kinds", "#\r#\r\n# \xC3\xA4 \x02\n",
     "t.yaml:3:5: not valid YAML: control characters are not allowed\n"
     "    # \xC3\xA4 ?\n"
     "        ^\n"
     "  the file must be UTF-8 text without control characters\n"},
    {"slip behind a byte order mark", "\xEF\xBB\xBFlanez: 2\n" PIPELINE(""),
     "t.yaml:1:1: unknown key 'lanez' in the file\n"
     "    lanez: 2\n"
     "    ^~~~~\n"
     "  did you mean 'lanes'?\n"},
    {"nothing at all", "",
     "t.yaml: 'pipelines' is missing\n"
     "  add a pipeline, or write pipelines: {} if there shall be none\n"},
    {"comment alone", "# nothing\n",
     "t.yaml: 'pipelines' is missing\n"
     "  add a pipeline, or write pipelines: {} if there shall be none\n"},
    {"nesting that is too deep", "a: " EIGHT_DEEP EIGHT_DEEP EIGHT_DEEP EIGHT_DEEP "\n",
     "t.yaml:1:35: nested deeper than 32 levels\n"
     "    a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n"
     "                                      ^\n"},
    {"several errors, in order",
     "gpu: {timeout: 5}\n" SOURCE("socket: in, " FORMAT,
                                  "    sink: {sock: out}\n    slots: 99\n    stages: [afine]\n") "lanes: none\n",
     "t.yaml:1:16: 'timeout' needs a unit\n"
     "    gpu: {timeout: 5}\n"
     "                   ^\n"
     "  write for example 5ms or 5s; units are ns us ms s min h d\n"
     "t.yaml:5:12: unknown key 'sock' in 'sink' of pipeline 'cam0'\n"
     "    sink: {sock: out}\n"
     "           ^~~~\n"
     "  did you mean 'socket'?\n"
     "t.yaml:6:12: 'slots' must be between 1 and 16, not 99\n"
     "    slots: 99\n"
     "           ^~\n"
     "t.yaml:7:14: unknown stage 'afine' in pipeline 'cam0'\n"
     "    stages: [afine]\n"
     "             ^~~~~\n"
     "  did you mean 'affine'?\n"
     "t.yaml:8:8: 'lanes' must be 'auto' or a whole number, not 'none'\n"
     "    lanes: none\n"
     "           ^~~~\n"},
};

START_TEST(mistake_is_reported) { fixture_check_mistake(&mistakes[_i]); }
END_TEST

Suite *text_mistakes_suite(void);

Suite *text_mistakes_suite(void) {
  Suite *suite = suite_create("text mistakes");
  TCase *reports = tcase_create("reports");
  tcase_add_loop_test(reports, mistake_is_reported, 0, sizeof mistakes / sizeof mistakes[0]);
  suite_add_tcase(suite, reports);
  return suite;
}
