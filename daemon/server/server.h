/*
 * The daemon as a whole: configuration, devices, lanes and pipelines, from start to end.
 * Everything here belongs to the control loop (the main thread).
 */
#ifndef FRAMED_SERVER_SERVER_H
#define FRAMED_SERVER_SERVER_H

#include <signal.h>

#include "config/config.h"
#include "daemon/base/failure.h"

struct codec;

/* Runs the daemon with `config`, which it takes and which `path` may replace on a reload. `tape` is what a process before this
 * one left, behind the text of its configuration, or NULL; `reload`: the file is to be reloaded at once. Returns when it has
 * ended. */
enum exit_status server_run(const char *path, struct config *config, struct codec *codec, bool reload);
/* The signals that order something of a process that serves. Until server_run() they wait, while TERM and INT end the
 * process. */
void signals_orders(sigset_t *orders);
/* Puts the text on a tape, or takes it from there. */
void server_pass_config(char **text, struct codec *codec);

#endif
