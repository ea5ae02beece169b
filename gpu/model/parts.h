/*
 * Several tensors in one frame: a table at its beginning, then each tensor at a multiple of PARTS_ALIGNMENT bytes. All numbers
 * are little endian; framed-protocol(7) shows the table to clients.
 */
#ifndef FRAMED_GPU_MODEL_PARTS_H
#define FRAMED_GPU_MODEL_PARTS_H

#include "gpu/format.h"

enum { PARTS_ALIGNMENT = 256, PARTS_MOST = 16 };
#define PARTS_MAGIC "FRPARTS1"

struct part {
  uint32_t dtype, rank; /* dtype: enum element_type */
  uint64_t shape[FORMAT_MAX_RANK];
  uint64_t offset, bytes; /* offset: from the beginning of the frame */
};

struct parts {
  char magic[8];
  uint32_t count, reserved;
  struct part parts[PARTS_MOST];
};

/* Appends a tensor of that format, which format_bytes() has passed. */
static inline void parts_add(struct parts *parts, const struct frame_format *format, uint64_t bytes) {
  struct part *part = &parts->parts[parts->count];
  const struct part *before = parts->count > 0 ? part - 1 : NULL;
  uint64_t end = before ? before->offset + before->bytes : sizeof *parts;
  *part = (struct part){.dtype = (uint32_t)format->dtype, .rank = format->rank, .bytes = bytes};
  part->offset = (end + PARTS_ALIGNMENT - 1) / PARTS_ALIGNMENT * PARTS_ALIGNMENT;
  for (uint32_t i = 0; i < format->rank && i < FORMAT_MAX_RANK; i++) {
    part->shape[i] = format->shape[i];
  }
  parts->count++;
}

/* Bytes of the whole frame. */
static inline uint64_t parts_bytes(const struct parts *parts) {
  const struct part *last = parts->count > 0 ? &parts->parts[parts->count - 1] : NULL;
  return last ? last->offset + last->bytes : sizeof *parts;
}

#endif
