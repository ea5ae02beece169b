/* Problems as text, including those that the daemon reports. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/client/client.h"

static const char *const fates[] = {"emitted",   "oldest",      "newest", "late",       "invalid",
                                    "gpu_fault", "client_gone", "unread", "sink_error", "shutdown"};

const char *framed_fate_name(int fate) { return fate >= 0 && fate <= FRAMED_SHUTDOWN ? fates[fate] : "?"; }

const struct framed_error *framed_problem(const struct framed *client) { return &client->problem; }

int64_t framed_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t framed_after(int64_t now, int64_t ns) { return ns < INT64_MAX - now ? now + ns : INT64_MAX; }

bool client_break(struct framed *client, enum framed_code code, int system, const char *format, ...) {
  if (client->broken) {
    return false;
  }
  struct framed_error *problem = &client->problem;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(problem->text, sizeof problem->text, format, arguments);
  va_end(arguments);
  if (system != 0 && length >= 0 && (size_t)length < sizeof problem->text) {
    char reason[128];
    snprintf(problem->text + length, sizeof problem->text - (size_t)length, ": %s", strerror_r(system, reason, sizeof reason));
  }
  problem->code = (int)code;
  problem->system = system;
  client->broken = true;
  return false;
}

int client_misuse(struct framed *client, const char *what) {
  if (!client->broken) {
    client->problem = (struct framed_error){.code = FRAMED_E_USAGE, .system = EINVAL};
    snprintf(client->problem.text, sizeof client->problem.text, "%s", what);
  }
  return FRAMED_FAILED;
}

bool client_break_by_error(struct framed *client, const struct message *message) {
  struct native_header header;
  struct native_error said;
  memcpy(&header, message->bytes, sizeof header);
  memcpy(&said, message->bytes + sizeof(struct native_header), sizeof said);
  bool known = said.code >= NATIVE_E_PROTOCOL && said.code <= NATIVE_E_DENIED;
  return client_break(client, known ? (enum framed_code)said.code : FRAMED_E_INTERNAL, 0, "%.*s",
                      (int)(header.length - sizeof said), (const char *)message->bytes + ERROR_BYTES);
}

static bool is_result(const struct framed *client, const struct native_header *header) {
  return header->type == NATIVE_RESULT && client->info.transport == FRAMED_STREAM && client->info.role != FRAMED_PRODUCER &&
         client->info.output_bytes > 0 && header->length == sizeof(struct native_result) + client->info.output_bytes;
}

static bool is_ack(const struct framed *client, const struct native_header *header) {
  return header->type == NATIVE_ACK && client->info.transport == FRAMED_STREAM && client->info.role != FRAMED_CONSUMER &&
         client->keeps && header->length == sizeof(struct native_ack);
}

static bool is_error(const struct native_header *header) {
  return header->type == NATIVE_ERROR_SAID && header->length >= sizeof(struct native_error) &&
         header->length <= sizeof(struct native_error) + NATIVE_ERROR;
}

size_t message_wanted(struct framed *client) {
  struct native_header header;
  if (client->message.count < sizeof header) {
    return sizeof header;
  }
  memcpy(&header, client->message.bytes, sizeof header);
  if (header.magic == NATIVE_MAGIC && header.flags == 0 && is_result(client, &header)) {
    return RESULT_BYTES;
  }
  if (header.magic == NATIVE_MAGIC && header.flags == 0 && is_ack(client, &header)) {
    return ACK_BYTES;
  }
  if (header.magic == NATIVE_MAGIC && header.flags == 0 && is_error(&header)) {
    return sizeof header + (size_t)header.length;
  }
  client_break(client, FRAMED_E_DAEMON, 0, "pipeline %s sent a message of type %u and %llu bytes, which it may not here",
               client->info.pipeline, header.type, (unsigned long long)header.length);
  return 0;
}

enum native_type message_type(const struct framed *client) {
  struct native_header header;
  memcpy(&header, client->message.bytes, sizeof header);
  return (enum native_type)header.type;
}
