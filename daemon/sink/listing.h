/*
 * Which files in the folders of a pipeline's segments are its own. Only this says so, for all that counts, finishes and removes
 * segments: the name is one that the configured pattern can become, and the index beside it names the pipeline. Blocks.
 */
#ifndef FRAMED_SINK_LISTING_H
#define FRAMED_SINK_LISTING_H

#include "config/config.h"
#include "daemon/wire/segment.h"

/* `entry` is valid during the call; its path is the whole one. */
typedef void listing_visit(void *context, const struct folder_entry *entry);

/* Calls `visit` for each file that has a name of the pipeline's segments with `suffix` behind it, whoever made it. */
void listing_walk(const struct config_pipeline *config, const char *suffix, listing_visit *visit, void *context);
/* Whether the index is of this pipeline. */
bool listing_is_own(const struct config_pipeline *config, int index);
/* The pipeline as an index names it. */
void listing_owner(const struct config_pipeline *config, char owner[SEGMENT_OWNER]);
/* Removes the folders of a segment that its name made, as far as they are empty. */
void listing_remove_folders(const struct config_pipeline *config, const char *path);

#endif
