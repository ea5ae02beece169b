#include "tools/framebench/scale/simulation.h"

#include "tools/framebench/common/samples.h"

#include <stdlib.h>

const char *const simulation_step_names[SIMULATION_STEPS] = {"lane", "host", "copy in", "kernel", "copy out"};

enum { DUE = -1, SEEN = SIMULATION_STEPS, MOST_KERNELS = 64 };

struct event {
  double at, due;
  uint32_t camera;
  int32_t step; /* which it comes to; DUE: the camera has a frame; SEEN: its result is there */
};

struct station { /* one engine, or several that take frames from one queue */
  double free[MOST_KERNELS];
  double busy;
};

struct camera {
  double first;
  uint64_t due, begun; /* frames */
  unsigned under_way;
};

struct world {
  const struct simulation *plan;
  struct event *heap;
  size_t count;
  struct camera *cameras;
  struct station *stations[SIMULATION_STEPS];
  double from, to;
  struct samples late;
  struct simulated *figures;
};

void simulation_fit(struct simulation *simulation, double alone) {
  double sum = 0;
  for (int step = 0; step < SIMULATION_STEPS; step++) {
    sum += simulation->service[step];
  }
  for (int step = 0; step < SIMULATION_STEPS; step++) {
    double *service = &simulation->service[step], *succession = &simulation->succession[step];
    *succession = *succession > 0 ? *succession : *service;
    *service *= sum > alone ? alone / sum : 1;
  }
  simulation->turnaround = sum < alone ? alone - sum : 0;
}

/* -- what comes next ------------------------------------------------------------------------------------------------- */

static void add(struct world *world, struct event event) {
  size_t at = world->count++;
  for (; at > 0 && world->heap[(at - 1) / 2].at > event.at; at = (at - 1) / 2) {
    world->heap[at] = world->heap[(at - 1) / 2];
  }
  world->heap[at] = event;
}

static struct event take(struct world *world) {
  struct event first = world->heap[0], last = world->heap[--world->count];
  size_t at = 0, below;
  while ((below = 2 * at + 1) < world->count) {
    below += below + 1 < world->count && world->heap[below + 1].at < world->heap[below].at;
    if (world->heap[below].at >= last.at) {
      break;
    }
    world->heap[at] = world->heap[below];
    at = below;
  }
  world->heap[at] = last;
  return first;
}

/* -- a frame's way ---------------------------------------------------------------------------------------------------- */

static double period(const struct world *world) { return 1e6 / world->plan->rate; }

/* A frame that waits for a slot, or with no rate the next one at once. */
static void begin(struct world *world, uint32_t number, double now) {
  struct camera *camera = &world->cameras[number];
  bool free_running = world->plan->rate <= 0;
  while (camera->under_way < world->plan->slots && (free_running || camera->begun < camera->due)) {
    double due = free_running ? now : camera->first + (double)camera->begun * period(world);
    camera->begun++;
    camera->under_way++;
    add(world, (struct event){now, due, number, SIMULATION_LANE});
  }
}

static void come_due(struct world *world, const struct event *event) {
  struct camera *camera = &world->cameras[event->camera];
  world->figures->due += event->at >= world->from && event->at < world->to;
  camera->due++;
  add(world, (struct event){camera->first + (double)camera->due * period(world), 0, event->camera, DUE});
  begin(world, event->camera, event->at);
}

static bool come_out(struct world *world, const struct event *event) {
  bool counts = event->at >= world->from && event->at < world->to;
  world->cameras[event->camera].under_way--;
  begin(world, event->camera, event->at);
  world->figures->done += counts;
  return !counts || samples_add(&world->late, event->at - event->due);
}

