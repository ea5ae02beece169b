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

static bool is_socket(const struct outlet *outlet) { return outlet->config->sink.endpoint == CONFIG_SOCKET; }

/* A sink of the same format may be in the middle of a result there, and will end with a whole one. */
static bool is_continued(const struct outlet *outlet, const struct outlet *before) {
  return before && before->config->sink.protocol == outlet->config->sink.protocol &&
         format_equal(&before->format, &outlet->format);
}

bool outlet_open_file(struct outlet *outlet, const struct outlet *before, struct failure *failure) {
  if (is_socket(outlet) || outlet->endpoint.fd >= 0) {
    return true;
  }
  if (!endpoint_open_sink(&outlet->config->sink, &outlet->endpoint, failure)) {
    return false;
  }
  uint64_t bytes = 0, own_bytes = sink_result_bytes_in_file(outlet->config, &outlet->format);
  bool was_written = keeper_was_writing(outlet->config->sink.path, &bytes);
  if (outlet->endpoint.kind == ENDPOINT_FIFO && (before || was_written)) {
    endpoint_close(&outlet->endpoint); /* its reader is to see the end of the stream before */
    outlet->awaits_end = true;
  }
  /* Where its results are of another size, what would be cut off may be one of them. */
  if (outlet->endpoint.kind == ENDPOINT_FILE && was_written && (bytes == 0 || bytes == own_bytes)) {
    outlet->cut = sink_cut_torn(outlet->config, &outlet->format, outlet->endpoint.fd);
    outlet->cut_unsure = bytes == 0;
  }
  return outlet->endpoint.kind != ENDPOINT_FILE || is_continued(outlet, before) ||
         sink_prepare_file(outlet->config, &outlet->format, outlet->endpoint.fd, failure);
}

static bool open_listener(struct outlet *outlet, struct failure *failure) {
  char name[128];
  snprintf(name, sizeof name, "%s.out", outlet->config->name);
  outlet->listener = listener_open(name, outlet->config->sink.path, &outlet->config->sink.access, failure);
  return outlet->listener;
}

static bool make(struct outlet *outlet, const struct outlet_setup *setup, struct failure *failure) {
  outlet->sink = sink_new(&setup->sink, failure);
  if (!outlet->sink) {
    return false;
  }
  if (setup->inherits || setup->continues) {
    return true;
  }
  return is_socket(outlet) ? open_listener(outlet, failure) : outlet_open_file(outlet, NULL, failure);
}

struct outlet *outlet_new(const struct outlet_setup *setup, struct failure *failure) {
  struct outlet *outlet = calloc(1, sizeof *outlet);
  if (!outlet) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for the sink of a pipeline");
    return NULL;
  }
  outlet->loop = setup->loop;
  outlet->quota = setup->quota;
  outlet->config = setup->sink.config;
  outlet->format = *setup->sink.output;
  outlet->welcome = welcome_of(outlet->config, setup->sink.input, setup->sink.output, NATIVE_CONSUMER);
  outlet->endpoint.fd = -1;
  outlet->lend = setup->lend;
  outlet->context = setup->sink.context;
  return make(outlet, setup, failure) ? outlet : outlet_free(outlet);
}

struct outlet *outlet_free(struct outlet *outlet) {
  if (!outlet) {
    return NULL;
  }
  if (outlet->sink) {
    outlet->sink = sink_free(outlet->sink);
  }
  outlet->greeter = greeter_close(outlet->greeter);
  outlet->listener = listener_close(outlet->listener);
  endpoint_close(&outlet->endpoint);
  free(outlet->visits);
  free(outlet);
  return NULL;
}

struct sink *outlet_sink(const struct outlet *outlet) {
  return outlet->sink;
}

/* -- readers --------------------------------------------------------------------------------------------------- */

void outlet_add(struct outlet *outlet, struct place *place) {
  place->next = outlet->places;
  outlet->places = place;
  outlet->count++;
  keeper_mark();
}

