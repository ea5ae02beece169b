/*
 * The names that a pattern with conversions of strftime(3) can become, such as cam0-%Y%m%d-%H%M%S.raw: whether a name is one of
 * them, and whether two patterns have one in common. The segments of a pipeline are found again by this, so that what is
 * counted, removed and finished is the same everywhere. The daemon has the C locale, in which each conversion has a form of its
 * own.
 */
#ifndef FRAMED_CONFIG_PATTERN_H
#define FRAMED_CONFIG_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum { PATTERN_MOST = 4608, PATTERN_PROBLEM = 96, PATTERN_NUMBER = 3 };

struct pattern_token { /* one character, or with `many` any number of such */
  unsigned char kind, character;
  bool many;
};

/* A part of a pattern: all of it, or what is between two slashes. */
struct pattern_part {
  const struct pattern_token *tokens;
  size_t count;
  size_t number; /* from here on PATTERN_NUMBER tokens may be absent: the "-2" of a second segment of one time; or `count` */
};

struct pattern {
  struct pattern_token tokens[PATTERN_MOST];
  size_t count, number;
};

/* False: `problem` says which conversion cannot be recognised in a name, or why segments cannot have such names. */
bool pattern_read(const char *text, struct pattern *pattern, char problem[PATTERN_PROBLEM]);
struct pattern_part pattern_whole(const struct pattern *pattern);
/* The part that begins at `*from`, which is then where the next one begins. False: there is no further part. */
bool pattern_next(const struct pattern *pattern, size_t *from, struct pattern_part *part);
/* Whether a part is just this text, without conversions, which is written to `text`. */
bool pattern_is_fixed(const struct pattern_part *part, char *text, size_t size);
bool pattern_takes(const struct pattern_part *part, const char *name, size_t length);
bool pattern_meets(const struct pattern_part *a, const struct pattern_part *b);

#endif
