/*
 * Messages from one thread to the loop of another: the only way in which threads talk, besides counters.
 *
 * A message is a function to run there. It is embedded in whatever the sender allocated, and belongs to the
 * receiver from mailbox_post() on. Messages are rare (connections, commands), never one a frame, so a mutex
 * guards the list.
 */
#ifndef FRAMED_BASE_MAILBOX_H
#define FRAMED_BASE_MAILBOX_H

#include <stdbool.h>
#include <uv.h>

struct message {
  struct message *next;
  void (*run)(struct message *message); /* on the receiving loop; frees the message */
};

struct mailbox {
  uv_async_t wake;
  uv_mutex_t lock;
  struct message *first, **last;
  struct message *taken; /* the receiver's: they are being run */
};

/* Returns 0 or a libuv error. */
int mailbox_open(struct mailbox *mailbox, uv_loop_t *loop);
/* From any thread, in order; wakes the loop. */
void mailbox_post(struct mailbox *mailbox, struct message *message);
/* On the receiving loop, or while that stands still: runs what has come, also from within a message; true if
 * there was anything. */
bool mailbox_run(struct mailbox *mailbox);
/* On the receiving loop: runs what is left, then closes the handle. Nobody may post any more. */
void mailbox_close(struct mailbox *mailbox);

#endif
