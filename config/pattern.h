/*
 * File names from a pattern with conversions of strftime(3), such as cam0-%Y%m%d-%H%M%S.raw. This module decides whether a name
 * matches a pattern, and whether two patterns share a name. The daemon finds the segments of a pipeline again with it, so that
 * it counts, removes and finishes the same files. The daemon uses the C locale, in which each conversion has a fixed form.
 */
#ifndef FRAMED_CONFIG_PATTERN_H
#define FRAMED_CONFIG_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum { PATTERN_MOST = 4608, PATTERN_PROBLEM = 96, PATTERN_NUMBER = 3 };

struct pattern_token { /* one character, or with `many` any number of characters */
  unsigned char kind, character;
  bool many;
};

/* A pattern, or its part between two slashes. */
struct pattern_part {
  const struct pattern_token *tokens;
  size_t count;
  size_t number; /* here PATTERN_NUMBER optional tokens begin, for the "-2" of a second segment of one time; or `count` */
};

struct pattern {
  struct pattern_token tokens[PATTERN_MOST];
  size_t count, number;
};

/* False: `problem` says which conversion cannot be recognised in a name, or why such names are not possible for segments. */
bool pattern_read(const char *text, struct pattern *pattern, char problem[PATTERN_PROBLEM]);
struct pattern_part pattern_whole(const struct pattern *pattern);
/* The part that begins at `*from`, which moves to the next part. False: there is no further part. */
bool pattern_next(const struct pattern *pattern, size_t *from, struct pattern_part *part);
/* Whether a part has no conversions. Then `text` receives its text. */
bool pattern_is_fixed(const struct pattern_part *part, char *text, size_t size);
bool pattern_takes(const struct pattern_part *part, const char *name, size_t length);
bool pattern_meets(const struct pattern_part *a, const struct pattern_part *b);

#endif
