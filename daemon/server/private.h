/*
 * The server's own state, for the files that make it up: server.c (from begin to end, questions, commands), startup.c,
 * shutdown.c (every way to end), gpu_fault.c (what becomes of it when a GPU fails), handover.c (what goes over to the next
 * process image, and comes from the one before), hanging.c (files that do not answer), supervise.c (what happens every few
 * seconds), checkup.c (whether all is well),
 * signals.c, upgrade.c and reload.c.
 */
#ifndef FRAMED_SERVER_PRIVATE_H
#define FRAMED_SERVER_PRIVATE_H

#include <signal.h>

#include "daemon/base/loop.h"
#include "daemon/client/listener.h"
#include "daemon/client/quota.h"
#include "daemon/frame/fault.h"
#include "daemon/measure/clock.h"
#include "daemon/measure/history.h"
#include "daemon/pipeline/engine.h"
#include "daemon/server/server.h"
#include "daemon/status/status.h"

enum server_phase {
  SERVER_STARTING, /* pipelines are being prepared on a worker thread */
  SERVER_RUNNING,
  SERVER_STOPPING, /* pipelines finish what they have */
  SERVER_FAULTED,  /* the GPU is dead: ends at once, without waiting for anything on it */
  SERVER_ENDING,   /* pipelines are gone; handles are being closed */
  SERVER_PHASES
};

/* What the files below server.c report to it; its table says what follows in each phase. */
enum server_event {
  SERVER_PREPARED,       /* every pipeline is, and none runs yet */
  SERVER_SERVES,         /* every pipeline runs, and status and metrics answer */
  SERVER_FAILED,         /* the start, with a failure */
  SERVER_STOP,           /* somebody asked for it: why */
  SERVER_LATE,           /* the time of the stop that is under way is over */
  SERVER_EXCHANGED,      /* a reload has replaced pipelines */
  SERVER_RELOADED,       /* a reload is over, whatever became of it */
  SERVER_LET_GO,         /* the worker of a reload has left the sockets, of which the reload makes nothing after a fault */
  SERVER_PIPELINE_QUIET, /* like those of pipelines, */
  SERVER_PIPELINE_GONE,  /* with the pipeline */
  SERVER_PIPELINE_ENDED, /* and its own event */
  SERVER_FAULT,          /* a device is dead: the fault */
  SERVER_FAULT_WAITS,    /* and is answered when the reload under way is over */
  SERVER_LOST,           /* and cannot be survived */
  SERVER_EVENTS
};

/* What comes with an event; the rest is NULL. */
struct server_cause {
  const char *why;
  const struct failure *failure;
  const struct fault *fault;
  struct pipeline *pipeline;
  enum pipeline_event event;
};

/* A configuration, and the replaced ones that unchanged pipelines still read. */
struct generation {
  struct generation *next; /* older */
  struct config *config;
};

enum { UPGRADE_TEXT = 640 };

/* What a pipeline told while everything was being handed over. */
struct unheard {
  struct unheard *next; /* the later one */
  struct pipeline *pipeline;
  enum pipeline_event event;
  const struct fault *fault; /* its session is there as long as the lanes stand still */
};

/* A command that came while a reload exchanges pipelines: nothing can be noted then, but a command that was answered must
 * outlive a process that is killed right after its answer. */
struct postponed {
  struct postponed *next; /* the later one */
  struct command_order order;
  char pipeline[]; /* its own copy of the name */
};

/* A pipeline that was removed while a file of its does not answer: it is freed when that does. */
struct hanging {
  struct hanging *next;
  struct server *server;
  struct pipeline *pipeline;
};

struct checkup;
struct reload;
struct signals;
struct supervision;
struct tracer;
struct upgrade;

