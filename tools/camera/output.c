/* A client of libframed on an adopted connection. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "tools/camera/clock.h"
#include "tools/camera/output.h"
#include "tools/client/adopt.h"

bool output_open(struct output *output, int fd, size_t frame_bytes, char *text, size_t room) {
  const struct framed_options options = {.role = FRAMED_PRODUCER};
  struct framed_error error;
  *output = (struct output){.client = framed_adopt(fd, &options, &error)};
  if (!output->client) {
    snprintf(text, room, "the daemon did not take framed-camera as a producer: %.120s", error.text);
    return false;
  }
  if (framed_info(output->client)->input_bytes != frame_bytes) {
    snprintf(text, room, "the pipeline takes frames of %zu bytes, and the start message asks for %zu",
             framed_info(output->client)->input_bytes, frame_bytes);
    return false;
  }
  return true;
}

bool output_change(struct output *output, int fd, size_t frame_bytes, char *text, size_t room) {
  struct output next;
  bool good = output_open(&next, fd, frame_bytes, text, room);
  output_close(good ? output : &next);
  output->client = good ? next.client : output->client;
  return good;
}

void output_close(struct output *output) { output->client = framed_close(output->client); }

void *output_acquire(struct output *output) {
  framed_poll(output->client, FRAMED_ROOM, 0); /* takes slots back that the daemon has finished with */
  return framed_acquire(output->client);
}

void output_drop(struct output *output) {
  output->dropped++;
  output->sequence++;
}

void output_cancel(struct output *output, void *frame) { framed_cancel(output->client, frame); }

void output_submit(struct output *output, void *frame, int64_t arrival) {
  framed_submit(output->client, frame, output->sequence++, arrival, 0);
  output->frames++;
}

bool output_turn(struct output *output, int64_t ns) {
  int64_t end = clock_now() + ns;
  short conditions = 0;
  while (framed_arm(output->client, 0, &conditions) == 0 && (conditions & POLLOUT) != 0 && clock_now() < end) {
    struct pollfd ready = {.fd = framed_descriptor(output->client), .events = conditions};
    int64_t left = end - clock_now();
    const struct timespec timeout = {.tv_sec = left / CLOCK_S, .tv_nsec = left % CLOCK_S};
    (void)ppoll(&ready, 1, left > 0 ? &timeout : &(const struct timespec){0}, NULL);
  }
  return framed_problem(output->client)->code == FRAMED_OK;
}

bool output_wait(struct output *output, int64_t ns) {
  int there = framed_poll(output->client, FRAMED_ROOM, ns);
  return there > 0 && (there & FRAMED_ROOM) != 0;
}
