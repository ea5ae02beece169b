#include "daemon/frame/canary.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/arena.h"
#include "daemon/measure/clock.h"

/* The output is 2 * in + 1, which fits into a byte for inputs up to LARGEST. */
enum { SIZE = 256, SCALE = 2, OFFSET = 1, LARGEST = 127 };

/* A canary takes some microseconds, so the thread polls often at first, and rarely once the canary is late. */
enum { SHORT_NAP_NS = 50000, LONG_NAP_NS = 2000000, PATIENT_LOOKS = 100 };

#define STANDSTILL       (300 * NS_PER_MS) /* a gap this long between two polls means that the whole process was stopped */
#define FIRST_PATIENCE   (30 * NS_PER_S)   /* as long as a warm-up may take */
#define WITHOUT_PATIENCE 0

struct canary {
  struct canary_setup setup;
  struct device_chain *chain;
  struct device_program *program;
  struct arena memory; /* one page for the input, one for the output */
  unsigned char *input, *output;
  uint64_t flights;
  unsigned generation; /* of the device, at the last canary */
  pthread_t thread;
  bool has_thread;
  sem_t wanted;
  _Atomic bool ending;
  _Atomic int64_t patience; /* ns for the canary under way; WITHOUT_PATIENCE: none is */
  _Atomic int64_t sent, returned, round_trip;
  char text[GPU_TEXT + 128];
  _Atomic bool failed; /* set after `text` */
};

/* -- one canary, on its thread ------------------------------------------------------------------------------------ */

static unsigned char sample(uint64_t flight, unsigned index) { return (unsigned char)((flight * 31 + index * 7) % LARGEST); }

static bool canary_compare(struct canary *canary, struct gpu_error *error) {
  for (unsigned i = 0; i < SIZE; i++) {
    int wanted = SCALE * sample(canary->flights, i) + OFFSET;
    if (canary->output[i] != wanted) {
      *error = (struct gpu_error){.stage = -1};
      snprintf(error->text, sizeof error->text, "it came back wrong: byte %u is %d and not %d", i, canary->output[i], wanted);
      return false;
    }
  }
  return true;
}

/* Completions of other frames show that the device works and that the canary only waits in a queue. */
static bool canary_is_late(const struct canary *canary, int64_t began, int64_t patience, int64_t now) {
  int64_t completion = canary->setup.completion ? atomic_load(canary->setup.completion) : 0;
  return now - (completion > began ? completion : began) > patience;
}

static bool canary_wait(struct canary *canary, int64_t patience, struct gpu_error *error) {
  int64_t began = clock_now(), before = began;
  for (unsigned looks = 0;; looks++) {
    int64_t now = clock_now();
    began += now - before > STANDSTILL ? now - before : 0;
    before = now;
    enum gpu_progress progress = device_ask(canary->program, 0, error);
    if (progress != GPU_PENDING || device_generation(canary->setup.device) != canary->generation) {
      return progress != GPU_DEAD; /* the worker was replaced: this says nothing about the new one */
    }
    if (canary_is_late(canary, began, patience, now)) {
      *error = (struct gpu_error){.stage = -1};
      snprintf(error->text, sizeof error->text, "it has not come back for %.3g s: the device hangs",
               (double)patience / (double)NS_PER_S);
      return false;
    }
    nanosleep(&(struct timespec){.tv_nsec = looks < PATIENT_LOOKS ? SHORT_NAP_NS : LONG_NAP_NS}, NULL);
  }
}

static bool fly(struct canary *canary, int64_t patience, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = canary->flights, .restart = true};
  for (unsigned i = 0; i < SIZE; i++) {
    canary->input[i] = sample(canary->flights, i);
  }
  memset(canary->output, 0, SIZE); /* no sample has the output 0 */
  canary->generation = device_generation(canary->setup.device);
  int64_t began = clock_now();
  atomic_store(&canary->sent, began);
  if (!device_submit(canary->program, 0, &frame, error) || !canary_wait(canary, patience, error)) {
    return false;
  }
  if (device_generation(canary->setup.device) == canary->generation && !canary_compare(canary, error)) {
    return false;
  }
  canary->flights++;
  int64_t now = clock_now();
  atomic_store(&canary->round_trip, now - began);
  atomic_store(&canary->returned, now);
  return true;
}

static void *canary_run(void *argument) {
  struct canary *canary = argument;
  struct gpu_error error;
  for (;;) {
    while (sem_wait(&canary->wanted) != 0) {
    }
    if (atomic_load(&canary->ending)) {
      return NULL;
    }
    if (!fly(canary, atomic_load(&canary->patience), &error)) {
      snprintf(canary->text, sizeof canary->text, "the canary on device %u failed: %s", canary->setup.number, error.text);
      /* ends all waits for the device; if it was abandoned before, the first reason stays */
      device_abandon(canary->setup.device, canary->text);
      atomic_store(&canary->failed, true);
    } else {
      atomic_store(&canary->patience, WITHOUT_PATIENCE);
    }
  }
}

