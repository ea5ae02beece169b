#include "daemon/measure/meter.h"

#include <stdlib.h>

struct meter {
  unsigned count, next;
  struct reading readings[METER_READINGS];
};

struct meter *meter_new(void) {
  return calloc(1, sizeof(struct meter));
}

struct meter *meter_free(struct meter *meter) {
  free(meter);
  return NULL;
}

struct reading *meter_next(struct meter *meter) {
  struct reading *reading = &meter->readings[meter->next];
  meter->next = (meter->next + 1) % METER_READINGS;
  if (meter->count < METER_READINGS) {
    meter->count++;
  }
  return reading;
}

const struct reading *meter_latest(const struct meter *meter) {
  return meter->count > 0 ? &meter->readings[(meter->next + METER_READINGS - 1) % METER_READINGS] : NULL;
}

const struct reading *meter_oldest(const struct meter *meter) {
  return &meter->readings[meter->count < METER_READINGS ? 0 : meter->next];
}

void meter_restart(struct meter *meter) {
  const struct reading *latest = meter_latest(meter);
  if (latest && latest != &meter->readings[0]) {
    meter->readings[0] = *latest;
  }
  meter->count = meter->next = latest ? 1 : 0;
}

#define SHORTEST_WINDOW (NS_PER_S / 4)

static int64_t window_begin(const struct reading *now, const struct reading *before) {
  int64_t begin = before->at;
  if (before->ledger.in == 0 && now->began > begin) {
    begin = now->began < now->at - SHORTEST_WINDOW ? now->began : now->at - SHORTEST_WINDOW;
  }
  return begin > before->at ? begin : before->at;
}

struct meter_rates meter_rates(const struct reading *now, const struct reading *before) {
  struct meter_rates rates = {.seconds = (double)(now->at - window_begin(now, before)) / (double)NS_PER_S};
  if (rates.seconds <= 0) {
    return (struct meter_rates){0};
  }
  double shortest = (double)SHORTEST_WINDOW / (double)NS_PER_S;
  double over = rates.seconds < shortest ? shortest : rates.seconds;
  rates.in_fps = (double)(now->ledger.in - before->ledger.in) / over;
  rates.out_fps = (double)(now->ledger.fates[FATE_EMITTED] - before->ledger.fates[FATE_EMITTED]) / over;
  rates.in_bytes_per_s = (double)(now->ledger.in_bytes - before->ledger.in_bytes) / over;
  rates.out_bytes_per_s = (double)(now->ledger.out_bytes - before->ledger.out_bytes) / over;
  return rates;
}

static int64_t used_of(const struct reading *now, const struct reading *before, unsigned lane) {
  return before->lane_time[lane] > 0 ? now->lane_time[lane] - before->lane_time[lane] : 0;
}

double meter_lane_share(const struct reading *now, const struct reading *before) {
  int64_t busiest = 0;
  for (unsigned i = 0; i < METER_LANES; i++) {
    int64_t used = used_of(now, before, i);
    busiest = used > busiest ? used : busiest;
  }
  return now->at > before->at ? (double)busiest / (double)(now->at - before->at) : 0;
}

/* Time of a lane's thread is not measured per session. Each session gets a share according to its turns that moved frames. On a
 * lane that only writes results, the pipeline gets the time that the sessions there leave. */
static double own_time(const struct reading *now, const struct reading *before, unsigned lane) {
  double used = (double)used_of(now, before, lane), all = (double)(now->lane_work[lane] - before->lane_work[lane]);
  double own = (double)(now->lane_own[lane] - before->lane_own[lane]);
  if (now->lane_own[lane] == 0) {
    return used > all ? used - all : 0;
  }
  return own < all ? used * own / all : used;
}

double meter_host_share(const struct reading *now, const struct reading *before) {
  double most = 0, span = (double)(now->at - before->at);
  for (unsigned i = 0; i < METER_LANES && span > 0; i++) {
    double own = own_time(now, before, i);
    double left = span - ((double)used_of(now, before, i) - own);
    double share = own < left ? own / left : 1;
    most = own > 0 && share > most ? share : most;
  }
  return most;
}

double meter_worked_share(const struct reading *now, const struct reading *before) {
  unsigned lanes = 0;
  for (unsigned i = 0; i < METER_LANES; i++) {
    lanes += now->lane_time[i] > 0;
  }
  return now->at > before->at && lanes > 0 ? (double)(now->worked - before->worked) / (double)(now->at - before->at) / lanes
                                           : 0;
}
