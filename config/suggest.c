#include "config/suggest.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 48 }; /* longer words are no misspelt keys */

static unsigned smallest(unsigned a, unsigned b) { return a < b ? a : b; }

/* Optimal string alignment: insert, delete, replace, swap neighbours. Three rows of the table suffice. */
static unsigned distance(const char *a, const char *b) {
  size_t rows = strlen(a);
  size_t columns = strlen(b);
  unsigned table[3][LONGEST + 1];
  for (size_t j = 0; j <= columns; j++) {
    table[0][j] = (unsigned)j;
  }
  for (size_t i = 1; i <= rows; i++) {
    unsigned *row = table[i % 3];
    const unsigned *above = table[(i + 2) % 3];
    const unsigned *two_above = table[(i + 1) % 3];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= columns; j++) {
      unsigned replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = smallest(replaced, smallest(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = smallest(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return table[rows % 3][columns];
}

struct suggestion suggest_begin(const char *word) {
  /* a third of the letters may be wrong, but not all */
  size_t length = strlen(word);
  unsigned limit = length < 3 ? 1 : (unsigned)(length + 2) / 3;
  return (struct suggestion){.word = word, .distance = limit + 1};
}

void suggest_offer(struct suggestion *suggestion, const char *name) {
  size_t length = strlen(suggestion->word);
  if (length == 0 || length > LONGEST || strlen(name) > LONGEST) {
    return;
  }
  unsigned found = distance(suggestion->word, name);
  if (found < suggestion->distance && found < length) {
    suggestion->best = name;
    suggestion->distance = found;
  }
}

const char *suggest_text(const struct suggestion *suggestion, const char *otherwise, char text[SUGGEST_TEXT]) {
  if (!suggestion->best) {
    return otherwise;
  }
  snprintf(text, SUGGEST_TEXT, "did you mean '%s'?", suggestion->best);
  return text;
}
