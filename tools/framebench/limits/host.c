/* Measures the host without a GPU: memory, wake-ups between threads, and frames over Unix sockets. */
#include "tools/framebench/common/relay.h"
#include "tools/framebench/limits/limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* -- memory --------------------------------------------------------------------------------------------------------- */

static const struct section memory_section = {
    "memory", "Memory of the host, copied by one thread",
    (const struct column[]){{"bytes", "SIZE", COLUMN_SIZE}, {"gb_per_s", "GB/s", COLUMN_BANDWIDTH}, {0}}};

static bool copy_memory(struct results *results, size_t bytes, double seconds) {
  char *from = malloc(bytes), *to = malloc(bytes);
  uint64_t copies = 0;
  if (!from || !to) {
    free(from);
    free(to);
    return false;
  }
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  int64_t start = samples_now(), now;
  do {
    from[copies % bytes]++; /* makes each copy differ from the previous one */
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
    copies++;
    now = samples_now();
  } while (now - start < (int64_t)(seconds * 1e9));
  results_row(results, json_pack("{s:I, s:f}", "bytes", (json_int_t)bytes, "gb_per_s",
                                 (double)copies * (double)bytes / (double)(now - start)));
  free(from);
  free(to);
  return true;
}

static bool measure_memory(struct results *results, const struct options *options, struct problem *problem) {
  static const size_t sizes[] = {4096, 65536, 1 << 20, 4 << 20, 64 << 20};
  results_section(results, &memory_section);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] - (options->quick ? 2 : 0); i++) {
    if (!copy_memory(results, sizes[i], options->quick ? 0.005 : 0.1)) {
      return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory to copy");
    }
  }
  return true;
}

/* -- eventfd and epoll ---------------------------------------------------------------------------------------------- */

static const struct section wake_section = {
    "wake", "Waking a thread: eventfd written to epoll_wait returned",
    (const struct column[]){
        {"what", "WHAT", COLUMN_TEXT}, {"p50_us", "P50", COLUMN_TIME}, {"p99_us", "P99", COLUMN_TIME}, {0}}};

struct waker {
  int event;
  unsigned rounds;
  _Atomic int64_t written;   /* time of the write; 0: none, or already handled */
  _Atomic unsigned wanted;   /* rounds that the sleeper is ready for */
  _Atomic unsigned finished; /* rounds done */
};

static void *write_events(void *argument) {
  struct waker *waker = argument;
  const uint64_t one = 1;
  for (unsigned round = 1; round <= waker->rounds; round++) {
    while (atomic_load(&waker->wanted) < round) {
      usleep(10);
    }
    usleep(50); /* the other thread needs time to fall asleep */
    atomic_store(&waker->written, samples_now());
    if (write(waker->event, &one, sizeof one) != (ssize_t)sizeof one) {
      return NULL; /* an eventfd always accepts a 1 */
    }
  }
  return NULL;
}

static bool sleep_and_wake(struct waker *waker, int epoll, struct samples *samples) {
  struct epoll_event event;
  uint64_t value;
  for (unsigned round = 1; round <= waker->rounds; round++) {
    atomic_store(&waker->wanted, round);
    while (epoll_wait(epoll, &event, 1, -1) != 1) {
      if (errno != EINTR) {
        return false;
      }
    }
    int64_t now = samples_now();
    if (read(waker->event, &value, sizeof value) != (ssize_t)sizeof value ||
        !samples_add(samples, (double)(now - atomic_load(&waker->written)) / 1e3)) {
      return false;
    }
  }
  return true;
}

