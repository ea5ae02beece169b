/*
 * Parses an HTTP/1.1 response incrementally, from pieces of any size.
 *
 * A body ends by Content-Length, by the last chunk or with the connection. Headers and stored bodies are limited, so that no
 * peer can exhaust the memory.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_REPLY_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum { REPLY_LINE_LIMIT = 8192, REPLY_HEAD_LIMIT = 65536, REPLY_BODY_LIMIT = 64 << 20 };

enum reply_state {
  REPLY_STATUS_LINE,
  REPLY_HEADERS,
  REPLY_BODY_BY_LENGTH,
  REPLY_BODY_TO_END,
  REPLY_CHUNK_SIZE,
  REPLY_CHUNK,
  REPLY_CHUNK_END,
  REPLY_TRAILERS,
  REPLY_DONE,
  REPLY_BAD /* `problem` says why */
};

/* Receives bytes of a body. False ends the transfer. */
typedef bool reply_receiver(void *context, const char *bytes, size_t count);

struct reply {             /* zero before use, except the next two; reply_clear() after */
  reply_receiver *receive; /* receives the body of a 200, of any length; NULL: the body is stored */
  void *context;
  enum reply_state state;
  int status;
  char *body; /* ends with a zero that `length` does not count; NULL: empty */
  size_t length;

  size_t room;
  bool has_length, is_chunked;
  size_t left; /* bytes of the body or chunk that are still missing */
  char line[REPLY_LINE_LIMIT];
  size_t line_length, head_length;
  const char *problem;
};

/* Both return the new state. After DONE or BAD further bytes are ignored. */
enum reply_state reply_feed(struct reply *reply, const char *bytes, size_t count);
enum reply_state reply_end(struct reply *reply); /* the connection ended */
void reply_clear(struct reply *reply);

#endif
