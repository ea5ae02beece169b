#include "daemon/client/producer.h"

#include <unistd.h>

#include "daemon/base/log.h"

bool producer_is_free(const struct producer *producer) {
  return producer->client.fd < 0 && !producer->renewing && !producer->lost;
}

bool producer_must_renew(const struct producer *producer, const struct client *client) {
  return producer->used && client->native && client->hello.transport == NATIVE_SHARED;
}

/* -- sharing memory ------------------------------------------------------------------------------------------------ */

bool producer_share(struct producer *producer, const struct native_welcome *reply) {
  struct session_share share;
  struct failure failure;
  if (!producer->client.native || producer->client.hello.transport != NATIVE_SHARED) {
    return false;
  }
  if (!session_share(producer->session, &share, &failure)) {
    log_event(LOG_CLIENT_ERROR, producer->setup->pipeline, "%s; the producer sends frames over its socket instead",
              failure.text);
    return false;
  }
  struct native_welcome shared = *reply;
  shared.transport = NATIVE_SHARED;
  shared.input_stride = share.input_stride;
  shared.output_stride = share.output_stride;
  shared.control_bytes = share.control_bytes;
  const int memory[] = {share.input, share.output, share.control};
  client_welcome(&producer->client, &shared, memory, sizeof memory / sizeof *memory);
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    close(memory[i]);
  }
  producer->shares = true;
  session_attach_shared(producer->session, producer->client.fd);
  return true;
}

/* -- renewing memory ----------------------------------------------------------------------------------------------- */

enum { AGAIN_MS = 1000 };

static void producer_work(void *context) {
  struct producer *producer = context;
  producer->renewed = session_renew(producer->session, &producer->failure);
}

static void try_again(void *context);

static void on_tried(void *context) {
  struct producer *producer = context;
  if (!producer->renewed && !producer->lost) {
    log_event(LOG_CLIENT_ERROR, producer->setup->pipeline, "one producer less can connect until this ends: %s",
              producer->failure.text);
  }
  producer->renewing = false;
  producer->lost = !producer->renewed;
  producer->used = producer->lost;
  if (producer->lost && !producer->closed && !producer->again) {
    producer->again = loop_timer_new(producer->setup->loop, try_again, producer);
  }
  if (producer->lost && producer->again) {
    loop_timer_start(producer->again, AGAIN_MS, 0);
  }
  producer->setup->renewed(producer->setup->context, producer);
}

/* The memory of the last producer is released by now, whether or not there is new memory. So its user's charge ends. */
static void on_worked(void *context) {
  struct producer *producer = context;
  quota_release(&producer->charge);
  on_tried(producer);
}

static void try_again(void *context) {
  struct producer *producer = context;
  producer->renewing = true;
  producer->renewed = false;
  producer->postponed = producer->setup->frozen;
  if (!producer->postponed && !loop_job(producer->setup->loop, producer_work, on_worked, producer)) {
    failure_set_memory(&producer->failure, "not enough memory");
    on_tried(producer);
  }
}

void producer_renew_postponed(struct producer *producer) {
  if (producer->postponed && producer->closed) {
    producer->postponed = producer->renewing = false;
    quota_release(&producer->charge);
    producer->setup->renewed(producer->setup->context, producer);
  } else if (producer->postponed) {
    try_again(producer);
  }
}

void producer_renew(struct producer *producer) {
  producer->shares = false;
  if (producer->closed) { /* no client follows, and the last one keeps its memory: see session/memory.c */
    quota_release(&producer->charge);
  } else {
    quota_leave(&producer->charge);
    try_again(producer);
  }
}

bool producer_releases_memory(const struct producer *producer, uid_t user) {
  return producer->renewing && producer->charge.user && producer->client.uid == user;
}

void producer_close(struct producer *producer) {
  producer->closed = true;
  producer->again = loop_timer_close(producer->again);
}
