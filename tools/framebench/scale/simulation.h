/*
 * A discrete model of many cameras on many devices, frame by frame: what a frame waits for, and what it takes.
 *
 * A camera's frames take its slots; one that finds none waits for the first that is free. On its device a frame passes the
 * lane, the engine that copies in, the kernels and the engine that copies out, each of which takes frames as they come; between
 * lane and copy it passes what all devices of one host share. Cameras are dealt out over the devices in turn. All times are
 * microseconds, and each takes the same time for every frame.
 */
#ifndef FRAMED_FRAMEBENCH_SCALE_SIMULATION_H
#define FRAMED_FRAMEBENCH_SCALE_SIMULATION_H

#include "tools/framectl/common/problem.h"

#include <stdint.h>

enum simulation_step { SIMULATION_LANE, SIMULATION_HOST, SIMULATION_IN, SIMULATION_KERNEL, SIMULATION_OUT, SIMULATION_STEPS };

extern const char *const simulation_step_names[SIMULATION_STEPS];

struct simulation {
  unsigned cameras, slots; /* slots of each camera */
  double rate;             /* frames a second of each camera; 0: as soon as it has a slot */
  bool together;           /* cameras begin at any moment, else one after the other in equal steps */
  unsigned devices, devices_of_host;
  unsigned kernels; /* that a device runs at once */
  double service[SIMULATION_STEPS];
  double succession[SIMULATION_STEPS]; /* from one frame's start to the next one's, if that is not the service; 0: it is */
  double turnaround;                   /* from the copy out until the client has seen the result and its slot is free */
  double seconds;                      /* that are looked at, after a quarter of it */
};

struct simulated {
  uint64_t due, done;                     /* frames within these seconds */
  double frames_per_s, p50, p99, longest; /* the latency counts from when a frame was due */
  double busy[SIMULATION_STEPS];          /* share of the time, of the busiest of each kind */
};

/* Fits the times of frames that have others beside them to what a frame takes that is alone, from client to client: what that
 * has beyond its steps is the turnaround; where it has less, its steps take it less time, and only the next frames wait as
 * before. */
void simulation_fit(struct simulation *simulation, double alone);

/* False without memory. */
bool simulate(const struct simulation *simulation, struct simulated *simulated, struct problem *problem);

#endif
