#include "daemon/base/mailbox.h"

#include <stdatomic.h>

/* A message may call this again to run the messages after it, as a handover does. */
bool mailbox_run(struct mailbox *mailbox) {
  struct message **last = &mailbox->taken;
  while (*last) {
    last = &(*last)->next;
  }
  uv_mutex_lock(&mailbox->lock);
  *last = mailbox->first;
  mailbox->first = NULL;
  mailbox->last = &mailbox->first;
  uv_mutex_unlock(&mailbox->lock);
  bool any = mailbox->taken != NULL;
  while (mailbox->taken) {
    struct message *message = mailbox->taken;
    mailbox->taken = message->next;
    message->run(message);
  }
  return any;
}

static void on_wake(uv_async_t *wake) { mailbox_run(wake->data); }

int mailbox_open(struct mailbox *mailbox, uv_loop_t *loop) {
  mailbox->first = mailbox->taken = NULL;
  mailbox->last = &mailbox->first;
  int status = uv_mutex_init(&mailbox->lock);
  if (status != 0) {
    return status;
  }
  status = uv_async_init(loop, &mailbox->wake, on_wake);
  if (status != 0) {
    uv_mutex_destroy(&mailbox->lock);
    return status;
  }
  mailbox->wake.data = mailbox;
  return 0;
}

void mailbox_post(struct mailbox *mailbox, struct message *message) {
  message->next = NULL;
  uv_mutex_lock(&mailbox->lock);
  *mailbox->last = message;
  mailbox->last = &message->next;
  uv_mutex_unlock(&mailbox->lock);
  /* libuv before 1.53 can lose a wake-up without this fence. */
  atomic_thread_fence(memory_order_seq_cst);
  uv_async_send(&mailbox->wake);
}

static void on_closed(uv_handle_t *handle) {
  struct mailbox *mailbox = handle->data;
  uv_mutex_destroy(&mailbox->lock);
}

void mailbox_close(struct mailbox *mailbox) {
  mailbox_run(mailbox);
  uv_close((uv_handle_t *)&mailbox->wake, on_closed);
}
