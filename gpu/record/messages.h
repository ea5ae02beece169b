/*
 * What the daemon asks of a worker and what it answers, but for frames (pages.h).
 *
 * On the control socket, of kind SOCK_SEQPACKET, goes one struct worker_request for each call, with one end of a stream socket
 * made for that call. On that socket go the request's bytes and descriptors, and then the answer's; so calls of several threads
 * need no order, and a worker that ends breaks them all. An answer begins with whether it worked, and with a struct gpu_error
 * where it did not. When the worker cannot go on it says why on the control socket, and ends.
 *
 * Both programs must be of one version: structs of numbers alone go as they lie in memory.
 */
#ifndef FRAMED_GPU_RECORD_MESSAGES_H
#define FRAMED_GPU_RECORD_MESSAGES_H

#include "gpu/gpu.h"
#include "gpu/model/model.h"
#include "gpu/model/parts.h"
#include "gpu/record/pack.h"
#include "gpu/record/pages.h"

enum {
  WORKER_VERSION = 2,
  WORKER_CONTROL = 3,            /* the worker's descriptor of the control socket */
  WORKER_MOST_FILES = 64,        /* descriptors in one message */
  WORKER_MOST_MESSAGE = 64 << 20 /* bytes */
};

enum worker_call {
  WORKER_OPEN,    /* struct worker_open; pages: counts. Answer: struct worker_device */
  WORKER_LOOK,    /* struct worker_look. Answer: struct worker_seen */
  WORKER_MODEL,   /* model. Answer: its id, a model record, files */
  WORKER_CHAIN,   /* chain. Answer: its id, a chain record, files */
  WORKER_WARM,    /* id of a chain: opens all of its models that programs need and that needs no slots */
  WORKER_USERS,   /* id of a chain, number */
  WORKER_ARENA,   /* bytes; its memory. Answer: its id */
  WORKER_LINE,    /* number; line page, bell page, eventfd */
  WORKER_PROGRAM, /* struct worker_program; page, and where `resident` a mailbox. Answer: its id, struct worker_ready */
  WORKER_CALM,    /* nothing: see `hurries` of struct worker_open. Ends what WORKER_RESET began */
  WORKER_RESET,   /* nothing: another image of the daemon has followed, and asks for everything again (reset.c) */
  WORKER_LET_GO,  /* id of whatever has one */
  WORKER_CALLS
};

struct worker_request {
  uint32_t version, call;
};

struct worker_last_words {
  uint32_t version, reserved;
  struct gpu_error error;
};

/* Of threads that compute frames: as the section `realtime` has it. */
struct worker_realtime {
  int32_t policy, priority; /* of sched_setscheduler(); 0: as they are */
};

struct worker_open {
  uint32_t choice, index, workers, slots; /* slots: see gpu_expect() */
  uint32_t hurries, is_known;
  struct gpu_calibration known;
  struct worker_realtime realtime;
};

struct worker_device {
  char backend[16], name[128], address[GPU_ADDRESS];
  int32_t node;
  uint32_t kernels_at_once;
  struct gpu_calibration calibration;
  struct gpu_lacks lacks;
};

struct worker_look {
  uint32_t choice, cpus, index, reserved;
  char address[GPU_ADDRESS]; /* of a device whose trouble is asked for; empty: of none */
};

struct worker_seen {
  uint32_t count, is_usable;
  struct gpu_error error; /* where it is not */
  struct gpu_lacks lacks;
  char trouble[GPU_TEXT]; /* what the driver knows to be wrong with it */
};

struct worker_buffers {
  uint64_t input_arena, input, output_arena, output; /* ids, and offsets within */
};

struct worker_program {
  uint64_t chain;
  uint32_t line, bit, count, spared;
  struct worker_buffers buffers[GPU_MAX_SLOTS];
  int32_t notify, graph, timed_one_in, order, copy, priority, resident, weigh, warms_up;
  uint32_t share;
  int64_t linger_ns;
  char owner[64];
};

struct worker_ready {
  uint32_t graph, copies_by_kernel, timed_one_in;
  uint32_t is_rung; /* the lane gives frames by the mailbox, and the worker launches the kernel again and wakes the lane */
  struct gpu_measured measured;
  struct gpu_costs costs;
  struct gpu_share share;
  uint64_t allocated;
};

/* -- what has texts in it ------------------------------------------------------------------------------------------- */

void pack_stage(struct pack *pack, const struct stage_value *values, unsigned count);
/* Texts stay within the message; what lists need is on the heap: stage_values_free(). */
bool unpack_stage(struct unpack *unpack, struct stage_value *values, unsigned count);
void stage_values_free(struct stage_value *values, unsigned count);

void pack_model(struct pack *pack, const struct model_settings *settings);
struct model_request {
  struct model_settings settings;
  struct model_shape shapes[STAGE_MAX_PARAMETERS];
};
bool unpack_model(struct unpack *unpack, struct model_request *model);

struct model_record {
  struct model_summary summary;
  struct model_tensor input, outputs[MODEL_MOST_OUTPUTS];
  unsigned output_count, counts; /* counts: its place in struct worker_counts, or WORKER_MODELS */
};
void pack_model_record(struct pack *pack, const struct model_record *record);
/* The texts of the summary are copied: free() them. */
bool unpack_model_record(struct unpack *unpack, struct model_record *record);
void model_record_free(struct model_record *record);

/* A verdict of a chain, with the reason against it. */
struct chain_verdict {
  bool holds;
  struct gpu_error error;
};

struct chain_record {
  struct frame_format input, output;
  struct parts parts; /* of the output, if it has any */
  uint64_t slot_bytes, state_bytes;
  bool is_foreign, has_model;
  struct chain_verdict runs, resides, spreads;
  struct model_record model; /* of the last stage that runs one */
  char **labels;             /* NULL: none */
  unsigned label_count;
};
void pack_chain_record(struct pack *pack, const struct chain_record *record);
/* False: it makes no sense, or there is no memory. */
bool unpack_chain_record(struct unpack *unpack, struct chain_record *record);
void chain_record_free(struct chain_record *record);

/* -- sending, blocking; false and errno on error -------------------------------------------------------------------- */

/* After a call of the system failed, the `tries`th time: whether it is to be tried again. Waits a little where memory is short.
 */
bool worker_may_pass(int tries);
bool worker_send(int socket, const struct pack *pack, const int *descriptors, unsigned count);
struct worker_message {
  struct unpack unpack;
  unsigned char *bytes; /* on the heap */
  int descriptors[WORKER_MOST_FILES];
  unsigned count;
};
/* EPIPE: the other side has ended; EBADMSG: it said what it must not. */
bool worker_receive(int socket, struct worker_message *message);
void worker_message_free(
    struct worker_message *message); /* closes the descriptors that are left; those that were taken are -1 */

#endif
