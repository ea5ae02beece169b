/*
 * Creates streams and consumers. Existing ones stay unchanged, except that a missing subject is added to a stream. JetStream
 * calls of the library wait for the answer, so they use a temporary connection.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/link/broker.h"

enum { ASK_MS = 5000, MOST_WAITING = 4096, COPIES = 3, SCARCE_S = 15 };
#define DUPLICATES_NS (INT64_C(120) * 1000000000)

const char *broker_without_place(const char *text) {
  const char *place = text[0] == '(' ? strstr(text, "): ") : NULL;
  return place ? place + 3 : text;
}

const char *broker_reason(natsStatus status) {
  const char *detail = nats_GetLastError(NULL);
  if (status == NATS_NO_SERVER) { /* the library reports an address without a listener so */
    return "no server listens there";
  }
  if (status == NATS_NO_RESPONDERS) {
    return "JetStream does not run there: add a section jetstream to the server's configuration";
  }
  if (status == NATS_TIMEOUT) {
    return "it does not answer";
  }
  return detail && *detail ? broker_without_place(detail) : natsStatus_GetText(status);
}

static bool say(char why[BROKER_TEXT], const char *what, const char *name, natsStatus status) {
  snprintf(why, BROKER_TEXT, "%s %s: %s", what, name, broker_reason(status));
  return false;
}

/* Whether a subject of the stream, which may have wildcards, covers the link's subject. */
static bool takes(const char *pattern, const char *subject) {
  while (*pattern && *subject) {
    size_t length = strcspn(pattern, "."), other = strcspn(subject, ".");
    if (pattern[0] == '>' && length == 1) {
      return true;
    }
    if (!(pattern[0] == '*' && length == 1) && (length != other || strncmp(pattern, subject, length) != 0)) {
      return false;
    }
    pattern += length + (pattern[length] == '.');
    subject += other + (subject[other] == '.');
  }
  return !*pattern && !*subject;
}

static bool is_taken(const char **subjects, int count, const char *subject) {
  int i = 0;
  while (i < count && !takes(subjects[i], subject)) {
    i++;
  }
  return i < count;
}

/*
 * Appends the subjects of all links of this stream that the first `count` do not cover. The array has room for SETTINGS_LINKS
 * more.
 */
static int gather(const struct settings *settings, const char *stream, const char **subjects, int count) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    const struct link_settings *link = &settings->links[i];
    if (link->stream && strcmp(link->stream, stream) == 0 && !is_taken(subjects, count, link->subject)) {
      subjects[count++] = link->subject;
    }
  }
  return count;
}

/* -- advice on a stream ------------------------------------------------------------------------------------------------- */

enum advice { ADVICE_ONE_COPY, ADVICE_NO_BOUNDS, ADVICES };

static const char *const advices[ADVICES] = {
    [ADVICE_ONE_COPY] = "has one copy in a cluster: what its server has is lost with it. Set its replicas to 3",
    [ADVICE_NO_BOUNDS] =
        "has no bounds, so that it may fill the server's disk. Set max_bytes or max_age, or say 'most' or 'keep' "
        "before it is made",
};

const char *broker_advice(struct broker *broker) {
  for (unsigned i = 0; i < ADVICES; i++) {
    unsigned bit = 1U << i;
    if ((broker->advice & bit) != 0 && (broker->advised & bit) == 0) {
      broker->advised |= bit;
      return advices[i];
    }
  }
  return NULL;
}

static bool has_bounds(const jsStreamConfig *config) {
  return config->MaxMsgs > 0 || config->MaxBytes > 0 || config->MaxAge > 0 || config->MaxMsgsPerSubject > 0;
}

/* A server without a cluster names a leader but no cluster. */
static bool is_clustered(const jsClusterInfo *cluster) { return cluster && cluster->Name && cluster->Name[0]; }

