#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/device/private.h"
#include "daemon/measure/clock.h"

static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  bool is_known;
  struct gpu_lacks lacks;
} seen[GPU_BACKEND_CPU + 1];

/* -- opening -------------------------------------------------------------------------------------------------------- */

struct process *device_hold(struct device *device) {
  pthread_mutex_lock(&device->lock);
  struct process *process = process_hold(device->process);
  pthread_mutex_unlock(&device->lock);
  return process;
}

void device_wake_lanes(struct device *device) {
  pthread_mutex_lock(&device->lock);
  for (const struct device_part *part = device->parts; part; part = part->next) {
    const struct device_caller *caller = &part->program->caller;
    if (caller->lane) {
      lane_wake(caller->lane, caller->runner);
    }
  }
  pthread_mutex_unlock(&device->lock);
}

static void on_lost(void *context) {
  struct device *device = context;
  atomic_store(&device->lost, true);
  pthread_mutex_lock(&device->lock);
  if (device->on_lost) {
    device->on_lost(device->on_lost_context);
  }
  pthread_mutex_unlock(&device->lock);
}

void device_on_lost(struct device *device, void (*lost)(void *context), void *context) {
  pthread_mutex_lock(&device->lock);
  device->on_lost = lost;
  device->on_lost_context = context;
  pthread_mutex_unlock(&device->lock);
}

static bool is_text(const char *text, size_t size) { return memchr(text, '\0', size) != NULL; }

static bool read_device(struct worker_message *answer, struct worker_device *is) {
  unpack_bytes(&answer->unpack, is, sizeof *is);
  return !answer->unpack.failed && is_text(is->backend, sizeof is->backend) && is_text(is->name, sizeof is->name) &&
         is_text(is->address, sizeof is->address) && is_text(is->calibration.address, sizeof is->calibration.address) &&
         is_text(is->lacks.shares, sizeof is->lacks.shares) && is_text(is->lacks.models, sizeof is->lacks.models) &&
         is->kernels_at_once > 0;
}

static void keep_lacks(enum gpu_backend_choice choice, const struct gpu_lacks *lacks) {
  pthread_mutex_lock(&seen_lock);
  seen[choice].lacks = *lacks;
  seen[choice].is_known = true;
  pthread_mutex_unlock(&seen_lock);
}

bool device_take(const struct device *device, struct process *process, struct worker_device *is, struct gpu_error *error) {
  struct worker_message answer;
  struct pack request = {.bytes = NULL};
  const struct device_setup *setup = &device->setup;
  struct worker_open open = {.choice = (uint32_t)setup->choice,
                             .index = setup->index,
                             .workers = setup->workers,
                             .slots = setup->slots,
                             .hurries = setup->hurries,
                             .is_known = setup->known != NULL,
                             .known = device->known,
                             .realtime = setup->realtime};
  const int counts = process_counts_memory(process);
  pack_bytes(&request, &open, sizeof open);
  bool opened = process_call(process, WORKER_OPEN, &request, &counts, 1, &answer, error);
  if (opened && !read_device(&answer, is)) {
    opened = device_no_memory(error);
  }
  worker_message_free(&answer);
  free(request.bytes);
  if (opened) {
    keep_lacks(setup->choice, &is->lacks);
  }
  return opened;
}

void device_watch(struct device *device) {
  process_on_lost(device->process, on_lost, device);
  if (process_is_lost(device->process, NULL)) {
    on_lost(device);
  }
}

/* Ends the worker if it cannot open the device. */
static bool open_on(struct device *device, struct gpu_error *error) {
  if (device->process && !device_take(device, device->process, &device->is, error)) {
    device->process = process_release(device->process);
  }
  return device->process != NULL;
}

struct device *device_open(const struct device_setup *setup, struct gpu_error *error) {
  struct process *standby;
  struct device *device = calloc(1, sizeof *device);
  if (!device) {
    device_no_memory(error);
    return NULL;
  }
  pthread_mutex_init(&device->lock, NULL);
  pthread_mutex_init(&device->making, NULL);
  pthread_mutex_init(&device->standing, NULL);
  device->setup = *setup;
  device->known = setup->known ? *setup->known : device->known;
  adopted_take(setup->index, &device->process, &standby);
  device->standby = standby;
  atomic_store(&device->standby_is, DEVICE_STANDBY_BARE);
  atomic_store(&device->standby_pid, standby ? process_id(standby) : 0);
  if (!open_on(device, error)) {
    device->process = judge_take(error);
    if (!open_on(device, error)) {
      return device_close(device);
    }
  }
  device->setup.known = &device->known; /* what was measured holds for every later worker, */
  device->known = device->is.calibration;
  device->setup.hurries = true; /* for which frames wait */
  device_watch(device);
  return device;
}

void device_drop_line(struct line_page **line) {
  if (*line) {
    munmap(*line, sizeof **line);
  }
  *line = NULL;
}

