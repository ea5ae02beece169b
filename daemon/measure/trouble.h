/*
 * The current error of a pipeline or of one of its ends, from the first time until it is cleared, with time and count. Status
 * and health show it. Written by one thread.
 */
#ifndef FRAMED_MEASURE_TROUBLE_H
#define FRAMED_MEASURE_TROUBLE_H

#include <stdint.h>

enum { TROUBLE_TEXT = 320, TROUBLE_REMEDY = 200 };

struct trouble { /* zero: no error */
  uint64_t count;
  int64_t since, last;     /* CLOCK_MONOTONIC ns of the first and the last time */
  char text[TROUBLE_TEXT]; /* of the last time: a sentence without a full stop */
  char remedy[TROUBLE_REMEDY];
};

/* Counts an error at `now`. The remedy may be NULL. */
__attribute__((format(printf, 4, 5))) void trouble_note(struct trouble *trouble, int64_t now, const char *remedy,
                                                        const char *format, ...);
/* Replaces the text. Age and count stay, because they are shown separately. */
__attribute__((format(printf, 3, 4))) void trouble_describe(struct trouble *trouble, const char *remedy, const char *format,
                                                            ...);
/* Counts the same error `times` more. */
void trouble_repeat(struct trouble *trouble, int64_t now, uint64_t times);
/* Clears the error. */
void trouble_clear(struct trouble *trouble);

#endif
