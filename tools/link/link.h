/*
 * One link: a pipeline of the daemon on one side, a stream of the broker on the other, and a thread that does all of it.
 *
 * link.c keeps both sides connected, each with a pause that grows while it fails, and turns until it is stopped. What goes
 * through is a kind's: a sink (sink.c) or a source (source.c), or what is seen in results (mqtt.c), which turns by itself. Only
 * the link's thread touches it, but for `counters`.
 */
#ifndef FRAMED_TOOLS_LINK_LINK_H
#define FRAMED_TOOLS_LINK_LINK_H

#include <pthread.h>

#include "tools/client/framed.h"
#include "tools/link/broker.h"
#include "tools/link/clock.h"

#define MS INT64_C(1000000)

/* What is told of a link, in the order of counter_names. */
enum counter {
  COUNT_STORED,     /* sink: results that the stream has */
  COUNT_DUPLICATES, /* of these, those that it had already */
  COUNT_RETRIES,    /* sink: results that were sent once more */
  COUNT_LOST,       /* sink with `drop`: results that no answer came for */
  COUNT_MISSED,     /* sink: frames of which the pipeline gave it no result */
  COUNT_ACKED,      /* source: frames that were computed */
  COUNT_GIVEN_BACK, /* source: frames for another box, or another time */
  COUNT_ENDED,      /* source: frames that the pipeline dropped as it is configured to */
  COUNT_DEAD,       /* source: frames that nobody can compute */
  COUNT_RESULTS,    /* mqtt: results that the pipeline gave */
  COUNT_PUBLISHED,  /* mqtt: messages */
  COUNTERS
};
extern const char *const counter_names[COUNTERS];

/* A growing pause between attempts. */
struct pause {
  int64_t next, wait;
};

/* How the link stands with its broker: set by the link's thread, read by whoever tells of it. */
struct standing {
  pthread_mutex_t lock;
  bool connected, warns;
  int64_t since;           /* 0: not known yet */
  char error[BROKER_TEXT]; /* the last one, or "" */
  bool has_queue;          /* of a source, which knows the next three: */
  uint64_t depth;          /* frames in the queue */
  uint64_t unserved;       /* of these, those that nobody is given */
  int64_t oldest_ns;       /* the age of the first */
};

struct link;

struct link_kind {
  bool (*open)(struct link *link);
  void (*close)(struct link *link);
  /* Both sides may be gone, as `client` and `broker.connection` say. */
  void (*broker_there)(struct link *link);
  void (*daemon_gone)(struct link *link);
  void (*take_message)(struct link *link, natsMsg *message);
  /* Does what can be done now; returns when it is to be called again at the latest. */
  int64_t (*turn)(struct link *link, int64_t now);
  /* Events of the client that it can make something of now: see framed_poll(). */
  int (*wanted)(const struct link *link);
  /* Whether nothing is under way that a stop should wait for. */
  bool (*is_idle)(const struct link *link);
  /* In place of the four functions before, and daemon_gone and take_message, where the other side is no client of libframed:
   * does everything until the link is stopped. */
  void (*run)(struct link *link);
};
extern const struct link_kind sink_kind, source_kind, mqtt_kind;

struct link {
  const struct link_settings *settings;
  const struct link_kind *kind;
  _Atomic size_t memory; /* bytes that messages without an answer may have; set by the main thread */
  struct broker broker;
  struct framed *client; /* NULL: none */
  struct pause to_broker, to_daemon;
  const struct link *source;   /* of a sink whose pipeline has a source here: that one */
  _Atomic int64_t stream_made; /* of a source: when its stream was made; 0: not known yet */
  const char *renews;          /* why it needs a new connection, which makes stream and consumer again; NULL: it does not */
  int64_t asked;               /* when it was asked whether the stream is there, since nobody takes what it sends */
  bool silent;                 /* it has a broker, which does not answer */
  int64_t unheard;             /* since when nobody there takes what it sends; 0: somebody does */
  bool stopping;
  void *state; /* the kind's */
  int stop;    /* readable once it is to stop */
  pthread_t thread;
  _Atomic uint64_t counters[COUNTERS];
  _Atomic unsigned in_flight;
  _Atomic bool has_broker, has_daemon;
  _Atomic bool gone; /* mqtt: it stops because its pipeline is no more */
  struct standing standing;
};

/* `link` holds zeros but for `source` and `memory`. False: no memory, threads or descriptors, and nothing is left of it. */
bool link_start(struct link *link, const struct link_kind *kind, const struct settings *settings,
                const struct link_settings *which);
void link_stop(struct link *link);
/* Waits until it has stopped. Its counters and its standing stay. */
void link_join(struct link *link);

static inline void link_count(struct link *link, enum counter counter, uint64_t by) {
  atomic_fetch_add_explicit(&link->counters[counter], by, memory_order_relaxed);
}

/* Puts what is wrong with the link into the log. */
__attribute__((format(printf, 2, 3))) void link_say(const struct link *link, const char *format, ...);

/* The same, and into what the daemon is told: the link has its broker, but does not work as it should; until it mends, or
 * connects again. */
__attribute__((format(printf, 2, 3))) void link_warn(struct link *link, const char *format, ...);
void link_mend(struct link *link);
/* Stream or consumer have taken something. */
void link_taken(struct link *link);

/* Stream or consumer is gone: they are made again with the next connection, which is made at once. */
void link_renew(struct link *link, const char *why);
/* What the daemon is told of a source's queue. */
void link_tell_depth(struct link *link, uint64_t depth, uint64_t unserved, int64_t oldest_ns);
/* Asks JetStream about the link's stream, and its consumer if it is not NULL; the answer comes to the inbox under the name
 * `answer`. One that is lost is not asked again. */
void link_ask(const struct link *link, const char *what, const char *consumer, const char *body, const char *answer);

/* Whether the broker answers what it is sent. A sink that drops stays away from the pipeline while it does not. */
void link_hear_broker(struct link *link, bool answers);

/* For a kind that turns by itself: what follows from its attempt to connect to the broker, or from the connection's loss, with
 * `broker.why`; and says why there is no pipeline, when that begins. */
void link_meet_broker(struct link *link, bool connected);
void link_miss_daemon(struct link *link, const char *why);

#endif