struct device *device_close(struct device *device) {
  if (!device) {
    return NULL;
  }
  process_release(device->process);
  process_release(device->standby);
  while (device->arenas) {
    struct device_arena *arena = device->arenas;
    device->arenas = arena->next;
    free(arena);
  }
  for (unsigned i = 0; i <= DEVICE_MOST_LANES; i++) {
    device_drop_line(&device->lines[i]);
    device_drop_line(&device->retired[i]);
  }
  if (device->silent) {
    munmap(device->silent, sizeof *device->silent);
  }
  pthread_mutex_destroy(&device->lock);
  pthread_mutex_destroy(&device->making);
  pthread_mutex_destroy(&device->standing);
  free(device);
  return NULL;
}

struct device *device_join(struct device *const *devices, unsigned count, struct gpu_error *error) {
  struct device *joint = calloc(1, sizeof *joint);
  if (!joint) {
    device_no_memory(error);
    return NULL;
  }
  pthread_mutex_init(&joint->lock, NULL);
  pthread_mutex_init(&joint->making, NULL);
  pthread_mutex_init(&joint->standing, NULL);
  joint->is = devices[0]->is;
  joint->member_count = count;
  memcpy(joint->members, devices, count * sizeof devices[0]);
  return joint;
}

/* -- questions ------------------------------------------------------------------------------------------------------ */

/* Asks the worker that judges configurations; false: there is no answer. */
static bool ask(const struct worker_look *look, struct worker_seen *found, struct gpu_error *error) {
  struct worker_message answer;
  struct pack request = {.bytes = NULL};
  struct process *process = judge_hold(error);
  *found = (struct worker_seen){.count = 0};
  if (!process) {
    return false;
  }
  pack_bytes(&request, look, sizeof *look);
  bool looked = process_call(process, WORKER_LOOK, &request, NULL, 0, &answer, error);
  if (looked) {
    unpack_bytes(&answer.unpack, found, sizeof *found);
    found->error.text[sizeof found->error.text - 1] = '\0';
    found->error.remedy[sizeof found->error.remedy - 1] = '\0';
    found->lacks.shares[sizeof found->lacks.shares - 1] = '\0';
    found->lacks.models[sizeof found->lacks.models - 1] = '\0';
    found->trouble[sizeof found->trouble - 1] = '\0';
    looked = !answer.unpack.failed;
  }
  worker_message_free(&answer);
  free(request.bytes);
  process_release(process);
  return looked;
}

static bool look(enum gpu_backend_choice choice, unsigned cpus, unsigned index, struct worker_seen *found,
                 struct gpu_error *error) {
  const struct worker_look look = {.choice = (uint32_t)choice, .cpus = cpus, .index = index};
  return ask(&look, found, error);
}

void device_add_trouble(const char *address, char *text, size_t size) {
  struct worker_seen found;
  struct gpu_error error;
  struct worker_look look = {.choice = GPU_BACKEND_AUTO};
  snprintf(look.address, sizeof look.address, "%s", address);
  size_t length = strlen(text);
  if (*address && ask(&look, &found, &error) && *found.trouble) {
    snprintf(text + length, size - length, "; %s", found.trouble);
  }
}

unsigned device_count(enum gpu_backend_choice choice, unsigned cpus) {
  struct worker_seen found;
  struct gpu_error error;
  return choice == GPU_BACKEND_CPU || !look(choice, cpus, 0, &found, &error) ? cpus : found.count;
}

bool device_usable(enum gpu_backend_choice choice, unsigned index, struct gpu_error *error) {
  struct worker_seen found;
  if (!look(choice, 1, index, &found, error)) {
    return false;
  }
  *error = found.is_usable ? *error : found.error;
  return found.is_usable != 0;
}

void device_find_lacks(enum gpu_backend_choice choice, struct gpu_lacks *lacks) {
  struct worker_seen found;
  struct gpu_error error;
  pthread_mutex_lock(&seen_lock);
  bool is_known = seen[choice].is_known;
  *lacks = seen[choice].lacks;
  pthread_mutex_unlock(&seen_lock);
  if (!is_known && look(choice, 1, 0, &found, &error)) {
    keep_lacks(choice, &found.lacks);
    *lacks = found.lacks;
  }
}

const char *device_backend_name(const struct device *device) { return device->is.backend; }

const char *device_name(const struct device *device) { return device->is.name; }

const char *device_address(const struct device *device) { return device->is.address; }

int device_node(const struct device *device, unsigned slot) {
  return device->member_count > 0 ? device->members[slot % device->member_count]->is.node : device->is.node;
}

unsigned device_kernels_at_once(const struct device *device) { return device->is.kernels_at_once; }

void device_calibration(const struct device *device, struct gpu_calibration *calibration) {
  *calibration = device->is.calibration;
}

bool device_memory(const struct device *device, size_t *available, size_t *total) {
  struct process *process = device_hold((struct device *)(uintptr_t)device);
  const struct worker_counts *counts = process_counts(process);
  *available = atomic_load_explicit(&counts->available, memory_order_relaxed);
  *total = atomic_load_explicit(&counts->total, memory_order_relaxed);
  process_release(process);
  return *total > 0 && *available <= *total && !device_is_lost(device);
}

