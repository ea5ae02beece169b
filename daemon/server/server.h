/*
 * server/ is the whole: start, stop, reload, upgrade, GPU fault and signals, in one table of phases and events (phases.c).
 * It uses every other room and is used by main.c alone. Everything here belongs to the control loop (the main thread).
 */
#ifndef FRAMED_SERVER_SERVER_H
#define FRAMED_SERVER_SERVER_H

#include <signal.h>

#include "config/config.h"
#include "daemon/base/failure.h"

struct codec;

/* Runs the daemon with `config`, which it takes, and which the file at `path` replaces on a reload. `codec` holds what a
 * process before this one left, read up to the end of its configuration's text; or NULL. `reload`: the file is to be reloaded
 * at once. Returns when the daemon has ended. */
enum exit_status server_run(const char *path, struct config *config, struct codec *codec, bool reload);
/* The signals that the server reads; until server_run() does they wait. */
void signals_held(sigset_t *held);
/* Writes the text of a configuration to a codec, or reads it from there. */
void server_pass_config(char **text, struct codec *codec);
/* Takes the files of its models and stages, behind that: what opens them gets these, until everything runs or kept_forget(). */
void server_take_files(struct codec *codec);

#endif
