#include "daemon/pipeline/outputs_private.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/client/acceptor.h"
#include "daemon/client/hello_reply.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_store.h"

#define HELLO_TIMEOUT (INT64_C(10000) * NS_PER_MS)

enum {
  RETRY_MS = 100, /* how often a FIFO is tried for a reader */
  END_MS = 1000   /* how long its reader may take to see that it has ended */
};

/* -- making it ------------------------------------------------------------------------------------------------- */

static bool is_socket(const struct outputs *outputs) { return outputs->config->sink.endpoint == CONFIG_SOCKET; }

/* A sink of the same format may be in the middle of a result there, and will end with a whole one. */
static bool is_continued(const struct outputs *outputs, const struct outputs *before) {
  return before && before->config->sink.protocol == outputs->config->sink.protocol &&
         format_equal(&before->format, &outputs->format);
}

bool outputs_open_file(struct outputs *outputs, const struct outputs *before, struct failure *failure) {
  if (is_socket(outputs) || outputs->endpoint.fd >= 0) {
    return true;
  }
  if (!endpoint_open_sink(&outputs->config->sink, &outputs->endpoint, failure)) {
    return false;
  }
  uint64_t bytes = 0, own_bytes = sink_result_bytes_in_file(outputs->config, &outputs->format);
  bool was_written = fd_store_was_writing(outputs->config->sink.path, &bytes);
  if (outputs->endpoint.kind == ENDPOINT_FIFO && (before || was_written)) {
    endpoint_close(&outputs->endpoint); /* its reader is to see the end of the stream before */
    outputs->awaits_end = true;
  }
  /* Where its results are of another size, what would be cut off may be one of them. */
  if (outputs->endpoint.kind == ENDPOINT_FILE && was_written && (bytes == 0 || bytes == own_bytes)) {
    outputs->cut = sink_cut_torn(outputs->config, &outputs->format, outputs->endpoint.fd);
    outputs->cut_unsure = bytes == 0;
  }
  return outputs->endpoint.kind != ENDPOINT_FILE || is_continued(outputs, before) ||
         sink_prepare_file(outputs->config, &outputs->format, outputs->endpoint.fd, failure);
}

static bool open_listener(struct outputs *outputs, struct failure *failure) {
  char name[128];
  snprintf(name, sizeof name, "%s.out", outputs->config->name);
  outputs->listener = listener_open(name, outputs->config->sink.path, &outputs->config->sink.access, failure);
  return outputs->listener;
}

static bool make(struct outputs *outputs, const struct outputs_setup *setup, struct failure *failure) {
  outputs->sink = sink_new(&setup->sink, failure);
  if (!outputs->sink) {
    return false;
  }
  if (setup->inherits || setup->continues) {
    return true;
  }
  return is_socket(outputs) ? open_listener(outputs, failure) : outputs_open_file(outputs, NULL, failure);
}

struct outputs *outputs_new(const struct outputs_setup *setup, struct failure *failure) {
  struct outputs *outputs = calloc(1, sizeof *outputs);
  if (!outputs) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for the sink of a pipeline");
    return NULL;
  }
  outputs->loop = setup->loop;
  outputs->quota = setup->quota;
  outputs->config = setup->sink.config;
  outputs->format = *setup->sink.output;
  outputs->welcome = hello_reply_of(outputs->config, setup->sink.input, setup->sink.output, NATIVE_CONSUMER);
  outputs->endpoint.fd = -1;
  outputs->lend = setup->lend;
  outputs->context = setup->sink.context;
  return make(outputs, setup, failure) ? outputs : outputs_free(outputs);
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
  endpoint_close(&outputs->endpoint);
  free(outputs->visits);
  free(outputs);
  return NULL;
}

struct sink *outputs_sink(const struct outputs *outputs) {
  return outputs->sink;
}

/* -- readers --------------------------------------------------------------------------------------------------- */

void outputs_add(struct outputs *outputs, struct reader_entry *place) {
  place->next = outputs->places;
  outputs->places = place;
  outputs->count++;
  fd_store_mark();
}

