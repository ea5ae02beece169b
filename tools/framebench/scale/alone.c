#include "tools/framebench/scale/alone.h"

#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/options.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/common/cuda_bare.h"
#endif

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

struct loop {
  const struct alone_setup *setup;
  unsigned number;   /* of its device */
  sem_t *ready, *go; /* it begins when all loops are set up, or one failed */
  pthread_t thread;
  bool done;
  double each; /* microseconds per frame */
  struct problem problem;
};

static void meet_others(const struct loop *loop) {
  sem_post(loop->ready);
  while (sem_wait(loop->go) != 0) { /* interrupted */
  }
}

#ifdef FRAMED_CUDA
static bool run_bare(struct loop *loop) {
  const struct bare_setup setup = {.chain = loop->setup->chain, .device = loop->number, .slots = loop->setup->slots};
  struct bare *bare = bare_new(&setup, &loop->problem);
  meet_others(loop);
  bool done = bare && bare_run_for(bare, loop->setup->seconds, &loop->each, &loop->problem);
  bare_free(bare);
  return done;
}
#endif

static bool run_engine(struct loop *loop) {
  const struct alone_setup *all = loop->setup;
  const struct engine_setup setup = {.chain = all->chain,
                                     .slots = all->slots,
                                     .completion = all->spin ? ENGINE_SPIN : ENGINE_CALLBACK,
                                     .timed_one_in = GPU_TIMED_NEVER};
  struct engine_figures figures = {0};
  struct engine *engine = engine_new(all->devices[loop->number], &setup, &loop->problem);
  meet_others(loop);
  bool done = engine && engine_run_time(engine, (int64_t)(all->seconds * 1e9), &figures, &loop->problem);
  loop->each = engine_each(&figures);
  engine_free(engine);
  return done;
}

static void *run(void *argument) {
  struct loop *loop = argument;
#ifdef FRAMED_CUDA
  loop->done = loop->setup->bare ? run_bare(loop) : run_engine(loop);
#else
  loop->done = run_engine(loop);
#endif
  return NULL;
}

/* Joins all loops, and returns the first problem. */
static bool join_loops(struct loop *loops, unsigned count, double *rate, struct problem *problem) {
  bool done = true;
  *rate = 0;
  for (unsigned i = 0; i < count; i++) {
    pthread_join(loops[i].thread, NULL);
    *rate += loops[i].each > 0 ? 1e6 / loops[i].each : 0;
    if (done && !loops[i].done) {
      *problem = loops[i].problem;
      done = false;
    } else {
      problem_clear(&loops[i].problem);
    }
  }
  return done;
}

bool alone_run(const struct alone_setup *setup, double *rate, struct problem *problem) {
  struct loop loops[OPTIONS_MOST_DEVICES];
  sem_t ready, go;
  unsigned begun = 0;
  int code = 0;
  sem_init(&ready, 0, 0);
  sem_init(&go, 0, 0);
  for (; begun < setup->count && code == 0; begun += code == 0) {
    loops[begun] = (struct loop){.setup = setup, .number = begun, .ready = &ready, .go = &go};
    code = pthread_create(&loops[begun].thread, NULL, run, &loops[begun]);
  }
  for (unsigned i = 0; i < begun; i++) {
    while (sem_wait(&ready) != 0) {
    }
  }
  for (unsigned i = 0; i < begun; i++) {
    sem_post(&go);
  }
  bool done = join_loops(loops, begun, rate, problem);
  sem_destroy(&ready);
  sem_destroy(&go);
  return code == 0 ? done : problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no thread for a device: %s", strerror(code));
}
