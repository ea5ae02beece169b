#include "tools/framebench/common/engine.h"

#include "tools/framebench/common/options.h"
#include "tools/framebench/common/samples.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };
/* A frame whose first query ends within this time was finished already. */
#define AT_ONCE_NS 200

struct engine {
  struct gpu_device *device;
  struct gpu_program *program;
  struct engine_setup setup;
  unsigned char *memory; /* of all slots: inputs, then outputs */
  size_t memory_bytes;
  bool pinned;
  int event, epoll;
  uint64_t sequence; /* of the next frame */
};

/* -- making --------------------------------------------------------------------------------------------------------- */

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static bool take_memory(struct engine *engine, size_t bytes, struct problem *problem) {
  int file = engine->setup.pageable ? -1 : memfd_create("framebench", MFD_CLOEXEC);
  int flags = engine->setup.pageable ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void *memory = MAP_FAILED;
  if (engine->setup.pageable || (file >= 0 && ftruncate(file, (off_t)bytes) == 0)) {
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, file, 0);
  }
  int code = errno;
  if (file >= 0) {
    close(file);
  }
  if (memory == MAP_FAILED) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%zu bytes for slots: %s", bytes, strerror(code));
    return false;
  }
  engine->memory = memory;
  engine->memory_bytes = bytes;
  return true;
}

static bool pin(struct engine *engine, struct problem *problem) {
  struct gpu_error error;
  engine->pinned = !engine->setup.pageable;
  if (engine->pinned && !gpu_pin(engine->device, engine->memory, engine->memory_bytes, &error)) {
    engine->pinned = false;
    return options_gpu_problem(&error, problem);
  }
  return true;
}

static bool open_event(struct engine *engine, struct problem *problem) {
  struct epoll_event interest = {.events = EPOLLIN};
  engine->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  engine->epoll = epoll_create1(EPOLL_CLOEXEC);
  return (engine->event >= 0 && engine->epoll >= 0 && epoll_ctl(engine->epoll, EPOLL_CTL_ADD, engine->event, &interest) == 0) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "an eventfd: %s", strerror(errno));
}

static void wake(void *context) {
  const struct engine *engine = context;
  const uint64_t one = 1;
  while (write(engine->event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

static bool make_program(struct engine *engine, size_t input_bytes, size_t output_bytes, struct problem *problem) {
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  struct gpu_error error;
  unsigned slots = engine->setup.slots;
  for (unsigned i = 0; i < slots; i++) {
    buffers[i].input = engine->memory + i * whole_pages(input_bytes);
    if (engine->setup.frame) {
      memcpy(engine->memory + i * whole_pages(input_bytes), engine->setup.frame, input_bytes);
    }
    buffers[i].output = engine->memory + slots * whole_pages(input_bytes) + i * whole_pages(output_bytes);
  }
  const struct gpu_options options = {
      .wake = wake,
      .context = engine,
      .notify = engine->setup.completion == ENGINE_CALLBACK,
      .graph = engine->setup.graph,
      .order = engine->setup.order,
      .timed_one_in = engine->setup.timed_one_in,
      .weigh = engine->setup.weigh,
  };
  engine->program = gpu_program_new(engine->device, engine->setup.chain, buffers, slots, &options, &error);
  return (engine->program && gpu_program_warm_up(engine->program, &error)) || options_gpu_problem(&error, problem);
}

static bool set_up(struct engine *engine, struct problem *problem) {
  size_t input_bytes = 0, output_bytes = 0;
  if (!format_bytes(gpu_chain_input(engine->setup.chain), &input_bytes) ||
      !format_bytes(gpu_chain_output(engine->setup.chain), &output_bytes)) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "a frame of that format is empty or too large");
  }
  return take_memory(engine, engine->setup.slots * (whole_pages(input_bytes) + whole_pages(output_bytes)), problem) &&
         pin(engine, problem) && open_event(engine, problem) && make_program(engine, input_bytes, output_bytes, problem);
}

struct engine *engine_new(struct gpu_device *device, const struct engine_setup *setup, struct problem *problem) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (!engine) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for an engine");
    return NULL;
  }
  *engine = (struct engine){.device = device, .setup = *setup, .event = -1, .epoll = -1};
  return set_up(engine, problem) ? engine : engine_free(engine);
}

