/* Runs and compares; see shadow.h. */
#include "gpu/model/shadow.h"
#include "gpu/backend.h"
#include "gpu/model/private.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* The shadow rests so many times as long as it worked, to leave the processors to the frames. */
enum { REST = 9 };
static const struct timespec nap = {.tv_nsec = 1000000};

/* Taken: a frame is on its way to it. */
enum state { SHADOW_FREE, SHADOW_TAKEN, SHADOW_POSTED };

struct shadow {
  struct model *model, *other;
  unsigned char *place, *results[2];
  atomic_int state;
  const void *_Atomic owner; /* of the frame that it has, */
  const void *input;         /* and where that lies */
  pthread_t thread;
  sem_t wanted; /* a frame was posted, or it ends */
  atomic_bool ends;
  _Atomic uint64_t skipped, compared, failed, unlike, elements, rows, agreed;
  _Atomic double largest, sum;
};

/* -- comparing ---------------------------------------------------------------------------------------------------------- */

static double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) {
    return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
  }
  return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25));
}

#define READ_AS(type)                                                                                                          \
  do {                                                                                                                         \
    type value;                                                                                                                \
    memcpy(&value, memory + index * sizeof value, sizeof value);                                                               \
    return (double)value;                                                                                                      \
  } while (0)

static double element(enum element_type type, const unsigned char *memory, size_t index) {
  uint16_t half;
  switch (type) {
  case ELEMENT_FLOAT32:
    READ_AS(float);
  case ELEMENT_INT32:
    READ_AS(int32_t);
  case ELEMENT_INT64:
    READ_AS(int64_t);
  case ELEMENT_FLOAT16:
    memcpy(&half, memory + index * sizeof half, sizeof half);
    return half_value(half);
  default:
    return memory[index];
  }
}

static void note_difference(struct shadow *shadow, double one, double other) {
  double difference = one == other ? 0 : fabs(one - other); /* infinities that are equal differ by no number */
  bool both = isnan(one) && isnan(other);
  if (!both && !isfinite(difference)) {
    shadow->unlike++;
    return;
  }
  shadow->elements++;
  if (!both && difference > 0) {
    shadow->sum += difference;
    shadow->largest = difference > shadow->largest ? difference : shadow->largest;
  }
}

static size_t top_of(enum element_type type, const unsigned char *memory, size_t from, size_t count) {
  size_t top = 0;
  for (size_t i = 1; i < count; i++) {
    top = element(type, memory, from + i) > element(type, memory, from + top) ? i : top;
  }
  return top;
}

static void compare_output(struct shadow *shadow, unsigned index) {
  const struct model_tensor *tensor = &shadow->model->outputs[index];
  const size_t offset = shadow->model->parts.parts[index].offset, row = tensor->format.shape[tensor->format.rank - 1];
  const unsigned char *one = shadow->results[0] + offset, *other = shadow->results[1] + offset;
  const enum element_type type = tensor->format.dtype;
  const size_t count = tensor->bytes / format_element_bytes(type);
  for (size_t i = 0; i < count; i++) {
    note_difference(shadow, element(type, one, i), element(type, other, i));
  }
  for (size_t i = 0; i + row <= count && index == 0; i += row) {
    shadow->rows++;
    shadow->agreed += top_of(type, one, i, row) == top_of(type, other, i, row);
  }
}

/* -- its thread --------------------------------------------------------------------------------------------------------- */

static void compare(struct shadow *shadow) {
  struct gpu_error error;
  bool good = model_run(shadow->model, shadow->input, shadow->results[0], MODEL_ALL, &error) &&
              model_run(shadow->other, shadow->input, shadow->results[1], MODEL_ALL, &error);
  atomic_store(&shadow->owner, NULL);
  for (unsigned i = 0; i < shadow->model->output_count && good; i++) {
    compare_output(shadow, i);
  }
  shadow->compared += good;
  shadow->failed += !good;
}

/* Nothing is posted while it is not free: what ends the rest early is its own end. */
static void rest(struct shadow *shadow, int64_t worked) {
  int64_t until = gpu_now() + REST * worked;
  const struct timespec limit = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
  while (!shadow->ends && sem_clockwait(&shadow->wanted, CLOCK_MONOTONIC, &limit) != 0 && errno == EINTR) {
  }
}

