/*
 * What a reload replaces: the pipelines that leave, those that come, and what the ones hand over to the others.
 *
 * The caller decides when; here is what each step does to all of them. Until replacement_stop_old() all of it can be
 * taken back. Calls are for the control loop, except those marked [worker].
 */
#ifndef FRAMED_SERVER_RELOAD_SWAP_H
#define FRAMED_SERVER_RELOAD_SWAP_H

#include "daemon/pipeline/pipeline.h"
#include "daemon/server/private.h"

struct replacement;

/* Compares the server's configuration with `config`, which must stay, and negotiates the pipelines that come. */
struct replacement *replacement_new(struct server *server, const struct config *config, struct failure *failure);
/* After replacement_release(). NULL is fine; returns NULL. */
struct replacement *replacement_free(struct replacement *replacement);

/* Whether files of those that come answer, as far as that is known: nobody is to wait for them. */
bool replacement_may_open(const struct replacement *replacement, struct failure *failure);
/* [worker] Takes memory and device for those that come, and opens what is not in use. */
bool replacement_prepare(struct replacement *replacement, struct failure *failure);

void replacement_quiesce(struct replacement *replacement);
void replacement_unquiesce(struct replacement *replacement);
void replacement_on_quiet(struct replacement *replacement, const struct pipeline *pipeline);
bool replacement_is_quiet(const struct replacement *replacement); /* all that leave */

/* [worker] Opens what those that leave used until now. */
bool replacement_prepare_inherited(struct replacement *replacement, struct failure *failure);

void replacement_stop_old(struct replacement *replacement);
/* Those that were stopped and wait for a file that does not answer are left alone. */
void replacement_let_hang(struct replacement *replacement);
bool replacement_old_is_gone(const struct replacement *replacement);
/* Makes the new list the server's and starts those that come. */
bool replacement_start_new(struct replacement *replacement, struct failure *failure);

/* [worker] Gives back what those took that are not in the server's list. */
void replacement_release(struct replacement *replacement);

/* {"ok": true, "added": [...], "removed": [...], "changed": [...], "unchanged": [...]} */
json_t *replacement_document(const struct replacement *replacement);

#endif
