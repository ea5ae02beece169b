/* What the suites of this directory share: a small vocabulary, and reading a text with it. */
#ifndef FRAMED_TESTS_UNIT_CONFIG_FIXTURE_H
#define FRAMED_TESTS_UNIT_CONFIG_FIXTURE_H

#include <check.h>

#include "config/config.h"

/* gray, rgb24, yuv420p; uint8, float32; the stages affine {scale, offset}, convert {to, matrix}, normalize {mean, std},
 * work {rounds}, sobel {}, run {file, entry, settings}, model {name, file, shape}. */
extern const struct config_vocabulary fixture_vocabulary;
extern const struct config_hooks fixture_hooks; /* with that vocabulary and no check */

/* One pipeline from the keys of its source and its other lines, and one that is whole with them. */
#define SOURCE(keys, rest) "pipelines:\n  cam0:\n    source: {" keys "}\n" rest
#define FORMAT             "format: {pixels: gray, width: 4, height: 2}"
#define SINK               "    sink: {socket: out}\n"
#define FIFTY              "12345678901234567890123456789012345678901234567890"
#define EIGHT              "sobel, sobel, sobel, sobel, sobel, sobel, sobel, sobel, "
#define EIGHT_DEEP         "[[[[[[[["
#define PIPELINE(rest)     SOURCE("socket: in, " FORMAT, SINK rest)

struct reading {
  struct config *config;
  struct config_errors *errors;
  const char *report; /* "" without errors */
};

/* Reads `text` as the file "t.yaml"; it checks that there is either a configuration or an error. */
struct reading fixture_read(const char *text);
struct reading fixture_read_bytes(const char *text, size_t length);
void fixture_end(struct reading *reading);

/* The configuration of a text that must be valid. */
struct config *fixture_config(const char *text);
/* One wrong text and the whole report it must get. */
struct mistake {
  const char *name, *text, *report;
};
void fixture_check_mistake(const struct mistake *mistake);

#endif
