/*
 * Messages from one thread to the loop of another. Besides counters, threads communicate only by these.
 *
 * A message is a function to run there. It is embedded in an object of the sender and belongs to the receiver from
 * mailbox_post() on. Messages are rare (connections, commands), never one a frame, so a mutex protects the list.
 */
#ifndef FRAMED_BASE_MAILBOX_H
#define FRAMED_BASE_MAILBOX_H

#include <stdbool.h>
#include <uv.h>

struct message {
  struct message *next;
  void (*run)(struct message *message); /* runs on the receiving loop; frees the message */
};

struct mailbox {
  uv_async_t wake;
  uv_mutex_t lock;
  struct message *first, **last;
  struct message *taken; /* messages that the receiver is running */
};

/* Returns 0 or a libuv error. */
int mailbox_open(struct mailbox *mailbox, uv_loop_t *loop);
/* [any thread] Appends the message and wakes the loop. */
void mailbox_post(struct mailbox *mailbox, struct message *message);
/* On the receiving loop, or while it is stopped: runs the messages, also from within a message. Returns true if there were
 * any. */
bool mailbox_run(struct mailbox *mailbox);
/* On the receiving loop: runs the remaining messages, then closes the handle. Nobody may post any more. */
void mailbox_close(struct mailbox *mailbox);

#endif
