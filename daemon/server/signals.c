/*
 * Signals as events of the control loop: TERM and INT end, HUP reloads, USR1 writes the state to the log, USR2 upgrades.
 *
 * Signals are blocked in every thread, and wait in the kernel until they are read here and acted upon. So a signal that comes
 * while another image of the process takes over is still there for that image. Those of a fault of our own say first that our
 * memory is not to be believed, and then do what they would have done.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/server/private.h"
#include "daemon/source/source.h"
#include "daemon/state/image.h"

static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
enum { WANTED = sizeof wanted / sizeof *wanted };

static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT};
enum { FAULTS = sizeof faults / sizeof *faults };
static struct sigaction before[FAULTS];

struct signals {
  int fd;
  struct loop_watch *watch;
};

static void dump_pipeline(const char *name, json_t *document) {
  char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9));
  log_event(LOG_STATE_DUMP, name, "%s", text ? text : "not enough memory to write the state");
  free(text);
}

static void dump_state(struct server *server) {
  json_t *document = server->phase == SERVER_RUNNING ? status_document(&server->ops, NULL) : NULL;
  if (!document) {
    log_event(LOG_STATE_DUMP, NULL, "there is no state to write at the moment");
    return;
  }
  const char *name;
  json_t *pipeline;
  json_object_foreach(json_object_get(document, "pipelines"), name, pipeline) { dump_pipeline(name, pipeline); }
  json_object_del(document, "pipelines");
  dump_pipeline(NULL, document);
  json_decref(document);
}

static void signals_act(struct server *server, int number) {
  switch (number) {
  case SIGHUP:
    if (server->phase == SERVER_STARTING || server->reload) {
      server->reload_at_once = true; /* the file may have changed since it was read, and nobody can be told to try again */
    } else {
      server_reload(server, answer_nobody, NULL);
    }
    break;
  case SIGUSR2:
    server_upgrade(server, answer_nobody, NULL);
    break;
  case SIGUSR1:
    dump_state(server);
    break;
  default:
    source_stop_loading();
    server->report(server, SERVER_STOP, &(struct server_cause){.why = number == SIGTERM ? "SIGTERM" : "SIGINT"});
    break;
  }
}

/* What a signal leads to may close the signals themselves. */
static void on_signals(void *context) {
  struct server *server = context;
  struct signalfd_siginfo signal;
  while (server->signals && read(server->signals->fd, &signal, sizeof signal) == (ssize_t)sizeof signal) {
    signals_act(server, (int)signal.ssi_signo);
  }
}

void signals_held(sigset_t *held) {
  sigemptyset(held);
  for (unsigned i = 0; i < WANTED; i++) {
    sigaddset(held, wanted[i]);
  }
}

/* Pending until this returns, the signal comes once more, as if nobody had asked for it. */
static void on_fault(int number) {
  image_disown();
  for (unsigned i = 0; i < FAULTS; i++) {
    if (faults[i] == number) {
      sigaction(number, &before[i], NULL);
    }
  }
  raise(number);
}

bool signals_open(struct server *server, struct failure *failure) {
  const struct sigaction action = {.sa_handler = on_fault};
  for (unsigned i = 0; i < FAULTS; i++) {
    sigaction(faults[i], &action, &before[i]);
  }
  sigset_t held;
  signals_held(&held);
  pthread_sigmask(SIG_BLOCK, &held, NULL);
  struct signals *signals = server->signals = calloc(1, sizeof *signals);
  if (!signals) {
    return failure_set_system(failure, ENOMEM, NULL, "cannot handle signals");
  }
  signals->fd = signalfd(-1, &held, SFD_NONBLOCK | SFD_CLOEXEC);
  signals->watch = signals->fd >= 0 ? loop_watch_new(&server->loop, signals->fd, on_signals, server) : NULL;
  if (!signals->watch) {
    return failure_set_system(failure, errno, "raise the limit of open files (LimitNOFILE=)", "cannot handle signals");
  }
  loop_watch_start(signals->watch);
  return true;
}

void signals_close(struct server *server) {
  struct signals *signals = server->signals;
  server->signals = NULL;
  if (!signals) {
    return;
  }
  loop_watch_close(signals->watch);
  if (signals->fd >= 0) {
    close(signals->fd);
  }
  free(signals);
}
