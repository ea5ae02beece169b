/* Programs: made on the worker of each device that they have slots on, and made again there when another worker comes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/device/private.h"

/* -- lines ---------------------------------------------------------------------------------------------------------- */

/* Memory and eventfd that nobody is waiting at. */
static int make_silent(struct device *device, int *eventfd_made) {
  void *page;
  int memory = process_memory("framed-silent", sizeof *device->silent, &page);
  if (device->silent) {
    munmap(device->silent, sizeof *device->silent);
  }
  device->silent = page;
  *eventfd_made = memory >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  return memory;
}

static bool send_line(struct device *device, unsigned number, const int descriptors[3], struct gpu_error *error) {
  struct worker_message answer;
  struct pack request = {.bytes = NULL};
  pack_number(&request, number);
  bool sent = process_call(device->process, WORKER_LINE, &request, descriptors, 3, &answer, error);
  worker_message_free(&answer);
  free(request.bytes);
  return sent;
}

/* The line of a lane on the device, which is opened with the first program there. While `making` is held. */
static struct line_page *line_of(struct device *device, struct lane *lane, struct gpu_error *error) {
  const unsigned number = lane ? lane_index(lane) : DEVICE_NO_LANE;
  if (number <= DEVICE_NO_LANE && !device->lines[number]) {
    void *page;
    int bell_eventfd = -1, silent = -1;
    int memory = process_memory("framed-line", sizeof(struct line_page), &page);
    int bell = lane ? lane_bell(lane)->memory : (silent = make_silent(device, &bell_eventfd));
    bell_eventfd = lane ? lane_bell(lane)->eventfd : bell_eventfd;
    const int descriptors[] = {memory, bell, bell_eventfd};
    bool sent = memory >= 0 && bell >= 0 ? send_line(device, number, descriptors, error) : device_no_memory(error);
    device->lines[number] = sent ? page : NULL;
    if (memory >= 0) {
      close(memory);
    }
    if (silent >= 0) {
      close(silent);
      close(bell_eventfd);
    }
    if (!sent && page) {
      munmap(page, sizeof(struct line_page));
    }
  }
  return number <= DEVICE_NO_LANE ? device->lines[number] : NULL;
}

/* -- making one ----------------------------------------------------------------------------------------------------- */

static bool find_place(struct device *device, const void *address, uint64_t *id, uint64_t *offset) {
  const unsigned char *at = address;
  bool found = false;
  pthread_mutex_lock(&device->lock);
  for (const struct device_arena *arena = device->arenas; arena && !found; arena = arena->next) {
    if (at >= arena->base && at < arena->base + arena->bytes) {
      *id = arena->id;
      *offset = (uint64_t)(at - arena->base);
      found = true;
    }
  }
  pthread_mutex_unlock(&device->lock);
  return found;
}

static void fill_setup(struct device_program *program, const struct gpu_options *options, bool warms_up) {
  struct worker_program *setup = &program->setup;
  *setup = (struct worker_program){.line = program->caller.lane ? lane_index(program->caller.lane) : DEVICE_NO_LANE,
                                   .bit = (uint32_t)program->bit,
                                   .notify = options->notify,
                                   .graph = (int32_t)options->graph,
                                   .timed_one_in = options->timed_one_in,
                                   .order = (int32_t)options->order,
                                   .copy = (int32_t)options->copy,
                                   .priority = (int32_t)options->priority,
                                   .resident = options->resident,
                                   .weigh = options->weigh,
                                   .warms_up = warms_up,
                                   .share = options->share,
                                   .linger_ns = options->linger_ns};
  strncpy(setup->owner, options->owner ? options->owner : "", sizeof setup->owner - 1);
}

static void unmap(void *memory, size_t bytes) {
  if (memory) {
    munmap(memory, bytes);
  }
}

/* Those of the worker before stay for now. Gives how many descriptors there are to close; 0: there is no memory. */
static unsigned make_pages(struct device_part *part, bool resident, int descriptors[2]) {
  void *page = NULL, *mailbox = NULL;
  descriptors[0] = process_memory("framed-program", sizeof *part->page, &page);
  descriptors[1] = page && resident ? process_memory("framed-mailbox", sizeof *part->mailbox, &mailbox) : -1;
  if (page) {
    part->rung = 0; /* what another worker had is not done, whatever the words of this one say */
    unmap(part->retired, sizeof *part->retired);
    part->retired = part->page;
    part->page = page;
  }
  if (mailbox) {
    unmap(part->retired_mailbox, sizeof *part->mailbox);
    part->retired_mailbox = part->mailbox;
    part->mailbox = mailbox;
  }
  if (page && resident && !mailbox) {
    close(descriptors[0]);
    return 0;
  }
  return !page ? 0 : resident ? 2 : 1;
}

static bool call_program(struct device_part *part, const struct worker_program *setup, struct worker_ready *ready,
                         struct gpu_error *error) {
  struct worker_message answer;
  struct pack request = {.bytes = NULL};
  int descriptors[2];
  unsigned count = make_pages(part, setup->resident != 0, descriptors);
  if (count == 0) {
    return device_no_memory(error);
  }
  pack_bytes(&request, setup, sizeof *setup);
  bool made = process_call(part->device->process, WORKER_PROGRAM, &request, descriptors, count, &answer, error);
  if (made) {
    part->id = (uint64_t)unpack_number(&answer.unpack);
    unpack_bytes(&answer.unpack, ready, sizeof *ready);
    ready->share.why[sizeof ready->share.why - 1] = '\0';
    part->is_rung = ready->is_rung != 0 && part->mailbox;
    made = !answer.unpack.failed || device_no_memory(error);
  }
  worker_message_free(&answer);
  free(request.bytes);
  while (count > 0) {
    close(descriptors[--count]);
  }
  return made;
}

