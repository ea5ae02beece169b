/*
 * A link connects a pipeline of the daemon to a stream of the broker. It has a thread of its own.
 *
 * link.c keeps both sides connected, with growing pauses after failures, and runs turns until it is stopped. The link's kind
 * moves the data: a sink (sink.c), a source (source.c), or detections for MQTT (mqtt.c), which has its own loop. Only the
 * link's thread accesses it, except for `counters`.
 */
#ifndef FRAMED_TOOLS_LINK_LINK_H
#define FRAMED_TOOLS_LINK_LINK_H

#include <pthread.h>

#include "tools/client/framed.h"
#include "tools/link/broker.h"
#include "tools/link/clock.h"

#define MS INT64_C(1000000)

/* Counters of a link, in the order of counter_names. */
enum counter {
  COUNT_STORED,     /* sink: results stored in the stream */
  COUNT_DUPLICATES, /* of these, those that the stream already had */
  COUNT_RETRIES,    /* sink: results sent again */
  COUNT_LOST,       /* sink with `drop`: results without an answer */
  COUNT_MISSED,     /* sink: frames without a result for this link */
  COUNT_ACKED,      /* source: frames computed */
  COUNT_GIVEN_BACK, /* source: frames returned to the queue */
  COUNT_ENDED,      /* source: frames that the pipeline dropped by its configuration */
  COUNT_DEAD,       /* source: frames that cannot be computed */
  COUNT_RESULTS,    /* mqtt: results received */
  COUNT_PUBLISHED,  /* mqtt: messages */
  COUNTERS
};
extern const char *const counter_names[COUNTERS];

/* A growing pause between attempts. */
struct pause {
  int64_t next, wait;
};

/* The state of the connection to the broker. The link's thread sets it, and other threads read it for reports. */
struct standing {
  pthread_mutex_t lock;
  bool connected, warns;
  int64_t since;           /* 0: not known yet */
  char error[BROKER_TEXT]; /* the last one, or "" */
  bool has_queue;          /* a source that knows the next three fields */
  uint64_t depth;          /* frames in the queue */
  uint64_t unserved;       /* of these, frames that are not delivered to any box */
  int64_t oldest_ns;       /* the age of the first */
};

struct link;

struct link_kind {
  bool (*open)(struct link *link);
  void (*close)(struct link *link);
  /*
   * Called when the broker is connected and when the daemon is lost. Either side may be missing, as `client` and
   * `broker.connection` show.
   */
  void (*broker_there)(struct link *link);
  void (*daemon_gone)(struct link *link);
  void (*take_message)(struct link *link, natsMsg *message);
  /* Does all possible work. Returns the time of the next call at the latest. */
  int64_t (*turn)(struct link *link, int64_t now);
  /* The events of the client that the kind can handle now: see framed_poll(). */
  int (*wanted)(const struct link *link);
  /* Whether a stop has nothing to wait for. */
  bool (*is_idle)(const struct link *link);
  /*
   * Replaces the four functions before, daemon_gone and take_message, for a kind that is no client of libframed. Runs until the
   * link is stopped.
   */
  void (*run)(struct link *link);
};
extern const struct link_kind sink_kind, source_kind, mqtt_kind;

struct link {
  const struct link_settings *settings;
  const struct link_kind *kind;
  _Atomic size_t memory; /* limit of bytes in unanswered messages; set by the main thread */
  struct broker broker;
  struct framed *client; /* NULL: not connected */
  struct pause to_broker, to_daemon;
  const struct link *source;   /* of a sink: the source of its pipeline, if the program has one */
  _Atomic int64_t stream_made; /* of a source: when its stream was created; 0: not known yet */
  const char *renews;          /* why it needs a new connection, which creates stream and consumer again; NULL: it does not */
  int64_t asked;               /* when it last asked whether the stream exists */
  bool silent;                 /* the broker is connected, but does not answer */
  int64_t unanswered_since;    /* since when its messages have no responder; 0: they have one */
  bool stopping;
  void *state; /* private to the kind */
  int stop;    /* readable when the link must stop */
  pthread_t thread;
  _Atomic uint64_t counters[COUNTERS];
  _Atomic unsigned in_flight;
  _Atomic bool has_broker, has_daemon;
  _Atomic bool gone; /* mqtt: it stops because its pipeline was removed */
  struct standing standing;
};

/* `link` is zero except `source` and `memory`. False: no memory, threads or descriptors; nothing remains allocated. */
bool link_start(struct link *link, const struct link_kind *kind, const struct settings *settings,
                const struct link_settings *which);
void link_stop(struct link *link);
/* Waits until it has stopped. Its counters and its standing remain. */
void link_join(struct link *link);

static inline void link_count(struct link *link, enum counter counter, uint64_t by) {
  atomic_fetch_add_explicit(&link->counters[counter], by, memory_order_relaxed);
}

/* Writes a message on the link to the log. */
__attribute__((format(printf, 2, 3))) void link_say(const struct link *link, const char *format, ...);

/*
 * Writes a warning to the log, and reports it to the daemon until link_recover() or a new connection: the broker is connected,
 * but the link does not work properly.
 */
__attribute__((format(printf, 2, 3))) void link_warn(struct link *link, const char *format, ...);
void link_recover(struct link *link);
/* A stream or consumer accepted a message. */
void link_taken(struct link *link);

/* The stream or its consumer is gone. The link reconnects at once, which creates it again. */
void link_renew(struct link *link, const char *why);
/* Sets the queue's figures in reports to the daemon. */
void link_set_depth(struct link *link, uint64_t depth, uint64_t unserved, int64_t oldest_ns);
/*
 * Sends a JetStream request on the link's stream, and on `consumer` unless NULL. The answer comes to the inbox with the name
 * `answer`. A lost request is not repeated.
 */
void link_ask(const struct link *link, const char *what, const char *consumer, const char *body, const char *answer);

/* Notes whether the broker answers. A sink with `drop` disconnects from the pipeline while it does not. */
void link_set_broker_answers(struct link *link, bool answers);

/*
 * For a kind with its own loop: handles the result of a connection attempt, or a lost connection with `broker.why`.
 * link_miss_daemon() reports once why the pipeline is unreachable.
 */
void link_meet_broker(struct link *link, bool connected);
void link_miss_daemon(struct link *link, const char *why);

#endif