/* What a reader takes of its user's memory: control memory, or what it may need of a result while it is in its middle. */
static uint64_t memory_of(const struct outlet *outlet, bool shares) {
  return shares ? NATIVE_CONTROL : sink_room_bytes(outlet->sink);
}

/* They have their places already, so that what their users may have is not asked again. */
static void charge_again(struct outlet *outlet) {
  char problem[QUOTA_PROBLEM];
  for (struct place *place = is_socket(outlet) ? outlet->places : NULL; place; place = place->next) {
    uint64_t bytes = memory_of(outlet, place->control.fd >= 0);
    if (!quota_charge(outlet->quota, place->uid, QUOTA_READER, bytes, &place->charge, problem)) {
      log_event(LOG_CLIENT_ERROR, outlet->config->name, "a reader stays that would not be let in now: %s", problem);
    }
  }
}

/* Gives the sink a descriptor; it stays the caller's on failure, and so does what its user was charged with. */
static bool attach(struct outlet *outlet, const struct guest *guest, const struct quota_charge *charge,
                   struct failure *failure) {
  struct place *place = calloc(1, sizeof *place);
  if (!place) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for one more reader");
  }
  place->reader = reader_new(outlet->sink, guest->fd, failure);
  if (!place->reader || !reader_bring_room(place->reader, failure)) {
    reader_free(place->reader);
    free(place);
    return false;
  }
  place->pid = guest->pid;
  place->uid = guest->uid;
  place->control = ARENA_NONE;
  place->charge = *charge;
  outlet_add(outlet, place);
  outlet->welcome.session += guest->native;
  if (guest->native && !outlet_share(outlet, place, guest)) {
    guest_welcome(guest, &outlet->welcome, NULL, 0);
  }
  sink_attach(outlet->sink, place->reader);
  return true;
}

static void refuse(struct outlet *outlet, const struct guest *guest, enum native_error_code code, const char *problem) {
  guest_tell(guest, code, "%s", problem);
  refusals_add(&outlet->refusals, LOG_REFUSED, outlet->config->name, refusals_remedy(code),
               "reader pid %d (user %u) was refused: %s", (int)guest->pid, (unsigned)guest->uid, problem);
  rights_close(guest->fd);
}

static void on_greeted(void *context, const struct guest *guest) {
  struct outlet *outlet = context;
  struct failure failure;
  struct quota_charge charge = {0};
  char problem[QUOTA_PROBLEM];
  uint64_t bytes = memory_of(outlet, outlet_may_share(outlet, guest));
  if (guest->native && guest->hello.role != NATIVE_CONSUMER) {
    refuse(outlet, guest, NATIVE_E_ROLE, "a sink takes clients of the role 'consumer' only");
  } else if (!quota_charge(outlet->quota, guest->uid, QUOTA_READER, bytes, &charge, problem)) {
    refuse(outlet, guest, NATIVE_E_QUOTA, problem);
  } else if (!attach(outlet, guest, &charge, &failure)) {
    quota_release(&charge);
    refuse(outlet, guest, NATIVE_E_INTERNAL, failure.text);
  } else {
    char client[GUEST_NAME];
    log_event(LOG_CONNECTED, outlet->config->name, "reader pid %d (user %u) connected%s", (int)guest->pid, (unsigned)guest->uid,
              guest_name(guest, client));
  }
}

static void on_accepted(void *context, int fd, const struct peer *peer) {
  struct outlet *outlet = context;
  if (outlet->greeter) {
    greeter_receive(outlet->greeter, fd, peer);
  } else {
    on_greeted(outlet, &(struct guest){.fd = fd, .pid = peer->pid, .uid = peer->uid});
  }
}

/* -- files ----------------------------------------------------------------------------------------------------- */

static bool attach_file(struct outlet *outlet, struct failure *failure) {
  if (!attach(outlet, &(struct guest){.fd = outlet->endpoint.fd}, &(struct quota_charge){0}, failure)) {
    return false;
  }
  outlet->endpoint.fd = -1;
  return true;
}

