/* A value of the wrong type, beyond its bounds, or of an unknown name. Each gets exactly one report. */
#include "tests/unit/config/fixture.h"

static const struct mistake mistakes[] = {
    {"unknown key", PIPELINE("    slot: 3\n"),
     "t.yaml:5:5: unknown key 'slot' in pipeline 'cam0'\n"
     "    slot: 3\n"
     "    ^~~~\n"
     "  did you mean 'slots'?\n"},
    {"unknown key of another section", PIPELINE("    width: 3\n"),
     "t.yaml:5:5: unknown key 'width' in pipeline 'cam0'\n"
     "    width: 3\n"
     "    ^~~~~\n"
     "  'width' is a key of 'format'\n"},
    {"unknown key of several sections", PIPELINE("    socket: in\n"),
     "t.yaml:5:5: unknown key 'socket' in pipeline 'cam0'\n"
     "    socket: in\n"
     "    ^~~~~~\n"
     "  'socket' is a key of 'status', 'source', 'sink'\n"},
    {"unknown key of a pipeline", PIPELINE("") "deadline: 1s\n",
     "t.yaml:5:1: unknown key 'deadline' in the file\n"
     "    deadline: 1s\n"
     "    ^~~~~~~~\n"
     "  'deadline' is a key of a pipeline\n"},
    {"unknown key like none", PIPELINE("    zebra: 3\n"),
     "t.yaml:5:5: unknown key 'zebra' in pipeline 'cam0'\n"
     "    zebra: 3\n"
     "    ^~~~~\n"
     "  keys are device, devices, spread, source, slots, completion, spin_for, graph, overload, deadline, priority, "
     "share, "
     "stages, sink, record\n"},
    {"unknown key at the top", PIPELINE("") "piplines: {}\n",
     "t.yaml:5:1: unknown key 'piplines' in the file\n"
     "    piplines: {}\n"
     "    ^~~~~~~~\n"
     "  did you mean 'pipelines'?\n"},
    {"unknown key in a section", "gpu: {backnd: cpu}\n" PIPELINE(""),
     "t.yaml:1:7: unknown key 'backnd' in 'gpu'\n"
     "    gpu: {backnd: cpu}\n"
     "          ^~~~~~\n"
     "  did you mean 'backend'?\n"},
    {"unknown choice of a graph", PIPELINE("    graph: yes\n"),
     "t.yaml:5:12: 'graph' must be one of: auto, on, off, not 'yes'\n"
     "    graph: yes\n"
     "           ^~~\n"},
    {"unknown protocol", SOURCE("socket: in, protocol: mpegts, " FORMAT, SINK),
     "t.yaml:3:36: 'protocol' must be one of: raw, y4m, native, auto, not 'mpegts'\n"
     "    source: {socket: in, protocol: mpegts, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                   ^~~~~~\n"
     "  framed takes decoded frames: write url: URL, which framed-camera decodes, or pixels: yuv420p and protocol: y4m, "
     "and let ffmpeg decode: "
     "ffmpeg -i INPUT -pix_fmt yuv420p -f yuv4mpegpipe unix:PATH\n"},
    {"unknown choice", PIPELINE("    overload: drop-oldst\n"),
     "t.yaml:5:15: 'overload' must be one of: block, drop-oldest, drop-newest, not 'drop-oldst'\n"
     "    overload: drop-oldst\n"
     "              ^~~~~~~~~~\n"
     "  did you mean 'drop-oldest'?\n"},
    {"choice like none", PIPELINE("    completion: 5\n"),
     "t.yaml:5:17: 'completion' must be one of: callback, spin, persistent, not '5'\n"
     "    completion: 5\n"
     "                ^\n"},
    {"list for a choice", PIPELINE("    completion: [spin]\n"),
     "t.yaml:5:17: 'completion' must be one of: callback, spin, persistent, not a list\n"
     "    completion: [spin]\n"
     "                ^\n"},
    {"no device", PIPELINE("    devices: []\n"),
     "t.yaml:5:14: 'devices' must be 'all' or a list of numbers, not an empty list\n"
     "    devices: []\n"
     "             ^\n"
     "  write them in brackets: [0, 1]\n"},
    {"a device beyond the last", PIPELINE("    devices: [0, 64]\n"),
     "t.yaml:5:18: 'devices' must be between 0 and 63, not 64\n"
     "    devices: [0, 64]\n"
     "                 ^~\n"},
    {"device and devices", PIPELINE("    device: 1\n    devices: [0, 1]\n"),
     "t.yaml:5:13: 'device' and 'devices' exclude each other\n"
     "    device: 1\n"
     "            ^\n"
     "  remove one of them\n"},
    {"one device for all frames", PIPELINE("    spread: frames\n"),
     "t.yaml:5:13: the frames of pipeline 'cam0' have one device only\n"
     "    spread: frames\n"
     "            ^~~~~~\n"
     "  write devices: all, or name several such as devices: [0, 1]\n"},
    {"rows of a frame", PIPELINE("    split: rows\n"),
     "t.yaml:5:5: the key 'split' was removed\n"
     "    split: rows\n"
     "    ^~~~~\n"
     "  write spread: frames, which divides the frames of each session among the devices\n"},
    {"fewer slots than devices", PIPELINE("    devices: [0, 1, 4]\n    spread: frames\n"),
     "t.yaml:6:13: the 2 slots of pipeline 'cam0' are too few to spread its frames over 3 devices\n"
     "    spread: frames\n"
     "            ^~~~~~\n"
     "  give as many slots as devices, or better twice as many\n"},
    {"a stream of the network", "pipelines:\n  cam0:\n    source: {rtsp: 10.0.0.1, url: rtsp://a/1}\n    sink: {socket: o}\n",
     "t.yaml:3:14: unknown key 'rtsp' in 'source' of pipeline 'cam0'\n"
     "    source: {rtsp: 10.0.0.1, url: rtsp://a/1}\n"
     "             ^~~~\n"
     "  write url: rtsp://HOST/PATH, with credentials: NAME if the camera wants a password\n"},
    {"text for a number", PIPELINE("    slots: two\n"),
     "t.yaml:5:12: 'slots' must be a whole number, not 'two'\n"
     "    slots: two\n"
     "           ^~~\n"},
    {"list for a number", PIPELINE("    slots: [2]\n"),
     "t.yaml:5:12: 'slots' must be a whole number, not a list\n"
     "    slots: [2]\n"
     "           ^\n"},
    {"nothing for a number", PIPELINE("    slots:\n"),
     "t.yaml:5:11: 'slots' must be a whole number, not an empty value\n"
     "    slots:\n"
     "          ^\n"},
    {"number in quotes", PIPELINE("    slots: \"2\"\n"),
     "t.yaml:5:12: 'slots' must be a whole number, not the text \"2\"\n"
     "    slots: \"2\"\n"
     "           ^~~\n"
     "  remove the quotes\n"},
    {"fraction for a whole number", PIPELINE("    slots: 2.5\n"),
     "t.yaml:5:12: 'slots' must be a whole number, not '2.5'\n"
     "    slots: 2.5\n"
     "           ^~~\n"},
    {"number below its bound", PIPELINE("    slots: 0\n"),
     "t.yaml:5:12: 'slots' must be between 1 and 16, not 0\n"
     "    slots: 0\n"
     "           ^\n"},
    {"number above its bound", PIPELINE("    slots: 17\n"),
     "t.yaml:5:12: 'slots' must be between 1 and 16, not 17\n"
     "    slots: 17\n"
     "           ^~\n"},
    {"negative number", PIPELINE("    slots: -2\n"),
     "t.yaml:5:12: 'slots' must be between 1 and 16, not -2\n"
     "    slots: -2\n"
     "           ^~\n"},
    {"faults without their time", "gpu: {faults: 5}\n",
     "t.yaml:1:15: 'faults' must be so many a minute, such as 5/min, not '5'\n"
     "    gpu: {faults: 5}\n"
     "                  ^\n"},
    {"too many faults", "gpu: {faults: 65/min}\n",
     "t.yaml:1:15: 'faults' must be between 0 and 64, not 65/min\n"
     "    gpu: {faults: 65/min}\n"
     "                  ^~~~~~\n"},
    {"number that overflows", PIPELINE("    slots: 99999999999999999999\n"),
     "t.yaml:5:12: 'slots' is too large: 99999999999999999999\n"
     "    slots: 99999999999999999999\n"
     "           ^~~~~~~~~~~~~~~~~~~~\n"},
    {"wrong lanes", "lanes: many\n" PIPELINE(""),
     "t.yaml:1:8: 'lanes' must be 'auto' or a whole number, not 'many'\n"
     "    lanes: many\n"
     "           ^~~~\n"},
    {"too many lanes", "lanes: 257\n" PIPELINE(""),
     "t.yaml:1:8: 'lanes' must be between 1 and 256, not 257\n"
     "    lanes: 257\n"
     "           ^~~\n"},
    {"list of lanes", "lanes: []\n" PIPELINE(""),
     "t.yaml:1:8: 'lanes' must be 'auto' or a whole number, not an empty list\n"
     "    lanes: []\n"
     "           ^\n"},
    {"missing unit", PIPELINE("    deadline: 50\n"),
     "t.yaml:5:15: 'deadline' needs a unit\n"
     "    deadline: 50\n"
     "              ^~\n"
     "  write for example 50ms or 50s; units are ns us ms s min h d\n"},
    {"unknown unit", PIPELINE("    deadline: 50 sec\n"),
     "t.yaml:5:15: unknown unit 'sec' in 'deadline'\n"
     "    deadline: 50 sec\n"
     "              ^~\n"
     "  units are ns us ms s min h d\n"},
    {"text for a duration", PIPELINE("    deadline: soon\n"),
     "t.yaml:5:15: 'deadline' must be a duration such as 50ms, not 'soon'\n"
     "    deadline: soon\n"
     "              ^~~~\n"},
    {"list for a duration", PIPELINE("    deadline: [1s]\n"),
     "t.yaml:5:15: 'deadline' must be a duration such as 50ms, not a list\n"
     "    deadline: [1s]\n"
     "              ^\n"},
    {"deadline of nothing", PIPELINE("    deadline: 0ms\n"),
     "t.yaml:5:15: 'deadline' must be between 1ns and 1h, not 0ms\n"
     "    deadline: 0ms\n"
     "              ^~~\n"},
    {"duration above its bound", PIPELINE("    spin_for: 2s\n"),
     "t.yaml:5:15: 'spin_for' must be between 0s and 1s, not 2s\n"
     "    spin_for: 2s\n"
     "              ^~\n"},
    {"duration that overflows", "drain_timeout: 99999999999999999h\n" PIPELINE(""),
     "t.yaml:1:16: 'drain_timeout' is too large: 99999999999999999h\n"
     "    drain_timeout: 99999999999999999h\n"
     "                   ^~~~~~~~~~~~~~~~~~\n"},
    {"negative duration", "drain_timeout: -1s\n" PIPELINE(""),
     "t.yaml:1:16: 'drain_timeout' must be a duration such as 50ms, not '-1s'\n"
     "    drain_timeout: -1s\n"
     "                   ^~~\n"},
    {"wrong log level", "log: {level: loud}\n" PIPELINE(""),
     "t.yaml:1:14: 'level' must be one of: error, warning, info, debug, not 'loud'\n"
     "    log: {level: loud}\n"
     "                 ^~~~\n"},
    {"list for a section", "log: [level]\n" PIPELINE(""),
     "t.yaml:1:6: 'log' must be a mapping of keys, not a list\n"
     "    log: [level]\n"
     "         ^\n"},
    {"text for a section", "gpu: cpu\n" PIPELINE(""),
     "t.yaml:1:6: 'gpu' must be a mapping of keys, not 'cpu'\n"
     "    gpu: cpu\n"
     "         ^~~\n"},
    {"misspelt keys that are needed", "pipelines:\n  cam0:\n    sorce: {}\n    sink: {sockt: out}\n",
     "t.yaml:3:5: unknown key 'sorce' in pipeline 'cam0'\n"
     "    sorce: {}\n"
     "    ^~~~~\n"
     "  did you mean 'source'?\n"
     "t.yaml:4:12: unknown key 'sockt' in 'sink' of pipeline 'cam0'\n"
     "    sink: {sockt: out}\n"
     "           ^~~~~\n"
     "  did you mean 'socket'?\n"},
};

START_TEST(mistake_is_reported) { fixture_check_mistake(&mistakes[_i]); }
END_TEST

Suite *value_mistakes_suite(void);

Suite *value_mistakes_suite(void) {
  Suite *suite = suite_create("value mistakes");
  TCase *reports = tcase_create("reports");
  tcase_add_loop_test(reports, mistake_is_reported, 0, sizeof mistakes / sizeof mistakes[0]);
  suite_add_tcase(suite, reports);
  return suite;
}
