#include "tools/framebench/common/relay.h"

#include "tools/framectl/common/http.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RING = 3 };

/* The ends of both connections: producer -> relay -> consumer. -1: closed. */
struct wires {
  int producer, relay_in, relay_out, consumer;
};

static bool fail(struct problem *problem, const char *what) {
  return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "the relay of sockets: %s: %s", what, strerror(errno));
}

/* -- whole frames over a socket ------------------------------------------------------------------------------------- */

/* With MSG_DONTWAIT in `flags` it polls. False: the peer closed the connection. */
static bool receive_all(int socket, char *buffer, size_t bytes, int flags) {
  while (bytes > 0) {
    ssize_t got = recv(socket, buffer, bytes, flags);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
      return false;
    }
    buffer += got > 0 ? got : 0;
    bytes -= got > 0 ? (size_t)got : 0;
  }
  return true;
}

static bool send_all(int socket, const char *buffer, size_t bytes) {
  while (bytes > 0) {
    ssize_t sent = send(socket, buffer, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return false;
    }
    buffer += sent > 0 ? sent : 0;
    bytes -= sent > 0 ? (size_t)sent : 0;
  }
  return true;
}

/* Pre-faulted memory, so that page faults are not measured. NULL without memory. */
static char *frame_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* -- the processes -------------------------------------------------------------------------------------------------- */

static void produce(int socket, size_t bytes) {
  const char *frame = frame_memory(bytes);
  while (frame && send_all(socket, frame, bytes)) {
  }
}

static void relay_one_thread(const struct wires *wires, size_t bytes, int flags) {
  char *frame = frame_memory(bytes);
  while (frame && receive_all(wires->relay_in, frame, bytes, flags) && send_all(wires->relay_out, frame, bytes)) {
  }
}

struct ring {
  const struct wires *wires;
  size_t bytes;
  char *frames[RING];
  sem_t empty, full;
};

static void *write_frames(void *argument) {
  struct ring *ring = argument;
  for (unsigned i = 0;; i = (i + 1) % RING) {
    while (sem_wait(&ring->full) != 0) {
    }
    if (!send_all(ring->wires->relay_out, ring->frames[i], ring->bytes)) {
      _exit(0); /* the caller closed its end */
    }
    sem_post(&ring->empty);
  }
}

static void relay_two_threads(const struct wires *wires, size_t bytes) {
  struct ring ring = {.wires = wires, .bytes = bytes};
  pthread_t writer;
  char *memory = frame_memory(RING * bytes);
  for (unsigned i = 0; memory && i < RING; i++) {
    ring.frames[i] = memory + i * bytes;
  }
  sem_init(&ring.empty, 0, RING);
  sem_init(&ring.full, 0, 0);
  if (!memory || pthread_create(&writer, NULL, write_frames, &ring) != 0) {
    return;
  }
  for (unsigned i = 0;; i = (i + 1) % RING) {
    while (sem_wait(&ring.empty) != 0) {
    }
    if (!receive_all(wires->relay_in, ring.frames[i], bytes, 0)) {
      return;
    }
    sem_post(&ring.full);
  }
}

static void relay(const struct wires *wires, const struct relay_load *load) {
  if (load->kind == RELAY_TWO_THREADS) {
    relay_two_threads(wires, load->frame_bytes);
  } else {
    relay_one_thread(wires, load->frame_bytes, load->kind == RELAY_POLLING ? MSG_DONTWAIT : 0);
  }
}

static void set_buffers(const int pair[2], size_t bytes) {
  int value = (int)bytes;
  for (int i = 0; i < 2 && bytes > 0; i++) {
    setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &value, sizeof value); /* the system limits the size */
    setsockopt(pair[i], SOL_SOCKET, SO_RCVBUF, &value, sizeof value);
  }
}

static void close_end(int *end) {
  if (*end >= 0) {
    close(*end);
  }
  *end = -1;
}

static bool open_wires(struct wires *wires, size_t buffer, struct problem *problem) {
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) {
    return fail(problem, "socketpair");
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) != 0) {
    close(in[0]);
    close(in[1]);
    return fail(problem, "socketpair");
  }
  set_buffers(in, buffer);
  set_buffers(out, buffer);
  *wires = (struct wires){in[0], in[1], out[0], out[1]};
  return true;
}

/* Connects to a daemon. The reader connects first, so that it receives every result. */
static bool connect_wires(struct wires *wires, const struct relay_load *load, struct problem *problem) {
  *wires = (struct wires){-1, -1, -1, unix_connect(load->sink, "the sink", -1, problem)};
  wires->producer = wires->consumer >= 0 ? unix_connect(load->source, "the source", -1, problem) : -1;
  if (wires->producer < 0) {
    close_end(&wires->consumer);
    return false;
  }
  set_buffers((const int[]){wires->producer, wires->consumer}, load->socket_buffer);
  return true;
}

