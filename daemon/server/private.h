/*
 * The server's own state, for the files that make it up. From the top: server.c (its life), phases.c (what each event does),
 * operations.c (what is asked from outside), startup.c (what is taken at the start and given back at the end), signals.c,
 * gpu_fault.c (workers that end or whose device fails), devices.c (which are in use), upgrade.c, reload.c with swap.c (a
 * new configuration), waiting.c (pipelines that wait for the machine), supervise.c (what happens every few seconds),
 * status_socket.c and http_address.c (where status answers), checkup.c (whether all is well), handover.c (what goes to the next
 * process image, and comes from the one before), hanging.c (files that do not answer), generation.c (configurations in use).
 * Each uses those after it, and reports to phases.c alone.
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
#include "daemon/state/image.h"
#include "daemon/state/state.h"
#include "daemon/status/status.h"

enum server_phase {
  SERVER_STARTING, /* pipelines are being prepared on a worker thread */
  SERVER_RUNNING,
  SERVER_STOPPING, /* pipelines finish what they have */
  SERVER_ENDING,   /* pipelines are gone; handles are being closed */
  SERVER_PHASES
};

/* What the files below phases.c report to it; its table says what follows in each phase. */
enum server_event {
  SERVER_PREPARED,          /* every pipeline is prepared, and none runs yet */
  SERVER_SERVES,            /* every pipeline runs, and status and metrics answer */
  SERVER_FAILED,            /* the start has failed; with `failure` */
  SERVER_STOP,              /* somebody asked for a stop; with `why` */
  SERVER_LATE,              /* the time of the stop that is under way is over */
  SERVER_EXCHANGED,         /* a reload has replaced pipelines, and is not over yet */
  SERVER_RELOADED,          /* a reload is over, whatever became of it */
  SERVER_PIPELINE_QUIET,    /* PIPELINE_QUIET; with `pipeline` and `event`, */
  SERVER_PIPELINE_GONE,     /* as for PIPELINE_GONE */
  SERVER_PIPELINE_ENDED,    /* PIPELINE_ENDED */
  SERVER_PIPELINE_RESTAGED, /* and PIPELINE_RESTAGED */
  SERVER_FAULT,             /* a device has lost its worker */
  SERVER_EVENTS
};

/* What comes with an event; what does not belong to the event is NULL. */
struct server_cause {
  const char *why;
  const struct failure *failure;
  struct pipeline *pipeline;
  enum pipeline_event event;
};

/* A configuration in use: the one in force, or a replaced one that unchanged pipelines still read. */
struct generation {
  struct generation *next; /* older */
  struct config *config;
};

enum { UPGRADE_TEXT = 640, HTTP_REFUSAL = 512 };

/* What a pipeline told while everything was being handed over. */
struct unheard {
  struct unheard *next; /* told later */
  struct pipeline *pipeline;
  enum pipeline_event event;
};

/* A command that came while a reload exchanges pipelines. A command that was answered must outlive a process that is killed
 * right after the answer, and nothing can be noted for the next process during the exchange. */
struct postponed {
  struct postponed *next; /* came later */
  struct command_order order;
  char pipeline[]; /* a copy of the name, which `order` points to */
};

/* A pipeline that was removed while one of its files does not answer: the pipeline is freed when the file answers. */
struct hanging {
  struct hanging *next;
  struct server *server;
  struct pipeline *pipeline;
};

struct attempt;
struct checkup;
struct device_change;
struct reload;
struct signals;
struct supervision;
struct pictures;
struct recovery;
struct tracer;
struct upgrade;