struct engine *engine_free(struct engine *engine) {
  if (!engine) {
    return NULL;
  }
  gpu_program_free(engine->program);
  if (engine->pinned) {
    gpu_unpin(engine->device, engine->memory, engine->memory_bytes);
  }
  if (engine->memory) {
    munmap(engine->memory, engine->memory_bytes);
  }
  if (engine->epoll >= 0) {
    close(engine->epoll);
  }
  if (engine->event >= 0) {
    close(engine->event);
  }
  free(engine);
  return NULL;
}

/* -- running -------------------------------------------------------------------------------------------------------- */

/* Only a query of the device shows that it is dead. */
static bool is_alive(const struct engine *engine, unsigned slot, struct problem *problem) {
  struct gpu_error error;
  return gpu_ask(engine->program, slot, &error) != GPU_DEAD || options_gpu_problem(&error, problem);
}

/* Sleeps until a callback has written, for any slot. A dead device makes no callback. */
static bool sleep_until_woken(const struct engine *engine, unsigned slot, struct problem *problem) {
  enum { PATIENCE_MS = 1000 };
  struct epoll_event event;
  uint64_t count;
  int ready = epoll_wait(engine->epoll, &event, 1, PATIENCE_MS);
  if (ready < 0 && errno != EINTR) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "epoll_wait: %s", strerror(errno));
  }
  if (ready == 0) {
    return is_alive(engine, slot, problem);
  }
  return ready < 0 || read(engine->event, &count, sizeof count) == (ssize_t)sizeof count ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "reading an eventfd: %s", strerror(errno));
}

static bool await_told(const struct engine *engine, unsigned slot, bool *slept, struct problem *problem) {
  while (gpu_told(engine->program, slot) != GPU_DONE) {
    *slept = true;
    if (!sleep_until_woken(engine, slot, problem)) {
      return false;
    }
  }
  return true;
}

/* `last`, if not NULL, receives the time at which the successful query began. */
static bool await_asking(const struct engine *engine, unsigned slot, int64_t *last, struct problem *problem) {
  struct gpu_error error;
  enum gpu_progress progress;
  do {
    if (last) {
      *last = samples_now();
    }
    progress = gpu_ask(engine->program, slot, &error);
  } while (progress == GPU_PENDING);
  return progress == GPU_DONE || options_gpu_problem(&error, problem);
}

/*
 * `waited`, if not NULL, receives the ns of waiting for the frame, or 0 if it was finished. With polling, the successful query
 * counts as work, not as waiting: every frame needs it, and it takes longer than the others.
 */
static bool await(const struct engine *engine, unsigned slot, int64_t *waited, struct problem *problem) {
  const int64_t before = waited ? samples_now() : 0;
  int64_t last = before;
  bool slept = false, polls = engine->setup.completion == ENGINE_SPIN;
  if (polls ? !await_asking(engine, slot, waited ? &last : NULL, problem) : !await_told(engine, slot, &slept, problem)) {
    return false;
  }
  if (waited) {
    int64_t passed = (polls ? last : samples_now()) - before;
    *waited = slept || (polls && passed > AT_ONCE_NS) ? passed : 0;
  }
  return true;
}

static struct overlap_span span_of(int64_t begin, int64_t end, int64_t start) {
  return (struct overlap_span){(double)(begin - start) / 1e3, (double)(end - start) / 1e3};
}

