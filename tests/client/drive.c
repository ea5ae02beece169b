/*
 * A client for the end-to-end tests: drives libframed through a pipeline that turns every byte into 255 minus it, and says on
 * one line what came of it.
 *
 * drive-client PATH ROLE TRANSPORT COUNT WAIT: role producer, consumer or both; transport stream or shared; wait sleep,
 * spin, or own, a loop of its own around the descriptor. A consumer takes COUNT results. Frame n is full of byte n.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/client/framed.h"

struct drive {
  struct framed *client;
  unsigned long long count, sent, results, dropped, wrong, out_of_order;
  bool sends, own_loop;
};

static int role_of(const char *name) {
  return strcmp(name, "producer") == 0 ? FRAMED_PRODUCER : strcmp(name, "consumer") == 0 ? FRAMED_CONSUMER : FRAMED_BOTH;
}

static void check(struct drive *drive, const struct framed_result *result) {
  const unsigned char *bytes = result->data;
  unsigned char expected = (unsigned char)(255 - result->sequence % 256);
  for (size_t i = 0; i < result->size; i++) {
    if (bytes[i] != expected) {
      drive->wrong++;
      break;
    }
  }
  drive->out_of_order += result->sequence != drive->results;
  drive->wrong += result->steps[FRAMED_TOTAL] == 0;
  drive->results++;
}

static void receive(struct drive *drive) {
  struct framed_result result;
  while ((drive->sends || drive->results < drive->count) && framed_receive(drive->client, &result) > 0) {
    if (result.data) {
      check(drive, &result);
    } else {
      drive->dropped++;
    }
    framed_release(drive->client, &result);
  }
}

static void send_frames(struct drive *drive) {
  void *frame;
  while (drive->sent < drive->count && (frame = framed_acquire(drive->client))) {
    memset(frame, (int)(drive->sent % 256), framed_info(drive->client)->input_bytes);
    framed_submit(drive->client, frame, drive->sent++, 0, 0);
    if (drive->sent == drive->count) {
      framed_finish(drive->client);
    }
  }
}

static int wait_for(struct drive *drive, int wanted) {
  if (!drive->own_loop) {
    return framed_poll(drive->client, wanted, -1);
  }
  struct pollfd ready = {.fd = framed_descriptor(drive->client)};
  int there = framed_arm(drive->client, wanted, &ready.events);
  if (there == 0) {
    poll(&ready, 1, -1);
  }
  return there;
}

static bool is_over(const struct drive *drive, int events) {
  return events < 0 || (events & FRAMED_END) != 0 || (!drive->sends && drive->results == drive->count);
}

static int run(struct drive *drive) {
  int events = 0;
  while (!is_over(drive, events)) {
    if (drive->sends) {
      send_frames(drive);
    }
    if (framed_info(drive->client)->role != FRAMED_PRODUCER) {
      receive(drive);
    }
    if (!is_over(drive, events)) {
      events = wait_for(drive, FRAMED_RESULT | (drive->sends && drive->sent < drive->count ? FRAMED_ROOM : 0));
    }
  }
  return events;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: drive-client PATH ROLE TRANSPORT COUNT WAIT\n");
    return 2;
  }
  const struct framed_options options = {.role = role_of(argv[2]),
                                         .stream_only = strcmp(argv[3], "stream") == 0,
                                         .spin_ns = strcmp(argv[5], "spin") == 0 ? 1000000 : 0};
  struct framed_error error;
  struct drive drive = {.client = framed_connect(argv[1], &options, &error),
                        .count = strtoull(argv[4], NULL, 10),
                        .sends = options.role != FRAMED_CONSUMER,
                        .own_loop = strcmp(argv[5], "own") == 0};
  if (!drive.client) {
    printf("code %d: %s\n", error.code, error.text);
    return 1;
  }
  int end = run(&drive);
  printf("transport %s sent %llu results %llu dropped %llu wrong %llu out_of_order %llu code %d: %s\n",
         framed_info(drive.client)->transport == FRAMED_SHARED ? "shared" : "stream", drive.sent, drive.results, drive.dropped,
         drive.wrong, drive.out_of_order, framed_problem(drive.client)->code, framed_problem(drive.client)->text);
  framed_close(drive.client);
  return end < 0;
}
