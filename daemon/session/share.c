/*
 * How a session lends its memory to a client and gets memory anew afterwards.
 *
 * A client keeps what it has mapped for as long as it lives, so memory that one has seen is never another's: when the client
 * has gone, the session gets other arenas and a program that works in them, and the pages of the old ones go back to the
 * kernel, whoever still has descriptors of them. Only a pipeline that ends leaves its clients what they have, since they send
 * it to the next one. The client cannot write the outputs that it gets, as the file is the daemon's own; but one that runs as
 * the daemon's user could open it again, and is not kept from that.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/session/private.h"

bool session_share(struct session *session, struct session_share *share, struct failure *failure) {
  char name[96];
  *share = (struct session_share){.input = -1, .output = -1, .control = -1};
  snprintf(name, sizeof name, "framed:%s.%u:control", session->setup.config->name, session->setup.index);
  if (!arena_make(&session->control, name, NATIVE_CONTROL, NULL, failure)) {
    return false;
  }
  share->input = arena_open(&session->inputs, O_RDWR, failure);
  share->output = arena_open(&session->outputs, O_RDONLY, failure);
  share->control = arena_open(&session->control, O_RDWR, failure);
  if (share->input < 0 || share->output < 0 || share->control < 0) {
    const int opened[] = {share->input, share->output, share->control};
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
      if (opened[i] >= 0) {
        close(opened[i]);
      }
    }
    arena_drop(&session->control);
    return false;
  }
  share->input_stride = arena_stride(session->flow.input_bytes);
  share->output_stride = arena_stride(session->flow.output_bytes);
  share->control_bytes = NATIVE_CONTROL;
  return true;
}

bool session_lend(const struct session *session, struct session_lent *lent, struct failure *failure) {
  *lent = (struct session_lent){.output = arena_open(&session->outputs, O_RDONLY, failure),
                                .stride = arena_stride(session->flow.output_bytes),
                                .memory = session->flow.memory};
  return lent->output >= 0;
}

bool session_renew(struct session *session, struct failure *failure) {
  session->flow.program = gpu_program_free(session->flow.program);
  arena_give_up(&session->inputs);
  arena_give_up(&session->outputs);
  arena_give_up(&session->control);
  return session_take_memory(session, failure);
}
