/*
 * The outputs of a pipeline through a codec: their listener or file, the readers, each at the byte where it is, and the sink's
 * results. It is put after the sessions whose results these are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/pipeline/private.h"
#include "daemon/sink/results.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/state.h"

static void pass_outlet(struct outputs *outputs, struct codec *codec) {
  unsigned kind = outputs->endpoint.kind;
  CODEC_PASS(codec, outputs->refusals.count);
  CODEC_PASS(codec, outputs->missed);
  CODEC_PASS(codec, outputs->ended);
  CODEC_PASS(codec, outputs->awaits_end);
  CODEC_PASS(codec, outputs->welcome.session);
  trouble_pass(&outputs->trouble, codec);
  codec_pass_below(codec, &kind, ENDPOINT_FIFO + 1);
  codec_pass_descriptor(codec, &outputs->endpoint.fd);
  if (!codec->writing) { /* else a worker thread that prepares a reload may be looking */
    outputs->endpoint.kind = (enum endpoint_kind)kind;
  }
}

static void pass_who(struct reader_entry *place, struct codec *codec) {
  CODEC_PASS(codec, place->pid);
  CODEC_PASS(codec, place->uid);
  codec_pass(codec, place->process, sizeof place->process);
  place->process[sizeof place->process - 1] = '\0';
  codec_pass_time(codec, &place->since);
}

void outputs_put(struct outputs *outputs, struct codec *codec) {
  unsigned count = 0;
  uint64_t sink = image_name(outputs->sink);
  pass_outlet(outputs, codec);
  CODEC_PASS(codec, sink);
  for (const struct reader_entry *place = outputs->places; place; place = place->next) {
    count += codec->live || !reader_has_gone(place->reader);
  }
  CODEC_PASS(codec, count);
  for (struct reader_entry *place = outputs->places; place; place = place->next) {
    if (codec->live || !reader_has_gone(place->reader)) { /* only the lane may ask that of its own */
      bool shares = place->control.fd >= 0;
      uint64_t reader = image_name(place->reader);
      pass_who(place, codec);
      CODEC_PASS(codec, reader);
      codec_pass_descriptor(codec, &place->reader->fd);
      CODEC_PASS(codec, shares);
      if (shares) {
        codec_pass_descriptor(codec, &place->control.fd);
      }
    }
  }
  if (!codec->live) {
    handshakes_pass(outputs->handshakes, codec);
  }
}

/* The control memory of a reader that has results in shared memory. */
static bool take_control(const struct outputs *outputs, struct reader_entry *place, uint64_t name, int fd) {
  struct failure failure;
  char text[96];
  snprintf(text, sizeof text, "framed:%s.reader:control", outputs->config->name);
  return arena_adopt(&place->control, text, NATIVE_CONTROL, fd, NULL, &failure) &&
         reader_share(place->reader, (struct native_control *)place->control.base, 0) &&
         reader_adopt_loans(place->reader, name);
}

/* A reader that cannot go on leaves its descriptor behind. */
static bool reader_entry_take(struct outputs *outputs, struct reader_entry *place, struct codec *codec, sink_road *flow,
                              void *context) {
  struct sink *sink = outputs->sink;
  uint64_t name = 0, torn = 0;
  bool shares = false, cut = true;
  int fd = -1, control = -1;
  pass_who(place, codec);
  CODEC_PASS(codec, name);
  codec_pass_descriptor(codec, &fd);
  CODEC_PASS(codec, shares);
  if (shares) {
    codec_pass_descriptor(codec, &control);
  }
  if (fd >= 0 && !codec->broken) {
    place->reader = sink->operations->is_file ? reader_adopt_file(sink, name, fd, &torn)
                                              : reader_adopt(sink, name, fd, flow, context, &cut);
  }
  outputs->cut = codec->live ? torn : 0;
  if (place->reader && shares && !take_control(outputs, place, name, control)) {
    control = -1; /* the arena's, or closed */
    arena_drop(&place->control);
    place->reader = reader_free(place->reader);
    cut = true;
  }
  if (!place->reader) {
    outputs->cut_off += cut && fd >= 0;
    rights_close(fd);
    return codec->live;
  }
  return true;
}

static void take_readers(struct outputs *outputs, struct codec *codec, sink_road *flow, void *context) {
  unsigned count = 0;
  CODEC_PASS(codec, count);
  for (unsigned i = 0; i < count && !codec->broken; i++) {
    struct reader_entry *place = calloc(1, sizeof *place);
    if (!place) {
      codec_break(codec);
      return;
    }
    place->control = ARENA_NONE;
    if (!reader_entry_take(outputs, place, codec, flow, context)) {
      codec_break(codec);
    }
    if (!place->reader) {
      free(place);
      continue;
    }
    outputs_add(outputs, place);
    place->reader->next = outputs->sink->continuing;
    outputs->sink->continuing = place->reader;
  }
}