/* What a reader takes of its user's memory: control memory, or what it may need of a result while it is in its middle. */
static uint64_t memory_of(const struct outputs *outputs, bool shares) {
  return shares ? NATIVE_CONTROL : sink_room_bytes(outputs->sink);
}

/* They have their places already, so that what their users may have is not asked again. */
static void charge_again(struct outputs *outputs) {
  char problem[QUOTA_PROBLEM];
  for (struct reader_entry *place = is_socket(outputs) ? outputs->places : NULL; place; place = place->next) {
    uint64_t bytes = memory_of(outputs, place->control.fd >= 0);
    if (!quota_charge(outputs->quota, place->uid, QUOTA_READER, bytes, &place->charge, problem)) {
      log_event(LOG_CLIENT_ERROR, outputs->config->name, "a reader stays that would not be let in now: %s", problem);
    }
  }
}

/* Gives the sink a descriptor; it stays the caller's on failure, and so does what its user was charged with. */
static bool attach(struct outputs *outputs, const struct client *client, const struct quota_charge *charge,
                   struct failure *failure) {
  struct reader_entry *place = calloc(1, sizeof *place);
  if (!place) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for one more reader");
  }
  place->reader = reader_new(outputs->sink, client->fd, failure);
  if (!place->reader || !reader_bring_room(place->reader, failure)) {
    reader_free(place->reader);
    free(place);
    return false;
  }
  place->pid = client->pid;
  place->uid = client->uid;
  place->control = ARENA_NONE;
  place->charge = *charge;
  outputs_add(outputs, place);
  outputs->welcome.session += client->native;
  if (client->native && !outputs_share(outputs, place, client)) {
    client_welcome(client, &outputs->welcome, NULL, 0);
  }
  sink_attach(outputs->sink, place->reader);
  return true;
}

static void refuse(struct outputs *outputs, const struct client *client, enum native_error_code code, const char *problem) {
  client_tell(client, code, "%s", problem);
  refusals_add(&outputs->refusals, LOG_REFUSED, outputs->config->name, refusals_remedy(code),
               "reader pid %d (user %u) was refused: %s", (int)client->pid, (unsigned)client->uid, problem);
  rights_close(client->fd);
}

static void on_greeted(void *context, const struct client *client) {
  struct outputs *outputs = context;
  struct failure failure;
  struct quota_charge charge = {0};
  char problem[QUOTA_PROBLEM];
  uint64_t bytes = memory_of(outputs, outputs_may_share(outputs, client));
  if (client->native && client->hello.role != NATIVE_CONSUMER) {
    refuse(outputs, client, NATIVE_E_ROLE, "a sink takes clients of the role 'consumer' only");
  } else if (!quota_charge(outputs->quota, client->uid, QUOTA_READER, bytes, &charge, problem)) {
    refuse(outputs, client, NATIVE_E_QUOTA, problem);
  } else if (!attach(outputs, client, &charge, &failure)) {
    quota_release(&charge);
    refuse(outputs, client, NATIVE_E_INTERNAL, failure.text);
  } else {
    char name[CLIENT_NAME];
    log_event(LOG_CONNECTED, outputs->config->name, "reader pid %d (user %u) connected%s", (int)client->pid,
              (unsigned)client->uid, client_name(client, name));
  }
}

static void on_accepted(void *context, int fd, const struct peer *peer) {
  struct outputs *outputs = context;
  if (outputs->handshakes) {
    handshakes_receive(outputs->handshakes, fd, peer);
  } else {
    on_greeted(outputs, &(struct client){.fd = fd, .pid = peer->pid, .uid = peer->uid});
  }
}

/* -- files ----------------------------------------------------------------------------------------------------- */

static bool attach_file(struct outputs *outputs, struct failure *failure) {
  if (!attach(outputs, &(struct client){.fd = outputs->endpoint.fd}, &(struct quota_charge){0}, failure)) {
    return false;
  }
  outputs->endpoint.fd = -1;
  return true;
}