/* Services take what they take, so the end is known as soon as a frame comes; whoever comes first is served first. */
static void pass(struct world *world, const struct event *event) {
  const struct simulation *plan = world->plan;
  unsigned device = event->camera % plan->devices, best = 0;
  struct station *station =
      &world->stations[event->step][event->step == SIMULATION_HOST ? device / plan->devices_of_host : device];
  for (unsigned i = 1; event->step == SIMULATION_KERNEL && i < plan->kernels; i++) {
    best = station->free[i] < station->free[best] ? i : best;
  }
  double start = event->at > station->free[best] ? event->at : station->free[best], end = start + plan->service[event->step];
  double next = plan->succession[event->step] > 0 ? plan->succession[event->step] : plan->service[event->step];
  station->free[best] = start + next;
  station->busy += start >= world->from && start < world->to ? next : 0;
  double rest = event->step == SIMULATION_OUT ? plan->turnaround : 0;
  add(world, (struct event){end + rest, event->due, event->camera, event->step + 1});
}

static bool run(struct world *world) {
  while (world->heap[0].at < world->to) { /* cameras never end */
    struct event event = take(world);
    if (event.step == DUE) {
      come_due(world, &event);
    } else if (event.step < SEEN) {
      pass(world, &event);
    } else if (!come_out(world, &event)) {
      return false;
    }
  }
  return true;
}

/* -- all of it --------------------------------------------------------------------------------------------------------- */

/* At any moment of a period, but at the same ones in each run. */
static double moment(const struct simulation *plan, unsigned number, uint64_t *state) {
  *state = *state * 6364136223846793005U + 1442695040888963407U;
  double share = plan->together ? (double)(*state >> 11) / 9007199254740992.0 : (double)number / plan->cameras;
  return plan->rate > 0 ? share * 1e6 / plan->rate : 0;
}

static void start(struct world *world) {
  uint64_t state = 1;
  for (unsigned i = 0; i < world->plan->cameras; i++) {
    world->cameras[i].first = moment(world->plan, i, &state);
    if (world->plan->rate > 0) {
      add(world, (struct event){world->cameras[i].first, 0, i, DUE});
    } else {
      begin(world, i, 0);
    }
  }
}

static void sum_up(struct world *world) {
  const struct simulation *plan = world->plan;
  struct simulated *figures = world->figures;
  figures->frames_per_s = (double)figures->done / plan->seconds;
  figures->p50 = samples_percentile(&world->late, 0.5);
  figures->p99 = samples_percentile(&world->late, 0.99);
  figures->longest = samples_percentile(&world->late, 1);
  for (int step = 0; step < SIMULATION_STEPS; step++) {
    unsigned servers = step == SIMULATION_KERNEL ? plan->kernels : 1;
    for (unsigned i = 0; i < plan->devices; i++) {
      double busy = world->stations[step][i].busy / (plan->seconds * 1e6 * servers);
      figures->busy[step] = busy > figures->busy[step] ? busy : figures->busy[step];
    }
  }
}

bool simulate(const struct simulation *wanted, struct simulated *simulated, struct problem *problem) {
  struct simulation plan = *wanted;
  plan.kernels = plan.kernels < 1 ? 1 : plan.kernels > MOST_KERNELS ? MOST_KERNELS : plan.kernels;
  *simulated = (struct simulated){0};
  struct world world = {.plan = &plan, .from = plan.seconds * 0.25e6, .to = plan.seconds * 1.25e6, .figures = simulated};
  world.heap = malloc((size_t)plan.cameras * (plan.slots + 1) * sizeof *world.heap);
  world.cameras = calloc(plan.cameras, sizeof *world.cameras);
  bool there = world.heap && world.cameras;
  for (int step = 0; step < SIMULATION_STEPS; step++) {
    world.stations[step] = calloc(plan.devices, sizeof *world.stations[step]);
    there = there && world.stations[step];
  }
  if (there) {
    start(&world);
    there = run(&world);
    sum_up(&world);
  }
  for (int step = 0; step < SIMULATION_STEPS; step++) {
    free(world.stations[step]);
  }
  samples_free(&world.late);
  free(world.cameras);
  free(world.heap);
  return there || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for so many cameras");
}
