/*
 * One connection to a NATS server, driven by its owner's thread alone: bytes move in broker_turn(), and after
 * broker_connect(), which waits for some seconds at most, no call waits.
 *
 * The client library's own way back to a server is switched off, since it keeps what is published meanwhile without asking: a
 * connection that is lost is over, and its owner makes another when it is time. All answers come to one inbox, which stays the
 * same for the broker's life.
 */
#ifndef FRAMED_TOOLS_LINK_BROKER_H
#define FRAMED_TOOLS_LINK_BROKER_H

#include <nats/nats.h>
#include <poll.h>
#include <stdatomic.h>

#include "tools/link/settings.h"

enum {
  BROKER_TEXT = 512,
  BROKER_POLLS = 2,
  BROKER_REFUSALS = 8,
  BROKER_READ = 64,
  BROKER_LARGEST = 8 * 1024 * 1024 /* of a message; larger ones are lost by servers */
};

/* One connection as the library's callbacks know it. A callback of an earlier connection may come late, and must not end the
 * present one. */
struct wire;

struct broker {
  const struct settings *settings;
  natsConnection *connection; /* NULL: none */
  struct wire *wire;          /* the connection's; NULL: none */
  natsSubscription *inbox;
  natsInbox *address;         /* what the inbox's subjects begin with */
  int event;                  /* wakes the owner when other threads of the library want something */
  uint64_t delivered;         /* of a source's work queue, as of the connection; 0: none, or its stream keeps what is done */
  int64_t made;               /* when its consumer was made */
  int64_t stream_made;        /* when its stream was made, as the server says */
  bool unheard;               /* nobody took something that was sent; the owner clears it */
  bool drains;                /* no more messages are wanted: see broker_drain() */
  bool queue;                 /* its stream is a work queue */
  bool keeps;                 /* what should be its queue never lets go of a frame */
  bool discards;              /* its queue lets go of frames that are not done */
  unsigned advice, advised;   /* what is to be said of its stream, and what was: bits */
  int64_t scarce;             /* since when the cluster has too few servers for the copies; 0: it has enough */
  char why[BROKER_TEXT];      /* it could not connect, or why it was lost */
  natsMsg *read[BROKER_READ]; /* small messages that are to be freed */
  unsigned read_count;
  /* What the server refused, each once, as far as there is room; and how much of it was said. */
  char refusals[BROKER_REFUSALS][BROKER_TEXT];
  unsigned refused, said;
};

/* Why a call of the library failed, until this thread's next call. */
const char *broker_reason(natsStatus status);
/* The library's words begin with the place in its source, which helps nobody. */
const char *broker_without_place(const char *text);

bool broker_open(struct broker *broker, const struct settings *settings);
void broker_close(struct broker *broker);

/* Connects and sees to it that the link's stream, if it has one, and a source's consumer are there. False with `why`. */
bool broker_connect(struct broker *broker, const struct link_settings *link);
/* Connects to one of the servers, and leaves it. False with `why`. */
bool broker_try(const struct settings *settings, const char *server, int64_t patience_ms, char why[BROKER_TEXT]);
/* Gives up what is not sent yet after a moment. */
void broker_disconnect(struct broker *broker);

/* Sends what was published since, as far as the server takes it. */
void broker_flush(struct broker *broker);
/* What to wait for, and what to do after it. False: the connection is lost. */
void broker_arm(const struct broker *broker, struct pollfd polls[BROKER_POLLS]);
bool broker_turn(struct broker *broker, const struct pollfd polls[BROKER_POLLS]);
/* What the server said since, which was not said before, that the account has no right to; NULL: nothing. */
const char *broker_refusal(struct broker *broker);
/* What is to be said of the link's stream and was not said before, "has …"; NULL: nothing. */
const char *broker_advice(struct broker *broker);
/* The next message that came to the inbox, the caller's to destroy; NULL: none. */
natsMsg *broker_take(struct broker *broker);
/* Unsubscribes the inbox. Messages that the server sent before it knows that still come. True: there are no more, or no
 * connection. */
bool broker_drain(struct broker *broker);
/* What its subject has behind the inbox's address and a dot; "": it should not have come here. */
const char *broker_answer(const struct broker *broker, const natsMsg *message);
/* Frees it, at once or together with others: a thread of the library does that, and is woken up each time. */
void broker_done(struct broker *broker, natsMsg *message);
/* Whether a connection is there that has not been lost. */
bool broker_is_there(const struct broker *broker);
/* Whether bytes wait for a server that takes none. */
bool broker_is_stuck(const struct broker *broker);
/* Bytes that one message may have. */
size_t broker_largest(const struct broker *broker);

/* admin.c: makes streams and consumers that are not there, over a connection of its own; may wait for some seconds. */
bool broker_prepare(struct broker *broker, natsOptions *options, const struct link_settings *link);

#endif