struct server {
  struct status_ops ops; /* what status, metrics and traces ask of it */
  uv_loop_t loop;
  bool loop_open, control_open;
  struct mailbox control;
  const char *path;
  const struct config *config; /* of the newest generation */
  struct generation *generation;
  struct engine *engine;
  struct quota *quota;
  struct pipeline **pipelines; /* in order of the configuration */
  unsigned pipeline_count;
  struct listener *status_listener, *http_listener;
  struct status *status, *http;
  struct signals *signals;
  struct supervision *supervision;
  struct checkup *checkup;
  struct tracer *tracer;
  struct loop_timer *limit; /* of a stop, */
  struct loop_timer *look;  /* and after it, for files that do not answer */
  struct hanging *hanging;
  struct reload *reload;       /* the one under way, or NULL */
  struct postponed *postponed; /* until it has exchanged pipelines */
  enum server_phase phase;
  const struct server_step *step; /* of server.c's table: what is being done */
  void (*report)(struct server *server, enum server_event event, const struct server_cause *cause);
  pipeline_listener *on_pipeline;
  bool stop_wanted;
  bool anchoring;         /* a worker thread is at it */
  char fault[FAULT_TEXT]; /* FAULTED: what the GPU died of */
  enum exit_status exit_status;
  int64_t started;
  uint64_t reloads, reload_failures;
  char reload_refusal[1024]; /* of the last one, with what helps; empty: it was done */
  struct history history;
  struct codec *codec;        /* what a process before this one left, until it is taken; or NULL */
  size_t history_at;          /* where its succession lies on it */
  bool handing_over;          /* lanes stand still, and nothing new may begin */
  struct unheard *unheard;    /* meanwhile */
  bool stops_again;           /* the process before this one was stopping */
  bool reload_at_once;        /* when it serves, or the reload under way is over: the file may have changed */
  bool recovers;              /* the process before this one ended without a word, */
  uint64_t lost_clients;      /* with so many connections */
  bool leaving;               /* STOPPING: another process will go on with everything */
  struct fault *unanswered;   /* of a device, until the reload under way is over; or NULL */
  struct upgrade *upgrade;    /* the one under way, or NULL */
  pid_t asking;               /* the child that it asks; 0: none */
  bool upgrades_again;        /* one was under way in the process before this one, when it had to hand over, */
  pid_t asked;                /* and this child of it runs yet; 0: none */
  char refusal[UPGRADE_TEXT]; /* why the last upgrade was none, or empty */
};

/* handover.c */
/* Takes what is the server's own from its tape. */
void server_take(struct server *server);
/* Whether it is in a state in which everything can be handed over. */
bool server_may_hand_over(const struct server *server, struct failure *failure);
/* Hands everything over to `program` (NULL: this one), which goes on with it. Returns only if that cannot be, with all as it
 * was. */
bool server_hand_over(struct server *server, enum history_cause cause, const char *text, unsigned failed_device,
                      const char *program, struct failure *failure);
/* What a pipeline tells while `handing_over` is heard later, if this process stays. */
void server_hear_later(struct server *server, struct pipeline *pipeline, enum pipeline_event event, const struct fault *fault);
/* Leaves everything to the process that the service manager starts next, and ends this one. Returns only if that cannot be. */
bool server_leave(struct server *server, const char *text, struct failure *failure);
/* Tells the service manager's keeper what a process after this one should know if this one ends without a word. */
void server_note(struct server *server);
/* Which files are written to, and who was there before this process. */
void server_note_journal(const struct server *server);
/* The roster, if it has changed, once all of it can be said. */
void server_note_roster(struct server *server);
/* That it still runs, and how many clients it has. */
void server_beat(const struct server *server);
/* At the start, without a tape: whether the process before ended without a word, and what it left. */
void server_recover(struct server *server);
/* It serves again. */
void server_recovered(struct server *server);
/* What is left to do once everything that was taken runs. */
void server_taken(struct server *server);
/* What was left makes no sense, or does not fit: this process begins anew, without it, or ends. */
_Noreturn void server_start_over(const struct codec *codec, const char *why);

/* startup.c */
bool server_open_loop(struct server *server, struct failure *failure);
/* Begins the start; false if there is nothing to wait for. Reports SERVER_PREPARED, or SERVER_FAILED. */
bool server_start(struct server *server, struct failure *failure);
/* The start has failed: takes up what was left once more, begins anew without it, or ends. */
void server_fail_start(struct server *server, const struct failure *failure);
/* Every pipeline is prepared: starts all of them. Reports SERVER_SERVES, or that the start has failed. */
void server_serve(struct server *server);
/* No pipeline runs any more: the loop ends when libuv has let go of every handle. */
void server_close_handles(struct server *server);
/* The loop has ended. */
void server_close(struct server *server);

/* upgrade.c */
/* Executes the installed program in place, once that has said that it can take over; answers before that, or with 409 and why
 * not. */