/* Notes properties of the stream that deserve advice or a warning. */
static void judge_stream(struct broker *broker, const jsStreamInfo *info, const struct link_settings *link) {
  const jsStreamConfig *config = info->Config;
  bool full = config->MaxMsgs > 0 || config->MaxBytes > 0 || config->MaxMsgsPerSubject > 0;
  broker->queue = config->Retention == js_WorkQueuePolicy;
  broker->stream_made = info->Created;
  broker->keeps = link->is_queue && config->Retention == js_LimitsPolicy && !has_bounds(config);
  broker->discards = broker->queue && full && config->Discard == js_DiscardOld;
  broker->advice = (config->Replicas <= 1 && is_clustered(info->Cluster) ? 1U << ADVICE_ONE_COPY : 0) |
                   (has_bounds(config) || broker->keeps ? 0 : 1U << ADVICE_NO_BOUNDS);
}

/* False: the answer lacks required fields. */
static bool take_stream(struct broker *broker, const jsStreamInfo *info, const struct link_settings *link) {
  if (!info || !info->Config || (info->Config->SubjectsLen > 0 && !info->Config->Subjects)) {
    snprintf(broker->why, BROKER_TEXT, "what the server says of stream %s makes no sense: it has no configuration",
             link->stream);
    return false;
  }
  judge_stream(broker, info, link);
  return true;
}

/* -- creation ----------------------------------------------------------------------------------------------------------- */

/*
 * Whether a single copy suffices by default: the server has no cluster, or its cluster has been too small for a while. A
 * starting cluster is too small only for a moment.
 */
static bool is_alone(struct broker *broker, natsStatus status, jsErrCode code) {
  struct timespec now;
  if (status == NATS_OK || (code != JSClusterNoPeersErr && code != JSInsufficientResourcesErr)) {
    return code == JSStreamReplicasNotSupportedErr;
  }
  clock_gettime(CLOCK_MONOTONIC, &now);
  broker->scarce = broker->scarce == 0 ? now.tv_sec : broker->scarce;
  return now.tv_sec - broker->scarce >= SCARCE_S;
}

static bool make_stream(struct broker *broker, jsCtx *js, const struct link_settings *link) {
  const char *subjects[SETTINGS_LINKS];
  jsStreamInfo *info = NULL;
  jsStreamConfig config;
  jsErrCode code = 0;
  jsStreamConfig_Init(&config);
  config.Name = link->stream;
  config.Subjects = subjects;
  config.SubjectsLen = gather(broker->settings, link->stream, subjects, 0);
  config.Retention = link->is_queue ? js_WorkQueuePolicy : js_LimitsPolicy;
  config.Discard = config.Retention == js_WorkQueuePolicy ? js_DiscardNew : js_DiscardOld;
  config.Duplicates = DUPLICATES_NS;
  config.MaxBytes = link->most > 0 ? link->most : -1;
  config.MaxAge = link->keep_ns;
  if (config.MaxAge > 0 && config.MaxAge < config.Duplicates) {
    config.Duplicates = config.MaxAge; /* servers allow no longer window */
  }
  config.Replicas = link->replicas > 0 ? link->replicas : COPIES;
  natsStatus status = js_AddStream(&info, js, &config, NULL, &code);
  if (link->replicas == 0 && is_alone(broker, status, code)) {
    config.Replicas = 1;
    status = js_AddStream(&info, js, &config, NULL, &code);
  }
  bool fine =
      status == NATS_OK ? take_stream(broker, info, link) : say(broker->why, "cannot make stream", link->stream, status);
  jsStreamInfo_Destroy(info);
  return fine;
}

/* Adds the subjects of all links. Links update the stream concurrently, so each update must include the others' subjects. */
static bool widen_stream(struct broker *broker, jsCtx *js, jsStreamConfig *config, const struct link_settings *link) {
  const char **subjects = calloc((size_t)config->SubjectsLen + SETTINGS_LINKS, sizeof *subjects), **before = config->Subjects;
  int count = config->SubjectsLen;
  jsErrCode code = 0;
  if (!subjects) {
    return say(broker->why, "no memory for stream", link->stream, NATS_NO_MEMORY);
  }
  memcpy(subjects, config->Subjects, (size_t)config->SubjectsLen * sizeof *subjects);
  config->Subjects = subjects;
  config->SubjectsLen = gather(broker->settings, link->stream, subjects, count);
  natsStatus status = js_UpdateStream(NULL, js, config, NULL, &code);
  config->Subjects = before;
  config->SubjectsLen = count;
  free(subjects);
  return status == NATS_OK || say(broker->why, "cannot add its subject to stream", link->stream, status);
}

