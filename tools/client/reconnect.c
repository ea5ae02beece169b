/*
 * Reconnection: the client connects again to a daemon that returns, and sends its kept frames to the new connection.
 *
 * A lost connection breaks the client like any problem. The next client_look() turns that into a pause if reconnecting may
 * help. During a pause the client tries again with growing intervals, until the daemon welcomes it or its time is over. Nothing
 * here waits: client_look() makes one step of an attempt, and a sleeping caller asks when the next one is due.
 *
 * Consumers must recognise results of frames that were sent again. Each frame carries a mark: 20 bits of the client's random
 * token, and the lowest 8 bits of the frame's number. A consumer receives each client's results in order. A repeated result
 * whose number is not above the last one is therefore known.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tools/client/client.h"

#define SHORTEST_WAIT (NS_PER_S / 1000)
#define LONGEST_WAIT  (NS_PER_S / 20)

enum { CLIENTS = 1 << NATIVE_MARK_CLIENT, NUMBERS = 1 << NATIVE_MARK_NUMBER, CONNECTION = 0, TIMER = 1, NOT_WATCHED = -1 };

/* -- beginning and end ------------------------------------------------------------------------------------------------- */

static bool make_descriptor(struct framed *client) {
  struct reconnect *reconnect = &client->reconnect;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = TIMER};
  reconnect->descriptor = epoll_create1(EPOLL_CLOEXEC);
  reconnect->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  reconnect->watched = NOT_WATCHED;
  if (reconnect->descriptor < 0 || reconnect->timer < 0 ||
      epoll_ctl(reconnect->descriptor, EPOLL_CTL_ADD, reconnect->timer, &event) != 0) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "cannot make what a client that connects again needs");
  }
  return true;
}

bool reconnect_open(struct framed *client, int64_t for_ns) {
  struct reconnect *reconnect = &client->reconnect;
  if (for_ns <= 0) {
    return true;
  }
  client->keeps = true;
  reconnect->for_ns = for_ns;
  while (reconnect->token == 0) {
    if (getrandom(&reconnect->token, sizeof reconnect->token, 0) != (ssize_t)sizeof reconnect->token) {
      reconnect->token = (uint64_t)framed_clock() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    }
  }
  if (client->info.role == FRAMED_CONSUMER) {
    reconnect->numbers = calloc(CLIENTS, sizeof *reconnect->numbers);
    if (!reconnect->numbers) {
      return client_break(client, FRAMED_E_SYSTEM, ENOMEM, "no memory for a consumer that connects again");
    }
  }
  return make_descriptor(client);
}

void reconnect_close(struct framed *client) {
  struct reconnect *reconnect = &client->reconnect;
  if (reconnect->descriptor >= 0) {
    close(reconnect->descriptor);
  }
  if (reconnect->timer >= 0) {
    close(reconnect->timer);
  }
  free(reconnect->numbers);
}

/* -- marks --------------------------------------------------------------------------------------------------------------- */

uint32_t reconnect_mark(struct framed *client) {
  struct reconnect *reconnect = &client->reconnect;
  if (!client->keeps) {
    return 0;
  }
  uint32_t number = (uint32_t)(reconnect->numbered++ % NUMBERS);
  return ((uint32_t)(reconnect->token % CLIENTS) << NATIVE_MARK_NUMBER | number) << NATIVE_MARK_SHIFT;
}

static uint32_t number_in(uint32_t flags) { return flags >> NATIVE_MARK_SHIFT & (NUMBERS - 1U); }

static uint16_t *last_of(const struct framed *client, uint32_t flags) {
  return &client->reconnect.numbers[flags >> (NATIVE_MARK_SHIFT + NATIVE_MARK_NUMBER)];
}

bool reconnect_knows(const struct framed *client, uint32_t flags) {
  if (!client->reconnect.numbers || (flags & NATIVE_AGAIN) == 0) {
    return false;
  }
  uint16_t last = *last_of(client, flags);
  return last != 0 && (last - 1U - number_in(flags)) % NUMBERS < NUMBERS / 2;
}

