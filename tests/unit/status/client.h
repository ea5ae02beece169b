/*
 * A status server on a Unix socket and clients of it in one thread: the loop turns while a client waits, so that
 * every test is a plain sequence.
 */
#ifndef FRAMED_TESTS_STATUS_CLIENT_H
#define FRAMED_TESTS_STATUS_CLIENT_H

#include "daemon/status/status.h"
#include "tests/unit/status/fake_server.h"

struct site {
  struct server *server;
  struct status *status;
  int listener;
  char path[64];
  bool closed;
};

void site_open(struct site *site, bool read_only);
/* Closes the server and proves that its loop is empty. */
void site_close(struct site *site);
/* Closes the server alone, and turns the loop until that is done. */
void site_stop(struct site *site);

int site_connect(const struct site *site);
void site_turn(struct site *site); /* one iteration of the loop, which may wait */
/* Whatever comes until the end of the connection, as a string to free; closes the descriptor. */
char *site_receive(struct site *site, int fd);
/* Sends a whole request that asks for the end of the connection, and gives the whole answer. */
char *site_ask(struct site *site, const char *method, const char *path);
/* The answer's body, within it. */
const char *body_of(const char *answer);

#endif