void server_upgrade(struct server *server, server_answer *answer, void *context);
/* After a hand-over: begins anew one that was under way before it. */
void upgrade_go_on(struct server *server);
/* Gives up the one under way, if there is one. */
void upgrade_cancel(struct server *server);

/* generation.c */
struct pipeline_setup server_pipeline_setup(struct server *server);
struct generation *generation_new(struct config *config); /* takes it; NULL, without taking it, if there is no memory */
struct generation *generation_free(struct generation *generation); /* the older ones stay; NULL is fine; returns NULL */
/* Puts a configuration in force. */
void server_adopt(struct server *server, struct generation *generation);
/* Frees the replaced configurations that no pipeline reads any more. */
void server_sweep(struct server *server);

/* operations.c */
struct status_ops server_ops(struct server *server);
/* The commands that waited for a reload. */
void server_obey_postponed(struct server *server);

/* gpu_fault.c */
/* A device is dead: hands over to another image of this program. Reports SERVER_LOST if that happens too often or cannot be,
 * and SERVER_FAULT_WAITS where a reload has to be over first. */
void server_fault(struct server *server, const struct server_cause *cause);
/* The same for one that had to wait for a reload, which is over now. */
void server_answer_fault(struct server *server);
/* After a fault every pipeline has stopped, or was given up: the process ends. */
_Noreturn void server_end_after_fault(struct server *server);
/* A timer's: the reload that a fault waits for takes too long. */
void server_end_unanswered(void *context);
/* The same where no pipeline has begun, with a word on what came too often. */
_Noreturn void server_end_by_faults(struct server *server, const struct fault *fault);

/* hanging.c */
/* Whether files answer: no program takes over before that. */
bool server_has_files(const struct server *server, struct failure *failure);
/* Whether those that the pipeline names do, as far as that is known. */
bool server_may_open(const struct server *server, const struct config_pipeline *config, struct failure *failure);
/* A pipeline that was stopped, and that a reload removes, ends when its file answers: the caller has it no more. False: it
 * waits for no file. */
bool server_let_hang(struct server *server, struct pipeline *pipeline);
/* Whether the event was of such a one, and has been seen to. */
bool server_on_hanging(struct server *server, const struct pipeline *pipeline, enum pipeline_event event);
/* Whether there is one. */
bool server_hangs(const struct server *server);
/* The time of a stop is over, or none is given: if only files are waited for, it ends without them. */
void server_look_for_hanging(struct server *server);
_Noreturn void server_end_hanging(struct server *server);
/* At once, with nothing left that another daemon, the service manager or a client would find. */
_Noreturn void server_end_now(struct server *server, enum exit_status status);
/* For an end that a thread in the kernel survives, and with it every descriptor: clients are not to wait for that. While lanes
 * stand still. */
void server_close_sockets(void);

/* supervise.c */
bool supervision_start(struct server *server);
/* To systemd, with a line on what runs. */
void supervision_say_ready(struct server *server);
void supervision_stop(struct server *server); /* idempotent */

/* checkup.c */
/* Whether all is well at this moment, to free(); NULL if there is no memory. */
struct health *server_health(const struct server *server);
bool checkup_prepare(struct server *server, struct failure *failure); /* set-up thread: makes the canaries */
bool checkup_start(struct server *server);
void checkup_stop(struct server *server); /* idempotent */
/* When the pipelines are gone, and before the devices. May wait for a device. */
void checkup_free(struct server *server);

/* signals.c */
/* Those that it reads. */
void signals_held(sigset_t *held);
bool signals_open(struct server *server, struct failure *failure);
void signals_close(struct server *server); /* idempotent */

/* reload.c */
/* Reads the configuration file again and changes what differs, or nothing: 400 with the report of its errors, 409 while
 * the daemon starts, stops or reloads. 200 names the pipelines "added", "removed", "changed" and "unchanged". */
void server_reload(struct server *server, server_answer *answer, void *context);
void reload_on_pipeline(struct reload *reload, struct pipeline *pipeline, enum pipeline_event event);
/* A worker is at the sockets of pipelines, none of which is stopped until it is done: see cut() in server.c. */
bool reload_is_at_sockets(const struct reload *reload);
/* Pipelines stop for those that come. */
bool reload_is_exchanging(const struct reload *reload);
/* Gives a reload up, if it has not replaced anything yet; SERVER_RELOADED follows in any case. */
void reload_cancel(struct reload *reload);

#endif