/* Whoever reads there may have had a part of a result. It has had the rest of what was written when nothing is left, and then
 * it finds the end, since nobody writes until the next try. Looked at from its side, which wakes nobody. */
static void look_for_end(struct outlet *outlet) {
  int left = 0;
  int fd = open(outlet->config->sink.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  outlet->awaits_end = fd >= 0 && ioctl(fd, FIONREAD, &left) == 0 && left > 0;
  if (fd >= 0) {
    close(fd);
  }
  if (!outlet->awaits_end) {
    loop_timer_start(outlet->retry, END_MS, RETRY_MS);
  }
}

/* Whatever goes wrong here may be over at the next try. */
static void on_retry(void *context) {
  struct outlet *outlet = context;
  struct failure failure;
  if (outlet->awaits_end) {
    look_for_end(outlet);
    return;
  }
  if (outlet->endpoint.fd < 0) {
    endpoint_open_next(&outlet->config->sink, &outlet->endpoint, &failure);
  }
  if (outlet->endpoint.fd >= 0 && attach_file(outlet, &failure)) {
    loop_timer_stop(outlet->retry);
  }
}

static bool start_fifo(struct outlet *outlet, struct failure *failure) {
  outlet->retry = loop_timer_new(outlet->loop, on_retry, outlet);
  if (!outlet->retry) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to wait for a reader of '%s'",
                       outlet->config->sink.path);
  }
  if (outlet->count == 0) {
    loop_timer_start(outlet->retry, outlet->awaits_end ? RETRY_MS : 0, RETRY_MS);
  }
  return true;
}

/* -- control --------------------------------------------------------------------------------------------------- */

static bool start_greeting(struct outlet *outlet, struct failure *failure) {
  if (outlet->config->sink.protocol != CONFIG_PROTOCOL_NATIVE) {
    return true;
  }
  const struct greeter_setup setup = {.loop = outlet->loop,
                                      .pipeline = outlet->config->name,
                                      .who = "reader",
                                      .timeout_ns = HELLO_TIMEOUT,
                                      .greeted = on_greeted,
                                      .refusals = &outlet->refusals,
                                      .context = outlet};
  outlet->greeter = greeter_new(&setup, failure);
  return outlet->greeter;
}

static bool start_accepting(struct outlet *outlet, struct failure *failure) {
  if (!outlet->greeter && !start_greeting(outlet, failure)) {
    return false;
  }
  const struct acceptor_setup setup = {.loop = outlet->loop,
                                       .fd = listener_fd(outlet->listener),
                                       .allow = &outlet->config->sink.access.allow,
                                       .pipeline = outlet->config->name,
                                       .role = "reader",
                                       .native = outlet->greeter != NULL,
                                       .accepted = on_accepted,
                                       .refusals = &outlet->refusals,
                                       .context = outlet};
  outlet->acceptor = acceptor_new(&setup, failure);
  return outlet->acceptor;
}

/* Everybody goes on where the process before this one stopped. */
static bool go_on(struct outlet *outlet) {
  charge_again(outlet);
  sink_continue(outlet->sink);
  if (outlet->greeter) {
    greeter_receive_again(outlet->greeter, outlet->visits);
    outlet->visits = NULL;
  }
  return true;
}

/* A file that was taken from a tape has its place already. */
bool outlet_start(struct outlet *outlet, struct failure *failure) {
  outlet_log_cuts(outlet);
  outlet_follow_name(outlet);
  bool started = outlet->listener                         ? start_accepting(outlet, failure)
                 : outlet->endpoint.kind == ENDPOINT_FIFO ? start_fifo(outlet, failure)
                 : outlet->continues                      ? true
                                                          : attach_file(outlet, failure);
  return started && (!outlet->continues || go_on(outlet));
}

void outlet_close(struct outlet *outlet) {
  outlet->closed = true;
  outlet_leave_memory(outlet);
  outlet->acceptor = acceptor_close(outlet->acceptor);
  outlet->greeter = greeter_close(outlet->greeter);
  outlet->retry = loop_timer_close(outlet->retry);
  outlet->listener = listener_close(outlet->listener);
  endpoint_close(&outlet->endpoint);
}

