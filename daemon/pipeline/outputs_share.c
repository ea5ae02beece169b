/*
 * How a reader gets shared memory, and what becomes of that: the outputs of the pipeline's session, which it cannot write, and
 * control memory of its own.
 *
 * Under `drop` that needs slots enough for the session to go on while one is lent; else results go over the socket. One that
 * was sent away looks at its control memory until it looks at its connection, and would take zeros there for nonsense.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/frame/flow.h"
#include "daemon/pipeline/outputs_private.h"

bool outlet_may_share(const struct outlet *outlet, const struct guest *guest) {
  const struct config_pipeline *config = outlet->config;
  bool is_wanted = guest->native && guest->hello.transport == NATIVE_SHARED;
  unsigned depth = road_depth(config->overload, config->slots, config->deadline_ns > 0);
  return is_wanted && (config->sink.overload == CONFIG_SINK_BLOCK || depth > 1);
}

/* Opens it for the reader, apart from the daemon's own descriptor. */
static int make_control(const struct outlet *outlet, struct place *place, unsigned memory, struct failure *failure) {
  char name[96];
  snprintf(name, sizeof name, "framed:%s.reader:control", outlet->config->name);
  if (!arena_make(&place->control, name, NATIVE_CONTROL, NULL, failure)) {
    return -1;
  }
  int fd = arena_open(&place->control, O_RDWR, failure);
  if (fd >= 0 && !reader_share(place->reader, (struct native_control *)place->control.base, memory)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for a reader");
    close(fd);
    fd = -1;
  }
  if (fd < 0) {
    arena_drop(&place->control);
  }
  return fd;
}

static void welcome(const struct outlet *outlet, const struct guest *guest, const struct session_lent *lent, int control) {
  struct native_welcome shared = outlet->welcome;
  const int memory[] = {lent->output, control};
  shared.transport = NATIVE_SHARED;
  shared.output_stride = lent->stride;
  shared.control_bytes = NATIVE_CONTROL;
  guest_welcome(guest, &shared, memory, sizeof memory / sizeof *memory);
}

bool outlet_share(struct outlet *outlet, struct place *place, const struct guest *guest) {
  struct session_lent lent;
  struct failure failure;
  if (!outlet_may_share(outlet, guest)) {
    return false;
  }
  if (!outlet->lend(outlet->context, &lent, &failure)) {
    log_event(LOG_CLIENT_ERROR, outlet->config->name, "%s; the reader gets its results over its socket instead", failure.text);
    return false;
  }
  int control = make_control(outlet, place, lent.memory, &failure);
  if (control >= 0) {
    welcome(outlet, guest, &lent, control);
    close(control);
  } else {
    log_event(LOG_CLIENT_ERROR, outlet->config->name, "%s; the reader gets its results over its socket instead", failure.text);
  }
  close(lent.output);
  return control >= 0;
}

/* -- afterwards ----------------------------------------------------------------------------------------------------- */

enum { LINGER_MS = 10000 };

/* Nobody keeps its control memory, a few pages, unless the pipeline ends. */
static void forget(struct place *place, bool leaves_memory) {
  place->linger = loop_timer_close(place->linger);
  if (leaves_memory) {
    arena_drop(&place->control);
  } else {
    arena_give_up(&place->control);
  }
  quota_release(&place->charge);
  free(place);
}

static void on_lingered(void *context) {
  struct place *place = context;
  struct place **link = &place->outlet->lingering;
  while (*link != place) {
    link = &(*link)->next;
  }
  *link = place->next;
  forget(place, false);
}

void outlet_let_go(struct outlet *outlet, struct place *place, bool was_sent_away) {
  bool lingers = place->control.fd >= 0 && was_sent_away && !outlet->closed;
  place->linger = lingers ? loop_timer_new(outlet->loop, on_lingered, place) : NULL;
  if (!place->linger) {
    forget(place, outlet->closed);
    return;
  }
  quota_leave(&place->charge);
  place->outlet = outlet;
  place->next = outlet->lingering;
  outlet->lingering = place;
  loop_timer_start(place->linger, LINGER_MS, 0);
}

void outlet_leave_memory(struct outlet *outlet) {
  while (outlet->lingering) {
    struct place *place = outlet->lingering;
    outlet->lingering = place->next;
    forget(place, true);
  }
}
