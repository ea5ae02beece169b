/*
 * What a reload replaces: the pipelines that leave, those that come, and what the ones hand over to the others; and those that
 * stay and go on with other stages.
 *
 * reload.c decides when a step is due; here is what the step does to all these pipelines. Until swap_stop_old() all of it can
 * be taken back. Calls are for the control loop, except those marked [worker].
 */
#ifndef FRAMED_SERVER_SWAP_H
#define FRAMED_SERVER_SWAP_H

#include "daemon/pipeline/pipeline.h"
#include "daemon/server/private.h"

struct swap;

/* Compares the server's configuration with `config`, which must stay, and negotiates the pipelines that come. */
struct swap *swap_new(struct server *server, const struct config *config, struct failure *failure);
/* After swap_release(). NULL is fine; returns NULL. */
struct swap *swap_free(struct swap *swap);

/* Whether the files of pipelines that come answer, as far as that is known: no worker is to wait for a file that does not. */
bool swap_may_open(const struct swap *swap, struct failure *failure);
/* Whether swap_prepare() may begin: no session of pipelines that stay gets its memory anew, and from now on none does. */
bool swap_may_prepare(const struct swap *swap);
/* [worker] Takes memory and device for pipelines that come, and for other stages, and opens what is not in use. */
bool swap_prepare(struct swap *swap, struct failure *failure);

void swap_quiesce(struct swap *swap);
void swap_unquiesce(struct swap *swap);
void swap_on_quiet(struct swap *swap, const struct pipeline *pipeline);
bool swap_is_quiet(const struct swap *swap); /* all pipelines that leave */

/* [worker] Opens what pipelines that leave used until now. */
bool swap_prepare_inherited(struct swap *swap, struct failure *failure);

void swap_stop_old(struct swap *swap);
/* Pipelines that were stopped and wait for a file that does not answer are left to hanging.c. */
void swap_let_hang(struct swap *swap);
/* Has pipelines that stay go on with other stages. */
void swap_restage(struct swap *swap);
/* What leaves is gone, and other stages are in force. */
bool swap_is_exchanged(const struct swap *swap);
/* Makes the new list of pipelines the server's, and starts those that come. */
bool swap_start_new(struct swap *swap, struct failure *failure);

/* [worker] Gives back what the pipelines took that are not in the server's list. */
void swap_release(struct swap *swap);

/* {"ok": true, "added": [...], "removed": [...], "changed": [...], "in_place": [...], "unchanged": [...]} */
json_t *swap_document(const struct swap *swap);

#endif