/* -- set-up ------------------------------------------------------------------------------------------------------- */

static bool gpu_failure(const struct canary *canary, const struct gpu_error *error, struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, error->remedy, "the canary of device %u: %s", canary->setup.number,
                     error->text);
}

static bool make_chain(struct canary *canary, struct failure *failure) {
  struct gpu_error error = {0};
  const struct frame_format format = format_tensor(ELEMENT_UINT8, (const uint64_t[]){SIZE}, 1);
  const struct gpu_stage_request affine = {
      .stage = stage_about_find("affine"),
      .values = {{.given = true, .count = 1, .numbers = {SCALE}}, {.given = true, .count = 1, .numbers = {OFFSET}}},
  };
  canary->chain = device_chain_new(canary->setup.device, GPU_BACKEND_AUTO, &format, &affine, 1, &error);
  return canary->chain || gpu_failure(canary, &error, failure);
}

static bool canary_make_program(struct canary *canary, struct failure *failure) {
  static const struct device_caller nobody = {.lane = NULL};
  static const struct gpu_options options = {.graph = GPU_GRAPH_OFF, .timed_one_in = GPU_TIMED_NEVER, .order = GPU_ORDER_OFF};
  char name[64];
  struct gpu_error error = {0};
  snprintf(name, sizeof name, "framed:canary.%u", canary->setup.number);
  if (!arena_make(&canary->memory, name, SIZE, 2, canary->setup.device, failure)) {
    return false;
  }
  canary->input = canary->memory.base;
  canary->output = canary->memory.base + arena_stride(SIZE);
  const struct gpu_buffers buffers = {.input = canary->input, .output = canary->output};
  canary->program = device_program_new(canary->setup.device, canary->chain, &buffers, 1, &options, true, &nobody, &error);
  if (!canary->program) {
    return gpu_failure(canary, &error, failure);
  }
  if (!fly(canary, FIRST_PATIENCE, &error)) {
    device_abandon(canary->setup.device, error.text); /* ends all waits for the device */
    return gpu_failure(canary, &error, failure);
  }
  return true;
}

/* Blocks all signals in the canary's thread, because the control loop handles them. */
static bool canary_start_thread(struct canary *canary, struct failure *failure) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(&canary->thread, NULL, canary_run, canary);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  canary->has_thread = code == 0;
  if (!canary->has_thread) {
    return failure_set_system(failure, code, "raise the limit of threads (TasksMax)", "cannot start the canary of device %u",
                              canary->setup.number);
  }
  pthread_setname_np(canary->thread, "framed-canary");
  return true;
}

struct canary *canary_new(const struct canary_setup *setup, struct failure *failure) {
  struct canary *canary = calloc(1, sizeof *canary);
  if (!canary) {
    failure_set_memory(failure, "no memory for the canary of device %u", setup->number);
    return NULL;
  }
  canary->setup = *setup;
  canary->memory = ARENA_NONE;
  sem_init(&canary->wanted, 0, 0);
  if (!make_chain(canary, failure) || !canary_make_program(canary, failure) || !canary_start_thread(canary, failure)) {
    return canary_free(canary);
  }
  return canary;
}

struct canary *canary_free(struct canary *canary) {
  if (!canary) {
    return NULL;
  }
  if (canary->has_thread) {
    atomic_store(&canary->ending, true);
    sem_post(&canary->wanted);
    pthread_join(canary->thread, NULL);
  }
  device_program_free(canary->program);
  arena_drop(&canary->memory);
  device_chain_free(canary->chain);
  sem_destroy(&canary->wanted);
  free(canary);
  return NULL;
}

/* -- for other threads -------------------------------------------------------------------------------------------- */

void canary_revive(struct canary *canary) {
  if (atomic_load(&canary->failed)) {
    atomic_store(&canary->returned, clock_now());
    atomic_store(&canary->patience, WITHOUT_PATIENCE);
    atomic_store(&canary->failed, false);
  }
}

void canary_send(struct canary *canary, int64_t patience_ns) {
  int64_t none = WITHOUT_PATIENCE;
  if (atomic_compare_exchange_strong(&canary->patience, &none, patience_ns)) {
    sem_post(&canary->wanted);
  }
}

void canary_read(const struct canary *canary, struct canary_view *view) {
  /* read first: once it is false, the other values no longer change */
  bool under_way = atomic_load(&canary->patience) != WITHOUT_PATIENCE;
  *view = (struct canary_view){
      .under_way = under_way,
      .sent = atomic_load(&canary->sent),
      .returned = atomic_load(&canary->returned),
      .round_trip = atomic_load(&canary->round_trip),
      .failure = atomic_load(&canary->failed) ? canary->text : NULL,
  };
}
