/*
 * Devices that are freed for other work, and come back. Sessions move by a hand-over: the next image of this process opens all
 * devices but those that are left out, and places every session anew, with its frames and connections. So the devices that
 * stay pay the pause of a hand-over, and a drained one is free to its last byte.
 */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/server/private.h"
#include "daemon/status/tracer.h"

enum { ANSWER_MS = 50, AGAIN_MS = 200, ATTEMPTS = 25 };

struct device_change {
  struct server *server;
  unsigned number;
  bool drains;
  bool must;                   /* the device failed: it is tried until it can be */
  struct engine_absent before; /* what it was left out for, if it comes back */
  struct loop_timer *timer;
  int attempts;
};

static void device_refuse(const struct device_order *order, int status, const char *remedy, const char *why) {
  answer_error(order->answer, order->context, status, remedy, "device %u: %s", order->number, why);
}

static void device_answer(const struct device_order *order, const char *state) {
  order->answer(order->context, 200, json_pack("{s:b, s:i, s:s}", "ok", 1, "device", (int)order->number, "state", state));
}

/* -- the change ------------------------------------------------------------------------------------------------------- */

void device_change_cancel(struct server *server) {
  if (server->device_change) {
    loop_timer_close(server->device_change->timer);
    free(server->device_change);
    server->device_change = NULL;
  }
}

/* Everything stays as it was. */
static void give_up(struct device_change *change, const char *why) {
  struct server *server = change->server;
  if (change->drains) {
    engine_take_back(server->engine, change->number);
  } else {
    engine_leave_out(server->engine, change->number, (enum engine_absence)change->before.why, change->before.text);
  }
  log_event(LOG_DEVICE, NULL, "device %u was not %s: %s", change->number, change->drains ? "drained" : "brought back", why);
  device_change_cancel(server);
}

/* Whatever keeps everything from being handed over now, such as a reload or a request to a file, is over soon. */
static void change_device(void *context) {
  struct device_change *change = context;
  struct server *server = change->server;
  struct failure failure;
  char text[HISTORY_TEXT];
  snprintf(text, sizeof text, "device %u was %s", change->number,
           change->must     ? "left out"
           : change->drains ? "drained"
                            : "brought back");
  if (server_has_files(server, &failure)) {
    server->history.suspects |= change->must; /* another device that fails when the next process starts is left out as well */
    server_hand_over(server, HISTORY_DEVICE, text, NULL, &failure);
  }
  if (++change->attempts >= ATTEMPTS && !change->must) {
    give_up(change, failure.text);
  }
}

static struct device_change *make_change(struct server *server, unsigned number, bool drains) {
  struct device_change *change = calloc(1, sizeof *change);
  struct loop_timer *timer = change ? loop_timer_new(&server->loop, change_device, change) : NULL;
  if (!timer) {
    free(change);
    return NULL;
  }
  *change = (struct device_change){.server = server, .number = number, .drains = drains, .timer = timer};
  server->device_change = change;
  (void)tracer_yield(server->tracer);
  return change;
}

/* The answer needs a moment to leave. What is marked here goes with any hand-over that comes before. */
static void begin_change(struct server *server, const struct device_order *order, const struct engine_absent *absent) {
  struct device_change *change = make_change(server, order->number, order->command == DEVICE_DRAIN);
  if (!change) {
    device_refuse(order, 503, "try again later", "there is not enough memory");
    return;
  }
  if (change->drains) {
    engine_leave_out(server->engine, order->number, ENGINE_DRAINED, "somebody asked for it");
  } else {
    change->before = *absent;
    engine_take_back(server->engine, order->number);
  }
  device_answer(order, change->drains ? "draining" : "opening");
  loop_timer_start(change->timer, ANSWER_MS, AGAIN_MS);
}

bool server_move_off(struct server *server, unsigned number) {
  struct device_change *change = server->device_change;
  if (!change && (change = make_change(server, number, true))) {
    loop_timer_start(change->timer, 0, AGAIN_MS);
  }
  if (change) {
    change->must = true; /* one that is under way for another device sees to both */
  }
  return change;
}

/* -- what is asked ---------------------------------------------------------------------------------------------------- */

static void refuse_unknown(const struct server *server, const struct device_order *order) {
  char numbers[256];
  size_t length = (size_t)snprintf(numbers, sizeof numbers, "there are:");
  for (unsigned i = 0; i < engine_devices(server->engine) && length < sizeof numbers; i++) {
    unsigned number = engine_device_number(server->engine, i);
    length += (size_t)snprintf(numbers + length, sizeof numbers - length, " %u", number);
  }
  device_refuse(order, 404, numbers, "no pipeline uses such a device");
}

/* Whether sessions on the device have others to go to; else that is answered. */
static bool may_drain(const struct server *server, const struct device_order *order) {
  const char *pipeline;
  char why[160];
  if (engine_can_spare(server->engine, server->config, order->number, &pipeline)) {
    return true;
  }
  snprintf(why, sizeof why, pipeline ? "pipeline '%s' has no other device" : "there is no other%s", pipeline ? pipeline : "");
  device_refuse(order, 409, "name more `devices` in the pipeline, or remove it, and reload", why);
  return false;
}

void server_device(struct server *server, const struct device_order *order) {
  const struct engine_absent *absent = engine_find_absent(server->engine, order->number);
  bool drains = order->command == DEVICE_DRAIN;
  if (!absent && !engine_device(server->engine, order->number)) {
    refuse_unknown(server, order);
  } else if (drains && absent && absent->why == ENGINE_FAILED) {
    device_refuse(order, 409, "nothing uses it already; mend it, then resume it", "it is left out, since it failed");
  } else if (drains == (absent != NULL) && !server->device_change) {
    device_answer(order, absent ? engine_absence_names[absent->why] : "open");
  } else if (server->device_change || server->upgrade || server->reload || server->phase != SERVER_RUNNING ||
             server->stop_wanted) {
    device_refuse(order, 409, "try again later", "the daemon starts, stops, reloads, or exchanges devices or programs");
  } else if (!drains || may_drain(server, order)) {
    begin_change(server, order, absent);
  }
}