/* A copy or kernel is counted to its end, whenever its turn came. `seen`: when a waited-for frame was seen to be done, or 0. */
static bool note_times(const struct engine *engine, unsigned slot, int64_t start, int64_t seen, struct overlap_frame *span,
                       struct samples *notices, struct engine_figures *figures) {
  struct gpu_times times;
  if (!gpu_times(engine->program, slot, &times)) {
    return true;
  }
  figures->timed++;
  figures->wait += (double)times.wait / 1e3;
  figures->service[OVERLAP_H2D] += (double)times.h2d / 1e3;
  figures->service[OVERLAP_KERNEL] += (double)times.kernel / 1e3;
  figures->service[OVERLAP_D2H] += (double)times.d2h / 1e3;
  if (span) {
    span->spans[OVERLAP_H2D] = span_of(times.copied_in - times.h2d, times.copied_in, start);
    span->spans[OVERLAP_KERNEL] = span_of(times.computed - times.kernel, times.computed, start);
    span->spans[OVERLAP_D2H] = span_of(times.copied_out - times.d2h, times.copied_out, start);
  }
  double notice = seen > times.copied_out ? (double)(seen - times.copied_out) / 1e3 : 0;
  return seen == 0 || !notices || samples_add(notices, notice);
}

void engine_costs(const struct engine *engine, struct diagnosis_costs *costs) {
  struct gpu_costs ns;
  gpu_program_costs(engine->program, &ns);
  *costs = diagnosis_costs_of(&ns);
}

bool engine_graph(const struct engine *engine) { return gpu_program_graph(engine->program); }

unsigned engine_timed_one_in(const struct engine *engine) { return gpu_program_timed_one_in(engine->program); }

struct run {
  uint64_t frames; /* limit of frames */
  int64_t ns;      /* no frame begins later than that after the first one; 0: no limit */
  struct overlap_frame *spans;
  uint64_t span_frames;
  struct samples *notices; /* of frames that were waited for; NULL unless `weighs` */
  bool weighs;             /* reads the clock around each wait, which slows small frames down */
};

struct course {
  uint64_t begun, done;
  unsigned oldest, next; /* slots are used in turn */
  int64_t start, waited;
  int64_t full; /* when each slot had returned its first frame */
  bool over;
};

static bool submit(struct engine *engine, unsigned slot, bool timed, struct problem *problem) {
  struct gpu_error error;
  const struct gpu_frame frame = {
      .sequence = engine->sequence,
      .restart = engine->sequence == 0,
      .notify = engine->setup.completion == ENGINE_CALLBACK,
      .timed = timed,
  };
  engine->sequence++;
  return gpu_submit(engine->program, slot, &frame, &error) || options_gpu_problem(&error, problem);
}

static bool end_oldest(struct engine *engine, const struct run *run, struct course *course, struct engine_figures *figures,
                       struct problem *problem) {
  int64_t waited = 0;
  if (!await(engine, course->oldest, run->weighs ? &waited : NULL, problem)) {
    return false;
  }
  int64_t seen = waited > 0 ? samples_now() : 0;
  course->waited += waited;
  struct overlap_frame *span = run->spans && course->done < run->span_frames ? &run->spans[course->done] : NULL;
  if (!note_times(engine, course->oldest, course->start, seen, span, run->notices, figures)) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
  }
  course->done++;
  course->full = course->done == engine->setup.slots ? samples_now() : course->full;
  course->oldest = course->oldest + 1 < engine->setup.slots ? course->oldest + 1 : 0;
  return true;
}

static bool begin_next(struct engine *engine, const struct run *run, struct course *course, struct problem *problem) {
  if (!submit(engine, course->next, course->begun < run->span_frames, problem)) {
    return false;
  }
  course->begun++;
  course->next = course->next + 1 < engine->setup.slots ? course->next + 1 : 0;
  return true;
}

/* From now on no frame begins. */
static void end_course(const struct engine *engine, struct course *course, struct engine_figures *figures) {
  course->over = true;
  if (course->done > engine->setup.slots) {
    figures->steady_frames = course->done - engine->setup.slots;
    figures->steady = (double)(samples_now() - course->full) / 1e3;
  }
}

