/*
 * What a session is made of; private to session.c (its turns and its end) and to those that follow here with what each tells
 * the others: events.c (what it says to the control loop), messages.c (what it hears from there), reply.c, adopt.c (how the
 * next process goes on with it), stages.c (its programs, and how others take their place) and memory.c (how it is made and
 * freed). A session lies in the image (state/image.h).
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

/* Embedded messages: nothing is allocated to talk. */
struct session_message {
  struct message message;
  struct session *session;
};

struct notice {
  struct message message;
  struct session_event event;
};

/* What became of the session's last producer when the process was killed. */
enum session_revival {
  SESSION_NEVER_BEGAN, /* the session had not begun with it */
  SESSION_GOES_ON,     /* it goes on at the byte where it was */
  SESSION_CUT,         /* nobody knows how much of it was read: it cannot go on */
  SESSION_ENDED        /* it had ended */
};

struct session {
  struct runner runner; /* first */
  struct session_setup setup;
  struct flow flow;
  struct session_stages stages[2]; /* of even and odd numbers: frames are at flow.stages, */
  unsigned in_force;               /* and the control loop at this number */
  struct account account;
  struct receive receive;
  struct source source;
  struct sink *sink;
  struct relay relay; /* if the sink is on another lane */
  bool is_reply;
  /* reply: see reply.c */
  bool client_there;    /* its handle is not closed yet */
  bool client_gone;     /* it takes no more results */
  bool client_detached; /* the sink was told to let it go */
  char client_text[128];
  struct session_message client_left, client_closed, leave_order;
  int64_t unread_since;  /* its results wait and so do its frames: since this tick; 0: they do not */
  bool acknowledges;     /* the producer wants to be told which frames have their fate */
  uint64_t acknowledged; /* how many it was told of */
  bool stopping;
  struct fault fault; /* once it is told */
  bool looks;         /* within its rounds, which see by themselves what a sink on this lane gives back */
  int64_t ticked;
  struct arena inputs, outputs;
  struct arena control;   /* that a client shares; none as a rule */
  struct channel channel; /* to it */
  bool shares;            /* the producer there is such a client */
  bool on_gpu;
  unsigned quarantined; /* see session_quarantined(), */
  struct frame_name last_quarantined;
  unsigned char *discard;
  struct trace_ring *trace; /* the control loop's; the lane sees it through its account */

  struct session_message attach_order, hold_order, stop_order, change_order;
  int attach_fd;
  enum config_protocol attach_protocol;
  bool attach_shares;
  bool attach_acknowledges;
  bool attach_continues; /* the producer was there before this process */
  struct reader *attach_reader;
  uint64_t attaches;              /* the control loop's: how many producers there were, */
  uint64_t attached;              /* the lane's: the number of the last it knows of, */
  const struct reader *client_at; /* reply: the control loop's, where its client's reader lies or lay */
  enum session_revival revival;
  /* while it is adopted: the fate that was being counted, whether its file is read once more, and how many frames may lack */
  unsigned settling;
  bool rereads;
  uint64_t most_lost;
  bool cut_client; /* it was cut off by a kill, of which it may not know yet: what it sees of the memory stays as it was */
  unsigned holds;  /* the control loop's: how many there were */
  atomic_uint hold_wanted; /* the number of the hold in force, 0: none */
  atomic_bool hold_for_readers, hold_leaves_partial;
  atomic_uint hold; /* the same, as far as the lane knows */
  atomic_bool hold_posted;
  /* events, by their kind; each set of kinds has a bit for each */
  struct notice notices[SESSION_EVENT_KINDS];
  atomic_uint posted; /* those on their way to the control loop */
  unsigned unreported;    /* those that were not told yet of this producer, of this hold, or of the device */
};

static inline bool session_is_unreported(const struct session *session, enum session_event_kind kind) {
  return (session->unreported & 1U << kind) != 0;
}

/* [lane] The turn and the tick of the session's runner. */
bool session_turn(struct runner *runner);
void session_tick(struct runner *runner, int64_t now);

/* [lane] The source has given its descriptor back. */
void session_on_source_closed(struct source *source);

/* -- reply.c --------------------------------------------------------------------------------------------- */

/* [sink's lane] The client of `reply` left, or its handle is closed now. */
void session_on_client_gone(void *session, bool closed, const char *why);
/* [lane] The client comes with its producer. */
void session_attach_client(struct session *session, struct reader *reader);
/* Reports a client that sends and does not read: nothing else would show that it stands still. */
void session_watch_client(struct session *session, int64_t now);
/* [lane] Lets it go; true once it is gone and all that the sink was told is done. Until then a turn will come. */
bool session_detach_client(struct session *session);
/* [lane] Takes the session and a sink of its own off their lanes and tells SESSION_STOPPED; it may be freed from then on. */
void session_leave(struct session *session);

/* -- adopt.c ----------------------------------------------------------------------------------------------- */

/* Takes the session that lay at that address: arenas have descriptors from then on, if it had `memory`. */
bool session_adopt(struct session *session, const struct session *address, bool memory, struct failure *failure);

/* -- stages.c -------------------------------------------------------------------------------------------- */

/* Makes the program of the stages in force. Set-up thread. */
bool session_make_program(struct session *session, struct failure *failure);
/* After the first one, before anybody else knows the session. */
void session_keep_choices(struct session *session);
void session_free_program(struct session *session);
/* [lane] No frame is on the device, or that is lost: the others are in force. */
void session_take_stages(struct session *session);

/* -- stages.c, rewind.c: see there ------------------------------------------------------------------------ */

/* A bit for each slot with a result, which no warm-up frame may overwrite, or with a frame that may break the device. */
unsigned session_spared(const struct session *session);

/* -- events.c -------------------------------------------------------------------------------------------- */

/* [lane] Sends an event to the control loop. While one of its kind is on its way this does nothing, and `unreported` keeps it. */
void session_report(struct session *session, enum session_event_kind kind);

#endif
