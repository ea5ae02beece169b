/*
 * server/ is the whole: start, stop, reload, upgrade, GPU fault and signals, in one table of phases and events (phases.c).
 * It uses every other room and is used by main.c alone. Everything here belongs to the control loop (the main thread).
 */
#ifndef FRAMED_SERVER_SERVER_H
#define FRAMED_SERVER_SERVER_H

#include <signal.h>

#include "config/config.h"
#include "daemon/base/failure.h"

struct left;

/* Runs the daemon with `config`, which it takes, and which the file at `path` replaces on a reload. `left`: what a
 * process before this one left; or NULL. `reload`: the file is to be reloaded
 * at once. Returns when the daemon has ended. */
enum exit_status server_run(const char *path, struct config *config, const struct left *left, bool reload);
/* The signals that the server reads; until server_run() does they wait. */
void signals_held(sigset_t *held);
/* The text of the configuration that was left, or NULL. Begins with the devices that the process before had; what opens the
 * files of its models and stages gets those that were left, until everything runs or kept_forget(). */
const char *server_take_config(const struct left *left);

#endif
