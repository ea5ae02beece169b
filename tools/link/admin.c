/*
 * Streams and consumers: those that are there are left as they are, but for a subject that a stream lacks; others are made.
 * Calls of the library that ask JetStream wait for the answer, so they have a connection of their own, which ends with them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/link/broker.h"

enum { ASK_MS = 5000, MOST_WAITING = 4096 };
#define DUPLICATES_NS (INT64_C(120) * 1000000000)

static bool say(char why[BROKER_TEXT], const char *what, const char *name, natsStatus status, jsErrCode code) {
  const char *detail = nats_GetLastError(NULL);
  snprintf(why, BROKER_TEXT, "%s %s: %s", what, name, detail && *detail ? detail : natsStatus_GetText(status));
  (void)code;
  return false;
}

static bool has_subject(const char **subjects, int count, const char *subject) {
  for (int i = 0; i < count; i++) {
    if (strcmp(subjects[i], subject) == 0) {
      return true;
    }
  }
  return false;
}

/* The subjects of all links with this stream behind the `count` that are there; at most SETTINGS_LINKS. */
static int gather(const struct settings *settings, const char *stream, const char **subjects, int count) {
  for (unsigned i = 0; i < settings->link_count && count < SETTINGS_LINKS; i++) {
    const struct link_settings *link = &settings->links[i];
    if (link->stream && strcmp(link->stream, stream) == 0 && !has_subject(subjects, count, link->subject)) {
      subjects[count++] = link->subject;
    }
  }
  return count;
}

/* Whether a subject of the stream, which may have wildcards, takes the link's. */
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

static bool is_taken(const jsStreamConfig *config, const char *subject) {
  for (int i = 0; i < config->SubjectsLen; i++) {
    if (takes(config->Subjects[i], subject)) {
      return true;
    }
  }
  return false;
}

/* Whether a link of this file, or as a sink's says of another box, takes frames out of the stream: then it is a work queue,
 * whichever of its links makes it. */
static bool is_queue(const struct settings *settings, const char *stream) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    const struct link_settings *link = &settings->links[i];
    if ((link->is_source || link->is_queue) && link->stream && strcmp(link->stream, stream) == 0) {
      return true;
    }
  }
  return false;
}

static bool make_stream(jsCtx *js, const struct settings *settings, const struct link_settings *link, char why[BROKER_TEXT]) {
  const char *subjects[SETTINGS_LINKS];
  jsStreamConfig config;
  jsErrCode code = 0;
  jsStreamConfig_Init(&config);
  config.Name = link->stream;
  config.Subjects = subjects;
  config.SubjectsLen = gather(settings, link->stream, subjects, 0);
  config.Retention = is_queue(settings, link->stream) ? js_WorkQueuePolicy : js_LimitsPolicy;
  config.Duplicates = DUPLICATES_NS;
  natsStatus status = js_AddStream(NULL, js, &config, NULL, &code);
  return status == NATS_OK || say(why, "cannot make stream", link->stream, status, code);
}

static bool widen_stream(jsCtx *js, jsStreamConfig *config, const struct link_settings *link, char why[BROKER_TEXT]) {
  const char **subjects = calloc((size_t)config->SubjectsLen + 1, sizeof *subjects), **before = config->Subjects;
  jsErrCode code = 0;
  if (!subjects) {
    return say(why, "no memory for stream", link->stream, NATS_NO_MEMORY, code);
  }
  memcpy(subjects, config->Subjects, (size_t)config->SubjectsLen * sizeof *subjects);
  subjects[config->SubjectsLen++] = link->subject;
  config->Subjects = subjects;
  natsStatus status = js_UpdateStream(NULL, js, config, NULL, &code);
  config->Subjects = before;
  config->SubjectsLen--;
  free(subjects);
  return status == NATS_OK || say(why, "cannot add its subject to stream", link->stream, status, code);
}

