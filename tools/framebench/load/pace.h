/* The due times of a client's frames, and the choice of measured frames. */
#ifndef FRAMED_FRAMEBENCH_LOAD_PACE_H
#define FRAMED_FRAMEBENCH_LOAD_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct load_pace {
  double rate;        /* frames per second of this client; 0: as fast as possible */
  unsigned in_flight; /* without a rate: limit of frames in flight; 0: as many as fit */
  bool spin;          /* neither thread sleeps */
  int64_t start;      /* CLOCK_MONOTONIC in ns: when frame 0 is due */
  int64_t from, to;   /* frames are measured that are due (without a rate: sent) between these times */
  int64_t give_up;    /* when the writer ends at the latest */
};

/* CLOCK_MONOTONIC in ns at which a frame is due; only with a rate. */
int64_t load_pace_due(const struct load_pace *pace, uint64_t number);
/* Whether frames that are due at that time are measured. */
bool load_pace_measures(const struct load_pace *pace, int64_t at);
/* With a rate: the number of frames from `first` on that are due by `now` and before the end, `most` at the most. */
unsigned load_pace_count(const struct load_pace *pace, uint64_t first, unsigned most, int64_t now);
/* With a rate: the number of measured frames, including those that could not be sent. */
uint64_t load_pace_offered(const struct load_pace *pace);

#endif
