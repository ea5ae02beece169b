#include "tools/framebench/load/frames.h"

#include <string.h>
#include <sys/mman.h>

/* As floats all these words are ordinary numbers, so a stage that multiplies by 1 keeps them. */
static const unsigned char mark[8] = {'f', 'r', 'a', 'm', 'b', 'n', 'c', 'h'};
#define SPREAD   UINT64_C(0x9e3779b97f4a7c15) /* odd, so that different numbers have different products */
#define ORDINARY UINT64_C(0x3fffffff3fffffff)
static const char line_of_frame[] = "FRAME\n";

enum { LINE = sizeof line_of_frame - 1, LINE_LIMIT = 1024 };

/* -- sending -------------------------------------------------------------------------------------------------------- */

bool load_batch_init(struct load_batch *batch, const struct load_form *form) {
  size_t line = form->y4m ? LINE : 0;
  size_t stride = line + form->frame_bytes;
  unsigned frames = stride < LOAD_BATCH_BYTES ? (unsigned)(LOAD_BATCH_BYTES / stride) : 1;
  void *memory = mmap(NULL, stride * frames, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  *batch = (struct load_batch){.stride = stride, .frames = frames, .at = line, .stamped = form->frame_bytes >= LOAD_STAMP};
  if (memory == MAP_FAILED) {
    return false;
  }
  batch->memory = memory;
  for (unsigned i = 0; i < frames; i++) {
    unsigned char *frame = batch->memory + i * stride;
    memcpy(frame, line_of_frame, line);
    for (size_t at = batch->stamped ? LOAD_STAMP : 0; at < form->frame_bytes; at++) {
      frame[line + at] = (unsigned char)(at * 7 & 63); /* as floats these bytes are small numbers, and never NaN */
    }
  }
  return true;
}

void load_batch_clear(struct load_batch *batch) {
  if (batch->memory) {
    munmap(batch->memory, batch->stride * batch->frames);
  }
  *batch = (struct load_batch){0};
}

/* A stage may change the number and keep the mark. As floats the check is so large that adding 1 does not change it. */
static uint64_t check_of(uint64_t number) { return (number + 1) * SPREAD & ORDINARY; }

void load_batch_stamp(struct load_batch *batch, uint64_t first, unsigned count) {
  for (unsigned i = 0; i < count && batch->stamped; i++) {
    unsigned char *frame = batch->memory + i * batch->stride + batch->at;
    uint64_t number = first + i, check = check_of(number);
    memcpy(frame, mark, sizeof mark);
    memcpy(frame + sizeof mark, &number, sizeof number);
    memcpy(frame + sizeof mark + sizeof number, &check, sizeof check);
  }
}

/* -- receiving ------------------------------------------------------------------------------------------------------ */

bool load_stamp_read(const unsigned char head[LOAD_STAMP], uint64_t *number) {
  uint64_t check;
  memcpy(number, head + sizeof mark, sizeof *number);
  memcpy(&check, head + sizeof mark + sizeof *number, sizeof check);
  return memcmp(head, mark, sizeof mark) == 0 && check == check_of(*number);
}

/* The header is any line; the line before a frame begins with FRAME. Returns the number of bytes consumed. */
static size_t feed_line(struct load_parser *parser, const unsigned char *bytes, size_t count) {
  const unsigned char *end = memchr(bytes, '\n', count);
  size_t taken = end ? (size_t)(end - bytes) + 1 : count;
  for (size_t i = 0; i < taken && parser->at == LOAD_AT_LINE && parser->line_filled + i < LINE - 1; i++) {
    parser->broken |= bytes[i] != (unsigned char)line_of_frame[parser->line_filled + i];
  }
  parser->line_filled += taken;
  parser->broken |= parser->line_filled > LINE_LIMIT;
  if (end) {
    parser->at = parser->at == LOAD_AT_HEADER ? LOAD_AT_LINE : LOAD_AT_FRAME;
    parser->line_filled = 0;
  }
  return taken;
}

static size_t feed_frame(struct load_parser *parser, const unsigned char *bytes, size_t count, load_parser_frame *frame,
                         void *context) {
  size_t left = parser->form.frame_bytes - parser->filled;
  size_t taken = count < left ? count : left;
  if (parser->filled < LOAD_STAMP) {
    size_t room = LOAD_STAMP - parser->filled;
    memcpy(parser->head + parser->filled, bytes, taken < room ? taken : room);
  }
  parser->filled += taken;
  if (taken == left) {
    frame(context, parser->head);
    memset(parser->head, 0, sizeof parser->head);
    parser->filled = 0;
    parser->at = LOAD_AT_LINE;
  }
  return taken;
}

void load_parser_feed(struct load_parser *parser, const unsigned char *bytes, size_t count, load_parser_frame *frame,
                      void *context) {
  while (count > 0 && !parser->broken) {
    bool in_line = parser->form.y4m && parser->at != LOAD_AT_FRAME;
    size_t taken = in_line ? feed_line(parser, bytes, count) : feed_frame(parser, bytes, count, frame, context);
    bytes += taken;
    count -= taken;
  }
}
