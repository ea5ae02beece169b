/* What the modules of the room device/ share. */
#ifndef FRAMED_DEVICE_PRIVATE_H
#define FRAMED_DEVICE_PRIVATE_H

#include <pthread.h>

#include "daemon/device/device.h"
#include "daemon/device/process.h"
#include "gpu/record/mailbox.h"

enum { DEVICE_MOST_LANES = 256, DEVICE_NO_LANE = DEVICE_MOST_LANES };

/* Memory that is registered, as long as the caller keeps it. */
struct device_arena {
  struct device_arena *next;
  unsigned char *base;
  size_t bytes;
  int fd; /* the caller's */
  uint64_t id;
};

struct device {
  struct process *process; /* NULL: it is several that are joined. Others than who replaces it hold it: see device_hold() */
  _Atomic bool lost;       /* the worker is, or is about to be; lanes go by this */
  void (*on_lost)(void *context); /* with `lock` */
  void *on_lost_context;
  bool hurries;
  struct device_setup setup;
  struct gpu_calibration known;
  struct worker_device is;
  double figures[NVML_FIGURES]; /* the control loop's */
  pthread_mutex_t standing;     /* of the worker that stands by; taken before `making` */
  struct process *standby;      /* NULL: there is none */
  int64_t standby_due;          /* not before is another one tried, */
  int64_t standby_pause;        /* after so long */
  atomic_int standby_pid;       /* for who only looks; 0: there is none */
  _Atomic enum device_standby standby_is;
  pthread_mutex_t making; /* of who makes or gives back something on the worker */
  pthread_mutex_t lock;   /* of the lists and of `process`; never held while a worker is asked */
  struct device_arena *arenas;
  struct line_page *lines[DEVICE_MOST_LANES + 1];   /* of the lanes that have programs there; the last: of no lane */
  struct line_page *retired[DEVICE_MOST_LANES + 1]; /* of the worker before, likewise */
  struct bell_page *silent;                         /* of programs that nobody is told of */
  unsigned silent_bits;
  struct device_part *parts;
  unsigned member_count;
  struct device *members[GPU_MAX_SLOTS];
};

/* The part of a program that is on one device. Lanes use pages only while the device is not lost. */
struct device_part {
  struct device_part *next, **link; /* of the device */
  struct device_program *program;
  struct device *device;
  uint64_t id;
  struct program_page *page, *retired; /* retired: of the worker before, at which somebody may still look */
  struct line_page *line;
  struct mailbox_words *mailbox, *retired_mailbox; /* NULL: no kernel stays there */
  bool is_rung;                                    /* the lane gives frames by the mailbox */
  uint32_t rung;                                   /* a bit for each slot whose frame it gave so */
  unsigned looks;                                  /* at answers that were not there */
};

struct device_program {
  struct device *device;
  struct device_caller caller;
  struct device_chain *chain;
  struct worker_program setup; /* but for its chain and slots */
  struct gpu_buffers slots[GPU_MAX_SLOTS];
  unsigned spared;
  int bit;
  unsigned count, part_count;
  struct worker_ready ready;
  uint64_t tickets[GPU_MAX_SLOTS];
  uint32_t numbers[GPU_MAX_SLOTS]; /* of frames that were rung, as the doorbell has it */
  char refusal[STAGE_TEXT];
  struct device_part parts[GPU_MAX_SLOTS];
};

/* The worker that judges configurations: held by the caller. NULL on error. */
struct process *judge_hold(struct gpu_error *error);
/* The same, which is the caller's from now on, or a new one: for a device. */
struct process *judge_take(struct gpu_error *error);
/* The workers that were adopted for the device of that number, or NULL. */
void adopted_take(unsigned index, struct process **process, struct process **standby);

/* The chain's number on that worker, where it is prepared if it was not; 0 on error. */
uint64_t chain_on(struct device_chain *chain, struct process *process, struct gpu_error *error);

/* Prepares the chain on a worker that stands by, which also opens the models. */
bool chain_warm_on(struct device_chain *chain, struct process *process, struct gpu_error *error);

/* The worker that stands by, which no longer does so, or NULL. With `standing`. */
struct process *standby_take(struct device *device);

bool device_no_memory(struct gpu_error *error);
/* A request that begins with the files that the worker is to open in place of others of their names, and their descriptors. */
void files_pack(struct pack *request, const struct kept_file *files, unsigned count, int *descriptors);
/* Reads the files that an answer names. False: there is no memory, or it makes no sense. */
bool files_take(struct worker_message *answer, struct kept_file *files, unsigned *count);

/* The worker that the device has now, held. */
struct process *device_hold(struct device *device);
/* Has that worker open the device, and says what it found. */
bool device_take(const struct device *device, struct process *process, struct worker_device *is, struct gpu_error *error);
/* From now on its loss is the device's. */
void device_watch(struct device *device);
/* Every lane that has programs there takes a turn. */
void device_wake_lanes(struct device *device);
/* Unmaps the page, if there is one. */
void device_drop_line(struct line_page **line);
/* Registers memory, or makes a part of a program, on the worker that the device has now. Both are taken up again on another. */
bool arena_send(struct device *device, struct process *process, struct device_arena *arena, struct gpu_error *error);
bool part_make(struct device_part *part, struct gpu_error *error);

#endif
