#include "daemon/pipeline/private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/client/acceptor.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"

#define HELLO_TIMEOUT (INT64_C(10000) * NS_PER_MS)

enum {
  RETRY_MS = 100, /* interval of tries to open a FIFO for a reader */
  END_MS = 1000   /* time for its reader to see the end */
};

/* -- making it ------------------------------------------------------------------------------------------------- */

static bool open_listener(struct outputs *outputs, struct failure *failure) {
  char name[128];
  snprintf(name, sizeof name, "%s.out", outputs->config->name);
  outputs->listener = listener_open(name, outputs->config->sink.path, &outputs->config->sink.access, failure);
  return outputs->listener;
}

static bool outputs_make(struct outputs *outputs, const struct outputs_setup *setup, struct failure *failure) {
  outputs->sink = sink_new(&setup->sink, failure);
  if (!outputs->sink) {
    return false;
  }
  if (outputs_is_socket(outputs)) {
    return setup->inherits || open_listener(outputs, failure);
  }
  return setup->inherits || setup->continues || outputs_open_file(outputs, NULL, failure) ||
         (setup->may_be_late && outputs_may_come_late(outputs, failure));
}

struct outputs *outputs_new(const struct outputs_setup *setup, struct failure *failure) {
  struct outputs *outputs = image_new(IMAGE_OUTPUTS, sizeof *outputs);
  if (!outputs) {
    failure_set_memory(failure, "not enough memory for the sink of a pipeline");
    return NULL;
  }
  outputs->loop = setup->loop;
  outputs->quota = setup->quota;
  outputs->config = setup->sink.config;
  outputs->format = *setup->sink.output;
  outputs->welcome = hello_reply_of(outputs->config, setup->sink.input, setup->sink.output, NATIVE_CONSUMER);
  outputs->endpoint.fd = outputs->file.fd = outputs->file.index = -1;
  outputs->file.next = SEGMENT_FILES_NONE;
  outputs->share = setup->share;
  outputs->context = setup->sink.context;
  outputs->opened = setup->opened;
  return outputs_make(outputs, setup, failure) ? outputs : outputs_free(outputs);
}

struct outputs *outputs_free(struct outputs *outputs) {
  if (!outputs) {
    return NULL;
  }
  if (outputs->sink) {
    outputs->sink = sink_free(outputs->sink);
  }
  outputs->handshakes = handshakes_close(outputs->handshakes);
  outputs->listener = listener_close(outputs->listener);
  outputs_end_file(outputs);
  endpoint_close(&outputs->endpoint);
  return image_free(outputs);
}

struct sink *outputs_sink(const struct outputs *outputs) {
  return outputs->sink;
}

/* -- FIFOs ----------------------------------------------------------------------------------------------------- */

/* The FIFO's reader may have got part of a result. After it has read the rest it sees the end, because nobody writes until the
 * next try. This opens the reading side, which wakes nobody. */
