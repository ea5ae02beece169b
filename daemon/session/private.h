/*
 * The record of a session, private to this room. session.c has its turns and its end, events.c what it reports to the control
 * loop, messages.c the orders from there. reply.c serves the client of a `reply` session, adopt.c takes a session over from the
 * previous process. stages.c has its programs and their replacement, memory.c makes and frees it. A session lives in the image
 * (state/image.h).
 */
#ifndef FRAMED_SESSION_PRIVATE_H
#define FRAMED_SESSION_PRIVATE_H

#include <stdatomic.h>

#include "daemon/frame/arena.h"
#include "daemon/frame/channel.h"
#include "daemon/frame/receive.h"
#include "daemon/frame/relay.h"
#include "daemon/session/session.h"
#include "daemon/sink/results.h"
#include "daemon/source/source.h"

/* Messages are embedded in the session, so sending one allocates nothing. */
struct session_message {
  struct message message;
  struct session *session;
};

struct notice {
  struct message message;
  struct session_event event;
};

/* The state of the session's last producer when the previous process ended. */
enum session_revival {
  SESSION_NEVER_BEGAN, /* the control loop attached it, but the lane had not started */
  SESSION_GOES_ON,     /* it continues at the byte where it was */
  SESSION_CUT,         /* killed in the middle of a read or write: its position is unknown, so it cannot continue */
  SESSION_ENDED        /* it had ended */
};

struct session {
  struct runner runner; /* must be first */
  struct session_setup setup;
  struct flow flow;
  struct session_stages stages[2]; /* indexed by number modulo 2; frames use number flow.stages */
  unsigned in_force;               /* number that the control loop uses */
  struct account account;
  struct receive receive;
  struct source source;
  struct sink *sink;
  struct relay relay; /* used if the sink is on another lane */
  bool is_reply;
  /* for `reply`, see reply.c */
  bool client_there;    /* its handle is not closed yet */
  bool client_gone;     /* it gets no more results */
  bool client_detached; /* the sink was ordered to detach it */
  char client_text[128];
  struct session_message client_left, client_closed, leave_order;
  /* Time of the tick since which both its results and its frames wait; 0: they do not. */
  int64_t unread_since;
  bool acknowledges;     /* the producer asked for acknowledgements */
  uint64_t acknowledged; /* number of frames acknowledged so far */
  bool stopping;
  /* In its rounds, which find returned slots of a sink on this lane without being woken. */
  bool looks;
  int64_t ticked;
  struct arena inputs, outputs;
  struct arena control;   /* shared with a client; none otherwise */
  struct channel channel; /* for that client */
  bool shares;            /* the current producer uses shared memory */
  bool on_gpu;
  unsigned quarantined; /* see session_quarantined() */
  struct frame_name last_quarantined;
  unsigned char *discard;
  struct trace_ring *trace; /* owned by the control loop; the lane uses it through its account */

  struct session_message attach_order, hold_order, stop_order, change_order;
  int attach_fd;
  enum config_protocol attach_protocol;
  bool attach_shares;
  bool attach_acknowledges;
  bool attach_continues; /* the producer was attached in the previous process */
  struct reader *attach_reader;
  uint64_t attaches;              /* control loop: number of producers attached so far */
  uint64_t attached;              /* lane: number of the last producer it knows */
  const struct reader *client_at; /* reply: control loop: address of the client's reader, now or earlier */
  enum session_revival revival;
  /* During a takeover: the fate that was being counted, whether the file is read again, and how many frames may be missing. */
  unsigned settling;
  bool rereads;
  uint64_t most_lost;
  /* A kill cut the client off, and it may not know yet, so its view of the memory must not change. */
  bool cut_client;
  unsigned holds;          /* control loop: number of holds so far */
  atomic_uint hold_wanted; /* number of the hold in force; 0: none */
  atomic_bool hold_for_readers, hold_leaves_partial;
  atomic_uint hold; /* the hold that the lane knows of */
  atomic_bool hold_posted;
  /* Events by kind. Sets of kinds have a bit for each kind. */
  struct notice notices[SESSION_EVENT_KINDS];
  atomic_uint posted; /* events on their way to the control loop */
  /* Events not yet reported for this producer, this hold, or this device. */
  unsigned unreported;
};

static inline bool session_is_unreported(const struct session *session, enum session_event_kind kind) {
  return (session->unreported & 1U << kind) != 0;
}

/* [lane] Turn and tick of the session's runner. */
bool session_turn(struct runner *runner);
void session_tick(struct runner *runner, int64_t now);

/* [lane] The source has returned its descriptor. */
void session_on_source_closed(struct source *source);

/* -- reply.c --------------------------------------------------------------------------------------------- */

/* [sink's lane] The client of `reply` left, or its handle is closed now. */
void session_on_client_gone(void *session, bool closed, const char *why);
/* [lane] Attaches the client together with its producer. */
void session_attach_client(struct session *session, struct reader *reader);
/* Reports a client that sends but does not read. Nothing else would show why its frames wait. */
void session_watch_client(struct session *session, int64_t now);
/* [lane] Detaches the client. Returns true once it is gone and the sink carried out all orders. Until then a turn will come. */
bool session_detach_client(struct session *session);
/* [lane] Takes the session and its own sink off their lanes and reports SESSION_STOPPED. The session may be freed from then
 * on. */
void session_leave(struct session *session);

/* -- adopt.c ----------------------------------------------------------------------------------------------- */

/* Takes over the session at that address of the previous process. With `memory`, its arenas get their descriptors. */
bool session_adopt(struct session *session, const struct session *address, bool memory, struct failure *failure);

/* -- stages.c -------------------------------------------------------------------------------------------- */

/* Makes the program of the stages in force. For a set-up thread. */
bool session_make_program(struct session *session, struct failure *failure);
/* Stores the results of the first warm-up. Call before any other thread knows the session. */
void session_keep_choices(struct session *session);
void session_free_program(struct session *session);
/* [lane] Switches to the other stages. No frame may be on the device, or the device must be lost. */
void session_take_stages(struct session *session);

/* -- stages.c --------------------------------------------------------------------------------------------- */

/* A bit for each slot that warm-up frames must not touch: it holds a result, or a frame that may break the device. */
unsigned session_spared(const struct session *session);

/* -- events.c -------------------------------------------------------------------------------------------- */

/* [lane] Sends an event to the control loop. If one of that kind is still on its way, does nothing; `unreported` keeps the
 * event. */
void session_report(struct session *session, enum session_event_kind kind);

#endif