/* What is open stays what it was. Of standard output and its like, whose kind says too little, nobody changes what they are. */
static void keep_kind(const struct outputs *outputs) {
  enum endpoint_kind kind = outputs->endpoint.kind;
  bool is_standard = strcmp(outputs->config->sink.path, "-") == 0;
  if (!outputs->listener && !(kind == ENDPOINT_ONCE && is_standard)) {
    sink_be_file(outputs->sink, kind != ENDPOINT_FIFO);
  }
}

/* Readers that are in the middle of a result have their room by now. */
static void take_rooms(struct outputs *outputs, struct codec *codec) {
  struct failure failure;
  for (struct reader_entry *place = outputs->places; place; place = place->next) {
    if (!reader_bring_room(place->reader, &failure)) {
      codec_break(codec);
    }
  }
}

/* -- segments ----------------------------------------------------------------------------------------------------------- */

void outputs_find_index(struct outputs *outputs) {
  struct segment_head head;
  struct reader *reader = outputs->sink->continuing;
  int fd = reader ? reader->fd : outputs->endpoint.fd;
  int index = sink_rotates(&outputs->config->sink) && fd >= 0 ? segments_find_index(fd) : -1;
  if (index < 0) {
    return;
  }
  if (!segment_read_head(index, &head)) {
    close(index);
    return;
  }
  struct stat status;
  int64_t end, size = fstat(fd, &status) == 0 ? status.st_size : 0;
  uint64_t count = segment_count(index, &head, size, &end);
  if (reader) {
    reader_keep_index(reader, index, count, head.began, 0);
  } else {
    outputs->file.index = index;
    outputs->file.count = count;
    outputs->file.began = head.began;
  }
}

bool outputs_take(struct outputs *outputs, struct codec *codec, sink_road *flow, void *context, struct failure *failure) {
  uint64_t name = 0;
  outputs->continues = true;
  pass_outlet(outputs, codec);
  keep_kind(outputs);
  CODEC_PASS(codec, name);
  const struct sink *left = sink_left(name);
  if (!left || !sink_adopt(outputs->sink, left, flow, context)) {
    codec_break(codec);
  }
  take_readers(outputs, codec, flow, context);
  take_rooms(outputs, codec);
  outputs_find_index(outputs);
  outputs->visits = codec->live ? NULL : handshakes_pass(NULL, codec);
  outputs->awaits_end |= codec->live && outputs->endpoint.kind == ENDPOINT_FIFO && outputs->count == 0;
  outputs->ended |= codec->live && outputs->endpoint.kind != ENDPOINT_FIFO && !outputs->listener && outputs->count == 0 &&
                    outputs->endpoint.fd < 0;
  return !codec->broken || failure_set(failure, EXIT_STATUS_INTERNAL, NULL,
                                       "what was handed over of the readers of '%s' makes no sense", outputs->config->name);
}

/* -- a file and its name ------------------------------------------------------------------------------------------------ */

static bool open_anew(const struct outputs *outputs, struct endpoint *endpoint, struct failure *failure) {
  if (!endpoint_open_sink(&outputs->config->sink, endpoint, failure)) {
    return false;
  }
  bool is_fit = sink_prepare_file(outputs->config, &outputs->format, endpoint->fd, failure);
  if (!is_fit) {
    endpoint_close(endpoint);
  }
  return is_fit;
}

/* The file is the sink's one reader, of which the sink has not been told yet. */
void outputs_follow_name(struct outputs *outputs) {
  const char *path = outputs->config->sink.path;
  const struct sink *sink = outputs->sink;
  bool gone, is_file = outputs->continues && !outputs->listener && outputs->endpoint.kind == ENDPOINT_FILE && sink->continuing;
  outputs->file.fd = is_file ? sink->continuing->fd : outputs->file.fd;
  if (!is_file || strcmp(path, "-") == 0 || sink->torn || sink_rotates(&outputs->config->sink)) {
    return;
  }
  struct reader *reader = sink->continuing;
  struct endpoint anew;
  struct failure failure;
  if (!endpoint_has_moved(path, reader->fd, &gone) && !gone) {
    return;
  }
  if (!open_anew(outputs, &anew, &failure)) {
    log_event(LOG_FAILED, outputs->config->name, "somebody has taken '%s' away, and results go on into the old one: %s", path,
              failure.text);
    return;
  }
  log_event(LOG_MOVED, outputs->config->name, "somebody has taken '%s' away: results go on into a new one", path);
  close(reader->fd);
  reader->fd = outputs->file.fd = anew.fd;
  reader->continues = false; /* the reader begins at the end of the new file */
  fd_store_mark();
}
