/* The lane's end of shared memory, of which a test is the client, the device and the lane's clock. */
#ifndef FRAMED_TESTS_UNIT_SESSION_CHANNEL_RIG_H
#define FRAMED_TESTS_UNIT_SESSION_CHANNEL_RIG_H

#include "daemon/frame/channel.h"
#include "daemon/sink/completions.h"
#include "daemon/source/source.h"

enum { SLOTS = 5 };

struct channel_rig {
  struct native_control control;
  struct flow flow;
  struct account account;
  struct receive receive;
  struct runner runner; /* on no lane */
  struct source source;
  struct channel channel;
  int ends[2]; /* of the connection: the daemon's and the client's */
  bool took_too_much;
  int64_t now;
};

extern struct channel_rig rig;

/* Whose results go back to the client, or elsewhere; all cursors begin there. */
void set_up(bool replies, uint32_t cursors);
void tear_down(void);

void submit(uint32_t slot, const struct native_frame *frame);
/* The steps of a session's turn: true if anything moved. */
bool take(void);
bool give(void);
/* Whether either found that the client breaks the protocol. */
bool is_broken(void);
/* The device: the oldest frame that waits goes through, or is too late. */
bool run_one(bool late);

#endif
