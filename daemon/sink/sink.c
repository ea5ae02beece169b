/* The interface of a sink to its pipeline and its session: choosing the kind, orders from the control loop, results. */
#include "daemon/sink/sink.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/device/formats.h"
#include "daemon/frame/relay.h"
#include "daemon/sink/results.h"
#include "daemon/sink/retention.h"

static bool sink_run_turn(struct runner *runner) {
  struct sink *sink = (struct sink *)runner;
  sink_take_handed_over(sink);
  bool more = sink->operations->turn(sink, clock_now());
  return more || (sink->relay && !relay_may_rest(sink->relay));
}

static void sink_set_up(struct sink *sink, const struct sink_operations *operations, const struct sink_setup *setup) {
  sink->runner.turn = sink_run_turn;
  sink->runner.priority = formats_priority(setup->config->priority);
  sink->operations = operations;
  sink->lane = setup->lane;
  sink->control = setup->control;
  sink->listener = setup->listener;
  sink->context = setup->context;
  sink->block = setup->config->sink.overload == CONFIG_SINK_BLOCK || setup->config->sink.endpoint != CONFIG_SOCKET;
  sink->format = *setup->output;
  const struct frame_format input = formats_format(&setup->config->source.format);
  sink->keeps_look = format_equal(&input, setup->output);
  sink->protocol = setup->config->sink.protocol;
  format_bytes(setup->output, &sink->result_bytes);
  sink->rooms.most = setup->config->sink.slow_readers;
  sink->spin_ns = setup->config->completion != CONFIG_COMPLETION_CALLBACK ? setup->config->spin_for_ns : 0;
  sink->file.position = -1;
  sink->file.every_ns = setup->config->sink.rotate.every_ns;
  sink->file.most = setup->config->sink.rotate.size;
  sink->file.makes_room = retention_makes_room(&setup->config->sink.rotate);
  enum config_protocol source = setup->config->source.protocol;
  bool replies = setup->config->sink.endpoint == CONFIG_REPLY;
  sink->speaks_native = sink->protocol == CONFIG_PROTOCOL_NATIVE || (replies && source == CONFIG_PROTOCOL_NATIVE) ||
                        (replies && source == CONFIG_PROTOCOL_AUTO);
}

void sink_join_handoff(struct sink *sink, struct relay *relay) {
  assert(!sink->relay);
  sink->relay = relay;
  spsc_init(&relay->there, sink->lane, &sink->runner);
}

/* The only place that knows all kinds. The path of a file sink may name a pipe or a terminal, which is polled. */
static const struct sink_operations *kind_of(const struct config_sink *config) {
  struct stat status;
  bool is_standard_output = config->endpoint == CONFIG_FILE && strcmp(config->path, "-") == 0;
  if (config->endpoint != CONFIG_FILE) {
    return &sink_readers_operations;
  }
  if ((is_standard_output ? fstat(STDOUT_FILENO, &status) : stat(config->path, &status)) != 0) {
    return &sink_file_operations; /* no such file yet: it will be a regular file */
  }
  bool is_terminal = is_standard_output && isatty(STDOUT_FILENO);
  bool is_polled = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || (S_ISCHR(status.st_mode) && is_terminal);
  return is_polled ? &sink_readers_operations : &sink_file_operations;
}

struct sink *sink_new(const struct sink_setup *setup, struct failure *failure) {
  struct sink *sink = image_new(IMAGE_SINK, sizeof *sink);
  if (!sink) {
    failure_set_memory(failure, "no memory for the sink of pipeline '%s'", setup->config->name);
    return NULL;
  }
  sink_set_up(sink, kind_of(&setup->config->sink), setup);
  bool is_made = sink->protocol != CONFIG_PROTOCOL_JSON || sink_make_lines(sink, setup, failure);
  return is_made ? sink : sink_free(sink);
}

void sink_set_kind(struct sink *sink, bool is_file) {
  sink->operations = is_file ? &sink_file_operations : &sink_readers_operations;
}

struct sink *sink_new_reply(const struct sink_setup *setup, sink_gone *gone, void *session, struct failure *failure) {
  struct sink *sink = sink_new(setup, failure);
  if (sink) {
    sink->reply.gone = gone;
    sink->reply.session = session;
  }
  return sink;
}

