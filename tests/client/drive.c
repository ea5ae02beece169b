/*
 * A client for the end-to-end tests: uses libframed with a pipeline that inverts every byte, and prints the outcome on one
 * line.
 *
 * drive-client PATH ROLE TRANSPORT COUNT WAIT [RECONNECT]: role producer, consumer or both; transport stream or shared; wait
 * sleep, spin, or own, which is an event loop of this program. A consumer receives COUNT results. Frame n is filled with byte
 * n. The client reconnects for RECONNECT seconds; 0: it does not.
 *
 * COUNT 0: frames continue until SIGTERM. The next frame is then the last one, with the highest bit of its sequence set. A
 * consumer receives results up to that frame. The outcome then includes the pauses between results, in microseconds.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/client/framed.h"

#define LAST (UINT64_C(1) << 63)

enum { PAUSES = 4096, PAUSE_US = 3000 };

struct drive {
  struct framed *client;
  unsigned long long count, sent, results, dropped, wrong, out_of_order, again;
  bool sends, own_loop;
  bool endless, sent_last, took_last;
  int64_t before_us; /* when the last result came */
  int64_t pauses[PAUSES];
  unsigned paused;
};

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

static int64_t clock_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void note_pause(struct drive *drive) {
  int64_t now = clock_us();
  if (drive->before_us != 0 && now - drive->before_us > PAUSE_US && drive->paused < PAUSES) {
    drive->pauses[drive->paused++] = now - drive->before_us;
  }
  drive->before_us = now;
}

static int compare(const void *one, const void *other) {
  int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
  return (a > b) - (a < b);
}

static void say_pauses(struct drive *drive) {
  if (drive->endless && drive->paused > 0) {
    qsort(drive->pauses, drive->paused, sizeof *drive->pauses, compare);
    printf("pauses %u p50 %lld p99 %lld longest %lld ", drive->paused, (long long)drive->pauses[drive->paused / 2],
           (long long)drive->pauses[drive->paused * 99 / 100], (long long)drive->pauses[drive->paused - 1]);
  }
}

static int role_of(const char *name) {
  return strcmp(name, "producer") == 0 ? FRAMED_PRODUCER : strcmp(name, "consumer") == 0 ? FRAMED_CONSUMER : FRAMED_BOTH;
}

static void check(struct drive *drive, const struct framed_result *result) {
  const unsigned char *bytes = result->data;
  unsigned char expected = (unsigned char)(255 - result->sequence % 256);
  uint64_t sequence = result->sequence & ~LAST;
  for (size_t i = 0; i < result->size; i++) {
    if (bytes[i] != expected) {
      drive->wrong++;
      break;
    }
  }
  drive->out_of_order += sequence != drive->results;
  drive->again += (result->flags & FRAMED_AGAIN) != 0;
  drive->took_last |= (result->sequence & LAST) != 0;
  note_pause(drive);
  drive->wrong += result->steps[FRAMED_TOTAL] == 0;
  drive->results++;
}

static void receive(struct drive *drive) {
  struct framed_result result;
  while ((drive->sends || (drive->endless ? !drive->took_last : drive->results < drive->count)) &&
         framed_receive(drive->client, &result) > 0) {
    if (result.data) {
      check(drive, &result);
    } else {
      drive->dropped++;
    }
    framed_release(drive->client, &result);
  }
}

static bool has_more(const struct drive *drive) { return drive->sends && !drive->sent_last; }

static void send_frames(struct drive *drive) {
  void *frame;
  while (has_more(drive) && (frame = framed_acquire(drive->client))) {
    drive->sent_last = drive->endless ? stop != 0 : drive->sent + 1 == drive->count;
    memset(frame, (int)(drive->sent % 256), framed_info(drive->client)->input_bytes);
    framed_submit(drive->client, frame, drive->sent | (drive->endless && drive->sent_last ? LAST : 0), 0, 0);
    drive->sent++;
    if (drive->sent_last) {
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
  return events < 0 || (events & FRAMED_END) != 0 ||
         (!drive->sends && (drive->endless ? drive->took_last : drive->results == drive->count));
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
      events = wait_for(drive, FRAMED_RESULT | (has_more(drive) ? FRAMED_ROOM : 0));
    }
  }
  return events;
}

int main(int argc, char **argv) {
  if (argc != 6 && argc != 7) {
    fprintf(stderr, "usage: drive-client PATH ROLE TRANSPORT COUNT WAIT [RECONNECT]\n");
    return 2;
  }
  const struct framed_options options = {.role = role_of(argv[2]),
                                         .stream_only = strcmp(argv[3], "stream") == 0,
                                         .spin_ns = strcmp(argv[5], "spin") == 0 ? 1000000 : 0,
                                         .reconnect_for_ns = argc == 7 ? strtoll(argv[6], NULL, 10) * 1000000000 : -1};
  const struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGTERM, &action, NULL);
  struct framed_error error;
  struct drive drive = {.client = framed_connect(argv[1], &options, &error),
                        .count = strtoull(argv[4], NULL, 10),
                        .sends = options.role != FRAMED_CONSUMER,
                        .own_loop = strcmp(argv[5], "own") == 0};
  if (!drive.client) {
    printf("code %d: %s\n", error.code, error.text);
    return 1;
  }
  drive.endless = drive.count == 0;
  int end = run(&drive);
  say_pauses(&drive);
  printf("transport %s sent %llu results %llu dropped %llu wrong %llu out_of_order %llu again %llu code %d: %s\n",
         framed_info(drive.client)->transport == FRAMED_SHARED ? "shared" : "stream", drive.sent, drive.results, drive.dropped,
         drive.wrong, drive.out_of_order, drive.again, framed_problem(drive.client)->code, framed_problem(drive.client)->text);
  framed_close(drive.client);
  return end < 0;
}
