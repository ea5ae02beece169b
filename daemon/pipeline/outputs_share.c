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

bool outputs_may_share(const struct outputs *outputs, const struct client *client) {
  const struct config_pipeline *config = outputs->config;
  bool is_wanted = client->native && client->hello.transport == NATIVE_SHARED;
  unsigned depth = flow_depth(config->overload, config->slots, config->deadline_ns > 0);
  return is_wanted && (config->sink.overload == CONFIG_SINK_BLOCK || depth > 1);
}

/* Opens it for the reader, apart from the daemon's own descriptor. */
static int make_control(const struct outputs *outputs, struct reader_entry *place, unsigned memory, struct failure *failure) {
  char name[96];
  snprintf(name, sizeof name, "framed:%s.reader:control", outputs->config->name);
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

static void welcome(const struct outputs *outputs, const struct client *client, const struct session_lent *lent, int control) {
  struct native_welcome shared = outputs->welcome;
  const int memory[] = {lent->output, control};
  shared.transport = NATIVE_SHARED;
  shared.output_stride = lent->stride;
  shared.control_bytes = NATIVE_CONTROL;
  client_welcome(client, &shared, memory, sizeof memory / sizeof *memory);
}

bool outputs_share(struct outputs *outputs, struct reader_entry *place, const struct client *client) {
  struct session_lent lent;
  struct failure failure;
  if (!outputs_may_share(outputs, client)) {
    return false;
  }
  if (!outputs->lend(outputs->context, &lent, &failure)) {
    log_event(LOG_CLIENT_ERROR, outputs->config->name, "%s; the reader gets its results over its socket instead", failure.text);
    return false;
  }
  int control = make_control(outputs, place, lent.memory, &failure);
  if (control >= 0) {
    welcome(outputs, client, &lent, control);
    close(control);
  } else {
    log_event(LOG_CLIENT_ERROR, outputs->config->name, "%s; the reader gets its results over its socket instead", failure.text);
  }
  close(lent.output);
  return control >= 0;
}

/* -- afterwards ----------------------------------------------------------------------------------------------------- */

enum { LINGER_MS = 10000 };

/* Nobody keeps its control memory, a few pages, unless the pipeline ends. */
static void forget(struct reader_entry *place, bool leaves_memory) {
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
  struct reader_entry *place = context;
  struct reader_entry **link = &place->outputs->lingering;
  while (*link != place) {
    link = &(*link)->next;
  }
  *link = place->next;
  forget(place, false);
}

void outputs_let_go(struct outputs *outputs, struct reader_entry *place, bool was_sent_away) {
  bool lingers = place->control.fd >= 0 && was_sent_away && !outputs->closed;
  place->linger = lingers ? loop_timer_new(outputs->loop, on_lingered, place) : NULL;
  if (!place->linger) {
    forget(place, outputs->closed);
    return;
  }
  quota_leave(&place->charge);
  place->outputs = outputs;
  place->next = outputs->lingering;
  outputs->lingering = place;
  loop_timer_start(place->linger, LINGER_MS, 0);
}

void outputs_leave_memory(struct outputs *outputs) {
  while (outputs->lingering) {
    struct reader_entry *place = outputs->lingering;
    outputs->lingering = place->next;
    forget(place, true);
  }
}
