/*
 * A model on a device: what it computes is compared with what the CPU computes, and what frames cost is printed.
 *
 *     gpu-model [--cpu] FILE.onnx [SLOTS [INSTANCES [SESSIONS [FRAMES]]]]
 *
 * SLOTS (3) is of each of SESSIONS (1); with INSTANCES (3) of at least both together each slot has its own. FRAMES (1000) go
 * through all slots back to back, then some alone. Exit status 1: a result is wrong.
 */
#include "gpu/model/model.h"
#include "gpu/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_SESSIONS = 64, ALONE = 200 };

struct session {
  struct gpu_program *program;
  struct gpu_buffers slots[GPU_MAX_SLOTS];
};

static struct gpu_device *device;
static struct gpu_chain *chain;
static struct session sessions[MOST_SESSIONS];
static unsigned slot_count = 3, session_count = 1;
static size_t input_bytes, output_bytes;

static void require(bool good, const char *what, const struct gpu_error *error) {
  if (!good) {
    fprintf(stderr, "gpu-model: %s: %s (%s)\n", what, error->text, error->remedy);
    exit(1);
  }
}

static void wake(void *context) { (void)context; }

static size_t align(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/* Numbers as those of pictures: each session and slot has other ones. */
static void fill_input(void *input, const struct model_tensor *tensor, unsigned seed) {
  srand(seed);
  size_t count = format_samples(&tensor->format);
  for (size_t i = 0; i < count; i++) {
    if (tensor->format.dtype == ELEMENT_FLOAT32) {
      ((float *)input)[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    } else if (tensor->format.dtype == ELEMENT_UINT8) {
      ((unsigned char *)input)[i] = (unsigned char)rand();
    }
  }
}

static void open_session(unsigned index, const struct model_tensor *tensor) {
  struct session *session = &sessions[index];
  struct gpu_error error = {0};
  size_t bytes = slot_count * (align(input_bytes) + align(output_bytes));
  unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  require(memory != MAP_FAILED && gpu_pin(device, memory, bytes, &error), "memory", &error);
  for (unsigned i = 0; i < slot_count; i++) {
    unsigned char *slot = memory + i * (align(input_bytes) + align(output_bytes));
    session->slots[i] = (struct gpu_buffers){.input = slot, .output = slot + align(input_bytes)};
    fill_input(slot, tensor, 1 + index * slot_count + i);
  }
  const struct gpu_options options = {.wake = wake, .timed_one_in = GPU_TIMED_NEVER};
  int64_t begin = gpu_now();
  session->program = gpu_program_new(device, chain, session->slots, slot_count, &options, &error);
  require(session->program != NULL, "program", &error);
  int64_t made = gpu_now();
  require(gpu_program_warm_up(session->program, &error), "warm-up", &error);
  if (index < 2) {
    printf("session %u: made in %.0f ms, warmed up in %.0f ms, graphs: %s\n", index, (double)(made - begin) / 1e6,
           (double)(gpu_now() - made) / 1e6, gpu_program_graph(session->program) ? "yes" : "no");
  }
}

static int64_t submit(unsigned session, unsigned slot, uint64_t sequence) {
  struct gpu_error error;
  const struct gpu_frame frame = {.sequence = sequence, .restart = sequence == 0};
  int64_t begin = gpu_now();
  require(gpu_submit(sessions[session].program, slot, &frame, &error), "submit", &error);
  return gpu_now() - begin;
}

static void await(unsigned session, unsigned slot) {
  struct gpu_error error = {0};
  enum gpu_progress progress;
  do {
    progress = gpu_ask(sessions[session].program, slot, &error);
  } while (progress == GPU_PENDING);
  require(progress == GPU_DONE, "frame", &error);
}

/* Frames through every slot of every session, back to back. */
static void run_together(unsigned frames) {
  unsigned all = session_count * slot_count;
  int64_t begin = gpu_now(), within = 0;
  for (unsigned i = 0; i < frames + all; i++) {
    unsigned at = i % all;
    if (i >= all) {
      await(at % session_count, at / session_count);
    }
    if (i < frames) {
      within += submit(at % session_count, at / session_count, i / session_count);
    }
  }
  double seconds = (double)(gpu_now() - begin) / 1e9;
  printf("together: %u frames in %.3f s: %.0f frames/s; a lane's time to submit one: %.1f us\n", frames, seconds,
         frames / seconds, (double)within / frames / 1e3);
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void run_alone(void) {
  int64_t times[ALONE];
  for (unsigned i = 0; i < ALONE; i++) {
    int64_t begin = gpu_now();
    submit(0, i % slot_count, 1 + i);
    await(0, i % slot_count);
    times[i] = gpu_now() - begin;
  }
  qsort(times, ALONE, sizeof times[0], compare);
  printf("alone: p50 %.1f us, p99 %.1f us\n", (double)times[ALONE / 2] / 1e3, (double)times[ALONE * 99 / 100] / 1e3);
}

/* The largest difference of any slot from the CPU's result, as a share of the largest number in that. */
static double check_results(const struct model *model) {
  float *expected = malloc(output_bytes);
  const bool floats = model_output(model, 0)->format.dtype == ELEMENT_FLOAT32;
  double worst = 0;
  for (unsigned k = 0; k < session_count * slot_count && expected; k++) {
    const struct gpu_buffers *slot = &sessions[k / slot_count].slots[k % slot_count];
    struct gpu_error error;
    double difference = 0, largest = 1e-30;
    require(model_run(model, slot->input, expected, 0, &error), "the CPU", &error);
    if (!floats && memcmp(slot->output, expected, output_bytes) != 0) {
      difference = INFINITY;
    }
    for (size_t i = 0; i < output_bytes / sizeof *expected && floats; i++) {
      double result = (double)((const float *)slot->output)[i];
      difference = fmax(difference, isfinite(result) ? fabs(result - (double)expected[i]) : INFINITY);
      largest = fmax(largest, fabs((double)expected[i]));
    }
    worst = fmax(worst, difference / largest);
  }
  free(expected);
  return worst;
}

/* The first output, where there are several. */
static struct gpu_chain *make_chain(struct model *model, struct gpu_error *error) {
  struct gpu_stage_request request = {
      .stage = stage_about_find("model"), .resource = model, .users = slot_count * session_count};
  for (unsigned i = 0; i < request.stage->parameter_count; i++) {
    if (strcmp(request.stage->parameters[i].name, "output") == 0) {
      request.values[i] = (struct stage_value){.given = true, .text = model_output(model, 0)->name};
    }
  }
  return gpu_chain_new(&model_input(model)->format, &request, 1, error);
}

static unsigned number(int count, char **words, int index, unsigned otherwise) {
  return index < count ? (unsigned)strtoul(words[index], NULL, 10) : otherwise;
}

int main(int count, char **words) {
  bool cpu = count > 1 && strcmp(words[1], "--cpu") == 0;
  count -= cpu;
  words += cpu;
  struct gpu_error error = {0};
  struct model_settings settings = {.file = count > 1 ? words[1] : NULL, .instances = number(count, words, 3, 3)};
  unsigned frames = number(count, words, 5, 1000);
  if (!settings.file) {
    fputs("gpu-model [--cpu] FILE.onnx [SLOTS [INSTANCES [SESSIONS [FRAMES]]]]\n", stderr);
    return 64;
  }
  slot_count = number(count, words, 2, 3);
  session_count = number(count, words, 4, 1);
  if (slot_count < 1 || slot_count > GPU_MAX_SLOTS || session_count < 1 || session_count > MOST_SESSIONS) {
    fputs("gpu-model: too many slots or sessions\n", stderr);
    return 64;
  }
  int64_t begin = gpu_now();
  struct model *model = model_open(&settings, &error);
  require(model != NULL, "model", &error);
  int64_t opened = gpu_now();
  gpu_expect(slot_count * session_count);
  device = gpu_open(cpu ? GPU_BACKEND_CPU : GPU_BACKEND_CUDA, 0, 0, &error);
  require(device != NULL, "device", &error);
  printf("model opened in %.0f ms, device %s in %.0f ms\n", (double)(opened - begin) / 1e6, gpu_device_name(device),
         (double)(gpu_now() - opened) / 1e6);
  chain = make_chain(model, &error);
  require(chain != NULL, "chain", &error);
  input_bytes = model_input(model)->bytes;
  output_bytes = model_output(model, 0)->bytes;
  for (unsigned i = 0; i < session_count; i++) {
    open_session(i, model_input(model));
  }
  struct gpu_usage usage;
  gpu_usage(device, &usage);
  printf("device memory: %.1f MB\n", (double)usage.allocated / 1e6);
  run_together(frames);
  run_together(frames);
  run_alone();
  double difference = check_results(model);
  printf("difference from the CPU: %.2e of the largest number\n", difference);
  for (unsigned i = 0; i < session_count; i++) {
    gpu_program_free(sessions[i].program);
  }
  gpu_chain_free(chain);
  model_release(model);
  gpu_close(device);
  return difference < 0.02 ? 0 : 1;
}