struct server {
  struct status_ops ops; /* what status, metrics and traces ask of the server */
  uv_loop_t loop;
  bool loop_open;
  struct mailbox control;
  const char *path;
  const struct config *config; /* of the newest generation */
  struct generation *generation;
  struct engine *engine;
  struct quota *quota;
  struct cameras *cameras;
  struct pipeline **pipelines; /* in order of the configuration */
  unsigned pipeline_count;
  struct listener *status_listener, *http_listener;
  struct status *status, *http;
  bool http_leaves;                /* the one at status.http is closing */
  char http_refusal[HTTP_REFUSAL]; /* why nobody answers at status.http; empty: somebody does, or nobody should */
  struct signals *signals;
  struct supervision *supervision;
  struct checkup *checkup;
  struct tracer *tracer;
  struct pictures *pictures;
  unsigned live_viewers;
  struct loop_timer *limit; /* of a stop */
  struct loop_timer *look;  /* looks for files that do not answer, once the time of a stop is over */
  struct loop_timer *tries; /* of pipelines that wait for the machine; NULL: none has waited yet */
  struct attempt *attempt;  /* the try under way, or NULL, */
  struct pipeline *tried;   /* and the pipeline that it makes */
  struct hanging *hanging;
  struct reload *reload;       /* the one under way, or NULL */
  struct postponed *postponed; /* until the reload has exchanged pipelines */
  enum server_phase phase;
  const struct server_step *step; /* the field of phases.c's table that is being acted upon */
  void (*report)(struct server *server, enum server_event event, const struct server_cause *cause);
  pipeline_listener *on_pipeline;
  bool stop_wanted;
  bool attending; /* a set-up thread sees to it that workers stand by */
  enum exit_status exit_status;
  int64_t started;
  uint64_t reloads, reload_failures;
  char reload_refusal[1024]; /* why the last reload was refused, with what helps; empty: it was done */
  struct history history;
  /* By the devices' numbers. */
  struct worker_history workers[ENGINE_MOST_DEVICES];
  const struct left *left;       /* what a process before this one left, until it is taken; or NULL */
  bool handing_over;             /* lanes stand still, and nothing new may begin */
  enum history_cause cause;      /* then: why */
  struct unheard *unheard;       /* what pipelines told while `handing_over` */
  bool stops_again;              /* the process before this one was stopping */
  bool next_stops, next_reloads; /* in what was left: a process that could not go on with it was asked to */
  bool reload_at_once;           /* the file may have changed: reload when the server runs and no reload is under way */
  bool recovers;                 /* the process before this one was killed, and its connections are gone */
  uint64_t lost_clients;         /* how many clients a killed process had */
  bool leaving;                  /* STOPPING: another process will go on with everything */
  struct recovery *recoveries;   /* one for each device */
  int64_t revived;               /* when a device got another worker last: CLOCK_MONOTONIC ns */
  unsigned recovery_count;
  struct upgrade *upgrade;             /* the one under way, or NULL */
  struct device_change *device_change; /* likewise */
  pid_t asking;                        /* the child that the upgrade under way asks; 0: none */
  bool upgrades_again;                 /* the process before this one had to hand over in the midst of an upgrade */
  pid_t asked;                         /* the child that the upgrade before this process still asks; 0: none */
  char refusal[UPGRADE_TEXT];          /* why the last upgrade was refused; empty: it was not */
};

/* phases.c */
/* From here on what is reported, and what pipelines tell, has its effects. */
void server_follow_phases(struct server *server);

/* operations.c */
struct status_ops server_ops(struct server *server);
/* Obeys the commands that waited for a reload. */
void server_obey_postponed(struct server *server);

/* startup.c */
bool server_open_loop(struct server *server, struct failure *failure);
/* Begins the start; false if there is nothing to wait for. Reports SERVER_PREPARED, or SERVER_FAILED. */
bool server_start(struct server *server, struct failure *failure);
/* The start has failed: takes up what was left once more, begins anew without it, or reports SERVER_FAILED. */
void server_fail_start(struct server *server, const struct failure *failure);
/* Every pipeline is prepared: starts all of them. Reports SERVER_SERVES, or SERVER_FAILED. */
void server_serve(struct server *server);
/* No pipeline runs any more: the loop ends when libuv has let go of every handle. */
void server_close_handles(struct server *server);
/* The loop has ended. */
void server_close(struct server *server);

/* signals.c */
/* Reports SERVER_STOP for those that end the daemon. */
bool signals_open(struct server *server, struct failure *failure);
void signals_close(struct server *server); /* idempotent */