bool reconnect_is_new(struct framed *client, uint32_t flags) {
  if (reconnect_knows(client, flags)) {
    return false;
  }
  if (client->reconnect.numbers) {
    *last_of(client, flags) = (uint16_t)(number_in(flags) + 1);
  }
  return true;
}

/* -- a pause ------------------------------------------------------------------------------------------------------------- */

bool reconnect_may_help(const struct framed *client) {
  int code = client->problem.code;
  return client->keeps && client->transport && client->broken && !client->reconnect.over &&
         (code == FRAMED_E_CLOSED || code == FRAMED_E_STOPPING);
}

static void disconnect(struct framed *client) {
  if (client->fd >= 0) {
    close(client->fd); /* this also removes it from the epoll */
  }
  client->fd = -1;
  client->reconnect.watched = NOT_WATCHED;
  greeting_end(client);
}

static void forget_problem(struct framed *client) {
  client->broken = false;
  client->problem = (struct framed_error){0};
}

/* A connection that lasted only a moment is not retried at once. */
static void begin_pause(struct framed *client) {
  struct reconnect *reconnect = &client->reconnect;
  int64_t now = framed_clock();
  reconnect->cause = client->problem;
  forget_problem(client);
  disconnect(client);
  client->transport->lose(client);
  client->paused = true;
  bool was_there = now - reconnect->since > LONGEST_WAIT;
  reconnect->wait = was_there ? SHORTEST_WAIT : reconnect->wait;
  reconnect->next = was_there ? now : now + reconnect->wait;
  reconnect->until = framed_after(now, reconnect->for_ns);
}

/* Fails with the first problem. For a consumer between two results this is the normal end of the sink. */
static void give_up(struct framed *client, const struct framed_error *last) {
  struct reconnect *reconnect = &client->reconnect;
  struct framed_error cause = reconnect->cause;
  struct framed_error why = *last;
  disconnect(client);
  forget_problem(client);
  reconnect->over = true;
  client->paused = false;
  if (reconnect->quietly) {
    client->transport->end(client);
  } else {
    client_break(client, (enum framed_code)cause.code, 0, "%.*s; and it did not come back: %.*s", FRAMED_TEXT / 2 - 20,
                 cause.text, FRAMED_TEXT / 2 - 20, why.text);
  }
}

/* Errors that retrying cannot resolve. */
static bool is_final(int code) {
  return code == FRAMED_E_PROTOCOL || code == FRAMED_E_VERSION || code == FRAMED_E_ROLE || code == FRAMED_E_DENIED ||
         code == FRAMED_E_DAEMON;
}

static void try_later(struct framed *client) {
  struct reconnect *reconnect = &client->reconnect;
  int64_t now = framed_clock();
  struct framed_error last = client->problem;
  if (is_final(last.code)) {
    disconnect(client);
    client->paused = false;
    reconnect->over = true;
    return;
  }
  if (now >= reconnect->until) {
    give_up(client, &last);
    return;
  }
  disconnect(client);
  forget_problem(client);
  reconnect->next = now + reconnect->wait;
  reconnect->wait = reconnect->wait * 2 < LONGEST_WAIT ? reconnect->wait * 2 : LONGEST_WAIT;
}

/* Checks that the pipeline has the same formats. A missing offer of shared memory may be temporary, so it is retried. */
static bool check_pipeline(struct framed *client) {
  const struct native_welcome *welcome = &client->greeting.welcome;
  const struct framed_info *info = &client->info;
  if (welcome->input_bytes != info->input_bytes || welcome->output_bytes != info->output_bytes ||
      strncmp(welcome->input_format, info->input_format, FRAMED_NAME - 1) != 0 ||
      strncmp(welcome->output_format, info->output_format, FRAMED_NAME - 1) != 0) {
    return client_break(client, FRAMED_E_DAEMON, 0, "pipeline %s is there again with other formats: %.*s to %.*s",
                        info->pipeline, FRAMED_NAME - 1, welcome->input_format, FRAMED_NAME - 1, welcome->output_format);
  }
  if ((int)welcome->transport != info->transport) {
    return client_break(client, FRAMED_E_INTERNAL, 0, "pipeline %s no longer offers shared memory", info->pipeline);
  }
  return true;
}