static bool measure_wake(struct results *results, const struct options *options, struct problem *problem) {
  struct waker waker = {.event = eventfd(0, EFD_CLOEXEC), .rounds = options->quick ? 50 : 5000};
  struct samples samples = {0};
  struct epoll_event event = {.events = EPOLLIN};
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  pthread_t writer;
  bool done = waker.event >= 0 && epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, waker.event, &event) == 0 &&
              pthread_create(&writer, NULL, write_events, &waker) == 0;
  if (done) {
    done = sleep_and_wake(&waker, epoll, &samples);
    pthread_join(writer, NULL);
  }
  results_section(results, &wake_section);
  results_row(results, json_pack("{s:s, s:f, s:f}", "what", "eventfd, epoll", "p50_us", samples_percentile(&samples, 0.5),
                                 "p99_us", samples_percentile(&samples, 0.99)));
  samples_free(&samples);
  close(epoll);
  close(waker.event);
  return done || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "eventfd, epoll or a thread: %s", strerror(errno));
}

/* -- sockets -------------------------------------------------------------------------------------------------------- */

static const struct section relay_section = {
    "relay", "Frames over Unix sockets without a GPU: one process writes, one relays, one reads",
    (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                            {"threads", "RELAY'S THREADS", COLUMN_COUNT},
                            {"socket_buffer", "SOCKET BUFFER", COLUMN_TEXT},
                            {"gb_per_s", "GB/s EACH WAY", COLUMN_BANDWIDTH},
                            {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                            {0}}};

static bool relay_row(struct results *results, const struct relay_load *load, struct problem *problem) {
  double rate = 0;
  char buffer[RESULTS_TEXT] = "default";
  if (!relay_throughput(load, &rate, problem)) {
    return false;
  }
  if (load->socket_buffer > 0) {
    results_size(buffer, load->socket_buffer);
  }
  results_row(results, json_pack("{s:I, s:i, s:s, s:f, s:f}", "bytes", (json_int_t)load->frame_bytes, "threads",
                                 load->kind == RELAY_TWO_THREADS ? 2 : 1, "socket_buffer", buffer, "gb_per_s", rate / 1e9,
                                 "frames_per_s", rate / (double)load->frame_bytes));
  return true;
}

static bool measure_relay(struct results *results, const struct options *options, struct problem *problem) {
  static const size_t sizes[] = {4096, 65536, 4 << 20};
  static const size_t buffers[] = {0, 1 << 20};
  results_section(results, &relay_section);
  for (size_t i = 0; i < 3 * 2 * 2; i++) {
    struct relay_load load = {.kind = i % 2 ? RELAY_TWO_THREADS : RELAY_ONE_THREAD,
                              .frame_bytes = sizes[i / 4],
                              .socket_buffer = buffers[i / 2 % 2],
                              .seconds = options->quick ? 0.02 : 0.5};
    if (!relay_row(results, &load, problem)) {
      return false;
    }
  }
  return true;
}

static const struct section hops_section = {
    "hops", "One 4 KiB frame over two socket hops and back to whoever sent it",
    (const struct column[]){
        {"relay", "BOTH", COLUMN_TEXT}, {"p50_us", "P50", COLUMN_TIME}, {"p99_us", "P99", COLUMN_TIME}, {0}}};

static bool measure_hops(struct results *results, const struct options *options, struct problem *problem) {
  results_section(results, &hops_section);
  for (int polling = 0; polling < 2; polling++) {
    struct samples samples = {0};
    struct relay_load load = {
        .kind = polling ? RELAY_POLLING : RELAY_ONE_THREAD, .frame_bytes = 4096, .seconds = options->quick ? 0.02 : 0.5};
    bool done = relay_latency(&load, &samples, problem);
    results_row(results, json_pack("{s:s, s:f, s:f}", "relay", polling ? "ask again and again" : "sleep in between", "p50_us",
                                   samples_percentile(&samples, 0.5), "p99_us", samples_percentile(&samples, 0.99)));
    samples_free(&samples);
    if (!done) {
      return false;
    }
  }
  return true;
}

bool limits_host(struct results *results, const struct options *options, struct problem *problem) {
  return measure_relay(results, options, problem) && measure_hops(results, options, problem) &&
         measure_memory(results, options, problem) && measure_wake(results, options, problem);
}
