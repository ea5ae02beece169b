/*
 * Taking over the outputs of a pipeline: their file, the readers at their positions, and the sink's results. Called after the
 * sessions to which the results belong.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/pipeline/private.h"
#include "daemon/sink/results.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/state.h"

enum { MOST_READERS = 1 << 16 };

/* A handshake under way goes to the next process only at an orderly end. */
void outputs_keep(const struct outputs *outputs, bool live) {
  fd_table_want(outputs->endpoint.fd);
  handshakes_keep(live ? NULL : outputs->handshakes);
  for (const struct reader_entry *entry = outputs->entries; entry; entry = entry->next) {
    fd_table_want(entry->reader->fd);
    fd_table_want(entry->control.fd);
  }
}

/* Takes over the control memory of a reader with shared memory. */
static bool take_control(const struct outputs *outputs, struct reader_entry *entry, const struct reader *left, int fd) {
  struct failure failure;
  char text[96];
  snprintf(text, sizeof text, "framed:%s.reader:control", outputs->config->name);
  return arena_adopt(&entry->control, text, NATIVE_CONTROL, 1, fd, NULL, &failure) &&
         reader_share(entry->reader, (struct native_control *)entry->control.base, 0) &&
         reader_adopt_leases(entry->reader, left);
}

/* If a reader cannot continue, its descriptor is closed. */
static void adopt_reader(struct outputs *outputs, struct reader_entry *entry, const struct reader_entry *left,
                         sink_flow_lookup *flow, void *context) {
  struct sink *sink = outputs->sink;
  const struct reader *reader = reader_left(left->reader);
  uint64_t torn = 0;
  bool cut = true;
  /* The reader and its control memory must match. A reader that cannot continue must not take its share of a frame's rest. */
  bool fits = reader && (reader->shared == NULL) == (left->control.fd < 0);
  int fd = reader ? fd_table_take(reader->fd) : -1;
  if (fd >= 0 && fits) {
    bool is_file = sink_is_file(sink);
    outputs->file.fd = is_file && outputs->endpoint.kind == ENDPOINT_FILE ? fd : -1;
    entry->reader = is_file ? reader_adopt_file(sink, reader, fd, &torn) : reader_adopt(sink, reader, fd, flow, context, &cut);
  }
  outputs->cut = state_left()->live ? torn : 0;
  if (entry->reader && left->control.fd >= 0 && !take_control(outputs, entry, reader, fd_table_take(left->control.fd))) {
    arena_drop(&entry->control);
    entry->reader = reader_free(entry->reader);
    cut = true;
  }
  if (!entry->reader && fd >= 0) {
    outputs->cut_off += cut;
    rights_close(fd);
  }
}

static bool adopt_readers(struct outputs *outputs, const struct reader_entry *address, sink_flow_lookup *flow, void *context) {
  const struct reader_entry *left = image_left_at(address, IMAGE_READER_ENTRY, sizeof *left);
  for (unsigned i = 0; left && i < MOST_READERS; i++) {
    struct reader_entry *entry = image_new(IMAGE_READER_ENTRY, sizeof *entry);
    if (!entry || !image_is_time(left->since)) {
      image_free(entry);
      return false;
    }
    *entry = (struct reader_entry){.pid = left->pid, .uid = left->uid, .since = left->since, .control = ARENA_NONE};
    memcpy(entry->process, left->process, sizeof entry->process - 1);
    adopt_reader(outputs, entry, left, flow, context);
    if (entry->reader) {
      outputs_add(outputs, entry);
      entry->reader->next = outputs->sink->continuing;
      outputs->sink->continuing = entry->reader;
    } else {
      image_free(entry);
    }
    left = image_left_at(left->next, IMAGE_READER_ENTRY, sizeof *left);
  }
  return !left;
}

/* Keeps the kind of the open file. Standard output is left out: its kind says too little, and it cannot change. */
static void keep_kind(const struct outputs *outputs) {
  enum endpoint_kind kind = outputs->endpoint.kind;
  bool is_standard = strcmp(outputs->config->sink.path, "-") == 0;
  if (!outputs->listener && !(kind == ENDPOINT_ONCE && is_standard)) {
    sink_set_kind(outputs->sink, kind != ENDPOINT_FIFO);
  }
}