static void *work(void *argument) {
  struct shadow *shadow = argument;
  while (!shadow->ends) {
    if (sem_wait(&shadow->wanted) == 0 && !shadow->ends) {
      int64_t began = gpu_now();
      compare(shadow);
      rest(shadow, gpu_now() - began);
      atomic_store(&shadow->state, SHADOW_FREE);
    }
  }
  return NULL;
}

static bool begin(struct shadow *shadow, struct gpu_error *error) {
  int code = gpu_thread_new(&shadow->thread, "framed-shadow", work, shadow);
  return code == 0 || gpu_error_set(error, code, "raise the limit on threads (ulimit -u, TasksMax=)",
                                    "cannot start a thread for %s", shadow->other->path);
}

/* -- making and freeing --------------------------------------------------------------------------------------------------- */

static void free_memory(struct shadow *shadow) {
  free(shadow->place);
  free(shadow->results[0]);
  free(shadow->results[1]);
  free(shadow);
}

struct shadow *shadow_new(struct model *model, struct model *other, struct gpu_error *error) {
  struct shadow *shadow = calloc(1, sizeof *shadow);
  if (!shadow) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a shadow");
    return NULL;
  }
  *shadow = (struct shadow){.model = model, .other = other};
  shadow->place = malloc(model->input.bytes);
  shadow->results[0] = malloc(parts_bytes(&model->parts));
  shadow->results[1] = malloc(parts_bytes(&model->parts));
  if (!shadow->place || !shadow->results[0] || !shadow->results[1]) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the frames of a shadow");
    free_memory(shadow);
    return NULL;
  }
  sem_init(&shadow->wanted, 0, 0);
  if (!begin(shadow, error)) {
    free_memory(shadow);
    return NULL;
  }
  model_hold(model);
  model_hold(other);
  return shadow;
}

struct shadow *shadow_free(struct shadow *shadow) {
  if (shadow) {
    shadow->ends = true;
    sem_post(&shadow->wanted);
    pthread_join(shadow->thread, NULL);
    sem_destroy(&shadow->wanted);
    model_release(shadow->model);
    model_release(shadow->other);
    free_memory(shadow);
  }
  return NULL;
}

const struct model *shadow_other(const struct shadow *shadow) { return shadow->other; }

/* -- frames -----------------------------------------------------------------------------------------------------------------
 */

bool shadow_wants(struct shadow *shadow) {
  bool wants = atomic_load_explicit(&shadow->state, memory_order_relaxed) == SHADOW_FREE;
  atomic_fetch_add_explicit(&shadow->skipped, !wants, memory_order_relaxed);
  return wants;
}

bool shadow_take(struct shadow *shadow, const void *owner) {
  int expected = SHADOW_FREE;
  bool taken = atomic_compare_exchange_strong(&shadow->state, &expected, SHADOW_TAKEN);
  if (taken) {
    atomic_store(&shadow->owner, owner);
  } else {
    atomic_fetch_add_explicit(&shadow->skipped, 1, memory_order_relaxed);
  }
  return taken;
}

void *shadow_place(struct shadow *shadow) { return shadow->place; }

void shadow_post(struct shadow *shadow, const void *input) {
  shadow->input = input ? input : shadow->place;
  atomic_store(&shadow->state, SHADOW_POSTED);
  sem_post(&shadow->wanted);
}

void shadow_leave(struct shadow *shadow, const void *owner) {
  while (atomic_load(&shadow->owner) == owner) {
    nanosleep(&nap, NULL);
  }
}

void shadow_report(struct shadow *shadow, struct shadow_report *report) {
  *report = (struct shadow_report){
      .file = shadow->other->path,
      .compared = shadow->compared,
      .skipped = shadow->skipped,
      .failed = shadow->failed,
      .largest = shadow->largest,
      .mean = shadow->elements > 0 ? shadow->sum / (double)shadow->elements : 0,
      .unlike = shadow->unlike,
      .agreement = shadow->rows > 0 ? (double)shadow->agreed / (double)shadow->rows : 0,
  };
}
