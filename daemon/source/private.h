/*
 * Shared by the kinds of sources. source.c calls a kind through its table, and the kinds call end.c.
 */
#ifndef FRAMED_SOURCE_PRIVATE_H
#define FRAMED_SOURCE_PRIVATE_H

#include "daemon/source/source.h"

struct source_operations {
  /* The source has a descriptor and is open. */
  void (*open)(struct source *source, struct lane *lane);
  bool (*turn)(struct source *source, int64_t now);
  /* Closes the handles that open() made. source_on_handle_closed() follows for each. */
  void (*close)(struct source *source);
};

extern const struct source_operations source_polled_operations, source_file_operations, source_shared_operations;

/* The producer's bytes are over. */
void source_end_of_input(struct source *source);
/* The raw frames do not add up, because the producer sent another protocol. */
void source_end_foreign(struct source *source);
/* Closes the poll handle, if there is one. */
void source_close_poll(struct source *source);
void source_on_handle_closed(uv_handle_t *handle);

#endif
