/* Calls to a worker: each brings the socket on which it wants its answer, so that those of several threads need no order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/device/process_private.h"

static bool send_request(struct process *process, enum worker_call call, int socket) {
  const struct worker_request request = {.version = WORKER_VERSION, .call = (uint32_t)call};
  union {
    struct cmsghdr align;
    unsigned char bytes[CMSG_SPACE(sizeof(int))];
  } ancillary = {.bytes = {0}};
  struct iovec part = {.iov_base = (void *)(uintptr_t)&request, .iov_len = sizeof request};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(header), &socket, sizeof socket);
  ssize_t sent = -1;
  bool again = true;
  for (int tries = 0; again; tries++) {
    pthread_mutex_lock(&process->lock);
    errno = EPIPE;
    sent = process->ended ? -1 : sendmsg(process->control, &message, MSG_NOSIGNAL);
    pthread_mutex_unlock(&process->lock);
    again = sent < 0 && worker_may_pass(tries);
  }
  return sent == (ssize_t)sizeof request;
}

/* Why a call failed whose worker does not say it: mostly that there is none any more. */
static bool fail(struct process *process, int code, struct gpu_error *error) {
  if (code == EPIPE || code == ECONNRESET) {
    (void)process_await(process, 2 * END_MS);
  }
  return process_is_lost(process, error) ? false : process_error(error, code, "a worker does not answer");
}

static bool read_answer(struct worker_message *answer, struct gpu_error *error) {
  if (unpack_within(&answer->unpack, 0, 1) != 0) {
    return true;
  }
  unpack_bytes(&answer->unpack, error, sizeof *error);
  error->text[sizeof error->text - 1] = '\0';
  error->remedy[sizeof error->remedy - 1] = '\0';
  return !answer->unpack.failed ? false : process_error(error, EBADMSG, "a worker answers nonsense");
}

/* Within so many seconds for each step, unless that is 0. */
static bool do_call(struct process *process, enum worker_call call, const struct pack *request, const int *descriptors,
                    unsigned count, int seconds, struct worker_message *answer, struct gpu_error *error) {
  const struct timeval limit = {.tv_sec = seconds};
  int pair[2];
  *answer = (struct worker_message){.bytes = NULL};
  if (process_is_lost(process, error)) {
    return false;
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return process_error(error, errno, "no socket for a worker");
  }
  (void)setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  bool sent = send_request(process, call, pair[1]);
  int code = sent ? 0 : errno;
  close(pair[1]);
  sent = sent && worker_send(pair[0], request, descriptors, count) && worker_receive(pair[0], answer);
  code = sent || code != 0 ? code : errno;
  close(pair[0]);
  return sent ? read_answer(answer, error) : fail(process, code, error);
}

bool process_call(struct process *process, enum worker_call call, const struct pack *request, const int *descriptors,
                  unsigned count, struct worker_message *answer, struct gpu_error *error) {
  return do_call(process, call, request, descriptors, count, 0, answer, error);
}

bool process_tell_within(struct process *process, enum worker_call call, int seconds, struct gpu_error *error) {
  struct worker_message answer;
  const struct pack request = {.bytes = NULL};
  bool told = do_call(process, call, &request, NULL, 0, seconds, &answer, error);
  worker_message_free(&answer);
  return told;
}

bool process_tell(struct process *process, enum worker_call call, const struct pack *request, struct gpu_error *error) {
  struct worker_message answer;
  bool told = process_call(process, call, request, NULL, 0, &answer, error);
  worker_message_free(&answer);
  return told;
}

void process_let_go(struct process *process, uint64_t id) {
  struct pack request = {.bytes = NULL};
  struct gpu_error error;
  pack_number(&request, (int64_t)id);
  (void)process_tell(process, WORKER_LET_GO, &request, &error); /* where the worker is lost, so is the object */
  free(request.bytes);
}
