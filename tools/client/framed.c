/* The calls of framed.h that both transports share: acquiring, submitting, and waiting. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "tools/client/client.h"

const struct framed_info *framed_info(const struct framed *client) { return &client->info; }

int framed_descriptor(const struct framed *client) { return client->keeps ? client->reconnect.descriptor : client->fd; }

/* -- frames ------------------------------------------------------------------------------------------------------------ */

void *framed_acquire(struct framed *client) {
  struct lot *lot = client->lot;
  if (client->broken || client->finished || !client->transport->has_room(client)) {
    return NULL;
  }
  for (unsigned i = 0; i < lot->places; i++) {
    if (lot->frames[i] == PLACE_FREE) {
      lot->frames[i] = PLACE_HELD;
      return lot->inputs.base + i * lot->inputs.stride;
    }
  }
  return NULL;
}

/* Finds the lot and the index of a frame that the caller holds. NULL: the caller does not hold it. */
static struct lot *find_held(const struct framed *client, const void *frame, unsigned *index) {
  for (struct lot *lot = client->lot; lot; lot = lot->older) {
    int place = region_place(&lot->inputs, lot->places, frame);
    if (place >= 0 && lot->frames[place] == PLACE_HELD) {
      *index = (unsigned)place;
      return lot;
    }
  }
  return NULL;
}

void framed_cancel(struct framed *client, void *frame) {
  unsigned index;
  struct lot *lot = find_held(client, frame, &index);
  if (lot) {
    lot->frames[index] = PLACE_FREE;
  }
}

int framed_submit(struct framed *client, void *frame, uint64_t sequence, int64_t timestamp, int64_t deadline) {
  unsigned index;
  struct lot *lot = find_held(client, frame, &index);
  if (!lot) {
    return client_misuse(client, "framed_submit: this frame was not acquired");
  }
  if (client->finished) {
    return client_misuse(client, "framed_submit: after framed_finish no frame follows");
  }
  if (client->broken) {
    return FRAMED_FAILED;
  }
  const struct native_frame stamp = {
      .sequence = sequence, .timestamp = timestamp, .deadline = deadline, .flags = reconnect_mark(client)};
  lot->frames[index] = PLACE_AWAY;
  client->transport->submit(client, lot, index, &stamp);
  return client->broken && !reconnect_may_help(client) ? FRAMED_FAILED : 0;
}

