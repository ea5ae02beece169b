/*
 * How frames stand in a stream of bytes: what comes before the first, and before each.
 *
 * A framing is a parser of preambles only. Payloads never pass through it: receive reads them straight into slots.
 * raw has no preambles; y4m has one line for the stream and one for each frame; native has a fixed part before each frame,
 * which follow the handshake of client/handshake.h. A parser takes its input in pieces of
 * any size and gives the same result. It depends on nothing but its bytes, so that it can be tested and fuzzed alone.
 */
#ifndef FRAMED_WIRE_PROTOCOL_H
#define FRAMED_WIRE_PROTOCOL_H

#include "config/config.h"
#include "gpu/format.h"

enum {
  PROTOCOL_LINE = 1024, /* longest preamble line that is taken */
  PROTOCOL_PROBLEM = 200
};

/* `frames` in so many seconds, as y4m says it; 0 frames: not known. */
struct frame_rate {
  uint32_t frames, seconds;
};

/* How the pictures of a y4m stream are to be shown, as its header says; all 0: it does not. The first three are indexes of
 * tables in y4m.c. */
struct y4m_look {
  uint8_t fields; /* their order, of interlaced pictures */
  uint8_t siting; /* of chroma */
  uint8_t range;  /* of samples */
  uint8_t says_aspect;
  uint32_t sample_width, sample_height; /* with it: the aspect of a sample, 0:0 if it is not known */
};

enum framing_state {
  FRAMING_HEADER, /* within the line before the first frame */
  FRAMING_FRAME,  /* within a frame's line; no byte of it may have come yet */
  FRAMING_PAYLOAD /* the next byte is payload */
};

/* What a native producer says of a frame: see native_wire.h. */
struct frame_stamp {
  uint64_t tag;
  uint32_t flags;
  int64_t taken, deadline;
};

struct framing {
  enum config_protocol protocol;
  struct frame_format format; /* what a header must agree with */
  size_t payload;             /* bytes of a frame */
  struct frame_stamp stamp;   /* native: of the frame whose payload follows */
  struct frame_rate rate;     /* y4m: what the header said of them */
  struct y4m_look look;
  enum framing_state state;
  size_t length; /* of the line so far */
  char line[PROTOCOL_LINE];
};

/* At the start of a stream of frames of this format. */
void framing_start(struct framing *framing, enum config_protocol protocol, const struct frame_format *format);

/* Takes preamble bytes up to the start of a payload; returns how many. SIZE_MAX: malformed, `problem` says how, in one
 * sentence without a full stop. In state FRAMING_PAYLOAD it takes nothing. */
size_t framing_take(struct framing *framing, const char *bytes, size_t count, char problem[PROTOCOL_PROBLEM]);

/* After a payload: the next frame begins. */
void framing_next(struct framing *framing);

/* Whether the stream may end here without a loss. */
bool framing_at_boundary(const struct framing *framing);

/* How many bytes one frame's shortest preamble has: what may be read behind a payload without touching the next one. */
size_t framing_shortest(const struct framing *framing);

/* What a stream is that begins with bytes of another protocol than the expected one, where they are enough to tell. */
enum stranger { STRANGER_UNKNOWN, STRANGER_Y4M, STRANGER_NATIVE, STRANGER_HTTP, STRANGER_COUNT };
extern const char *const stranger_names[STRANGER_COUNT]; /* "a y4m stream"; the first is none */
enum stranger protocol_recognise(const void *bytes, size_t count);

/* -- y4m, both ways -------------------------------------------------------------------------------------------- */

/* What stands before each frame that is written. */
#define Y4M_FRAME_LINE "FRAME\n"

enum { Y4M_HEADER = 128 }; /* bytes of the longest header that is written */

/* Whether y4m can carry the format: gray and yuv420p. */
bool y4m_carries(const struct frame_format *format);
/* Checks a header line (without its end) against the format, and takes the rate and the look from it; what cannot be read is as
 * if it were not there. */
bool y4m_check_header(const char *line, size_t length, const struct frame_format *format, struct frame_rate *rate,
                      struct y4m_look *look, char problem[PROTOCOL_PROBLEM]);
/* Writes the header of a stream with its end of line; returns its length. What is not known: 25 frames a second, progressive,
 * square samples, chroma as in JPEG. */
size_t y4m_write_header(const struct frame_format *format, const struct frame_rate *rate, const struct y4m_look *look,
                        char line[Y4M_HEADER]);
/* Whether a look that another process left has indexes within the tables. */
bool y4m_look_is_sound(const struct y4m_look *look);
/* The ratio that a number of frames a second stands for: 29.97 is 30000 in 1001 seconds. 0: not known. */
struct frame_rate y4m_rate_of(double frames_a_second);

#endif
