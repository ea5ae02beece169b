#include "tools/link/broker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { CONNECT_MS = 2000, PING_MS = 2000, PINGS_OUT = 2, BUFFER = 256 * 1024, FAREWELL_MS = 500 };

bool broker_open(struct broker *broker, const struct settings *settings) {
  *broker = (struct broker){.settings = settings, .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  return broker->event >= 0 && natsInbox_Create(&broker->address) == NATS_OK;
}

static void free_read(struct broker *broker) {
  for (unsigned i = 0; i < broker->read_count; i++) {
    natsMsg_Destroy(broker->read[i]);
  }
  broker->read_count = 0;
}

void broker_done(struct broker *broker, natsMsg *message) {
  enum { SMALL = 1024 };
  if (natsMsg_GetDataLength(message) > SMALL) {
    natsMsg_Destroy(message);
    return;
  }
  broker->read[broker->read_count++] = message;
  if (broker->read_count == BROKER_READ) {
    free_read(broker);
  }
}

void broker_close(struct broker *broker) {
  free_read(broker);
  broker_disconnect(broker);
  natsInbox_Destroy(broker->address);
  if (broker->event >= 0) {
    close(broker->event);
  }
}

/* -- callbacks, which the library also makes from its own threads ------------------------------------------------------- */

/*
 * Reference-counted: the broker holds a reference, and the library holds one from on_attach() to on_detach(). The detach may
 * come after the broker is freed.
 */
struct wire {
  int event;       /* a duplicate of the broker's event descriptor */
  pthread_t owner; /* the thread that connected */
  _Atomic unsigned references;
  _Atomic bool lost, writes;
  int socket;
};

static struct wire *wire_new(const struct broker *broker) {
  struct wire *wire = calloc(1, sizeof *wire);
  int event = wire ? fcntl(broker->event, F_DUPFD_CLOEXEC, 0) : -1;
  if (event < 0) {
    free(wire);
    return NULL;
  }
  *wire = (struct wire){.event = event, .owner = pthread_self(), .references = 1, .socket = -1};
  return wire;
}

static void wire_release(struct wire *wire) {
  if (wire && atomic_fetch_sub(&wire->references, 1) == 1) {
    close(wire->event);
    free(wire);
  }
}

static void ring(const struct wire *wire) {
  const uint64_t one = 1;
  (void)!write(wire->event, &one, sizeof one); /* a full counter is readable already */
}

static natsStatus on_attach(void **data, void *loop, natsConnection *connection, natsSock socket) {
  struct wire *wire = loop;
  (void)connection;
  atomic_fetch_add(&wire->references, 1);
  *data = wire;
  wire->socket = socket;
  return NATS_OK;
}

static natsStatus on_read(void *data, bool add) {
  (void)data;
  (void)add; /* the library always reads */
  return NATS_OK;
}

static natsStatus on_write(void *data, bool add) {
  struct wire *wire = data;
  atomic_store(&wire->writes, add);
  if (add && !pthread_equal(pthread_self(), wire->owner)) {
    ring(wire);
  }
  return NATS_OK;
}

/* The library calls this once for each attached connection, however it ends. */
static natsStatus on_detach(void *data) {
  struct wire *wire = data;
  atomic_store(&wire->lost, true);
  ring(wire);
  wire_release(wire);
  return NATS_OK;
}

bool broker_is_there(const struct broker *broker) { return broker->connection && !atomic_load(&broker->wire->lost); }

/* -- connecting -------------------------------------------------------------------------------------------------------- */

static natsStatus set_security(natsOptions *options, const struct settings *settings) {
  natsStatus status = NATS_OK;
  if (settings->credentials) {
    status = natsOptions_SetUserCredentialsFromFiles(options, settings->credentials, NULL);
  }
  if (status == NATS_OK && (settings->ca || settings->certificate)) {
    status = natsOptions_SetSecure(options, true);
  }
  if (status == NATS_OK && settings->ca) {
    status = natsOptions_LoadCATrustedCertificates(options, settings->ca);
  }
  if (status == NATS_OK && settings->certificate) {
    status = natsOptions_LoadCertificatesChain(options, settings->certificate,
                                               settings->key ? settings->key : settings->certificate);
  }
  return status;
}

static natsStatus set_options(natsOptions *options, const struct broker *broker, const struct link_settings *link) {
  const struct settings *settings = broker->settings;
  char name[128];
  snprintf(name, sizeof name, "framed-link %s %.64s", settings_role(link), link->name);
  natsStatus status = natsOptions_SetServers(options, (const char **)settings->servers, (int)settings->server_count);
  status = status == NATS_OK ? natsOptions_SetName(options, name) : status;
  status = status == NATS_OK ? natsOptions_SetAllowReconnect(options, false) : status;
  status = status == NATS_OK ? natsOptions_SetTimeout(options, CONNECT_MS) : status;
  status = status == NATS_OK ? natsOptions_SetPingInterval(options, PING_MS) : status;
  status = status == NATS_OK ? natsOptions_SetMaxPingsOut(options, PINGS_OUT) : status;
  status = status == NATS_OK ? natsOptions_SetIOBufSize(options, BUFFER) : status;
  status = status == NATS_OK ? natsOptions_SetSendAsap(options, true)
                             : status; /* without it the library waits 1 ms: see broker_flush() */
  return status == NATS_OK ? set_security(options, settings) : status;
}

static natsStatus attach(natsOptions *options, struct broker *broker) {
  broker->wire = wire_new(broker);
  if (!broker->wire) {
    return NATS_NO_MEMORY;
  }
  natsStatus status = natsOptions_SetEventLoop(options, broker->wire, on_attach, on_read, on_write, on_detach);
  return status == NATS_OK ? natsConnection_Connect(&broker->connection, options) : status;
}

static natsStatus subscribe(struct broker *broker) {
  char subject[128];
  snprintf(subject, sizeof subject, "%s.>", broker->address);
  natsStatus status = natsConnection_SubscribeSync(&broker->inbox, broker->connection, subject);
  return status == NATS_OK ? natsSubscription_SetPendingLimits(broker->inbox, -1, -1)
                           : status; /* the inbox receives only requested messages, so it needs no limit */
}

bool broker_try(const struct settings *settings, const char *server, int64_t patience_ms, char why[BROKER_TEXT]) {
  natsOptions *options = NULL;
  natsConnection *connection = NULL;
  natsStatus status = natsOptions_Create(&options);
  status = status == NATS_OK ? natsOptions_SetServers(options, &server, 1) : status;
  status = status == NATS_OK ? natsOptions_SetName(options, "framed-link --check") : status;
  status = status == NATS_OK ? natsOptions_SetAllowReconnect(options, false) : status;
  status = status == NATS_OK ? natsOptions_SetTimeout(options, patience_ms) : status;
  status = status == NATS_OK ? set_security(options, settings) : status;
  status = status == NATS_OK ? natsConnection_Connect(&connection, options) : status;
  if (status != NATS_OK) {
    snprintf(why, BROKER_TEXT, "%s", broker_reason(status));
  }
  natsConnection_Destroy(connection);
  natsOptions_Destroy(options);
  return status == NATS_OK;
}

bool broker_connect(struct broker *broker, const struct link_settings *link) {
  natsOptions *options = NULL;
  broker->no_responders = false;
  natsStatus status = natsOptions_Create(&options);
  status = status == NATS_OK ? set_options(options, broker, link) : status;
  bool prepared = status == NATS_OK && (!link->stream || broker_prepare(broker, options, link));
  if (prepared) {
    status = attach(options, broker);
    status = status == NATS_OK ? subscribe(broker) : status;
  }
  natsOptions_Destroy(options);
  if (prepared && status == NATS_OK) {
    return true;
  }
  if (status != NATS_OK) {
    snprintf(broker->why, BROKER_TEXT, "%s", broker_reason(status));
  }
  broker_disconnect(broker);
  return false;
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

void broker_flush(struct broker *broker) {
  if (broker_is_there(broker) && atomic_load(&broker->wire->writes)) {
    natsConnection_ProcessWriteEvent(broker->connection);
  }
}

void broker_arm(const struct broker *broker, struct pollfd polls[BROKER_POLLS]) {
  bool there = broker_is_there(broker);
  short events = (short)(POLLIN | (there && atomic_load(&broker->wire->writes) ? POLLOUT : 0));
  polls[0] = (struct pollfd){.fd = broker->event, .events = POLLIN};
  polls[1] = (struct pollfd){.fd = there ? broker->wire->socket : -1, .events = events};
}

/* The library repeats a refusal with each refused message. One report is enough. */
static void look_for_refusal(struct broker *broker) {
  const char *text = NULL;
  if (natsConnection_GetLastError(broker->connection, &text) != NATS_NOT_PERMITTED || !text) {
    return;
  }
  for (unsigned i = 0; i < broker->refused; i++) {
    if (strncmp(broker->refusals[i], text, BROKER_TEXT - 1) == 0) {
      return;
    }
  }
  if (broker->refused < BROKER_REFUSALS) {
    snprintf(broker->refusals[broker->refused++], BROKER_TEXT, "%s", text);
  }
}

const char *broker_refusal(struct broker *broker) {
  return broker->said < broker->refused ? broker->refusals[broker->said++] : NULL;
}

bool broker_turn(struct broker *broker, const struct pollfd polls[BROKER_POLLS]) {
  uint64_t rung;
  if (polls[0].revents != 0) {
    (void)!read(broker->event, &rung, sizeof rung);
  }
  if (broker_is_there(broker) && (polls[1].revents & ~POLLOUT) != 0) {
    natsConnection_ProcessReadEvent(broker->connection);
    look_for_refusal(broker);
  }
  if (broker_is_there(broker) && (polls[1].revents & POLLOUT) != 0) {
    natsConnection_ProcessWriteEvent(broker->connection);
  }
  if (broker->connection && (!broker_is_there(broker) || natsConnection_IsClosed(broker->connection))) {
    const char *detail = NULL;
    bool ended = natsConnection_GetLastError(broker->connection, &detail) != NATS_NOT_PERMITTED && detail && *detail;
    snprintf(broker->why, sizeof broker->why, "%s", ended ? broker_without_place(detail) : "the server closed the connection");
    return false;
  }
  return true;
}

/* The library reports "no responders" without the message, so the failed request is unknown. */
natsMsg *broker_take(struct broker *broker) {
  natsMsg *message = NULL;
  natsStatus status = broker->inbox ? NATS_NO_RESPONDERS : NATS_ERR;
  while (status == NATS_NO_RESPONDERS) {
    status = natsSubscription_NextMsg(&message, broker->inbox, 0);
    broker->no_responders |= status == NATS_NO_RESPONDERS;
  }
  return status == NATS_OK ? message : NULL;
}

/* The library waits for the server's answer in a thread of its own. */
bool broker_drain(struct broker *broker) {
  if (!broker_is_there(broker)) {
    return true;
  }
  if (!broker->drains) {
    broker->drains = natsSubscription_Drain(broker->inbox) == NATS_OK;
    return !broker->drains;
  }
  return natsSubscription_DrainCompletionStatus(broker->inbox) != NATS_ILLEGAL_STATE;
}

const char *broker_answer(const struct broker *broker, const natsMsg *message) {
  size_t length = strlen(broker->address);
  const char *subject = natsMsg_GetSubject(message);
  return strncmp(subject, broker->address, length) == 0 && subject[length] == '.' ? subject + length + 1 : "";
}

bool broker_is_stuck(const struct broker *broker) {
  return atomic_load(&broker->wire->writes) && natsConnection_Buffered(broker->connection) > 0;
}

size_t broker_largest(const struct broker *broker) {
  int64_t most = natsConnection_GetMaxPayload(broker->connection);
  return most < 0 ? 0 : most < BROKER_LARGEST ? (size_t)most : BROKER_LARGEST;
}

/* Sends the buffered bytes, as far as the server accepts them. */
static void say_farewell(struct broker *broker) {
  struct pollfd ready = {.fd = broker->wire->socket, .events = POLLOUT};
  while (broker_is_there(broker) && natsConnection_Buffered(broker->connection) > 0 && poll(&ready, 1, FAREWELL_MS) > 0 &&
         (ready.revents & POLLOUT) != 0) {
    natsConnection_ProcessWriteEvent(broker->connection);
  }
}

void broker_disconnect(struct broker *broker) {
  if (broker->connection) {
    say_farewell(broker);
  }
  natsSubscription_Destroy(broker->inbox);
  natsConnection_Destroy(broker->connection);
  wire_release(broker->wire);
  broker->inbox = NULL;
  broker->connection = NULL;
  broker->wire = NULL;
}