static void check_end(struct outputs *outputs) {
  int left = 0;
  int fd = open(outputs->config->sink.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  outputs->awaits_end = fd >= 0 && ioctl(fd, FIONREAD, &left) == 0 && left > 0;
  if (fd >= 0) {
    close(fd);
  }
  if (!outputs->awaits_end) {
    loop_timer_start(outputs->retry, END_MS, RETRY_MS);
  }
}

/* Errors are ignored, because the next try may succeed. */
static void on_retry(void *context) {
  struct outputs *outputs = context;
  struct failure failure;
  if (outputs->awaits_end) {
    check_end(outputs);
    return;
  }
  if (outputs->endpoint.fd < 0) {
    endpoint_open_next(&outputs->config->sink, &outputs->endpoint, &failure);
  }
  if (outputs->endpoint.fd >= 0 && outputs_attach_file(outputs, &failure)) {
    loop_timer_stop(outputs->retry);
  }
}

static bool outputs_out_of_memory(const struct outputs *outputs, struct failure *failure) {
  return failure_set_memory(failure, "not enough memory to wait for '%s'", outputs->config->sink.path);
}

static bool start_fifo(struct outputs *outputs, struct failure *failure) {
  outputs->retry = loop_timer_new(outputs->loop, on_retry, outputs);
  if (!outputs->retry) {
    return outputs_out_of_memory(outputs, failure);
  }
  if (outputs->count == 0) {
    loop_timer_start(outputs->retry, outputs->awaits_end ? RETRY_MS : 0, RETRY_MS);
  }
  return true;
}

static void log_cuts(const struct outputs *outputs) {
  const char *name = outputs->config->name;
  const char *doubt = outputs->cut_unsure ? " (assuming that results had their current size)" : "";
  if (outputs->cut > 0) {
    log_event(LOG_CUT, name, "the last %" PRIu64 " bytes of '%s' were a partial result%s, and are cut off", outputs->cut,
              outputs->config->sink.path, doubt);
  }
  if (outputs->cut_off > 0) {
    log_event(LOG_CUT_OFF, name, "%u reader%s cut off: the previous process was killed while it wrote to %s", outputs->cut_off,
              outputs->cut_off == 1 ? " is" : "s are", outputs->cut_off == 1 ? "it" : "them");
  }
}

/* -- control --------------------------------------------------------------------------------------------------- */

static bool outputs_start_greeting(struct outputs *outputs, struct failure *failure) {
  if (outputs->config->sink.protocol != CONFIG_PROTOCOL_NATIVE) {
    return true;
  }
  const struct handshakes_setup setup = {.loop = outputs->loop,
                                         .pipeline = outputs->config->name,
                                         .who = "reader",
                                         .timeout_ns = HELLO_TIMEOUT,
                                         .on_hello = outputs_on_hello,
                                         .refusals = &outputs->refusals,
                                         .context = outputs};
  outputs->handshakes = handshakes_new(&setup, failure);
  return outputs->handshakes;
}

static bool outputs_start_accepting(struct outputs *outputs, struct failure *failure) {
  if (!outputs->handshakes && !outputs_start_greeting(outputs, failure)) {
    return false;
  }
  const struct acceptor_setup setup = {.loop = outputs->loop,
                                       .fd = listener_fd(outputs->listener),
                                       .allow = &outputs->config->sink.access.allow,
                                       .pipeline = outputs->config->name,
                                       .role = "reader",
                                       .native = outputs->handshakes != NULL,
                                       .accepted = outputs_on_accepted,
                                       .refusals = &outputs->refusals,
                                       .context = outputs};
  outputs->acceptor = acceptor_new(&setup, failure);
  return outputs->acceptor;
}

/* Readers and handshakes continue where the previous process stopped. A file is checked, because somebody may have moved it. */
static bool outputs_continue(struct outputs *outputs) {
  outputs_recharge(outputs);
  sink_continue(outputs->sink);
  outputs_check_file(outputs);
  if (outputs->handshakes) {
    handshakes_adopt(outputs->handshakes, outputs->left_handshakes);
  }
  return true;
}

/* A file that was taken over is attached already. */
bool outputs_start(struct outputs *outputs, struct failure *failure) {
  log_cuts(outputs);
  if (!outputs->late.lasts) { /* the previous process may have left this trouble */
    trouble_clear(&outputs->troubles[OUTPUT_LATE]);
  }
  bool started = outputs->late.lasts ? outputs_await_file(outputs) || outputs_out_of_memory(outputs, failure)
                 : outputs->listener ? outputs_start_accepting(outputs, failure)
                 : outputs->endpoint.kind == ENDPOINT_FIFO ? start_fifo(outputs, failure)
                 : outputs->endpoint.fd < 0                ? outputs->continues
                                                           : outputs_attach_file(outputs, failure);
  outputs_sweep(outputs);
  return started && (!outputs->continues || outputs_continue(outputs));
}

void outputs_close(struct outputs *outputs) {
  outputs->closed = true;
  outputs_leave_memory(outputs);
  outputs->acceptor = acceptor_close(outputs->acceptor);
  outputs->handshakes = handshakes_close(outputs->handshakes);
  outputs->retry = loop_timer_close(outputs->retry);
  outputs->late.timer = loop_timer_close(outputs->late.timer);
  outputs->listener = listener_close(outputs->listener);
  if (outputs->file.index < 0) { /* otherwise it must still be finished */
    endpoint_close(&outputs->endpoint);
  }
}

struct listener *outputs_take_listener(struct outputs *outputs) {
  struct listener *listener = outputs->listener;
  outputs->acceptor = acceptor_close(outputs->acceptor);
  outputs->handshakes = handshakes_close(outputs->handshakes);
  outputs->listener = NULL;
  return listener;
}

void outputs_set_listener(struct outputs *outputs, struct listener *listener) { outputs->listener = listener; }

struct listener *outputs_listener(struct outputs *outputs) {
  return outputs->listener;
}

/* -- events ---------------------------------------------------------------------------------------------------- */

static void log_detached(const struct outputs *outputs, const struct reader_entry *entry, const struct sink_event *event) {
  const char *colon = event->text[0] ? ": " : "";
  enum log_kind kind = event->text[0] ? LOG_CLIENT_ERROR : LOG_DISCONNECTED;
  if (outputs_is_socket(outputs)) {
    log_event(kind, outputs->config->name, "reader pid %d (user %u) left after %" PRIu64 " results, %" PRIu64 " missed%s%s",
              (int)entry->pid, (unsigned)entry->uid, event->emitted, event->missed, colon, event->text);
  } else {
    log_event(kind, outputs->config->name, "sink '%s' ended after %" PRIu64 " results, %" PRIu64 " missed%s%s",
              outputs->config->sink.path, outputs->file.emitted, outputs->missed + event->missed, colon, event->text);
  }
}

/* The connection of a reader with shared memory is free for an ERROR. */
static void send_final_error(const struct outputs *outputs, const struct sink_event *event) {
  const struct client client = {.fd = event->fd, .native = true};
  if (event->code != 0 && event->text[0]) {
    client_send_error(&client, (enum native_error_code)event->code, "%s", event->text);
  } else if (event->code != 0) {
    client_send_error(&client, (enum native_error_code)event->code, "pipeline %s is stopping", outputs->config->name);
  }
}

static void on_detached(struct outputs *outputs, const struct sink_event *event) {
  struct reader_entry *entry = outputs_remove(outputs, event->reader);
  bool is_file = !outputs_is_socket(outputs) && outputs->endpoint.kind == ENDPOINT_FILE;
  bool goes_on = is_file && outputs_on_file_back(outputs, event);
  if (!goes_on) {
    log_detached(outputs, entry, event);
  }
  outputs->missed += event->missed;
  send_final_error(outputs, event);
  reader_free(entry->reader);
  outputs_free_entry(outputs, entry, event->code != 0);
  if (goes_on) {
    return;
  }
  if (!is_file || outputs->file.index < 0) { /* a segment must still be finished */
    fd_table_leave(event->fd, false);
    rights_close(event->fd);
    outputs->endpoint.fd = -1;
  }
  if (outputs->closed || outputs_is_socket(outputs)) {
    return;
  }
  if (outputs->endpoint.kind == ENDPOINT_FIFO) {
    loop_timer_start(outputs->retry, 0, RETRY_MS);
  } else {
    outputs->ended = true;
    trouble_note(&outputs->troubles[OUTPUT_ENDS], clock_now(), "restart the daemon, or reload another sink",
                 "sink '%s' has ended%s%s", outputs->config->sink.path, event->text[0] ? ": " : "", event->text);
  }
}

static const char *remedy_of(int error) {
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return "make room on that disk: results go on by themselves";
  case EFBIG:
    return "raise the largest size of a file (LimitFSIZE=), or write into another one";
  case EIO:
    return "look at the disk (dmesg): results go on by themselves if it answers again";
  default:
    return "results go on by themselves when the file can be written";
  }
}