/* Whether messages leave the stream though nobody works on them: those of the others go when they are done. */
static bool keeps_all(const jsStreamConfig *config) {
  return config->Retention == js_LimitsPolicy && config->MaxMsgs <= 0 && config->MaxBytes <= 0 && config->MaxAge <= 0 &&
         config->MaxMsgsPerSubject <= 0;
}

static bool prepare_stream(struct broker *broker, jsCtx *js, const struct link_settings *link, bool *queue) {
  jsStreamInfo *info = NULL;
  jsErrCode code = 0;
  natsStatus status = js_GetStreamInfo(&info, js, link->stream, NULL, &code);
  bool fine;
  if (status == NATS_NOT_FOUND) {
    *queue = is_queue(broker->settings, link->stream);
    fine = make_stream(js, broker->settings, link, broker->why);
  } else if (status != NATS_OK) {
    fine = say(broker->why, "cannot ask for stream", link->stream, status, code);
  } else {
    *queue = info->Config->Retention == js_WorkQueuePolicy;
    broker->keeps = is_queue(broker->settings, link->stream) && keeps_all(info->Config);
    fine = is_taken(info->Config, link->subject) || widen_stream(js, info->Config, link, broker->why);
  }
  jsStreamInfo_Destroy(info);
  return fine;
}

/* The consumer has no limit of deliveries: a frame whose box dies over its last one would stay in the queue for ever. The link
 * counts them. */
static bool make_consumer(struct broker *broker, jsCtx *js, const struct link_settings *link, bool queue) {
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
  broker->made = status == NATS_OK && queue ? info->Created : 0;
  jsConsumerInfo_Destroy(info);
  return status == NATS_OK || say(broker->why, "cannot make consumer", link->consumer, status, code);
}

/* Whether no other consumer of the queue has frames of the subject. */
static bool is_all_of(const jsConsumerConfig *config, const char *subject) {
  return !config->FilterSubject || !config->FilterSubject[0] || takes(config->FilterSubject, subject);
}

static bool prepare_consumer(struct broker *broker, jsCtx *js, const struct link_settings *link, bool queue) {
  jsConsumerInfo *info = NULL;
  jsErrCode code = 0;
  natsStatus status = js_GetConsumerInfo(&info, js, link->stream, link->consumer, NULL, &code);
  bool knows = status == NATS_OK && queue && info->Config->MaxDeliver <= 0 && is_all_of(info->Config, link->subject);
  broker->delivered = knows ? info->Delivered.Stream : 0;
  broker->made = knows ? info->Created : 0;
  jsConsumerInfo_Destroy(info);
  if (status == NATS_NOT_FOUND) {
    return make_consumer(broker, js, link, queue);
  }
  return status == NATS_OK || say(broker->why, "cannot ask for consumer", link->consumer, status, code);
}

bool broker_prepare(struct broker *broker, natsOptions *options, const struct link_settings *link) {
  natsConnection *connection = NULL;
  jsCtx *js = NULL;
  jsOptions ask;
  const char *refusal = NULL;
  bool queue = false;
  broker->keeps = false;
  jsOptions_Init(&ask);
  ask.Wait = ASK_MS;
  natsStatus status = natsConnection_Connect(&connection, options);
  status = status == NATS_OK ? natsConnection_JetStream(&js, connection, &ask) : status;
  bool fine = status == NATS_OK || say(broker->why, "cannot connect to", "a server", status, 0);
  fine = fine && prepare_stream(broker, js, link, &queue) && (!link->is_source || prepare_consumer(broker, js, link, queue));
  if (!fine && connection && natsConnection_GetLastError(connection, &refusal) == NATS_NOT_PERMITTED && refusal) {
    snprintf(broker->why, BROKER_TEXT, "the server refuses a right: %s", refusal); /* to the library it is mere silence */
  }
  jsCtx_Destroy(js);
  natsConnection_Destroy(connection);
  return fine;
}
