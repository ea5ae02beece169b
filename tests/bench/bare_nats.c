/*
 * What framed-link is measured beside: a client of libnats that does nothing but what has to be done.
 *
 *   bare-nats results URL SUBJECT COUNT BYTES IN_FLIGHT     publishes, with as many headers as a result has
 *   bare-nats queue URL STREAM CONSUMER COUNT IN_FLIGHT     takes and acknowledges frames
 *
 * One thread moves bytes when nothing more waits, as framed-link does; without it the library waits for 1 ms. Prints the
 * seconds from the first message to the last answer.
 */
#include <errno.h>
#include <limits.h>
#include <nats/nats.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 20000, BUFFER = 256 * 1024 };

struct bare {
  natsConnection *connection;
  natsSubscription *inbox;
  natsInbox *address;
  int socket;
  volatile bool writes, lost;
};

static natsStatus on_attach(void **data, void *loop, natsConnection *connection, natsSock socket) {
  struct bare *bare = loop;
  (void)connection;
  *data = bare;
  bare->socket = socket;
  return NATS_OK;
}

static natsStatus on_read(void *data, bool add) {
  (void)data;
  (void)add;
  return NATS_OK;
}

static natsStatus on_write(void *data, bool add) {
  ((struct bare *)data)->writes = add;
  return NATS_OK;
}

static natsStatus on_detach(void *data) {
  ((struct bare *)data)->lost = true;
  return NATS_OK;
}

static natsStatus open_connection(struct bare *bare, const char *url) {
  natsOptions *options = NULL;
  char subject[128];
  natsStatus status = natsOptions_Create(&options);
  status = status == NATS_OK ? natsOptions_SetURL(options, url) : status;
  status = status == NATS_OK ? natsOptions_SetAllowReconnect(options, false) : status;
  status = status == NATS_OK ? natsOptions_SetIOBufSize(options, BUFFER) : status;
  status = status == NATS_OK ? natsOptions_SetSendAsap(options, true) : status;
  status = status == NATS_OK ? natsOptions_SetEventLoop(options, bare, on_attach, on_read, on_write, on_detach) : status;
  status = status == NATS_OK ? natsConnection_Connect(&bare->connection, options) : status;
  status = status == NATS_OK ? natsInbox_Create(&bare->address) : status;
  natsOptions_Destroy(options);
  if (status == NATS_OK) {
    snprintf(subject, sizeof subject, "%s.>", bare->address);
    status = natsConnection_SubscribeSync(&bare->inbox, bare->connection, subject);
  }
  return status == NATS_OK ? natsSubscription_SetPendingLimits(bare->inbox, -1, -1) : status;
}