/* Whoever reads there may have had a part of a result. It has had the rest of what was written when nothing is left, and then
 * it finds the end, since nobody writes until the next try. Looked at from its side, which wakes nobody. */
static void look_for_end(struct outputs *outputs) {
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

/* Whatever goes wrong here may be over at the next try. */
static void on_retry(void *context) {
  struct outputs *outputs = context;
  struct failure failure;
  if (outputs->awaits_end) {
    look_for_end(outputs);
    return;
  }
  if (outputs->endpoint.fd < 0) {
    endpoint_open_next(&outputs->config->sink, &outputs->endpoint, &failure);
  }
  if (outputs->endpoint.fd >= 0 && attach_file(outputs, &failure)) {
    loop_timer_stop(outputs->retry);
  }
}

static bool start_fifo(struct outputs *outputs, struct failure *failure) {
  outputs->retry = loop_timer_new(outputs->loop, on_retry, outputs);
  if (!outputs->retry) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to wait for a reader of '%s'",
                       outputs->config->sink.path);
  }
  if (outputs->count == 0) {
    loop_timer_start(outputs->retry, outputs->awaits_end ? RETRY_MS : 0, RETRY_MS);
  }
  return true;
}

/* -- control --------------------------------------------------------------------------------------------------- */

static bool start_greeting(struct outputs *outputs, struct failure *failure) {
  if (outputs->config->sink.protocol != CONFIG_PROTOCOL_NATIVE) {
    return true;
  }
  const struct handshakes_setup setup = {.loop = outputs->loop,
                                         .pipeline = outputs->config->name,
                                         .who = "reader",
                                         .timeout_ns = HELLO_TIMEOUT,
                                         .greeted = on_greeted,
                                         .refusals = &outputs->refusals,
                                         .context = outputs};
  outputs->handshakes = handshakes_new(&setup, failure);
  return outputs->handshakes;
}

static bool start_accepting(struct outputs *outputs, struct failure *failure) {
  if (!outputs->handshakes && !start_greeting(outputs, failure)) {
    return false;
  }
  const struct acceptor_setup setup = {.loop = outputs->loop,
                                       .fd = listener_fd(outputs->listener),
                                       .allow = &outputs->config->sink.access.allow,
                                       .pipeline = outputs->config->name,
                                       .role = "reader",
                                       .native = outputs->handshakes != NULL,
                                       .accepted = on_accepted,
                                       .refusals = &outputs->refusals,
                                       .context = outputs};
  outputs->acceptor = acceptor_new(&setup, failure);
  return outputs->acceptor;
}

/* Everybody goes on where the process before this one stopped. */
static bool go_on(struct outputs *outputs) {
  charge_again(outputs);
  sink_continue(outputs->sink);
  if (outputs->handshakes) {
    handshakes_receive_again(outputs->handshakes, outputs->visits);
    outputs->visits = NULL;
  }
  return true;
}

/* A file that was taken from a tape has its place already. */
bool outputs_start(struct outputs *outputs, struct failure *failure) {
  outputs_log_cuts(outputs);
  outputs_follow_name(outputs);
  bool started = outputs->listener                         ? start_accepting(outputs, failure)
                 : outputs->endpoint.kind == ENDPOINT_FIFO ? start_fifo(outputs, failure)
                 : outputs->continues                      ? true
                                                           : attach_file(outputs, failure);
  return started && (!outputs->continues || go_on(outputs));
}

void outputs_close(struct outputs *outputs) {
  outputs->closed = true;
  outputs_leave_memory(outputs);
  outputs->acceptor = acceptor_close(outputs->acceptor);
  outputs->handshakes = handshakes_close(outputs->handshakes);
  outputs->retry = loop_timer_close(outputs->retry);
  outputs->listener = listener_close(outputs->listener);
  endpoint_close(&outputs->endpoint);
}

