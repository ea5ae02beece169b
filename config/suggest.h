/* "Did you mean": the nearest of some names by the Damerau-Levenshtein distance (swapped neighbours count once). */
#ifndef FRAMED_CONFIG_SUGGEST_H
#define FRAMED_CONFIG_SUGGEST_H

#include <stddef.h>

struct suggestion {
  const char *word, *best; /* best: the nearest name so far, or NULL if none is near enough */
  unsigned distance;
};

enum { SUGGEST_TEXT = 160 };

struct suggestion suggest_begin(const char *word);
void suggest_offer(struct suggestion *suggestion, const char *name);
/* Writes "did you mean 'slots'?" to `text`, or returns `otherwise`. */
const char *suggest_text(const struct suggestion *suggestion, const char *otherwise, char text[SUGGEST_TEXT]);

#endif