struct sink *sink_free(struct sink *sink) {
  if (sink) {
    assert(!sink->readers && sink_count(sink) == 0 && !sink->rooms.free);
    sink_free_lines(sink);
  }
  return image_free(sink);
}

/* -- messages ---------------------------------------------------------------------------------------------------------- */

static void sink_join_lane(struct sink *sink) {
  if (!sink->runner.lane) {
    lane_join(sink->lane, &sink->runner);
  }
}

static void sink_run_attach(struct message *message) {
  struct reader *reader = (struct reader *)message;
  sink_join_lane(reader->sink);
  reader->sink->operations->attach(reader->sink, reader);
}

void sink_attach(struct sink *sink, struct reader *reader) {
  reader->message.run = sink_run_attach;
  lane_post(sink->lane, &reader->message);
}

/* Attaches all readers in one message: no result may be released before each reader that may need it is attached. */
static void sink_run_continue(struct message *message) {
  struct sink *sink = (struct sink *)((char *)message - offsetof(struct sink, continue_message));
  sink_join_lane(sink);
  while (sink->continuing) {
    struct reader *reader = sink->continuing;
    sink->continuing = reader->next;
    sink->operations->attach(sink, reader);
  }
  lane_schedule(&sink->runner);
}

void sink_continue(struct sink *sink) {
  sink->continue_message.run = sink_run_continue;
  lane_post(sink->lane, &sink->continue_message);
}

void sink_attach_here(struct sink *sink, struct reader *reader) {
  sink_join_lane(sink);
  sink->operations->attach(sink, reader);
}

static void sink_run_detach(struct message *message) {
  struct sink *sink = (struct sink *)((char *)message - offsetof(struct sink, detach_message));
  sink->operations->detach(sink);
  relay_order_done(sink->relay);
}

void sink_detach(struct sink *sink) {
  if (!sink->relay) {
    sink->operations->detach(sink);
    return;
  }
  relay_order(sink->relay);
  sink->detach_message.run = sink_run_detach;
  lane_post(sink->lane, &sink->detach_message);
}

bool sink_orders_done(const struct sink *sink) { return !sink->relay || relay_orders_done(sink->relay); }

static void sink_run_stop(struct message *message) {
  struct sink *sink = (struct sink *)((char *)message - offsetof(struct sink, stop_message));
  sink_join_lane(sink);
  sink->stopping = true;
  sink->operations->stop(sink);
}

void sink_stop(struct sink *sink) {
  sink->stop_message.run = sink_run_stop;
  lane_post(sink->lane, &sink->stop_message);
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

void sink_offer(struct sink *sink, struct flow *flow, struct slot *slot) {
  assert(slot->state == SLOT_EMITTING && slot->frame.open);
  slot->awaits_fate = true;
  atomic_signal_fence(memory_order_seq_cst); /* after a kill the frame must be open in at least one of the two */
  slot->frame.open = false;                  /* from here on nobody writes to the frame until its slot comes back */
  flow->unsettled++;
  if (flow->relay) {
    relay_offer(flow->relay, slot);
    return;
  }
  sink_join_lane(sink);
  sink_take_in(sink, flow, slot);
}

bool sink_turn(struct sink *sink, int64_t now) { return sink->operations->turn(sink, now); }

bool sink_reclaim(struct sink *sink, int64_t now) {
  if (sink_count(sink) == 0) {
    sink->leases.wanted = sink_has_leases(sink);
    return false;
  }
  return sink->operations->reclaim(sink, now);
}

/* Also discards results that were offered before the order and are still in the relay. */
static void sink_run_discard(struct message *message) {
  struct sink *sink = (struct sink *)((char *)message - offsetof(struct sink, discard_message));
  enum fate fate = atomic_exchange(&sink->to_discard, 0) - 1;
  sink_join_lane(sink);
  sink_take_handed_over(sink);
  sink_discard_all(sink, fate, clock_now());
  relay_order_done(sink->relay);
}

void sink_discard(struct sink *sink, enum fate fate, int64_t now) {
  if (!sink->relay) {
    sink_discard_all(sink, fate, now);
    return;
  }
  if (atomic_exchange(&sink->to_discard, (unsigned)fate + 1) == 0) {
    relay_order(sink->relay);
    sink->discard_message.run = sink_run_discard;
    lane_post(sink->lane, &sink->discard_message);
  }
}
