/* The calls of framed.h that are the same for both transports: who holds what, and waiting. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "tools/client/client.h"

const struct framed_info *framed_info(const struct framed *client) { return &client->info; }

int framed_descriptor(const struct framed *client) { return client->fd; }

/* -- frames ------------------------------------------------------------------------------------------------------------ */

static unsigned places(const struct framed *client) {
  return client->info.transport == FRAMED_STREAM ? client->stream.places : client->info.slots;
}

void *framed_acquire(struct framed *client) {
  if (client->broken || client->finished || client->info.role == FRAMED_CONSUMER) {
    return NULL;
  }
  for (unsigned i = 0; i < places(client); i++) {
    if (client->frames[i] == PLACE_FREE) {
      client->frames[i] = PLACE_HELD;
      return client->inputs.base + i * client->inputs.stride;
    }
  }
  return NULL;
}

static int held_place(const struct framed *client, const void *frame) {
  int index = region_place(&client->inputs, places(client), frame);
  return index >= 0 && client->frames[index] == PLACE_HELD ? index : -1;
}

void framed_cancel(struct framed *client, void *frame) {
  int index = held_place(client, frame);
  if (index >= 0) {
    client->frames[index] = PLACE_FREE;
  }
}

int framed_submit(struct framed *client, void *frame, uint64_t sequence, int64_t timestamp, int64_t deadline) {
  const struct native_frame stamp = {.sequence = sequence, .timestamp = timestamp, .deadline = deadline};
  int index = held_place(client, frame);
  if (index < 0) {
    return client_misuse(client, "framed_submit: this frame was not acquired");
  }
  if (client->finished) {
    return client_misuse(client, "framed_submit: after framed_finish no frame follows");
  }
  if (client->broken) {
    return FRAMED_FAILED;
  }
  client->frames[index] = PLACE_AWAY;
  client->transport->submit(client, (unsigned)index, &stamp);
  return client->broken ? FRAMED_FAILED : 0;
}

int framed_finish(struct framed *client) {
  if (client->info.role == FRAMED_CONSUMER) {
    return client_misuse(client, "framed_finish: a consumer sends no frames");
  }
  if (client->broken) {
    return FRAMED_FAILED;
  }
  client->finished = true;
  client->transport->finish(client);
  return 0;
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

int framed_receive(struct framed *client, struct framed_result *result) {
  if (client->info.role == FRAMED_PRODUCER) {
    return client_misuse(client, "framed_receive: a producer gets no results");
  }
  if (client->transport->receive(client, result)) {
    return 1;
  }
  if (client->broken) {
    return FRAMED_FAILED;
  }
  return client->transport->look(client) & FRAMED_RESULT && client->transport->receive(client, result) ? 1
         : client->broken                                                                              ? FRAMED_FAILED
                                                                                                       : 0;
}

void framed_release(struct framed *client, const struct framed_result *result) {
  if (result->data) {
    client->transport->release(client, result->place);
  }
}

/* -- waiting ----------------------------------------------------------------------------------------------------------- */

/* The events that are there; a broken client has its results left. */
static int look(struct framed *client) {
  int there = (int)client->transport->look(client);
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

/* What to say when nothing wanted is there any more. */
static int nothing(int there) { return there == FRAMED_FAILED ? there : 0; }

int framed_arm(struct framed *client, int wanted, short *conditions) {
  client->transport->wake(client, POLLIN);
  int there = look(client);
  if (!is_wanted(there, wanted)) {
    *conditions = client->transport->arm(client);
    there = look(client);
  }
  if (is_wanted(there, wanted)) {
    *conditions = 0;
    client->transport->wake(client, 0);
    return there;
  }
  return nothing(there);
}

/* 0 at the end of the time or at a signal; else whether it may go on. */
static bool sleep_for(struct framed *client, short conditions, int64_t left_ns) {
  struct pollfd ready = {.fd = client->fd, .events = conditions};
  const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
  int count = ppoll(&ready, 1, left_ns < 0 ? NULL : &timeout, NULL);
  if (count < 0 && errno != EINTR) {
    client_break(client, FRAMED_E_SYSTEM, errno, "cannot wait for pipeline %s", client->info.pipeline);
  }
  client->transport->wake(client, count > 0 ? ready.revents : 0);
  return count > 0;
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
  bool goes_on = true;
  while (goes_on) {
    int64_t left = timeout_ns < 0 ? -1 : end - framed_clock();
    if (timeout_ns >= 0 && left <= 0) {
      return 0;
    }
    short conditions = client->transport->arm(client);
    int there = look(client);
    if (is_wanted(there, wanted)) {
      client->transport->wake(client, 0);
      return there;
    }
    goes_on = sleep_for(client, conditions, left);
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
    there = spin(client, wanted, start + (sleeps ? client->spin_ns : timeout_ns));
  }
  if (is_wanted(there, wanted)) {
    return there;
  }
  return sleeps ? sleep_until(client, wanted, timeout_ns, start + (timeout_ns < 0 ? 0 : timeout_ns)) : 0;
}
