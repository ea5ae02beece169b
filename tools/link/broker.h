/*
 * A connection to a NATS server. Only the owner's thread uses it. broker_turn() transfers bytes. broker_connect() waits for
 * some seconds at most; no other call waits.
 *
 * The client library's reconnection is disabled, since it buffers published messages without limit. A lost connection is
 * closed, and its owner makes a new one later. All answers come to one inbox, which stays the same for the broker's life.
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
  BROKER_LARGEST = 8 * 1024 * 1024 /* bytes of a message; servers lose larger ones */
};

/* A connection as the library's callbacks know it. Late callbacks of an earlier connection must not end the current one. */
struct wire;

struct broker {
  const struct settings *settings;
  natsConnection *connection; /* NULL: not connected */
  struct wire *wire;          /* the connection's; NULL: not connected */
  natsSubscription *inbox;
  natsInbox *address;         /* the prefix of the inbox's subjects */
  int event;                  /* wakes the owner for other threads of the library */
  uint64_t delivered;         /* the last delivered frame of a work queue when it connected; 0: no work queue */
  int64_t made;               /* when the source's consumer was created */
  int64_t stream_made;        /* when the stream was created, by the server's clock */
  bool no_responders;         /* a request had no responder; the owner clears it */
  bool drains;                /* no more messages are wanted: see broker_drain() */
  bool queue;                 /* the stream is a work queue */
  bool keeps;                 /* the stream should be a queue, but never removes frames */
  bool discards;              /* the queue removes frames that are not done */
  unsigned advice, advised;   /* bits of enum advice: for the stream, and already reported */
  int64_t scarce;             /* since when the cluster has too few servers for the copies; 0: it has enough */
  char why[BROKER_TEXT];      /* why it could not connect, or why it was lost */
  natsMsg *read[BROKER_READ]; /* small messages to be freed */
  unsigned read_count;
  /* The server's refusals, each once, up to the size of the array; and how many of them were reported. */
  char refusals[BROKER_REFUSALS][BROKER_TEXT];
  unsigned refused, said;
};

/* The reason for the library's last failure in this thread. */
const char *broker_reason(natsStatus status);
/* Removes the source position at the start of the library's messages, which does not help users. */
const char *broker_without_place(const char *text);

bool broker_open(struct broker *broker, const struct settings *settings);
void broker_close(struct broker *broker);

/* Connects, and creates a missing stream of the link and a missing consumer of a source. False with `why`. */
bool broker_connect(struct broker *broker, const struct link_settings *link);
/* Connects to one server and disconnects again. False with `why`. */
bool broker_try(const struct settings *settings, const char *server, int64_t patience_ms, char why[BROKER_TEXT]);
/* Discards unsent bytes after a moment. */
void broker_disconnect(struct broker *broker);

/* Sends published messages, as far as the server accepts them. */
void broker_flush(struct broker *broker);
/* Prepares the poll entries. broker_turn() handles their events; false: the connection is lost. */
void broker_arm(const struct broker *broker, struct pollfd polls[BROKER_POLLS]);
bool broker_turn(struct broker *broker, const struct pollfd polls[BROKER_POLLS]);
/* The next unreported refusal of a permission by the server; NULL: none. */
const char *broker_refusal(struct broker *broker);
/* The next unreported advice on the link's stream, "has …"; NULL: none. */
const char *broker_advice(struct broker *broker);
/* The next message of the inbox, which the caller destroys; NULL: none. */
natsMsg *broker_take(struct broker *broker);
/*
 * Unsubscribes the inbox. Messages that the server sent before still arrive. True: all have arrived, or the connection is lost.
 */
bool broker_drain(struct broker *broker);
/* The part of the message's subject after the inbox's prefix and a dot; "": it has another subject. */
const char *broker_answer(const struct broker *broker, const natsMsg *message);
/* Frees a message, possibly later with others, since each call wakes a thread of the library. */
void broker_done(struct broker *broker, natsMsg *message);
/* Whether it is connected, and the connection is not lost. */
bool broker_is_there(const struct broker *broker);
/* Whether bytes wait because the server accepts none. */
bool broker_is_stuck(const struct broker *broker);
/* The largest size of a message in bytes. */
size_t broker_largest(const struct broker *broker);

/* admin.c: creates missing streams and consumers over a separate connection. May wait for some seconds. */
bool broker_prepare(struct broker *broker, natsOptions *options, const struct link_settings *link);

#endif
