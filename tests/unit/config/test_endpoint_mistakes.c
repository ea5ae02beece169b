/* Sources and sinks: what is missing, what excludes what, and paths. Each gets exactly one report. */
#include "tests/unit/config/fixture.h"

static const struct mistake mistakes[] = {
    {"list of pipelines", "pipelines: [cam0]\n",
     "t.yaml:1:12: 'pipelines' must be a mapping of keys, not a list\n"
     "    pipelines: [cam0]\n"
     "               ^\n"},
    {"text for a pipeline", "pipelines: {cam0: 5}\n",
     "t.yaml:1:19: 'cam0' must be a mapping of keys, not '5'\n"
     "    pipelines: {cam0: 5}\n"
     "                      ^\n"},
    {"pipeline without anything", "pipelines:\n  cam0:\n",
     "t.yaml:2:3: pipeline 'cam0' needs 'source'\n"
     "    cam0:\n"
     "    ^~~~\n"
     "  Where frames come from.\n"
     "t.yaml:2:3: pipeline 'cam0' needs 'sink'\n"
     "    cam0:\n"
     "    ^~~~\n"
     "  Where results go.\n"},
    {"pipeline without a sink", SOURCE("socket: in, " FORMAT, ""),
     "t.yaml:2:3: pipeline 'cam0' needs 'sink'\n"
     "    cam0:\n"
     "    ^~~~\n"
     "  Where results go.\n"},
    {"name of a pipeline with a slash", "pipelines:\n  a/b: {}\n",
     "t.yaml:2:3: 'a/b' is not a name for a pipeline\n"
     "    a/b: {}\n"
     "    ^~~\n"
     "  use 1 to 64 letters, digits, '_', '-' and '.'\n"},
    {"name of a pipeline that is too long",
     "pipelines:\n  a2345678901234567890123456789012345678901234567890123456789012345: {}\n",
     "t.yaml:2:3: 'a2345678901234567890123456789012345678901234567890123456789012345' is not a name for a pipeline\n"
     "    a2345678901234567890123456789012345678901234567890123456789012345: {}\n"
     "    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
     "  use 1 to 64 letters, digits, '_', '-' and '.'\n"},
    {"source without an endpoint", SOURCE(FORMAT, SINK),
     "t.yaml:3:13: 'source' of pipeline 'cam0' needs 'socket' or 'file' or 'url'\n"
     "    source: {format: {pixels: gray, width: 4, height: 2}}\n"
     "            ^\n"},
    {"source with two endpoints", SOURCE("socket: in, file: in2, " FORMAT, SINK),
     "t.yaml:3:26: 'socket' and 'file' exclude each other in 'source' of pipeline 'cam0'\n"
     "    source: {socket: in, file: in2, format: {pixels: gray, width: 4, height: 2}}\n"
     "                         ^~~~\n"
     "  keep one of the two\n"},
    {"source without a format", SOURCE("socket: in", SINK),
     "t.yaml:3:13: 'source' of pipeline 'cam0' needs 'format'\n"
     "    source: {socket: in}\n"
     "            ^\n"
     "  The content of one frame: an image or a tensor.\n"},
    {"sink without an endpoint", SOURCE("socket: in, " FORMAT, "    sink: {}\n"),
     "t.yaml:4:11: 'sink' of pipeline 'cam0' needs 'socket' or 'file' or 'reply'\n"
     "    sink: {}\n"
     "          ^\n"},
    {"sink with two endpoints", SOURCE("socket: in, " FORMAT, "    sink: {reply: true, file: out}\n"),
     "t.yaml:4:25: 'reply' and 'file' exclude each other in 'sink' of pipeline 'cam0'\n"
     "    sink: {reply: true, file: out}\n"
     "                        ^~~~\n"
     "  keep one of the two\n"},
    {"sink of nothing", SOURCE("socket: in, " FORMAT, "    sink:\n"),
     "t.yaml:4:10: 'sink' of pipeline 'cam0' needs 'socket' or 'file' or 'reply'\n"
     "    sink:\n"
     "         ^\n"},
    {"reply that is false", SOURCE("socket: in, " FORMAT, "    sink: {reply: false}\n"),
     "t.yaml:4:19: 'reply' must be true, not 'false'\n"
     "    sink: {reply: false}\n"
     "                  ^~~~~\n"
     "  leave the key out, and name a socket or a file\n"},
    {"reply to a file", SOURCE("file: in, " FORMAT, "    sink: {reply: true}\n"),
     "t.yaml:4:19: pipeline 'cam0' cannot reply to a file\n"
     "    sink: {reply: true}\n"
     "                  ^~~~\n"
     "  use a socket as the source, or a file or socket as the sink\n"},
    {"clients without reply", SOURCE("socket: in, clients: 2, " FORMAT, SINK),
     "t.yaml:3:35: more than 1 client of pipeline 'cam0' needs a sink that replies to each\n"
     "    source: {socket: in, clients: 2, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                  ^\n"
     "  write sink: {reply: true}, or clients: 1\n"},
    {"clients of a file", SOURCE("file: in, clients: 2, " FORMAT, SINK),
     "t.yaml:3:24: 'clients' goes only with 'socket' in 'source' of pipeline 'cam0'\n"
     "    source: {file: in, clients: 2, format: {pixels: gray, width: 4, height: 2}}\n"
     "                       ^~~~~~~\n"
     "  remove it\n"},
    {"timeout of a file", SOURCE("file: in, timeout: 1s, " FORMAT, SINK),
     "t.yaml:3:24: 'timeout' goes only with 'socket' in 'source' of pipeline 'cam0'\n"
     "    source: {file: in, timeout: 1s, format: {pixels: gray, width: 4, height: 2}}\n"
     "                       ^~~~~~~\n"
     "  remove it\n"},
    {"mode of a file", SOURCE("file: in, mode: '0600', " FORMAT, SINK),
     "t.yaml:3:24: 'mode' goes only with 'socket' in 'source' of pipeline 'cam0'\n"
     "    source: {file: in, mode: '0600', format: {pixels: gray, width: 4, height: 2}}\n"
     "                       ^~~~\n"
     "  remove it\n"},
    {"owner, group and allow of a file", SOURCE("file: in, owner: 0, group: 0, allow: {}, " FORMAT, SINK),
     "t.yaml:3:24: 'owner' goes only with 'socket' in 'source' of pipeline 'cam0'\n"
     "    source: {file: in, owner: 0, group: 0, allow: {}, format: {pixels: gray, width: 4, height: 2}}\n"
     "                       ^~~~~\n"
     "  remove it\n"
     "t.yaml:3:34: 'group' goes only with 'socket' in 'source' of pipeline 'cam0'\n"
     "    source: {file: in, owner: 0, group: 0, allow: {}, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                 ^~~~~\n"
     "  remove it\n"
     "t.yaml:3:44: 'allow' goes only with 'socket' in 'source' of pipeline 'cam0'\n"
     "    source: {file: in, owner: 0, group: 0, allow: {}, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                           ^~~~~\n"
     "  remove it\n"},
    {"rate of a socket", SOURCE("socket: in, rate: 30, " FORMAT, SINK),
     "t.yaml:3:26: 'rate' goes only with 'file' in 'source' of pipeline 'cam0'\n"
     "    source: {socket: in, rate: 30, format: {pixels: gray, width: 4, height: 2}}\n"
     "                         ^~~~\n"
     "  remove it\n"},
    {"loop of a socket", SOURCE("socket: in, loop: true, " FORMAT, SINK),
     "t.yaml:3:26: 'loop' goes only with 'file' in 'source' of pipeline 'cam0'\n"
     "    source: {socket: in, loop: true, format: {pixels: gray, width: 4, height: 2}}\n"
     "                         ^~~~\n"
     "  remove it\n"},
    {"loop of standard input", SOURCE("file: '-', loop: true, " FORMAT, SINK),
     "t.yaml:3:31: standard input cannot be read in a loop\n"
     "    source: {file: '-', loop: true, format: {pixels: gray, width: 4, height: 2}}\n"
     "                              ^~~~\n"
     "  name a file, or remove 'loop'\n"},
    {"loop that is no flag", SOURCE("file: in, loop: maybe, " FORMAT, SINK),
     "t.yaml:3:30: 'loop' must be true or false, not 'maybe'\n"
     "    source: {file: in, loop: maybe, format: {pixels: gray, width: 4, height: 2}}\n"
     "                             ^~~~~\n"},
    {"rate that is negative", SOURCE("file: in, rate: -1, " FORMAT, SINK),
     "t.yaml:3:30: 'rate' must be between 0 and 1000000, not -1\n"
     "    source: {file: in, rate: -1, format: {pixels: gray, width: 4, height: 2}}\n"
     "                             ^~\n"},
    {"rate that is no number", SOURCE("file: in, rate: fast, " FORMAT, SINK),
     "t.yaml:3:30: 'rate' must be a number, not 'fast'\n"
     "    source: {file: in, rate: fast, format: {pixels: gray, width: 4, height: 2}}\n"
     "                             ^~~~\n"},
    {"overload of a file", SOURCE("socket: in, " FORMAT, "    sink: {file: out, overload: drop}\n"),
     "t.yaml:4:23: 'overload' goes only with 'socket' in 'sink' of pipeline 'cam0'\n"
     "    sink: {file: out, overload: drop}\n"
     "                      ^~~~~~~~\n"
     "  remove it\n"},
    {"overload of a reply", SOURCE("socket: in, " FORMAT, "    sink: {reply: true, overload: block}\n"),
     "t.yaml:4:25: 'overload' goes only with 'socket' in 'sink' of pipeline 'cam0'\n"
     "    sink: {reply: true, overload: block}\n"
     "                        ^~~~~~~~\n"
     "  remove it\n"},
    {"drop-oldest with two slots", PIPELINE("    overload: drop-oldest\n    slots: 2\n"),
     "t.yaml:5:15: 'drop-oldest' needs at least 3 slots (one waits, one fills); pipeline 'cam0' has 2\n"
     "    overload: drop-oldest\n"
     "              ^~~~~~~~~~~\n"
     "  write slots: 3, or slots: 4 so that copies overlap kernels\n"},
    {"y4m of rgb", SOURCE("socket: in, protocol: y4m, format: {pixels: rgb24, width: 4, height: 4}", SINK),
     "t.yaml:3:36: y4m cannot carry rgb24\n"
     "    source: {socket: in, protocol: y4m, format: {pixels: rgb24, width: 4, height: 4}}\n"
     "                                   ^~~\n"
     "  use pixels: yuv420p or gray, or protocol: raw\n"},
    {"y4m of a tensor", SOURCE("socket: in, protocol: y4m, format: {dtype: uint8, shape: [4]}", SINK),
     "t.yaml:3:36: y4m cannot carry a tensor\n"
     "    source: {socket: in, protocol: y4m, format: {dtype: uint8, shape: [4]}}\n"
     "                                   ^~~\n"
     "  use pixels: yuv420p or gray, or protocol: raw\n"},
    {"y4m of rgb under auto", SOURCE("socket: in, protocol: auto, format: {pixels: rgb24, width: 4, height: 4}", SINK),
     "t.yaml:3:36: y4m cannot carry rgb24\n"
     "    source: {socket: in, protocol: auto, format: {pixels: rgb24, width: 4, height: 4}}\n"
     "                                   ^~~~\n"
     "  use pixels: yuv420p or gray, or protocol: raw\n"},
    {"native from a file", SOURCE("file: in, protocol: native, " FORMAT, SINK),
     "t.yaml:3:34: a file cannot speak the protocol 'native'\n"
     "    source: {file: in, protocol: native, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                 ^~~~~~\n"
     "  use a socket, or protocol: raw or y4m\n"},
    {"native to a file", SOURCE("socket: in, " FORMAT, "    sink: {file: out, protocol: native}\n"),
     "t.yaml:4:33: a file cannot speak the protocol 'native'\n"
     "    sink: {file: out, protocol: native}\n"
     "                                ^~~~~~\n"
     "  use a socket, or protocol: raw or y4m\n"},
    {"native replies to a raw client", SOURCE("socket: in, " FORMAT, "    sink: {reply: true, protocol: native}\n"),
     "t.yaml:4:35: the replies of pipeline 'cam0' go to clients that do not speak native\n"
     "    sink: {reply: true, protocol: native}\n"
     "                                  ^~~~~~\n"
     "  write protocol: native in the source\n"},
    {"json for clients that speak native",
     SOURCE("socket: in, protocol: auto, " FORMAT, "    sink: {reply: true, protocol: json}\n"),
     "t.yaml:4:35: the clients of pipeline 'cam0' may speak native and get their replies so, not as json\n"
     "    sink: {reply: true, protocol: json}\n"
     "                                  ^~~~\n"
     "  write protocol: raw or y4m in the source, or give the sink a socket\n"},
    {"a source of json", SOURCE("socket: in, protocol: json, " FORMAT, SINK),
     "t.yaml:3:36: 'protocol' must be one of: raw, y4m, native, auto, not 'json'\n"
     "    source: {socket: in, protocol: json, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                   ^~~~\n"},
    {"a sink of nothing", SOURCE("socket: in, " FORMAT, "    sink: {socket: out, protocol: ''}\n"),
     "t.yaml:4:35: 'protocol' must be one of: raw, y4m, native, json, not the text \"\"\n"
     "    sink: {socket: out, protocol: ''}\n"
     "                                  ^~\n"},
    {"mode without quotes", SOURCE("socket: in, mode: 0660, " FORMAT, SINK),
     "t.yaml:3:32: 'mode' must be an octal file mode in quotes, not '0660'\n"
     "    source: {socket: in, mode: 0660, format: {pixels: gray, width: 4, height: 2}}\n"
     "                               ^~~~\n"
     "  write it in quotes: \"0660\"\n"},
    {"mode that is not octal", SOURCE("socket: in, mode: '0680', " FORMAT, SINK),
     "t.yaml:3:32: 'mode' must be an octal file mode in quotes, not the text \"0680\"\n"
     "    source: {socket: in, mode: '0680', format: {pixels: gray, width: 4, height: 2}}\n"
     "                               ^~~~~~\n"
     "  write it in quotes: \"0660\"\n"},
    {"mode that is too large", SOURCE("socket: in, mode: '1777', " FORMAT, SINK),
     "t.yaml:3:32: 'mode' must be an octal file mode in quotes, not the text \"1777\"\n"
     "    source: {socket: in, mode: '1777', format: {pixels: gray, width: 4, height: 2}}\n"
     "                               ^~~~~~\n"
     "  write it in quotes: \"0660\"\n"},
    {"unknown user", SOURCE("socket: in, owner: nobody-at-all, " FORMAT, SINK),
     "t.yaml:3:33: there is no user 'nobody-at-all' on this system\n"
     "    source: {socket: in, owner: nobody-at-all, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                ^~~~~~~~~~~~~\n"
     "  make the user, or name one that `getent passwd` lists\n"},
    {"unknown group", SOURCE("socket: in, group: nobody-at-all, " FORMAT, SINK),
     "t.yaml:3:33: there is no group 'nobody-at-all' on this system\n"
     "    source: {socket: in, group: nobody-at-all, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                ^~~~~~~~~~~~~\n"
     "  make the group, or name one that `getent group` lists\n"},
    {"user that is a list", SOURCE("socket: in, owner: [0], " FORMAT, SINK),
     "t.yaml:3:33: 'owner' must be the name or number of a user, not a list\n"
     "    source: {socket: in, owner: [0], format: {pixels: gray, width: 4, height: 2}}\n"
     "                                ^\n"},
    {"group that is a mapping", SOURCE("socket: in, group: {}, " FORMAT, SINK),
     "t.yaml:3:33: 'group' must be the name or number of a group, not an empty mapping\n"
     "    source: {socket: in, group: {}, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                ^\n"},
    {"unknown user that is allowed", SOURCE("socket: in, allow: {users: [0, nobody-at-all]}, " FORMAT, SINK),
     "t.yaml:3:45: there is no user 'nobody-at-all' on this system\n"
     "    source: {socket: in, allow: {users: [0, nobody-at-all]}, format: {pixels: gray, width: 4, height: 2}...\n"
     "                                            ^~~~~~~~~~~~~\n"
     "  make the user, or name one that `getent passwd` lists\n"},
    {"users that are no list", SOURCE("socket: in, allow: {users: root}, " FORMAT, SINK),
     "t.yaml:3:41: 'users' must be a list, not 'root'\n"
     "    source: {socket: in, allow: {users: root}, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                        ^~~~\n"
     "  write it in brackets: [name]\n"},
    {"user number that is too large", SOURCE("socket: in, owner: 4294967295, " FORMAT, SINK),
     "t.yaml:3:33: 'owner' must be the name or number of a user, not '4294967295'\n"
     "    source: {socket: in, owner: 4294967295, format: {pixels: gray, width: 4, height: 2}}\n"
     "                                ^~~~~~~~~~\n"},
    {"path that is a number", SOURCE("socket: 5, " FORMAT, SINK),
     "t.yaml:3:22: 'socket' must be a path, not '5'\n"
     "    source: {socket: 5, format: {pixels: gray, width: 4, height: 2}}\n"
     "                     ^\n"
     "  put it in quotes if it is the name of a file\n"},
};

START_TEST(mistake_is_reported) { fixture_check_mistake(&mistakes[_i]); }
END_TEST

Suite *endpoint_mistakes_suite(void);

Suite *endpoint_mistakes_suite(void) {
  Suite *suite = suite_create("endpoint mistakes");
  TCase *reports = tcase_create("reports");
  tcase_add_loop_test(reports, mistake_is_reported, 0, sizeof mistakes / sizeof mistakes[0]);
  suite_add_tcase(suite, reports);
  return suite;
}