/* gpu_fault.c */
/* Before supervision: from then on a device that loses its worker gets another one. False: there is no memory. */
bool recoveries_open(struct server *server);
void recoveries_stop(struct server *server); /* idempotent */
void recoveries_free(struct server *server); /* after the loop */
/* Devices that have lost their worker get another one. */
void server_fault(struct server *server, const struct server_cause *cause);
/* Replaces a sound worker, because another program than the one it executes was installed. */
void server_renew_worker(struct server *server, unsigned device);
/* Whether the device has lost its worker, and has no other one yet. */
bool recovery_is_under_way(const struct server *server, unsigned device);
/* Whether a device will have another worker soon. */
bool recoveries_are_at_work(const struct server *server);
/* Devices whose workers failed too often get the next one at once. */
void recoveries_hurry(struct server *server);
/* Why the device has no worker for some time, and since when; NULL: it has one, or will have at once. */
const char *recovery_waits(const struct server *server, unsigned device, int64_t *since);

/* devices.c */
/* Drains a device, or brings it back, by a hand-over; answers before that. 404 for an unknown one; 409 where a pipeline has no
 * other, or something else is under way. */
void server_device(struct server *server, const struct device_order *order);
/* The device failed, and its sessions go to others as soon as a hand-over can be. False: there is no memory. */
bool server_move_off(struct server *server, unsigned number);
/* Gives up the change under way, if there is one. */
void device_change_cancel(struct server *server);

/* upgrade.c */
/* Executes the installed program in place, once that has said that it can take over; answers before that, or with 409 and why
 * not. */
void server_upgrade(struct server *server, server_answer *answer, void *context);
/* After a hand-over: begins anew an upgrade that was under way before it. */
void upgrade_go_on(struct server *server);
/* Gives up the upgrade under way, if there is one. */
void upgrade_cancel(struct server *server);

/* reload.c */
/* Reads the configuration file again and changes what differs, or nothing: 400 with the report of its errors, 409 while
 * the daemon starts, stops or reloads. 200 names the pipelines "added", "removed", "changed" (those of
 * which only the stages differ also "in_place") and "unchanged". Reports
 * SERVER_EXCHANGED and SERVER_RELOADED. */
void server_reload(struct server *server, server_answer *answer, void *context);
void reload_on_pipeline(struct reload *reload, struct pipeline *pipeline, enum pipeline_event event);
/* A worker is at the sockets of pipelines, none of which may be stopped until it is done: see server_cut() in phases.c. */
bool reload_is_at_sockets(const struct reload *reload);
/* Pipelines stop for those that come. */
bool reload_is_exchanging(const struct reload *reload);
/* Gives a reload up, if it has not replaced anything yet; SERVER_RELOADED follows in any case. */
void reload_cancel(struct reload *reload);

/* waiting.c */
/* Set-up thread: prepares a pipeline, one of so many that are to start, so that it does not take the last descriptors, which
 * clients of status need. */
bool waiting_prepare(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance, unsigned to_start,
                     struct failure *failure);
/* Tries pipelines that wait from now on. False: there is no memory. */
bool waiting_follow(struct server *server);
void waiting_stop(struct server *server); /* idempotent */
/* Whether a try is under way that a reload has to wait for. */
bool waiting_is_tried(const struct server *server);
/* Tries all of them soon, whatever their pauses. */
void waiting_try_all(struct server *server);

/* supervise.c */
/* Reports SERVER_FAULT for a device that has lost its worker. */
bool supervision_start(struct server *server);
/* To systemd, with a line on what runs. */
void supervision_say_ready(struct server *server);
void supervision_stop(struct server *server); /* idempotent */

/* status_socket.c */
/* False: another daemon has the socket, or its path is wrong. What the machine refuses is tried again later. */
bool status_socket_open(struct server *server, struct failure *failure);
/* Answers there from now on, if it is open. */
bool status_socket_serve(struct server *server, struct failure *failure);
/* Tries to open it again where that was refused. */
void status_socket_follow(struct server *server);

/* http_address.c */
/* Listens at status.http, if that can be. */
void http_address_open(struct server *server);
/* Serves status.http as the configuration says: at once, or at one of the next ticks. */
void http_address_follow(struct server *server);
void http_address_close(struct server *server); /* idempotent */

