#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* -- device and program ------------------------------------------------------------------------------------------- */

static int64_t seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static void nap(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

static void count_wake(void *context) { atomic_fetch_add(&((struct rig *)context)->wakes, 1); }

void rig_open_backend(struct rig *rig, enum gpu_backend_choice choice, unsigned workers) {
  struct gpu_error error;
  *rig = (struct rig){0};
  rig->device = gpu_open(choice, 0, workers, &error);
  ck_assert_msg(rig->device != NULL, "%s: %s", error.text, error.remedy);
}

void rig_open(struct rig *rig, unsigned workers) { rig_open_backend(rig, GPU_BACKEND_CPU, workers); }

static size_t whole(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/* All inputs, then all outputs, in one pinned memfd, as a session has them. */
static void map_memory(struct rig *rig) {
  struct gpu_error error;
  int fd = memfd_create("rig", MFD_CLOEXEC);
  rig->memory_bytes = rig->slots * (whole(rig->input_bytes) + whole(rig->output_bytes));
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(ftruncate(fd, (off_t)rig->memory_bytes), 0);
  void *memory = mmap(NULL, rig->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  ck_assert_ptr_ne(memory, MAP_FAILED);
  close(fd);
  rig->memory = memory;
  ck_assert_msg(gpu_pin(rig->device, rig->memory, rig->memory_bytes, &error), "%s", error.text);
}

void rig_program_of(struct rig *rig, unsigned slots, struct gpu_chain *chain) {
  struct gpu_error error;
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  const struct frame_format *input = gpu_chain_input(chain);
  rig->chain = chain;
  rig->slots = slots;
  ck_assert(format_bytes(input, &rig->input_bytes));
  ck_assert(format_bytes(gpu_chain_output(chain), &rig->output_bytes));
  map_memory(rig);
  for (unsigned i = 0; i < slots; i++) {
    rig->input[i] = rig->memory + i * whole(rig->input_bytes);
    rig->output[i] = rig->memory + slots * whole(rig->input_bytes) + i * whole(rig->output_bytes);
    buffers[i] = (struct gpu_buffers){.input = rig->input[i], .output = rig->output[i]};
  }
  struct gpu_options options = rig->options;
  options.wake = count_wake;
  options.context = rig;
  rig->program = gpu_program_new(rig->device, chain, buffers, slots, &options, &error);
  ck_assert_msg(rig->program != NULL, "%s", error.text);
}

void rig_program(struct rig *rig, unsigned slots, const struct stage_descriptor *const *stages) {
  struct gpu_error error;
  struct gpu_stage_request requests[GPU_MAX_STAGES] = {0};
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){RIG_WIDTH}, 1);
  unsigned count = 0;
  while (stages[count]) {
    requests[count].own = stages[count];
    count++;
  }
  struct gpu_chain *chain = gpu_chain_new(&format, requests, count, &error);
  ck_assert_msg(chain != NULL, "%s", error.text);
  rig_program_of(rig, slots, chain);
}

void rig_free_program(struct rig *rig) {
  rig->program = gpu_program_free(rig->program);
  rig->chain = gpu_chain_free(rig->chain);
  if (rig->memory) {
    gpu_unpin(rig->device, rig->memory, rig->memory_bytes);
    munmap(rig->memory, rig->memory_bytes);
    rig->memory = NULL;
  }
}

void rig_close(struct rig *rig) {
  rig_free_program(rig);
  rig->device = gpu_close(rig->device);
}

void rig_submit(struct rig *rig, unsigned slot, uint64_t sequence, bool notify) {
  struct gpu_error error;
  struct gpu_frame frame = {.sequence = sequence, .restart = sequence == 0, .notify = notify};
  ck_assert_msg(gpu_submit(rig->program, slot, &frame, &error), "%s", error.text);
}

enum gpu_progress rig_wait(struct rig *rig, unsigned slot, struct gpu_error *error) {
  int64_t limit = seconds() + RIG_PATIENCE_S;
  enum gpu_progress progress;
  while ((progress = gpu_ask(rig->program, slot, error)) == GPU_PENDING) {
    ck_assert_msg(seconds() < limit, "slot %u is never done", slot);
    nap(20000);
  }
  return progress;
}

void rig_finish(struct rig *rig, unsigned slot) {
  struct gpu_error error = {.text = ""};
  ck_assert_msg(rig_wait(rig, slot, &error) == GPU_DONE, "%s", error.text);
}

void rig_wait_for_wakes(struct rig *rig, int count) {
  int64_t limit = seconds() + RIG_PATIENCE_S;
  while (atomic_load(&rig->wakes) < count) {
    ck_assert_msg(seconds() < limit, "woken %d times, not %d", atomic_load(&rig->wakes), count);
    nap(20000);
  }
}

/* -- stages ------------------------------------------------------------------------------------------------------- */

static bool keep(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = plan->input;
  return true;
}

static bool keep_and_count(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  plan->state_bytes = sizeof(uint64_t);
  return keep(plan, values, problem);
}

static void copy(const struct stage_plan *plan, const struct stage_call *call) {
  memcpy(call->output, call->input, plan->input_bytes);
}

static void increment(const struct stage_plan *plan, const struct stage_call *call) {
  for (size_t i = 0; i < plan->input_bytes; i++) {
    ((unsigned char *)call->output)[i] = (unsigned char)(((const unsigned char *)call->input)[i] + 1);
  }
}

static void jitter(const struct stage_plan *plan, const struct stage_call *call) {
  nap((long)((call->sequence * 2654435761U >> 7) % 5) * 40000);
  copy(plan, call);
}

static void count(const struct stage_plan *plan, const struct stage_call *call) {
  uint64_t *frames = call->state;
  copy(plan, call);
  memcpy(call->output, frames, sizeof *frames);
  (*frames)++;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int met;
static bool open_gate;

static void meet(const struct stage_plan *plan, const struct stage_call *call) {
  pthread_mutex_lock(&lock);
  met++;
  pthread_cond_broadcast(&changed);
  while (met < 2) {
    pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
  copy(plan, call);
}

static void gate(const struct stage_plan *plan, const struct stage_call *call) {
  pthread_mutex_lock(&lock);
  while (call->sequence == 0 && !open_gate) {
    pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
  copy(plan, call);
}

void rig_gate_set(bool open) {
  pthread_mutex_lock(&lock);
  open_gate = open;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

const struct stage_descriptor rig_increment = {STAGE_UNLISTED("increment"), .prepare = keep, .run = increment};
const struct stage_descriptor rig_jitter = {STAGE_UNLISTED("jitter"), .prepare = keep, .run = jitter};
const struct stage_descriptor rig_count = {STAGE_UNLISTED("count"), .prepare = keep_and_count, .run = count};
const struct stage_descriptor rig_meet = {STAGE_UNLISTED("meet"), .prepare = keep, .run = meet};
const struct stage_descriptor rig_gate = {STAGE_UNLISTED("gate"), .prepare = keep, .run = gate};
