/*
 * The segments of a file sink with `rotate`: how one begins, what an earlier process left unfinished, and which of the finished
 * ones go. What is on the disk says all there is to know; what the files are is in daemon/wire/segment.h. Everything here
 * blocks: for a set-up thread, or a worker.
 */
#ifndef FRAMED_SINK_SEGMENTS_H
#define FRAMED_SINK_SEGMENTS_H

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/sink/retention.h"
#include "daemon/wire/segment.h"

struct segment_files { /* both -1: none */
  int data, index;
};

#define SEGMENT_FILES_NONE ((struct segment_files){-1, -1})

/* Makes the next segment, with folders that are missing. `payload`: see struct segment_head. */
bool segments_begin(const struct config_pipeline *config, uint64_t payload, struct segment_files *files,
                    struct failure *failure);
/* Finishes one. Its descriptors stay open. */
bool segments_end(const struct segment_files *files, struct failure *failure);
/* Finishes those that a process before this one left and nobody writes to, and removes those that have to go: see
 * retention_apply(). */
void segments_sweep(const struct config_pipeline *config, struct retention *retention, bool is_full);
/* The index of a segment that goes on; -1: it is gone. */
int segments_find_index(int data);
void segments_drop(struct segment_files *files); /* closes both; idempotent */

static inline bool sink_rotates(const struct config_sink *sink) { return sink->rotate.every_ns > 0 || sink->rotate.size > 0; }

#endif