/* Readers in the middle of a result have their buffer already. */
static bool bring_rooms(struct outputs *outputs) {
  struct failure failure;
  bool all = true;
  for (struct reader_entry *entry = outputs->entries; entry; entry = entry->next) {
    all = all && reader_bring_room(entry->reader, &failure);
  }
  return all;
}

/* -- segments ----------------------------------------------------------------------------------------------------------- */

/* [set-up thread] Opens the index of a segment of the previous process. */
static void find_index(struct outputs *outputs, const struct outputs *left) {
  struct segment_index reading;
  struct stat status;
  struct reader *reader = outputs->sink->continuing;
  int fd = reader ? reader->fd : outputs->endpoint.fd;
  int index = sink_rotates(&outputs->config->sink) && fd >= 0 ? segments_find_index(fd) : -1;
  if (index < 0) {
    return;
  }
  if (fstat(fd, &status) != 0 || !segment_index_open(&reading, index, status.st_size)) {
    close(index);
    return;
  }
  if (reader) {
    reader->segment.index = index;
    reader->segment.count = reading.count;
  } else {
    outputs->file.index = index;
    outputs->file.count = reading.count;
    outputs->file.times = (struct segment_times){.began = image_is_time(left->file.times.began) ? left->file.times.began : 0,
                                                 .shift = image_is_shift(left->file.times.shift) ? left->file.times.shift : 0};
  }
}

static const struct outputs *outputs_left(const struct outputs *address) {
  const struct outputs *left = image_left_at(address, IMAGE_OUTPUTS, sizeof *left);
  bool sound =
      left && (unsigned)left->endpoint.kind <= ENDPOINT_FIFO && IMAGE_IS_FLAG(left->ended) && IMAGE_IS_FLAG(left->awaits_end);
  return sound ? left : NULL;
}

bool outputs_left_readers(const struct outputs *address) {
  const struct outputs *left = outputs_left(address);
  return left && (left->entries || handshakes_left(left->handshakes));
}

/* After a kill the reader may be gone. A regular file is opened again by its name. */
static bool adopt_ends(struct outputs *outputs, const struct outputs *left, struct failure *failure) {
  bool is_fifo = left->endpoint.kind == ENDPOINT_FIFO, is_socket = outputs_is_socket(outputs);
  bool is_lost = state_left()->live && outputs->count == 0 && (is_fifo || (!is_socket && outputs->endpoint.fd < 0));
  bool is_named = is_lost && left->endpoint.kind == ENDPOINT_FILE && !left->ended;
  outputs->refusals.count = left->refusals.count;
  outputs->missed = left->missed;
  outputs->welcome.session = left->welcome.session;
  outputs->awaits_end = left->awaits_end || (is_lost && is_fifo);
  outputs->ended = left->ended || (is_lost && !is_fifo && !is_named);
  outputs->left_handshakes = left->handshakes;
  bool sound = true;
  for (unsigned i = 0; i < OUTPUT_CAUSES && sound; i++) {
    sound = trouble_adopt(&outputs->troubles[i], &left->troubles[i]);
  }
  return sound && (!is_named || outputs_open_file(outputs, NULL, failure) || outputs_may_come_late(outputs, failure));
}

bool outputs_adopt(struct outputs *outputs, const struct outputs *address, sink_flow_lookup *flow, void *context,
                   struct failure *failure) {
  const struct outputs *left = outputs_left(address);
  const struct sink *sink = left ? sink_left(left->sink) : NULL;
  outputs->continues = true;
  if (sink) {
    outputs->endpoint = (struct endpoint){.kind = left->endpoint.kind, .fd = fd_table_take(left->endpoint.fd)};
    keep_kind(outputs);
  }
  bool sound = sink && sink_adopt(outputs->sink, sink, flow, context) && adopt_readers(outputs, left->entries, flow, context) &&
               bring_rooms(outputs);
  if (sound) {
    find_index(outputs, left);
    outputs->file.retention = retention_is_sound(&left->file.retention) ? left->file.retention : (struct retention){0};
  }
  return (sound && adopt_ends(outputs, left, failure)) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the previous process left an invalid state of the readers of '%s'",
                     outputs->config->name);
}