/* Moves bytes, and waits until some move. */
static natsStatus turn(struct bare *bare) {
  if (bare->writes && !bare->lost) {
    natsConnection_ProcessWriteEvent(bare->connection);
  }
  struct pollfd ready = {.fd = bare->socket, .events = (short)(POLLIN | (bare->writes ? POLLOUT : 0))};
  if (bare->lost || poll(&ready, 1, PATIENCE_MS) <= 0) {
    return NATS_TIMEOUT;
  }
  if ((ready.revents & ~POLLOUT) != 0) {
    natsConnection_ProcessReadEvent(bare->connection);
  }
  return NATS_OK;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static natsStatus publish(struct bare *bare, const char *subject, const char *data, int bytes, long number) {
  char id[64], reply[128];
  natsMsg *message = NULL;
  snprintf(reply, sizeof reply, "%s.%ld", bare->address, number);
  snprintf(id, sizeof id, "bare:%s:%ld", bare->address, number);
  const char *const headers[][2] = {{"Nats-Msg-Id", id},
                                    {"Framed-Frame", id},
                                    {"Framed-Sequence", "1234567"},
                                    {"Framed-Time", "1234567890123456789"},
                                    {"Framed-Latency", "123456"},
                                    {"Framed-Format", "uint8 1024"}};
  natsStatus status = natsMsg_Create(&message, subject, reply, data, bytes);
  for (size_t i = 0; i < sizeof headers / sizeof *headers && status == NATS_OK; i++) {
    status = natsMsgHeader_Set(message, headers[i][0], headers[i][1]);
  }
  status = status == NATS_OK ? natsConnection_PublishMsg(bare->connection, message) : status;
  natsMsg_Destroy(message);
  return status;
}

static natsStatus run_results(struct bare *bare, const char *subject, long count, int bytes, long in_flight) {
  char *data = calloc(1, (size_t)bytes);
  natsStatus status = data ? NATS_OK : NATS_NO_MEMORY;
  natsMsg *message;
  for (long sent = 0, stored = 0; stored < count && status == NATS_OK;) {
    while (sent < count && sent - stored < in_flight && status == NATS_OK) {
      status = publish(bare, subject, data, bytes, sent++);
    }
    status = status == NATS_OK ? turn(bare) : status;
    while (natsSubscription_NextMsg(&message, bare->inbox, 0) == NATS_OK) {
      bool fine = natsMsg_GetDataLength(message) > 0 && !strstr(natsMsg_GetData(message), "error");
      status = fine ? status : NATS_ERR;
      stored++;
      natsMsg_Destroy(message);
    }
  }
  free(data);
  return status;
}

static natsStatus run_queue(struct bare *bare, const char *stream, const char *consumer, long count, long in_flight) {
  static const char request[] = "{\"batch\":1,\"expires\":5000000000}";
  char subject[256], reply[128];
  natsStatus status = NATS_OK;
  natsMsg *message;
  snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, consumer);
  snprintf(reply, sizeof reply, "%s.frames", bare->address);
  for (long asked = 0, done = 0; done < count && status == NATS_OK;) {
    while (asked < in_flight && done + asked < count && status == NATS_OK) {
      status = natsConnection_PublishRequest(bare->connection, subject, reply, request, sizeof request - 1);
      asked++;
    }
    status = status == NATS_OK ? turn(bare) : status;
    while (natsSubscription_NextMsg(&message, bare->inbox, 0) == NATS_OK) {
      const char *answer = natsMsg_GetReply(message);
      asked--;
      if (answer) {
        done++;
        status = natsConnection_PublishString(bare->connection, answer, "+ACK");
      }
      natsMsg_Destroy(message);
    }
  }
  return status == NATS_OK ? turn(bare) : status; /* the last words */
}

/* A number of the command line; ends the process if the word is another. */
static long read_number(const char *text) {
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end || number <= 0 || number > INT_MAX) {
    fprintf(stderr, "bare-nats: '%s' is not a number from 1 to %d\n", text, INT_MAX);
    exit(64);
  }
  return number;
}

int main(int count, char **arguments) {
  struct bare bare = {.socket = -1};
  bool results = count == 7 && strcmp(arguments[1], "results") == 0;
  if (!results && !(count == 7 && strcmp(arguments[1], "queue") == 0)) {
    fputs("usage: bare-nats results URL SUBJECT COUNT BYTES IN_FLIGHT | queue URL STREAM CONSUMER COUNT IN_FLIGHT\n", stderr);
    return 64;
  }
  natsStatus status = open_connection(&bare, arguments[2]);
  double begin = now();
  if (status == NATS_OK && results) {
    status =
        run_results(&bare, arguments[3], read_number(arguments[4]), (int)read_number(arguments[5]), read_number(arguments[6]));
  } else if (status == NATS_OK) {
    status = run_queue(&bare, arguments[3], arguments[4], read_number(arguments[5]), read_number(arguments[6]));
  }
  if (status != NATS_OK) {
    fprintf(stderr, "bare-nats: %s\n", natsStatus_GetText(status));
    return 1;
  }
  printf("%.6f\n", now() - begin);
  return fflush(stdout) == 0 ? 0 : 1;
}
