/* Events of the sessions of a pipeline. */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/client/detach.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"

static void on_not_read(const struct inputs *inputs, const struct producer *producer) {
  log_event(
      LOG_NOT_READ, inputs->config->name,
      "producer pid %d (user %u) has read no result to its end for %d s, so that its frames wait: it has to read while it "
      "sends, as framectl push does",
      (int)producer->client.pid, (unsigned)producer->client.uid, SESSION_PATIENCE_S);
}

static void on_foreign(const struct inputs *inputs, const struct producer *producer, const struct session_event *event) {
  bool is_client = inputs->config->source.endpoint == CONFIG_SOCKET;
  char client[64];
  snprintf(client, sizeof client, "producer pid %d (user %u)", (int)producer->client.pid, (unsigned)producer->client.uid);
  log_event(LOG_FOREIGN, inputs->config->name,
            "the first frame of %s begins like %s, and is taken as raw bytes all the same: is `protocol` of the source right?",
            is_client ? client : inputs->config->source.path, event->text);
}

/* A file that ended early. */
static void note_end(struct inputs *inputs, const struct session_event *event) {
  if (inputs->config->source.endpoint == CONFIG_FILE && event->reason != DETACH_END && event->reason != DETACH_STOPPED) {
    trouble_note(&inputs->trouble, clock_now(), "repair the file or name another one, and reload", "reading '%s' has ended: %s",
                 inputs->config->source.path, event->text);
  }
}

static void on_detached(struct inputs *inputs, struct producer *producer, const struct session_event *event) {
  detach_log(inputs->config, event, &producer->client, &inputs->refusals);
  detach_notify(inputs->config, event, &producer->client, producer->shares);
  note_end(inputs, event);
  producer->client.fd = -1;
  producer->cut = false;
  inputs_count_producer(inputs, producer, false);
  if (!producer->shares) {
    quota_release(&producer->charge);
  }
  if (producer->shares) {
    producer_renew(producer);
  } else if (!inputs->closed && inputs->config->source.endpoint != CONFIG_FILE) {
    inputs_attach_waiting(inputs, producer);
  } else if (!inputs->closed && inputs->endpoint.kind == ENDPOINT_FIFO) {
    inputs->discards |= event->reason == DETACH_CUT; /* the rest of a frame may follow */
    inputs_await_next_writer(inputs);
  } else {
    inputs->ended = true;
  }
  fd_table_leave(event->fd, false); /* before another descriptor gets its number */
  rights_close(event->fd);
}

/* The event may be older than the last resume and hold. Then this asks again. */
static void on_idle(const struct inputs *inputs, struct producer *producer) {
  struct session_view view;
  session_read(producer->session, &view);
  producer->idle = view.ledger.in_flight == 0 || (inputs->leaves_partial && view.ledger.in_flight == 1);
  if (!producer->idle && !inputs->stops) {
    session_hold(producer->session, inputs->for_readers);
  }
}

void inputs_on_event(struct inputs *inputs, const struct session_event *event) {
  struct producer *producer = inputs->seats;
  while (producer->session != event->session) {
    producer++;
  }
  switch (event->kind) {
  case SESSION_DETACHED:
    on_detached(inputs, producer, event);
    break;
  case SESSION_IDLE:
    on_idle(inputs, producer);
    break;
  case SESSION_STOPPED:
    producer->stopped = true;
    break;
  case SESSION_NOT_READ:
    on_not_read(inputs, producer);
    break;
  case SESSION_FOREIGN:
    on_foreign(inputs, producer, event);
    break;
  case SESSION_REFUSED:
    log_event(LOG_REFUSED_FRAME, inputs->config->name,
              "frame %" PRIu64 " of epoch %" PRIu64 " cannot be computed and is dropped as invalid: %s", event->frame.number,
              event->frame.epoch, event->text);
    break;
  case SESSION_CHANGED:
    producer->changing = false;
    break;
  case SESSION_HELD:
    break;
  }
}