/* The part with number n gets slots n, n + parts, n + 2 * parts and so on. */
static bool make_part(struct device_part *part, unsigned spared, struct worker_ready *ready, struct gpu_error *error) {
  const struct device_program *program = part->program;
  struct worker_program setup = program->setup;
  setup.chain = chain_on(program->chain, part->device->process, error);
  part->line = setup.chain != 0 ? line_of(part->device, program->caller.lane, error) : NULL;
  if (!part->line) {
    return false;
  }
  for (unsigned slot = (unsigned)(part - program->parts); slot < program->count; slot += program->part_count) {
    struct worker_buffers *own = &setup.buffers[setup.count];
    if (!find_place(part->device, program->slots[slot].input, &own->input_arena, &own->input) ||
        !find_place(part->device, program->slots[slot].output, &own->output_arena, &own->output)) {
      *error = (struct gpu_error){.code = EFAULT, .stage = -1, .text = "the memory of a slot is not registered"};
      return false;
    }
    setup.spared |= (spared >> slot & 1U) << setup.count++;
  }
  return setup.count == 0 || call_program(part, &setup, ready, error);
}

/* What was decided stays so. */
bool part_make(struct device_part *part, struct gpu_error *error) {
  struct worker_ready ready;
  part->id = 0;
  return make_part(part, part->program->spared, &ready, error);
}

/* All do what the first found better. */
static void keep_choices(struct device_program *program) {
  const struct worker_ready *ready = &program->ready;
  struct worker_program *setup = &program->setup;
  setup->graph = ready->graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  setup->copy = ready->copies_by_kernel ? GPU_COPY_KERNEL : GPU_COPY_ENGINE;
  setup->timed_one_in = ready->timed_one_in > 0 ? (int32_t)ready->timed_one_in : GPU_TIMED_NEVER;
  setup->weigh = false;
}

static void join_device(struct device_part *part) {
  struct device *device = part->device;
  pthread_mutex_lock(&device->lock);
  part->next = device->parts;
  part->link = &device->parts;
  if (part->next) {
    part->next->link = &part->next;
  }
  device->parts = part;
  pthread_mutex_unlock(&device->lock);
}

static void leave_device(struct device_part *part) {
  if (part->link) {
    pthread_mutex_lock(&part->device->lock);
    *part->link = part->next;
    if (part->next) {
      part->next->link = part->link;
    }
    pthread_mutex_unlock(&part->device->lock);
  }
}

static bool make_parts(struct device_program *program, struct gpu_error *error) {
  bool made = true;
  for (unsigned i = 0; i < program->part_count && made; i++) {
    struct device_part *part = &program->parts[i];
    struct worker_ready ready = program->ready;
    pthread_mutex_lock(&part->device->making);
    made = make_part(part, program->spared, &ready, error);
    if (made) {
      join_device(part);
    }
    pthread_mutex_unlock(&part->device->making);
    if (made && i == 0) {
      program->ready = ready;
      keep_choices(program);
    }
  }
  return made;
}

static int take_bit(struct device_program *program) {
  struct device *device = program->device;
  if (program->caller.lane) {
    return bell_join(lane_bell(program->caller.lane), program->caller.runner);
  }
  pthread_mutex_lock(&device->lock);
  int bit = device->silent_bits < PAGES_PROGRAMS ? (int)device->silent_bits++ : -1;
  pthread_mutex_unlock(&device->lock);
  return bit;
}

struct device_program *device_program_new(struct device *device, struct device_chain *chain, const struct gpu_buffers *slots,
                                          unsigned count, const struct gpu_options *options, bool warms_up,
                                          const struct device_caller *caller, struct gpu_error *error) {
  struct device_program *program = calloc(1, sizeof *program);
  if (!program) {
    device_no_memory(error);
    return NULL;
  }
  program->device = device;
  program->caller = *caller;
  program->chain = chain;
  program->count = count;
  memcpy(program->slots, slots, count * sizeof slots[0]);
  program->spared = options->spared;
  program->part_count = device->member_count > 0 ? device->member_count : 1;
  for (unsigned i = 0; i < program->part_count; i++) {
    program->parts[i].program = program;
    program->parts[i].device = device->member_count > 0 ? device->members[i] : device;
  }
  program->bit = take_bit(program);
  if (program->bit < 0) {
    *error = (struct gpu_error){.stage = -1, .text = "a lane takes no more programs", .remedy = "use more lanes"};
    return device_program_free(program);
  }
  fill_setup(program, options, warms_up);
  return make_parts(program, error) ? program : device_program_free(program);
}

static void drop_part(struct device_part *part) {
  pthread_mutex_lock(&part->device->making);
  leave_device(part);
  if (part->id != 0) {
    process_let_go(part->device->process, part->id);
  }
  pthread_mutex_unlock(&part->device->making);
  unmap(part->page, sizeof *part->page);
  unmap(part->retired, sizeof *part->retired);
  unmap(part->mailbox, sizeof *part->mailbox);
  unmap(part->retired_mailbox, sizeof *part->mailbox);
}

struct device_program *device_program_free(struct device_program *program) {
  if (!program) {
    return NULL;
  }
  for (unsigned i = 0; i < program->part_count; i++) {
    drop_part(&program->parts[i]);
  }
  if (program->caller.lane && program->bit >= 0) {
    bell_leave(lane_bell(program->caller.lane), (unsigned)program->bit);
  }
  free(program);
  return NULL;
}

void device_program_spare(struct device_program *program, unsigned slots) { program->spared = slots; }

const struct worker_ready *device_program_ready(const struct device_program *program) { return &program->ready; }