void outputs_on_event(struct outputs *outputs, const struct sink_event *event) {
  const char *name = outputs->config->name;
  const char *path = outputs->config->sink.path;
  switch (event->kind) {
  case SINK_DETACHED:
    on_detached(outputs, event);
    break;
  case SINK_FAILED:
    outputs->file.recovered = false;
    trouble_note(&outputs->troubles[OUTPUT_WRITES], clock_now(), remedy_of(event->error), "cannot write to '%s': %s", path,
                 event->text);
    log_event(LOG_SINK_FAILED, name, "cannot write to '%s': %s; results are lost until there is room", path, event->text);
    outputs_note_full(outputs, retention_is_full(event->error));
    break;
  case SINK_RECOVERED:
    outputs->file.recovered = true; /* watch.c clears the trouble when no more results are lost */
    outputs_note_full(outputs, false);
    if (event->missed > 0) {
      log_event(LOG_SINK_RECOVERED, name, "'%s' can be written again, %" PRIu64 " results were lost", path, event->missed);
    } else {
      log_event(LOG_SINK_RECOVERED, name, "'%s' can be written again", path);
    }
    break;
  case SINK_FULL:
    outputs_make_room(outputs);
    break;
  case SINK_STOPPED:
    break;
  }
}

/* -- queries --------------------------------------------------------------------------------------------------- */

bool outputs_ended(const struct outputs *outputs) { return outputs->ended; }

unsigned outputs_readers(const struct outputs *outputs) { return outputs->count; }

uint64_t outputs_missed(const struct outputs *outputs) {
  uint64_t sum = outputs->missed;
  for (const struct reader_entry *entry = outputs->entries; entry; entry = entry->next) {
    uint64_t emitted, missed;
    reader_read(entry->reader, &emitted, &missed);
    sum += missed;
  }
  return sum;
}

const struct refusals *outputs_refusals(const struct outputs *outputs) { return &outputs->refusals; }

struct trouble *outputs_cause(struct outputs *outputs, enum output_cause cause) {
  return &outputs->troubles[cause];
}

const struct trouble *outputs_trouble(const struct outputs *outputs) {
  unsigned shown = 0;
  while (shown < OUTPUT_CAUSES - 1 && outputs->troubles[shown].count == 0) {
    shown++;
  }
  return &outputs->troubles[shown];
}

bool outputs_recovered(const struct outputs *outputs) { return outputs->file.recovered; }