struct listener *outlet_take_listener(struct outlet *outlet) {
  struct listener *listener = outlet->listener;
  outlet->acceptor = acceptor_close(outlet->acceptor);
  outlet->greeter = greeter_close(outlet->greeter);
  outlet->listener = NULL;
  return listener;
}

void outlet_give_listener(struct outlet *outlet, struct listener *listener) { outlet->listener = listener; }

struct listener *outlet_listener(struct outlet *outlet) {
  return outlet->listener;
}

void outlet_stop(struct outlet *outlet) { sink_stop(outlet->sink); }

/* -- events ---------------------------------------------------------------------------------------------------- */

static struct place *take_place(struct outlet *outlet, const struct reader *reader) {
  struct place **link = &outlet->places;
  while ((*link)->reader != reader) {
    link = &(*link)->next;
  }
  struct place *place = *link;
  *link = place->next;
  outlet->count--;
  return place;
}

static void log_detached(const struct outlet *outlet, const struct place *place, const struct sink_event *event) {
  const char *colon = event->text[0] ? ": " : "";
  enum log_kind kind = event->text[0] ? LOG_CLIENT_ERROR : LOG_DISCONNECTED;
  if (is_socket(outlet)) {
    log_event(kind, outlet->config->name, "reader pid %d (user %u) left after %" PRIu64 " results, %" PRIu64 " missed%s%s",
              (int)place->pid, (unsigned)place->uid, event->emitted, event->missed, colon, event->text);
  } else {
    log_event(kind, outlet->config->name, "sink '%s' ended after %" PRIu64 " results, %" PRIu64 " missed%s%s",
              outlet->config->sink.path, event->emitted, event->missed, colon, event->text);
  }
}

/* Where a reader has shared memory, its connection is free for a sentence. */
static void say_farewell(const struct outlet *outlet, const struct sink_event *event) {
  const struct guest guest = {.fd = event->fd, .native = true};
  if (event->code != 0 && event->text[0]) {
    guest_tell(&guest, (enum native_error_code)event->code, "%s", event->text);
  } else if (event->code != 0) {
    guest_tell(&guest, (enum native_error_code)event->code, "pipeline %s is stopping", outlet->config->name);
  }
}

static void on_detached(struct outlet *outlet, const struct sink_event *event) {
  struct place *place = take_place(outlet, event->reader);
  log_detached(outlet, place, event);
  outlet->missed += event->missed;
  say_farewell(outlet, event);
  reader_free(place->reader);
  outlet_let_go(outlet, place, event->code != 0);
  rights_close(event->fd);
  keeper_mark();
  if (outlet->closed || is_socket(outlet)) {
    return;
  }
  if (outlet->endpoint.kind == ENDPOINT_FIFO) {
    loop_timer_start(outlet->retry, 0, RETRY_MS);
  } else {
    outlet->ended = true;
  }
}

void outlet_on_event(struct outlet *outlet, const struct sink_event *event) {
  const char *name = outlet->config->name;
  const char *path = outlet->config->sink.path;
  switch (event->kind) {
  case SINK_DETACHED:
    on_detached(outlet, event);
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

bool outlet_ended(const struct outlet *outlet) { return outlet->ended; }

unsigned outlet_readers(const struct outlet *outlet) { return outlet->count; }

unsigned outlet_visitors(const struct outlet *outlet) { return outlet->greeter ? greeter_count(outlet->greeter) : 0; }

uint64_t outlet_missed(const struct outlet *outlet) {
  uint64_t sum = outlet->missed;
  for (const struct place *place = outlet->places; place; place = place->next) {
    uint64_t emitted, missed;
    reader_read(place->reader, &emitted, &missed);
    sum += missed;
  }
  return sum;
}

const struct refusals *outlet_refusals(const struct outlet *outlet) { return &outlet->refusals; }
