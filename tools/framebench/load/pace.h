/* When the frames of a client are due, and which of them are measured. */
#ifndef FRAMED_FRAMEBENCH_LOAD_PACE_H
#define FRAMED_FRAMEBENCH_LOAD_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct load_pace {
  double rate;        /* frames a second of this client; 0: as fast as they are taken */
  unsigned in_flight; /* without a rate: no more than so many at once; 0: as many as fit */
  bool spin;          /* neither thread ever sleeps */
  int64_t start;      /* CLOCK_MONOTONIC in ns: when frame 0 is due, */
  int64_t from, to;   /* and those frames are measured that are due (without a rate: sent) in between */
  int64_t give_up;    /* when the writer ends at the latest, whatever was due */
};

/* CLOCK_MONOTONIC in ns at which a frame is due; only with a rate. */
int64_t load_pace_due(const struct load_pace *pace, uint64_t number);
/* Whether frames that are due at that time are measured. */
bool load_pace_measures(const struct load_pace *pace, int64_t at);
/* With a rate: how many frames from `first` on are due by now and before the end, `most` at the most. */
unsigned load_pace_count(const struct load_pace *pace, uint64_t first, unsigned most, int64_t now);
/* With a rate: the frames that are measured, also those that could not be sent any more. */
uint64_t load_pace_offered(const struct load_pace *pace);

#endif