int framed_finish(struct framed *client) {
  if (client->info.role == FRAMED_CONSUMER) {
    return client_misuse(client, "framed_finish: a consumer sends no frames");
  }
  if (client->broken && !reconnect_may_help(client)) {
    return FRAMED_FAILED;
  }
  client->finished = true;
  if (!client->broken && !client->paused) {
    client->transport->finish(client);
  }
  return 0;
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

int framed_receive(struct framed *client, struct framed_result *result) {
  if (client->info.role == FRAMED_PRODUCER && !client->fates) {
    return client_misuse(client, "framed_receive: a producer gets no results");
  }
  if (client->transport->receive(client, result)) {
    return 1;
  }
  if (client->broken && !reconnect_may_help(client)) {
    return FRAMED_FAILED;
  }
  return client_look(client) & FRAMED_RESULT && client->transport->receive(client, result) ? 1
         : client->broken                                                                  ? FRAMED_FAILED
                                                                                           : 0;
}

void framed_release(struct framed *client, const struct framed_result *result) {
  if (result->data) {
    client->transport->release(client, result->place);
  }
}

/* -- waiting ----------------------------------------------------------------------------------------------------------- */

/* The pending events. A broken client can only deliver its last results. */
static int look(struct framed *client) {
  int there = (int)client_look(client);
  if (client->broken) {
    return there & FRAMED_RESULT ? FRAMED_RESULT : FRAMED_FAILED;
  }
  return there;
}

static bool is_wanted(int there, int wanted) { return there == FRAMED_FAILED || (there & (wanted | FRAMED_END)) != 0; }

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static void wake(struct framed *client, short conditions) {
  if (!client->paused) {
    client->transport->wake(client, conditions);
  }
}

static short arm(struct framed *client) {
  return client->paused ? (short)(client->fd >= 0 ? POLLIN : 0) : client->transport->arm(client);
}

/*
 * Asks the daemon to wake this client, then looks again, since an event may have come before the request. If that look changes
 * the connection, the request is void and is repeated.
 */
static int arm_and_look(struct framed *client, short *conditions) {
  const struct reconnect *reconnect = &client->reconnect;
  bool paused;
  int there, fd;
  int64_t since;
  do {
    paused = client->paused;
    fd = client->fd;
    since = reconnect->since;
    *conditions = arm(client);
    there = look(client);
  } while (client->keeps && !client->broken && (client->paused != paused || client->fd != fd || reconnect->since != since));
  return there;
}

/* Without poll events a loop would never notice the connection's end. A client that reconnects notices it later. */
static int look_for_end(struct framed *client) {
  struct pollfd ready = {.fd = client->fd};
  if (!client->keeps && poll(&ready, 1, 0) > 0) {
    wake(client, ready.revents);
  }
  return look(client);
}

int framed_arm(struct framed *client, int wanted, short *conditions) {
  wake(client, POLLIN);
  int there = look(client);
  if (!is_wanted(there, wanted)) {
    there = arm_and_look(client, conditions);
  }
  if (!is_wanted(there, wanted) && *conditions == 0) {
    there = look_for_end(client);
  }
  if (is_wanted(there, wanted)) {
    *conditions = 0;
    wake(client, 0);
    return there;
  }
  if (client->keeps) {
    *conditions = reconnect_watch(client, *conditions);
  }
  return there == FRAMED_FAILED ? there : 0;
}

/*
 * Returns whether to continue waiting: not after a signal, nor at the caller's timeout. An earlier end is the time of the next
 * attempt.
 */
static bool sleep_for(struct framed *client, short conditions, int64_t left_ns) {
  bool ignores_connection = client->keeps && conditions == 0; /* the connection's end can be noticed later */
  struct pollfd ready = {.fd = ignores_connection ? -1 : client->fd, .events = conditions};
  int64_t patience_ns = reconnect_patience(client, left_ns);
  const struct timespec timeout = {.tv_sec = patience_ns / NS_PER_S, .tv_nsec = patience_ns % NS_PER_S};
  int count = ppoll(&ready, 1, patience_ns < 0 ? NULL : &timeout, NULL);
  if (count < 0 && errno != EINTR) {
    client_break(client, FRAMED_E_SYSTEM, errno, "cannot wait for pipeline %s", client->info.pipeline);
  }
  wake(client, count > 0 ? ready.revents : 0);
  return count > 0 || (count == 0 && patience_ns != left_ns);
}

static int spin(struct framed *client, int wanted, int64_t until) {
  int there = look(client);
  while (!is_wanted(there, wanted) && framed_clock() < until) {
    relax();
    there = look(client);
  }
  return there;
}

static int sleep_until(struct framed *client, int wanted, int64_t timeout_ns, int64_t end) {
  bool waiting = true;
  while (waiting) {
    int64_t left = timeout_ns < 0 ? -1 : end - framed_clock();
    if (timeout_ns >= 0 && left <= 0) {
      return 0;
    }
    short conditions;
    int there = arm_and_look(client, &conditions);
    if (is_wanted(there, wanted)) {
      wake(client, 0);
      return there;
    }
    waiting = sleep_for(client, conditions, left);
    there = look(client);
    if (is_wanted(there, wanted)) {
      return there;
    }
  }
  return 0;
}

int framed_poll(struct framed *client, int wanted, int64_t timeout_ns) {
  int there = look(client);
  if (is_wanted(there, wanted) || timeout_ns == 0) {
    return is_wanted(there, wanted) ? there : 0;
  }
  int64_t start = framed_clock();
  bool sleeps = timeout_ns < 0 || timeout_ns > client->spin_ns;
  if (client->spin_ns > 0) {
    there = spin(client, wanted, framed_after(start, sleeps ? client->spin_ns : timeout_ns));
  }
  if (is_wanted(there, wanted)) {
    return there;
  }
  return sleeps ? sleep_until(client, wanted, timeout_ns, framed_after(start, timeout_ns < 0 ? 0 : timeout_ns)) : 0;
}