void device_usage(const struct device *device, struct gpu_usage *usage) {
  struct device *own = (struct device *)(uintptr_t)device;
  struct process *process = device_hold(own);
  *usage = (struct gpu_usage){.allocated = atomic_load_explicit(&process_counts(process)->allocated, memory_order_relaxed)};
  process_release(process);
  pthread_mutex_lock(&own->lock);
  for (const struct device_arena *arena = device->arenas; arena; arena = arena->next) {
    usage->pinned += arena->bytes;
  }
  pthread_mutex_unlock(&own->lock);
}

struct device_canary device_canary(struct device *device, int64_t period) {
  struct process *process = device_hold(device);
  struct worker_counts *counts = process_counts(process);
  atomic_store(&counts->canary_period, period);
  struct device_canary canary = {.answered = atomic_load(&counts->answered), .took = atomic_load(&counts->answer_took)};
  process_release(process);
  const bool is_sound =
      canary.answered > 0 && canary.answered <= clock_now() && canary.took >= 0 && canary.took < canary.answered;
  return is_sound ? canary : (struct device_canary){0};
}

/* Asked for every now and then, it is read again and again. */
const double *device_figures(struct device *device) {
  struct process *process = device_hold(device);
  struct worker_counts *counts = process_counts(process);
  atomic_store(&counts->wants_figures, 1);
  bool known = atomic_load(&counts->has_figures) != 0;
  for (int i = 0; i < NVML_FIGURES; i++) {
    device->figures[i] = atomic_load_explicit(&counts->figures[i], memory_order_relaxed);
  }
  process_release(process);
  return known ? device->figures : NULL;
}

/* -- the end of a worker -------------------------------------------------------------------------------------------- */

void device_abandon(struct device *device, const struct gpu_error *reason) {
  if (device->member_count == 0) {
    struct process *process = device_hold(device);
    if (!atomic_exchange(&device->lost, true)) { /* else its worker is being replaced */
      process_kill(process, reason);
    }
    process_release(process);
  }
  for (unsigned i = 0; i < device->member_count; i++) {
    device_abandon(device->members[i], reason);
  }
}

/* What is told of a worker's end may come later than its end. */
static bool has_ended(struct device *device) {
  struct process *process = device_hold(device);
  bool ended = process_is_lost(process, NULL);
  process_release(process);
  return ended;
}

pid_t device_worker(struct device *device) {
  struct process *process = device_hold(device);
  const pid_t pid = atomic_load(&device->lost) || process_is_lost(process, NULL) ? 0 : process_id(process);
  process_release(process);
  return pid;
}

bool device_is_lost(const struct device *device) {
  bool lost = atomic_load(&device->lost) || (device->member_count == 0 && has_ended((struct device *)(uintptr_t)device));
  for (unsigned i = 0; i < device->member_count; i++) {
    lost = lost || device_is_lost(device->members[i]);
  }
  return lost;
}

bool device_lives(const struct device *device, struct gpu_error *cause) {
  bool lives = true;
  if (!cause) {
    return !device_is_lost(device);
  }
  if (device->member_count == 0 && device_is_lost(device)) {
    struct process *process = device_hold((struct device *)(uintptr_t)device);
    *cause = (struct gpu_error){.stage = -1, .text = "its worker is being replaced"};
    (void)process_is_lost(process, cause);
    process_release(process);
    lives = false;
  }
  for (unsigned i = 0; i < device->member_count && lives; i++) {
    lives = device_lives(device->members[i], cause);
  }
  return lives;
}

void device_calm(struct device *device) {
  struct pack request = {.bytes = NULL};
  struct gpu_error error;
  struct process *process = device_hold(device);
  (void)process_tell(process, WORKER_CALM, &request, &error); /* one that is lost needs none */
  process_release(process);
}

void device_leave(struct device *device, struct device_left *left) {
  *left = (struct device_left){.serves = {.version = 0}};
  struct process *process = device_hold(device);
  process_leave(process, &left->serves);
  process_release(process);
  if (pthread_mutex_trylock(&device->standing) == 0) { /* else it is being prepared, and ends */
    if (device->standby) {
      process_leave(device->standby, &left->stands_by);
    }
    pthread_mutex_unlock(&device->standing);
  }
}

bool device_is_adopted(struct device *device) {
  struct process *process = device_hold(device);
  bool is_adopted = process_is_adopted(process);
  process_release(process);
  return is_adopted;
}

bool device_is_outdated(struct device *device) {
  struct process *process = device_hold(device);
  bool is_outdated = process_is_outdated(process);
  process_release(process);
  return is_outdated;
}

void device_stay(void) { process_stay(); }

void device_end_all(void) {
  device_judge_end();
  process_end_others();
}

bool device_failure(struct failure *failure, const struct gpu_error *error, const char *about, ...) {
  char text[GPU_TEXT] = "";
  va_list arguments;
  va_start(arguments, about);
  if (about) {
    vsnprintf(text, sizeof text, about, arguments);
  }
  va_end(arguments);
  failure_set(failure, EXIT_STATUS_INTERNAL, error->remedy, "%s%s%s", text, about ? ": " : "", error->text);
  if (error->of_system) {
    failure->passes = failure_passes(error->code);
  }
  return false;
}
