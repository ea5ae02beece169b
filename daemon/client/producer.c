#include "daemon/client/producer.h"

#include <unistd.h>

#include "daemon/base/log.h"

bool seat_is_free(const struct seat *seat) { return seat->producer.fd < 0 && !seat->renewing && !seat->lost; }

bool seat_must_renew(const struct seat *seat, const struct guest *producer) {
  return seat->used && producer->native && producer->hello.transport == NATIVE_SHARED;
}

/* -- lending it ---------------------------------------------------------------------------------------------------- */

bool seat_share(struct seat *seat, const struct native_welcome *welcome) {
  struct session_share share;
  struct failure failure;
  if (!seat->producer.native || seat->producer.hello.transport != NATIVE_SHARED) {
    return false;
  }
  if (!session_share(seat->session, &share, &failure)) {
    log_event(LOG_CLIENT_ERROR, seat->setup->pipeline, "%s; the producer sends frames over its socket instead", failure.text);
    return false;
  }
  struct native_welcome shared = *welcome;
  shared.transport = NATIVE_SHARED;
  shared.input_stride = share.input_stride;
  shared.output_stride = share.output_stride;
  shared.control_bytes = share.control_bytes;
  const int memory[] = {share.input, share.output, share.control};
  guest_welcome(&seat->producer, &shared, memory, sizeof memory / sizeof *memory);
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    close(memory[i]);
  }
  seat->shares = true;
  session_attach_shared(seat->session, seat->producer.fd);
  return true;
}

/* -- making it anew ------------------------------------------------------------------------------------------------ */

enum { AGAIN_MS = 1000 };

static void work(void *context) {
  struct seat *seat = context;
  seat->renewed = session_renew(seat->session, &seat->failure);
}

static void try_again(void *context);

static void on_tried(void *context) {
  struct seat *seat = context;
  if (!seat->renewed && !seat->lost) {
    log_event(LOG_CLIENT_ERROR, seat->setup->pipeline, "there is a place for one producer less, until this has an end: %s",
              seat->failure.text);
  }
  seat->renewing = false;
  seat->lost = !seat->renewed;
  seat->used = seat->lost;
  if (seat->lost && !seat->closed && !seat->again) {
    seat->again = loop_timer_new(seat->setup->loop, try_again, seat);
  }
  if (seat->lost && seat->again) {
    loop_timer_start(seat->again, AGAIN_MS, 0);
  }
  seat->setup->renewed(seat->setup->context, seat);
}

/* Its last producer has left nothing behind any more, whether or not there is other memory. */
static void on_worked(void *context) {
  struct seat *seat = context;
  quota_release(&seat->charge);
  on_tried(seat);
}

static void try_again(void *context) {
  struct seat *seat = context;
  seat->renewing = true;
  seat->renewed = false;
  if (!loop_job(seat->setup->loop, work, on_worked, seat)) {
    failure_set(&seat->failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory");
    on_tried(seat);
  }
}

void seat_renew(struct seat *seat) {
  seat->shares = false;
  if (seat->closed) { /* nobody else comes, and its client keeps what it has: see session/share.c */
    quota_release(&seat->charge);
  } else {
    quota_leave(&seat->charge);
    try_again(seat);
  }
}

bool seat_owes_memory(const struct seat *seat, uid_t user) {
  return seat->renewing && seat->charge.user && seat->producer.uid == user;
}

void seat_close(struct seat *seat) {
  seat->closed = true;
  seat->again = loop_timer_close(seat->again);
}