static bool run_frames(struct engine *engine, const struct run *run, struct engine_figures *figures, struct problem *problem) {
  const unsigned slots = engine->setup.slots;
  struct course course = {.start = samples_now()};
  while (!course.over || course.done < course.begun) {
    bool has_all = course.begun - course.done == slots;
    if ((has_all || (course.over && course.done < course.begun)) && !end_oldest(engine, run, &course, figures, problem)) {
      return false;
    }
    if (!course.over && (course.begun == run->frames || (run->ns > 0 && samples_now() - course.start >= run->ns))) {
      end_course(engine, &course, figures);
    }
    if (!course.over && !begin_next(engine, run, &course, problem)) {
      return false;
    }
  }
  figures->frames = course.begun;
  figures->wall = (double)(samples_now() - course.start) / 1e3;
  figures->weighed = run->weighs ? course.begun : 0;
  figures->host = run->weighs ? figures->wall - (double)course.waited / 1e3 : 0;
  return true;
}

static bool run_anchored(struct engine *engine, const struct run *run, struct engine_figures *figures,
                         struct problem *problem) {
  struct gpu_error error;
  *figures = (struct engine_figures){.side_by_side = gpu_program_copies_by_kernel(engine->program)};
  return gpu_anchor(engine->device, &error) != GPU_DEAD ? run_frames(engine, run, figures, problem)
                                                        : options_gpu_problem(&error, problem);
}

bool engine_run(struct engine *engine, uint64_t frames, struct overlap_frame *spans, uint64_t span_frames,
                struct engine_figures *figures, struct problem *problem) {
  const struct run run = {.frames = frames, .spans = spans, .span_frames = span_frames};
  return run_anchored(engine, &run, figures, problem);
}

bool engine_run_time(struct engine *engine, int64_t ns, struct engine_figures *figures, struct problem *problem) {
  const struct run run = {.frames = UINT64_MAX, .ns = ns};
  return run_anchored(engine, &run, figures, problem);
}

/*
 * Measures the host's work in a separate run, since reading the clock slows the frames. If the main run did not time all
 * frames, a further run measures service times, unless times are off.
 */
static bool weigh(struct engine *engine, struct samples *notices, struct engine_figures *figures, struct problem *problem) {
  enum { MOST_FRAMES = 400 };
  struct engine_figures other;
  struct run run = {
      .frames = figures->frames < MOST_FRAMES ? figures->frames : MOST_FRAMES, .notices = notices, .weighs = true};
  if (!run_anchored(engine, &run, &other, problem)) {
    return false;
  }
  figures->host = other.host;
  figures->weighed = other.weighed;
  run.span_frames = figures->timed == figures->frames ? 0 : run.frames;
  if (run.span_frames > 0) {
    notices->count = 0;
    if (!run_anchored(engine, &run, &other, problem)) {
      return false;
    }
    memcpy(figures->service, other.service, sizeof figures->service);
    figures->wait = other.wait;
    figures->timed = other.timed;
  }
  figures->notice = samples_percentile(notices, 0.5);
  figures->noticed = notices->count;
  return true;
}

bool engine_run_for(struct engine *engine, double seconds, struct engine_figures *figures, struct problem *problem) {
  const uint64_t least = 16 * (uint64_t)engine->setup.slots;
  uint64_t frames = least;
  /* the second estimate is long enough to hide the cost of the first frames */
  for (int i = 0; i < 2; i++) {
    if (!engine_run(engine, frames, NULL, 0, figures, problem)) {
      return false;
    }
    double wanted = seconds * (i == 0 ? 0.1 : 1.0) * 1e6 / engine_each(figures);
    frames = wanted > (double)least ? (uint64_t)wanted : least;
  }
  engine_pause_for(engine_timed_one_in(engine), engine_each(figures) * (double)frames);
  struct samples notices = {0};
  bool done = engine_run(engine, frames, NULL, 0, figures, problem) && weigh(engine, &notices, figures, problem);
  samples_free(&notices);
  return done;
}