static void end_pause(struct framed *client) {
  client->info.session = client->greeting.welcome.session;
  greeting_end(client);
  connection_tune(client);
  client->reconnect.since = framed_clock();
  client->paused = false;
}

/* Makes one step of an attempt. A welcome that takes too long counts as a failure. */
static void try_again(struct framed *client) {
  struct reconnect *reconnect = &client->reconnect;
  int64_t now = framed_clock();
  if (client->fd < 0 && now < reconnect->next) {
    return;
  }
  enum step step = client->fd >= 0 || greeting_begin(client, 0) ? greeting_step(client) : STEP_FAILED;
  if (step == STEP_WAIT && now >= reconnect->until) {
    client_break(client, FRAMED_E_TIMEOUT, ETIMEDOUT, "no welcome came");
    step = STEP_FAILED;
  }
  if (step == STEP_DONE && check_pipeline(client) && client->transport->resume(client)) {
    end_pause(client);
  } else if (step != STEP_WAIT) {
    try_later(client);
  }
}

/* Returns the pending events. Begins a pause if the connection turns out to be lost. */
static unsigned look_once(struct framed *client) {
  unsigned there = client->paused || client->broken ? 0 : client->transport->look(client);
  if (reconnect_may_help(client)) {
    begin_pause(client);
  }
  return client->paused || client->broken ? client->transport->events(client) : there;
}

/* A new connection may already be lost. The second look handles that. */
unsigned client_look(struct framed *client) {
  unsigned there = look_once(client);
  if (!client->paused) {
    return there;
  }
  try_again(client);
  return look_once(client);
}

/* -- waiting ------------------------------------------------------------------------------------------------------------- */

int64_t reconnect_patience(const struct framed *client, int64_t left_ns) {
  const struct reconnect *reconnect = &client->reconnect;
  if (!client->paused) {
    return left_ns;
  }
  int64_t until = (client->fd >= 0 ? reconnect->until : reconnect->next) - framed_clock();
  until = until > 0 ? until : 0;
  return left_ns < 0 || until < left_ns ? until : left_ns;
}

static void watch_connection(struct framed *client, short conditions) {
  struct reconnect *reconnect = &client->reconnect;
  struct epoll_event event = {.data.u32 = CONNECTION};
  event.events = (conditions & POLLIN ? (uint32_t)EPOLLIN : 0) | (conditions & POLLOUT ? (uint32_t)EPOLLOUT : 0);
  short wanted = conditions != 0 ? conditions
                                 : NOT_WATCHED; /* an epoll always reports an end, so an unwatched connection must be removed */
  if (client->fd < 0 || wanted == reconnect->watched) {
    return;
  }
  int change = wanted == NOT_WATCHED ? EPOLL_CTL_DEL : reconnect->watched == NOT_WATCHED ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(reconnect->descriptor, change, client->fd, &event) != 0) {
    client_break(client, FRAMED_E_SYSTEM, errno, "cannot wait for pipeline %s", client->info.pipeline);
  }
  reconnect->watched = wanted;
}

short reconnect_watch(struct framed *client, short conditions) {
  struct itimerspec when = {0};
  if (client->paused) {
    int64_t left = reconnect_patience(client, -1);
    left = left > 0 ? left : 1;
    when.it_value = (struct timespec){.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
  }
  if (client->paused || client->reconnect.timed) {
    timerfd_settime(client->reconnect.timer, 0, &when, NULL);
    client->reconnect.timed = client->paused;
  }
  watch_connection(client, conditions);
  return POLLIN;
}