static bool prepare_stream(struct broker *broker, jsCtx *js, const struct link_settings *link) {
  jsStreamInfo *info = NULL;
  jsErrCode code = 0;
  natsStatus status = js_GetStreamInfo(&info, js, link->stream, NULL, &code);
  bool fine;
  if (status == NATS_NOT_FOUND) {
    fine = make_stream(broker, js, link);
  } else if (status != NATS_OK) {
    fine = say(broker->why, "cannot ask for stream", link->stream, status);
  } else {
    fine = take_stream(broker, info, link) && (is_taken(info->Config->Subjects, info->Config->SubjectsLen, link->subject) ||
                                               widen_stream(broker, js, info->Config, link));
  }
  jsStreamInfo_Destroy(info);
  return fine;
}

/*
 * The link counts deliveries itself. With a limit in the consumer, a frame whose box dies during its last delivery would stay
 * in the queue.
 */
static bool make_consumer(struct broker *broker, jsCtx *js, const struct link_settings *link) {
  jsConsumerInfo *info = NULL;
  jsConsumerConfig config;
  jsErrCode code = 0;
  jsConsumerConfig_Init(&config);
  config.Durable = link->consumer;
  config.AckPolicy = js_AckExplicit;
  config.AckWait = link->ack_wait_ns;
  config.MaxWaiting = MOST_WAITING;
  config.FilterSubject = link->subject;
  natsStatus status = js_AddConsumer(&info, js, link->stream, &config, NULL, &code);
  broker->made = status == NATS_OK && info && broker->queue ? info->Created : 0;
  jsConsumerInfo_Destroy(info);
  return status == NATS_OK || say(broker->why, "cannot make consumer", link->consumer, status);
}

/* Whether this consumer covers all frames of the subject. */
static bool is_all_of(const jsConsumerConfig *config, const char *subject) {
  return !config->FilterSubject || !config->FilterSubject[0] || takes(config->FilterSubject, subject);
}

static bool prepare_consumer(struct broker *broker, jsCtx *js, const struct link_settings *link) {
  jsConsumerInfo *info = NULL;
  jsErrCode code = 0;
  natsStatus status = js_GetConsumerInfo(&info, js, link->stream, link->consumer, NULL, &code);
  if (status == NATS_OK && (!info || !info->Config)) {
    jsConsumerInfo_Destroy(info);
    snprintf(broker->why, BROKER_TEXT, "what the server says of consumer %s makes no sense: it has no configuration",
             link->consumer);
    return false;
  }
  bool knows = status == NATS_OK && broker->queue && info->Config->MaxDeliver <= 0 && is_all_of(info->Config, link->subject);
  broker->delivered = knows ? info->Delivered.Stream : 0;
  broker->made = knows ? info->Created : 0;
  jsConsumerInfo_Destroy(info);
  if (status == NATS_NOT_FOUND) {
    return make_consumer(broker, js, link);
  }
  return status == NATS_OK || say(broker->why, "cannot ask for consumer", link->consumer, status);
}

bool broker_prepare(struct broker *broker, natsOptions *options, const struct link_settings *link) {
  natsConnection *connection = NULL;
  jsCtx *js = NULL;
  jsOptions ask;
  const char *refusal = NULL;
  broker->keeps = broker->discards = broker->queue = false;
  broker->advice = 0;
  jsOptions_Init(&ask);
  ask.Wait = ASK_MS;
  natsStatus status = natsConnection_Connect(&connection, options);
  status = status == NATS_OK ? natsConnection_JetStream(&js, connection, &ask) : status;
  bool fine = status == NATS_OK || say(broker->why, "cannot connect to", "its server", status);
  fine = fine && prepare_stream(broker, js, link) && (!link->is_source || prepare_consumer(broker, js, link));
  if (!fine && connection && natsConnection_GetLastError(connection, &refusal) == NATS_NOT_PERMITTED && refusal) {
    snprintf(broker->why, BROKER_TEXT, "the server refuses a right: %s",
             refusal); /* the library itself reports only a timeout */
  }
  jsCtx_Destroy(js);
  natsConnection_Destroy(connection);
  return fine;
}
