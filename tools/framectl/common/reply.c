#include "tools/framectl/common/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void fail(struct reply *reply, const char *problem) {
  reply->state = REPLY_BAD;
  reply->problem = problem;
}

static void expect_body(struct reply *reply, size_t length) {
  if (length > REPLY_BODY_LIMIT - reply->length) {
    fail(reply, "the answer is too long");
    return;
  }
  reply->left = length;
}

static bool grow(struct reply *reply, size_t count) {
  if (count > REPLY_BODY_LIMIT - reply->length) {
    fail(reply, "the answer is too long");
    return false;
  }
  size_t wanted = reply->length + count + 1;
  if (wanted > reply->room) {
    size_t room = wanted > reply->room * 2 ? wanted : reply->room * 2;
    char *body = realloc(reply->body, room);
    if (!body) {
      fail(reply, "there is no memory for the answer");
      return false;
    }
    reply->body = body;
    reply->room = room;
  }
  return true;
}

static void append(struct reply *reply, const char *bytes, size_t count) {
  if (reply->receive && reply->status == 200) {
    if (!reply->receive(reply->context, bytes, count)) {
      fail(reply, "the receiver ended the transfer");
    }
  } else if (grow(reply, count)) {
    memcpy(reply->body + reply->length, bytes, count);
    reply->length += count;
    reply->body[reply->length] = '\0';
  }
}

/* -- lines ------------------------------------------------------------------------------------------------------------ */

/* A whole number in `base` that fills the text up to blanks or ';', or false. */
static bool parse_size(const char *text, int base, size_t *size) {
  if (strspn(text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") == 0) {
    return false;
  }
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, base);
  end += strspn(end, " \t");
  *size = (size_t)value;
  return errno == 0 && (*end == '\0' || *end == ';');
}

static void take_status_line(struct reply *reply) {
  int minor, status, used = 0;
  if (sscanf(reply->line, "HTTP/1.%1d %3d%n", &minor, &status, &used) != 2 || status < 100 || status > 599 ||
      (reply->line[used] != ' ' && reply->line[used] != '\0')) {
    fail(reply, "the answer is not HTTP");
    return;
  }
  reply->status = status;
  reply->state = REPLY_HEADERS;
}

static void end_head(struct reply *reply) {
  if (reply->status < 200) { /* an interim answer: the final one follows */
    reply->state = REPLY_STATUS_LINE;
  } else if (reply->status == 204 || reply->status == 304) {
    reply->state = REPLY_DONE;
  } else if (reply->is_chunked) {
    reply->state = REPLY_CHUNK_SIZE;
  } else if (!reply->has_length) {
    reply->state = REPLY_BODY_TO_END;
  } else {
    reply->state = reply->left > 0 ? REPLY_BODY_BY_LENGTH : REPLY_DONE;
  }
}

static void take_header(struct reply *reply) {
  if (reply->line_length == 0) {
    end_head(reply);
    return;
  }
  char *colon = strchr(reply->line, ':');
  if (!colon) {
    fail(reply, "the answer's head is malformed");
    return;
  }
  *colon = '\0';
  const char *value = colon + 1 + strspn(colon + 1, " \t");
  if (strcasecmp(reply->line, "Content-Length") == 0) {
    size_t length;
    if (reply->has_length || !parse_size(value, 10, &length)) {
      fail(reply, "the answer's length is malformed");
      return;
    }
    reply->has_length = true;
    expect_body(reply, length);
  } else if (strcasecmp(reply->line, "Transfer-Encoding") == 0) {
    reply->is_chunked = strcasecmp(value, "chunked") == 0;
    if (!reply->is_chunked) {
      fail(reply, "the answer comes in an unknown encoding");
    }
  }
}

static void take_chunk_size(struct reply *reply) {
  size_t size;
  if (!parse_size(reply->line, 16, &size)) {
    fail(reply, "the answer's chunks are malformed");
    return;
  }
  reply->state = size > 0 ? REPLY_CHUNK : REPLY_TRAILERS;
  expect_body(reply, size);
}

static void take_line(struct reply *reply) {
  if (reply->line_length > 0 && reply->line[reply->line_length - 1] == '\r') {
    reply->line_length--;
  }
  reply->line[reply->line_length] = '\0';
  switch (reply->state) {
  case REPLY_STATUS_LINE:
    take_status_line(reply);
    break;
  case REPLY_HEADERS:
    take_header(reply);
    break;
  case REPLY_CHUNK_SIZE:
    take_chunk_size(reply);
    break;
  case REPLY_CHUNK_END:
    reply->state = REPLY_CHUNK_SIZE;
    if (reply->line_length > 0) {
      fail(reply, "the answer's chunks are malformed");
    }
    break;
  default: /* trailers are ignored */
    reply->state = reply->line_length == 0 ? REPLY_DONE : REPLY_TRAILERS;
    break;
  }
  reply->line_length = 0;
}

static size_t feed_line(struct reply *reply, const char *bytes, size_t count) {
  const char *newline = memchr(bytes, '\n', count);
  size_t length = newline ? (size_t)(newline - bytes) : count;
  reply->head_length += length + 1;
  if (length >= REPLY_LINE_LIMIT - reply->line_length ||
      (reply->state <= REPLY_HEADERS && reply->head_length > REPLY_HEAD_LIMIT)) {
    fail(reply, "the answer's head is too long");
    return count;
  }
  memcpy(reply->line + reply->line_length, bytes, length);
  reply->line_length += length;
  if (!newline) {
    return count;
  }
  take_line(reply);
  return length + 1;
}

/* -- bodies ------------------------------------------------------------------------------------------------------------ */

static size_t feed_body(struct reply *reply, const char *bytes, size_t count) {
  if (reply->state == REPLY_BODY_TO_END) {
    append(reply, bytes, count);
    return count;
  }
  size_t part = count < reply->left ? count : reply->left;
  append(reply, bytes, part);
  reply->left -= part;
  if (reply->left == 0 && reply->state != REPLY_BAD) {
    reply->state = reply->state == REPLY_CHUNK ? REPLY_CHUNK_END : REPLY_DONE;
  }
  return part;
}

static bool in_body(const struct reply *reply) {
  return reply->state == REPLY_BODY_BY_LENGTH || reply->state == REPLY_BODY_TO_END || reply->state == REPLY_CHUNK;
}

enum reply_state reply_feed(struct reply *reply, const char *bytes, size_t count) {
  while (count > 0 && reply->state < REPLY_DONE) {
    size_t used = in_body(reply) ? feed_body(reply, bytes, count) : feed_line(reply, bytes, count);
    bytes += used;
    count -= used;
  }
  return reply->state;
}

enum reply_state reply_end(struct reply *reply) {
  if (reply->state == REPLY_BODY_TO_END) {
    reply->state = REPLY_DONE;
  } else if (reply->state < REPLY_DONE) {
    fail(reply, "the answer ends too early");
  }
  return reply->state;
}

void reply_clear(struct reply *reply) {
  free(reply->body);
  *reply = (struct reply){0};
}
