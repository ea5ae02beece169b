/*
 * What is wrong with a pipeline or one of its ends, from the first time until it is mended: the last error of it, with when and
 * how often. Status shows it, and health follows from it. Written by one thread.
 */
#ifndef FRAMED_MEASURE_TROUBLE_H
#define FRAMED_MEASURE_TROUBLE_H

#include <stdint.h>

enum { TROUBLE_TEXT = 320, TROUBLE_REMEDY = 200 };

struct trouble { /* zero: nothing is wrong */
  uint64_t count;
  int64_t since, last;     /* CLOCK_MONOTONIC ns of the first time and of the last */
  char text[TROUBLE_TEXT]; /* of the last time: a sentence without a full stop */
  char remedy[TROUBLE_REMEDY];
};

/* Something went wrong, at `now`, once more. The remedy may be NULL. */
__attribute__((format(printf, 4, 5))) void trouble_note(struct trouble *trouble, int64_t now, const char *remedy,
                                                        const char *format, ...);
/* Replaces the words of the error. Its age and its count stand beside the text, and stay. */
__attribute__((format(printf, 3, 4))) void trouble_describe(struct trouble *trouble, const char *remedy, const char *format,
                                                            ...);
/* The same error, so many times more. */
void trouble_repeat(struct trouble *trouble, int64_t now, uint64_t times);
/* All is well again. */
void trouble_mend(struct trouble *trouble);

#endif