struct listener *outputs_take_listener(struct outputs *outputs) {
  struct listener *listener = outputs->listener;
  outputs->acceptor = acceptor_close(outputs->acceptor);
  outputs->handshakes = handshakes_close(outputs->handshakes);
  outputs->listener = NULL;
  return listener;
}

void outputs_give_listener(struct outputs *outputs, struct listener *listener) { outputs->listener = listener; }

struct listener *outputs_listener(struct outputs *outputs) {
  return outputs->listener;
}

void outputs_stop(struct outputs *outputs) { sink_stop(outputs->sink); }

/* -- events ---------------------------------------------------------------------------------------------------- */

static struct reader_entry *take_place(struct outputs *outputs, const struct reader *reader) {
  struct reader_entry **link = &outputs->places;
  while ((*link)->reader != reader) {
    link = &(*link)->next;
  }
  struct reader_entry *place = *link;
  *link = place->next;
  outputs->count--;
  return place;
}

static void log_detached(const struct outputs *outputs, const struct reader_entry *place, const struct sink_event *event) {
  const char *colon = event->text[0] ? ": " : "";
  enum log_kind kind = event->text[0] ? LOG_CLIENT_ERROR : LOG_DISCONNECTED;
  if (is_socket(outputs)) {
    log_event(kind, outputs->config->name, "reader pid %d (user %u) left after %" PRIu64 " results, %" PRIu64 " missed%s%s",
              (int)place->pid, (unsigned)place->uid, event->emitted, event->missed, colon, event->text);
  } else {
    log_event(kind, outputs->config->name, "sink '%s' ended after %" PRIu64 " results, %" PRIu64 " missed%s%s",
              outputs->config->sink.path, event->emitted, event->missed, colon, event->text);
  }
}

/* Where a reader has shared memory, its connection is free for a sentence. */
static void say_farewell(const struct outputs *outputs, const struct sink_event *event) {
  const struct client client = {.fd = event->fd, .native = true};
  if (event->code != 0 && event->text[0]) {
    client_tell(&client, (enum native_error_code)event->code, "%s", event->text);
  } else if (event->code != 0) {
    client_tell(&client, (enum native_error_code)event->code, "pipeline %s is stopping", outputs->config->name);
  }
}

static void on_detached(struct outputs *outputs, const struct sink_event *event) {
  struct reader_entry *place = take_place(outputs, event->reader);
  log_detached(outputs, place, event);
  outputs->missed += event->missed;
  say_farewell(outputs, event);
  reader_free(place->reader);
  outputs_let_go(outputs, place, event->code != 0);
  rights_close(event->fd);
  fd_store_mark();
  if (outputs->closed || is_socket(outputs)) {
    return;
  }
  if (outputs->endpoint.kind == ENDPOINT_FIFO) {
    loop_timer_start(outputs->retry, 0, RETRY_MS);
  } else {
    outputs->ended = true;
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
    log_event(LOG_SINK_FAILED, name, "cannot write to '%s': %s; results are lost until there is room", path, event->text);
    break;
  case SINK_RECOVERED:
    log_event(LOG_SINK_RECOVERED, name, "'%s' can be written again, %" PRIu64 " results were lost", path, event->missed);
    break;
  case SINK_STOPPED:
    break;
  }
}

/* -- questions ------------------------------------------------------------------------------------------------- */

bool outputs_ended(const struct outputs *outputs) { return outputs->ended; }

unsigned outputs_readers(const struct outputs *outputs) { return outputs->count; }

unsigned outputs_visitors(const struct outputs *outputs) {
  return outputs->handshakes ? handshakes_count(outputs->handshakes) : 0;
}

uint64_t outputs_missed(const struct outputs *outputs) {
  uint64_t sum = outputs->missed;
  for (const struct reader_entry *place = outputs->places; place; place = place->next) {
    uint64_t emitted, missed;
    reader_read(place->reader, &emitted, &missed);
    sum += missed;
  }
  return sum;
}

const struct refusals *outputs_refusals(const struct outputs *outputs) { return &outputs->refusals; }
