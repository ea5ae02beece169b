/* Paths, addresses, formats, and what only pipelines together get wrong. Each gets exactly one report. */
#include "tests/unit/config/fixture.h"

static const struct mistake mistakes[] = {
    {"path that is a truth value", SOURCE("socket: in, " FORMAT, "    sink: {file: true}\n"),
     "t.yaml:4:18: 'file' must be a path, not 'true'\n"
     "    sink: {file: true}\n"
     "                 ^~~~\n"
     "  put it in quotes if it is the name of a file\n"},
    {"path that is empty", SOURCE("socket: '', " FORMAT, SINK),
     "t.yaml:3:22: 'socket' must be a path, not the text \"\"\n"
     "    source: {socket: '', format: {pixels: gray, width: 4, height: 2}}\n"
     "                     ^~\n"},
    {"path that is nothing", SOURCE("socket: , " FORMAT, SINK),
     "t.yaml:3:22: 'socket' must be a path, not an empty value\n"
     "    source: {socket: , format: {pixels: gray, width: 4, height: 2}}\n"
     "                     ^\n"},
    {"socket that is standard input", SOURCE("socket: '-', " FORMAT, SINK),
     "t.yaml:3:22: 'socket' must be a path, not the text \"-\"\n"
     "    source: {socket: '-', format: {pixels: gray, width: 4, height: 2}}\n"
     "                     ^~~\n"
     "  write file: \"-\" for standard input or output\n"},
    {"path that is too long", "status:\n  socket: /" FIFTY FIFTY "1234567\n" PIPELINE(""),
     "t.yaml:2:11: the path of 'socket' has 108 bytes; the limit is 107\n"
     "    socket: /1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901...\n"
     "            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
     "  choose a shorter path, or one relative to the working directory\n"},
    {"address without a port", "status: {http: 127.0.0.1}\n" PIPELINE(""),
     "t.yaml:1:16: 'http' must be a numeric address and a port, not '127.0.0.1'\n"
     "    status: {http: 127.0.0.1}\n"
     "                   ^~~~~~~~~\n"
     "  write 127.0.0.1:9464 for this machine only, or 0.0.0.0:9464, with a token, for all networks\n"},
    {"address with a name", "status: {http: 'localhost:80'}\n" PIPELINE(""),
     "t.yaml:1:16: 'http' must be a numeric address and a port, not the text \"localhost:80\"\n"
     "    status: {http: 'localhost:80'}\n"
     "                   ^~~~~~~~~~~~~~\n"
     "  write 127.0.0.1:9464 for this machine only, or 0.0.0.0:9464, with a token, for all networks\n"},
    {"address with a wrong port", "status: {http: '127.0.0.1:65536'}\n" PIPELINE(""),
     "t.yaml:1:16: 'http' must be a numeric address and a port, not the text \"127.0.0.1:65536\"\n"
     "    status: {http: '127.0.0.1:65536'}\n"
     "                   ^~~~~~~~~~~~~~~~~\n"
     "  write 127.0.0.1:9464 for this machine only, or 0.0.0.0:9464, with a token, for all networks\n"},
    {"address of all networks without a token", "status: {http: '0.0.0.0:80'}\n" PIPELINE(""),
     "t.yaml:1:16: 'http' answers other machines, and has no token\n"
     "    status: {http: '0.0.0.0:80'}\n"
     "                   ^~~~~~~~~~~~\n"
     "  add 'token: FILE', made by openssl rand -hex 16 > FILE, or write 127.0.0.1 for this machine alone\n"},
    {"format of nothing", SOURCE("socket: in, format: {}", SINK),
     "t.yaml:3:34: 'format' of pipeline 'cam0' needs 'pixels' or 'dtype'\n"
     "    source: {socket: in, format: {}}\n"
     "                                 ^\n"},
    {"format of both kinds", SOURCE("socket: in, format: {pixels: gray, dtype: uint8}", SINK),
     "t.yaml:3:49: 'pixels' and 'dtype' exclude each other in 'format' of pipeline 'cam0'\n"
     "    source: {socket: in, format: {pixels: gray, dtype: uint8}}\n"
     "                                                ^~~~~\n"
     "  keep one of the two\n"},
    {"format without height", SOURCE("socket: in, format: {pixels: gray, width: 4}", SINK),
     "t.yaml:3:34: 'format' of pipeline 'cam0' needs 'height'\n"
     "    source: {socket: in, format: {pixels: gray, width: 4}}\n"
     "                                 ^\n"
     "  Height in pixels.\n"},
    {"image with a shape", SOURCE("socket: in, format: {pixels: gray, width: 4, height: 4, shape: [4]}", SINK),
     "t.yaml:3:70: 'shape' goes only with 'dtype' in 'format' of pipeline 'cam0'\n"
     "    ...e: {socket: in, format: {pixels: gray, width: 4, height: 4, shape: [4]}}\n"
     "                                                                   ^~~~~\n"
     "  remove it\n"},
    {"tensor with a width", SOURCE("socket: in, format: {dtype: uint8, shape: [4], width: 4}", SINK),
     "t.yaml:3:61: 'width' goes only with 'pixels' in 'format' of pipeline 'cam0'\n"
     "    source: {socket: in, format: {dtype: uint8, shape: [4], width: 4}}\n"
     "                                                            ^~~~~\n"
     "  remove it\n"},
    {"tensor without a shape", SOURCE("socket: in, format: {dtype: uint8}", SINK),
     "t.yaml:3:34: 'format' of pipeline 'cam0' needs 'shape'\n"
     "    source: {socket: in, format: {dtype: uint8}}\n"
     "                                 ^\n"
     "  Sizes of a tensor, the slowest varying first: 1 to 4 numbers.\n"},
    {"unknown pixels", SOURCE("socket: in, format: {pixels: grey, width: 4, height: 4}", SINK),
     "t.yaml:3:43: 'pixels' must be one of: gray, rgb24, yuv420p, not 'grey'\n"
     "    source: {socket: in, format: {pixels: grey, width: 4, height: 4}}\n"
     "                                          ^~~~\n"
     "  did you mean 'gray'?\n"},
    {"unknown element type", SOURCE("socket: in, format: {dtype: float64, shape: [4]}", SINK),
     "t.yaml:3:42: 'dtype' must be one of: uint8, float32, not 'float64'\n"
     "    source: {socket: in, format: {dtype: float64, shape: [4]}}\n"
     "                                         ^~~~~~~\n"
     "  did you mean 'float32'?\n"},
    {"width that is too large", SOURCE("socket: in, format: {pixels: gray, width: 65537, height: 0}", SINK),
     "t.yaml:3:56: 'width' must be between 1 and 65536, not 65537\n"
     "    source: {socket: in, format: {pixels: gray, width: 65537, height: 0}}\n"
     "                                                       ^~~~~\n"
     "t.yaml:3:71: 'height' must be between 1 and 65536, not 0\n"
     "    ...: {socket: in, format: {pixels: gray, width: 65537, height: 0}}\n"
     "                                                                   ^\n"},
    {"shape that is a number", SOURCE("socket: in, format: {dtype: uint8, shape: 4}", SINK),
     "t.yaml:3:56: 'shape' must be a list of 1 to 4 sizes, not '4'\n"
     "    source: {socket: in, format: {dtype: uint8, shape: 4}}\n"
     "                                                       ^\n"
     "  write it in brackets: [3, 480, 640]\n"},
    {"shape that is empty", SOURCE("socket: in, format: {dtype: uint8, shape: []}", SINK),
     "t.yaml:3:56: 'shape' must be a list of 1 to 4 sizes, not an empty list\n"
     "    source: {socket: in, format: {dtype: uint8, shape: []}}\n"
     "                                                       ^\n"
     "  write it in brackets: [3, 480, 640]\n"},
    {"shape with five sizes", SOURCE("socket: in, format: {dtype: uint8, shape: [1, 2, 3, 4, 5]}", SINK),
     "t.yaml:3:69: 'shape' has more than 4 sizes\n"
     "    ...ce: {socket: in, format: {dtype: uint8, shape: [1, 2, 3, 4, 5]}}\n"
     "                                                                   ^\n"},
    {"shape with a zero", SOURCE("socket: in, format: {dtype: uint8, shape: [4, 0]}", SINK),
     "t.yaml:3:60: 'shape' must be between 1 and 1099511627776, not 0\n"
     "    source: {socket: in, format: {dtype: uint8, shape: [4, 0]}}\n"
     "                                                           ^\n"},
    {"shape that overflows", SOURCE("socket: in, format: {dtype: uint8, shape: [1099511627776, 1099511627776]}", SINK),
     "t.yaml:3:56: a tensor of this shape has more than 1099511627776 elements\n"
     "    source: {socket: in, format: {dtype: uint8, shape: [1099511627776, 1099511627776]}}\n"
     "                                                       ^\n"},
    {"socket twice", SOURCE("socket: x/y, " FORMAT, "    sink: {socket: x//./y}\n"),
     "t.yaml:4:20: 'x/y' is used twice\n"
     "    sink: {socket: x//./y}\n"
     "                   ^~~~~~\n"
     "  it is also the source of pipeline 'cam0'\n"},
    {"socket of the status", SOURCE("socket: /run/framed/status.sock, " FORMAT, SINK),
     "t.yaml:3:22: '/run/framed/status.sock' is used twice\n"
     "    source: {socket: /run/framed/status.sock, format: {pixels: gray, width: 4, height: 2}}\n"
     "                     ^~~~~~~~~~~~~~~~~~~~~~~\n"
     "  it is also the socket of 'status'\n"},
    {"standard input twice",
     "pipelines:\n  a: {source: {file: '-', " FORMAT "}, sink: {file: '-'}}\n  b: {source: {file: '-', " FORMAT
     "}, sink: {file: /dev/null}}\n",
     "t.yaml:3:22: '/dev/stdin' is used twice\n"
     "    b: {source: {file: '-', format: {pixels: gray, width: 4, height: 2}}, sink: {file: /dev/null}}\n"
     "                       ^~~\n"
     "  it is also the source of pipeline 'a'\n"},
    {"file that is read and written", SOURCE("file: /dev/shm/data, " FORMAT, "    sink: {file: /dev/shm/data}\n"),
     "t.yaml:4:18: '/dev/shm/data' is used twice\n"
     "    sink: {file: /dev/shm/data}\n"
     "                 ^~~~~~~~~~~~~\n"
     "  it is also the source of pipeline 'cam0'\n"},
    {"file that is read and written under two spellings", SOURCE("file: ./data, " FORMAT, "    sink: {file: data}\n"),
     "t.yaml:4:18: 'data' is used twice\n"
     "    sink: {file: data}\n"
     "                 ^~~~\n"
     "  it is also the source of pipeline 'cam0'\n"},
    {"file that two sinks write",
     "pipelines:\n  a: {source: {socket: a, " FORMAT "}, sink: {file: out}}\n  b: {source: {socket: b, " FORMAT
     "}, sink: {file: ./out}}\n",
     "t.yaml:3:86: 'out' is used twice\n"
     "    ... format: {pixels: gray, width: 4, height: 2}}, sink: {file: ./out}}\n"
     "                                                                   ^~~~~\n"
     "  it is also the sink of pipeline 'a'\n"},
};

START_TEST(mistake_is_reported) { fixture_check_mistake(&mistakes[_i]); }
END_TEST

Suite *format_mistakes_suite(void);

Suite *format_mistakes_suite(void) {
  Suite *suite = suite_create("format mistakes");
  TCase *reports = tcase_create("reports");
  tcase_add_loop_test(reports, mistake_is_reported, 0, sizeof mistakes / sizeof mistakes[0]);
  suite_add_tcase(suite, reports);
  return suite;
}