/* checkup.c */
/* Whether all is well at this moment, to free(); NULL if there is no memory. */
struct health *server_health(const struct server *server);
bool checkup_start(struct server *server); /* reports SERVER_FAULT; false: there is no memory */
void checkup_stop(struct server *server);  /* idempotent */
void checkup_free(struct server *server);

/* handover.c */
/* Takes what is the server's own from what the process before this one left. False: it makes no sense. */
bool server_take(struct server *server);
/* Has the next image of this process, which takes the same, find the history there, and what somebody asked for meanwhile. */
bool server_tell_next(const struct server *server);
/* Frames on the device (NO_DEVICE: on any) are suspected: see session_suspect(). While lanes stand still. */
unsigned server_suspect(struct server *server, unsigned device, bool failed, bool alone);
/* Whether the server is in a phase, and its pipelines in states, in which everything can be handed over. */
bool server_may_hand_over(const struct server *server, struct failure *failure);
/* Hands everything over to `program` (NULL: this one), which goes on with it, or at HISTORY_RESTART to the process that the
 * service manager starts next. Returns only if that cannot be, with all as it was. */
void server_hand_over(struct server *server, enum history_cause cause, const char *text, const char *program,
                      struct failure *failure);
/* What a pipeline tells while `handing_over` is heard later, if this process stays. */
void server_hear_later(struct server *server, struct pipeline *pipeline, enum pipeline_event event);
/* Tells the service manager's fd store all that the next process should know if this one is killed, once all of it can be said.
 */
void server_note(struct server *server);
/* The same if it has changed. */
void server_note_state(struct server *server);
/* At the start: which files are written to, for a process that does not go on from here. */
void server_note_files(struct server *server);
/* The heartbeat: that this process still runs, and how many clients it has. */
void server_beat(const struct server *server);
/* At a start for which nothing was left: whether the process before was killed, and what it tells. */
void server_recover(struct server *server);
/* After a kill: the server runs again, with the connections that were taken, if any were. */
void server_recovered(struct server *server);
/* Everything that was taken runs: closes what is left of it, and says so. */
void server_taken(struct server *server);
/* What was left makes no sense, or does not fit: this process begins anew, without it, or ends. */
_Noreturn void server_start_over(const char *why);

/* hanging.c */
/* Whether files answer: no program takes over before they do. */
bool server_has_files(const struct server *server, struct failure *failure);
/* Whether the files that the pipeline names answer, as far as that is known. */
bool server_may_open(const struct server *server, const struct config_pipeline *config, struct failure *failure);
/* A pipeline that was stopped, and that a reload removes, ends when its file answers: the caller has it no more. False: it
 * waits for no file. */
bool server_let_hang(struct server *server, struct pipeline *pipeline);
/* Whether the event came from a pipeline that server_let_hang() took, and has been seen to. */
bool server_on_hanging(struct server *server, const struct pipeline *pipeline, enum pipeline_event event);
/* Whether a pipeline that server_let_hang() took still waits. */
bool server_hangs(const struct server *server);
/* The time of a stop is over, or none is given: if only files are waited for, the process ends without them. */
void server_look_for_hanging(struct server *server);
_Noreturn void server_end_hanging(struct server *server);
/* At once, with nothing left that another daemon, the service manager or a client would find. */
_Noreturn void server_end_now(struct server *server, enum exit_status status);
/* For an end that a thread in the kernel survives, and with it every descriptor: clients are not to wait for that. While lanes
 * stand still. */
void server_close_sockets(void);

/* generation.c */
struct generation *generation_new(struct config *config); /* takes it; NULL, without taking it, if there is no memory */
struct generation *generation_free(struct generation *generation); /* the older ones stay; NULL is fine; returns NULL */
/* Puts a configuration in force. */
void server_adopt(struct server *server, struct generation *generation);
/* Frees one that was never in force; NULL is fine. */
void server_discard(struct server *server, struct generation *generation);
/* Frees the replaced configurations that no pipeline reads any more, and closes models that none runs. */
void server_sweep(struct server *server);
/* What pipelines are made with, once the devices are open. */
struct pipeline_setup server_pipeline_setup(struct server *server);

#endif
