/*
 * The segments of a file sink with `rotate`: beginning one, finishing one, and sweeping those that an earlier process left. All
 * state is on the disk; daemon/wire/segment.h describes the files. Everything here blocks: for a set-up thread or libuv's pool.
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

/* Makes the next segment and missing folders. `payload`: see struct segment_head. */
bool segments_begin(const struct config_pipeline *config, uint64_t payload, struct segment_files *files,
                    struct failure *failure);
/* Finishes a segment. Its descriptors stay open. */
bool segments_end(const struct segment_files *files, struct failure *failure);
/* Finishes segments that an earlier process left and nobody writes to. Then removes those that must go: see
 * retention_apply(). */
void segments_sweep(const struct config_pipeline *config, struct retention *retention, bool is_full);
/* Opens the index of a segment that continues; -1: it is gone. */
int segments_find_index(int data);
void segments_drop(struct segment_files *files); /* closes both; idempotent */

static inline bool sink_rotates(const struct config_sink *sink) { return sink->rotate.every_ns > 0 || sink->rotate.size > 0; }

#endif
