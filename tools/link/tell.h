/*
 * How a link stands with its broker, and the daemon told so over its status socket, where an operator looks: each time with how
 * long that holds, so that the daemon forgets a link that has gone without a word.
 */
#ifndef FRAMED_TOOLS_LINK_TELL_H
#define FRAMED_TOOLS_LINK_TELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/link/broker.h"

/* Set by the link's thread, read by whoever tells. */
struct standing {
  pthread_mutex_t lock;
  bool connected;
  int64_t since; /* CLOCK_MONOTONIC ns; 0: not known yet */
  char error[BROKER_TEXT];
};

void standing_init(struct standing *standing);
void standing_free(struct standing *standing);
/* `error` NULL: it is connected. */
void standing_set(struct standing *standing, const char *error);

struct link;

/* Tells of all links; that it cannot is said when that begins, `silent` being where that is kept. With `gone` that they end. */
void tell_links(const struct settings *settings, struct link *links, bool gone, bool *silent);

#endif
