/*
 * Finds the files of a pipeline's segments. All code that counts, finishes or removes segments asks here. A file belongs to the
 * pipeline if the configured pattern can produce its name and its index names the pipeline. Blocks.
 */
#ifndef FRAMED_SINK_LISTING_H
#define FRAMED_SINK_LISTING_H

#include "config/config.h"
#include "daemon/wire/segment.h"

/* `entry`, with its complete path, is valid during the call. */
typedef void listing_visit(void *context, const struct folder_entry *entry);

/* Calls `visit` for each file whose name the pattern can produce with `suffix` appended, whichever process made it. */
void listing_walk(const struct config_pipeline *config, const char *suffix, listing_visit *visit, void *context);
/* True if the index names this pipeline. */
bool listing_is_own(const struct config_pipeline *config, int index);
/* The name of the pipeline in an index. */
void listing_owner(const struct config_pipeline *config, char owner[SEGMENT_OWNER]);
/* Removes the folders that the name of a segment created, if they are empty. */
void listing_remove_folders(const struct config_pipeline *config, const char *path);

#endif