/* Starts the relay's process. It ends when its consumer, its producer or this process ends. */
static pid_t start_relay(struct wires wires, const struct relay_load *load) {
  pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_end(&wires.producer);
    close_end(&wires.consumer);
    relay(&wires, load);
    _exit(0);
  }
  return process;
}

static pid_t start_producer(struct wires wires, const struct relay_load *load) {
  pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_end(&wires.relay_in);
    close_end(&wires.relay_out);
    close_end(&wires.consumer);
    produce(wires.producer, load->frame_bytes);
    _exit(0);
  }
  return process;
}

static void wait_for(pid_t process) {
  while (process > 0 && waitpid(process, NULL, 0) < 0 && errno == EINTR) {
  }
}

/* -- measuring ------------------------------------------------------------------------------------------------------ */

static bool read_for(int socket, char *frame, const struct relay_load *load, double *rate) {
  int64_t start = 0, now = 0, limit = 0;
  uint64_t frames = 0;
  /* the first frames fill the pipe */
  for (int i = 0; i < RING + 2; i++) {
    if (!receive_all(socket, frame, load->frame_bytes, 0)) {
      return false;
    }
  }
  start = samples_now();
  limit = start + (int64_t)(load->seconds * 1e9);
  do {
    if (!receive_all(socket, frame, load->frame_bytes, 0)) {
      return false;
    }
    frames++;
    now = samples_now();
  } while (now < limit);
  *rate = (double)frames * (double)load->frame_bytes / ((double)(now - start) / 1e9);
  return true;
}

/* Reads the remaining results, since a daemon would pass them to the next reader. */
static void read_rest(int socket, char *frame, size_t bytes) {
  const struct timeval silence = {.tv_usec = 100000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
  while (recv(socket, frame, bytes, 0) > 0) {
  }
}

bool relay_throughput(const struct relay_load *load, double *rate, struct problem *problem) {
  struct wires wires = {-1, -1, -1, -1};
  char *frame = frame_memory(load->frame_bytes);
  if (!frame) {
    return fail(problem, "memory for a frame");
  }
  if (!(load->source ? connect_wires(&wires, load, problem) : open_wires(&wires, load->socket_buffer, problem))) {
    munmap(frame, load->frame_bytes);
    return false;
  }
  pid_t relaying = load->source ? 0 : start_relay(wires, load), producing = start_producer(wires, load);
  close_end(&wires.producer);
  close_end(&wires.relay_in);
  close_end(&wires.relay_out);
  bool done = relaying >= 0 && producing > 0 && read_for(wires.consumer, frame, load, rate);
  if (!done) {
    fail(problem, "a process ended early");
  }
  if (load->source && producing > 0) {
    kill(producing, SIGKILL);
    read_rest(wires.consumer, frame, load->frame_bytes);
  }
  close_end(&wires.consumer);
  wait_for(relaying);
  wait_for(producing);
  munmap(frame, load->frame_bytes);
  return done;
}

static bool ping(const struct wires *wires, char *frame, const struct relay_load *load, struct samples *round_trips) {
  int64_t limit = samples_now() + (int64_t)(load->seconds * 1e9);
  int flags = load->kind == RELAY_POLLING ? MSG_DONTWAIT : 0;
  for (int warm = 0;; warm++) {
    int64_t start = samples_now();
    if (!send_all(wires->producer, frame, load->frame_bytes) ||
        !receive_all(wires->consumer, frame, load->frame_bytes, flags)) {
      return false;
    }
    int64_t end = samples_now();
    if (warm >= RING && !samples_add(round_trips, (double)(end - start) / 1e3)) {
      return false;
    }
    if (end > limit && round_trips->count > 0) {
      return true;
    }
  }
}

bool relay_latency(const struct relay_load *load, struct samples *round_trips, struct problem *problem) {
  struct wires wires = {-1, -1, -1, -1};
  char *frame = frame_memory(load->frame_bytes);
  if (!frame || !open_wires(&wires, load->socket_buffer, problem)) {
    return frame ? false : fail(problem, "memory for a frame");
  }
  pid_t relaying = start_relay(wires, load);
  close_end(&wires.relay_in);
  close_end(&wires.relay_out);
  bool done = relaying > 0 && ping(&wires, frame, load, round_trips);
  if (!done) {
    fail(problem, "a process ended early, or memory");
  }
  close_end(&wires.producer);
  close_end(&wires.consumer);
  wait_for(relaying);
  munmap(frame, load->frame_bytes);
  return done;
}
