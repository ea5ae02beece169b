/* A worker's beginning, and its control socket, at which it hears the daemon's calls. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/serve/serve.h"

struct job {
  enum worker_call call;
  int socket;
};

static atomic_uint answered; /* calls: what one has written, every later one sees, since the daemon has its answer by then */

/* -- one call, on a thread of its own ------------------------------------------------------------------------------- */

static void *do_job(void *context) {
  struct job job = *(struct job *)context;
  struct worker_message request;
  struct serve_answer answer = {.count = 0};
  free(context);
  if (worker_receive(job.socket, &request)) {
    (void)atomic_load(&answered);
    serve_call(job.call, &request, &answer);
    atomic_fetch_add(&answered, 1);
    (void)worker_send(job.socket, &answer.pack, answer.descriptors, answer.count); /* who asked may have ended */
  }
  worker_message_free(&request);
  free(answer.pack.bytes);
  close(job.socket);
  return NULL;
}

/* Without a thread the socket closes, and the call fails. */
static void begin(const struct worker_request *request, int socket) {
  struct job *job = malloc(sizeof *job);
  pthread_t thread;
  if (job) {
    *job = (struct job){.call = (enum worker_call)request->call, .socket = socket};
  }
  if (!job || gpu_thread_new(&thread, "framed-call", do_job, job) != 0) {
    free(job);
    close(socket);
    return;
  }
  pthread_detach(thread);
}

/* -- the control socket --------------------------------------------------------------------------------------------- */

/* The descriptor that came, or -1. `got`: bytes; 0: the daemon has ended. */
static int hear(struct worker_request *request, ssize_t *got) {
  union {
    struct cmsghdr align;
    unsigned char bytes[CMSG_SPACE(sizeof(int))];
  } ancillary;
  int socket = -1;
  struct iovec part = {.iov_base = request, .iov_len = sizeof *request};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes};
  while ((*got = recvmsg(WORKER_CONTROL, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  const struct cmsghdr *header = *got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header && header->cmsg_type == SCM_RIGHTS) {
    memcpy(&socket, CMSG_DATA(header), sizeof socket);
  }
  return socket;
}

static bool listen_to_daemon(void) {
  struct worker_request request;
  ssize_t got;
  for (;;) {
    int socket = hear(&request, &got);
    if (got <= 0) {
      return got == 0;
    }
    if (got != (ssize_t)sizeof request || socket < 0 || request.version != WORKER_VERSION || request.call >= WORKER_CALLS) {
      return false;
    }
    begin(&request, socket);
  }
}

/* A worker ends with its daemon and by nobody else's signal. */
static void ignore_signals(void) {
  static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
    signal(ignored[i], SIG_IGN);
  }
}

/* Where memory runs out, a worker is worth less than the daemon, which has the connections. */
static void be_first_to_go(void) {
  FILE *file = fopen("/proc/self/oom_score_adj", "we");
  if (file) {
    fputs("500", file);
    fclose(file);
  }
}

static void end_by_death(const struct gpu_error *error) { serve_end(error); }

int main(int count, char **arguments) {
  int type = 0;
  socklen_t length = sizeof type;
  if (count == 2 && strcmp(arguments[1], "--version") == 0) {
    printf("framed-worker %s\n", FRAMED_VERSION);
    return EXIT_SUCCESS;
  }
  if (count != 2 || strcmp(arguments[1], FRAMED_VERSION) != 0 ||
      getsockopt(WORKER_CONTROL, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
    fputs("framed-worker: framed " FRAMED_VERSION " starts it; it is not for use by hand\n", stderr);
    return 64;
  }
  ignore_signals();
  fcntl(WORKER_CONTROL, F_SETFD, FD_CLOEXEC); /* what others wrote may start programs */
  prctl(PR_SET_NAME, "framed-worker");
  be_first_to_go();
  gpu_on_death(end_by_death);
  bool ended = listen_to_daemon();
  _exit(ended ? EXIT_SUCCESS : EXIT_FAILURE); /* threads may be anywhere, and the system gives everything back */
}
