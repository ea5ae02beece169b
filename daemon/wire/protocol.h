/*
 * Framing: the bytes before the first frame of a stream, and before each frame.
 *
 * A framing parses preambles only. Receive reads payloads straight into slots. raw has no preambles. y4m has one line for the
 * stream and one for each frame. native has a fixed part before each frame, after the handshake of client/handshake.h. The
 * parser accepts input in pieces of any size with the same result. It depends only on its bytes, so it can be tested and fuzzed
 * alone.
 */
#ifndef FRAMED_WIRE_PROTOCOL_H
#define FRAMED_WIRE_PROTOCOL_H

#include "config/config.h"
#include "gpu/format.h"

enum {
  PROTOCOL_LINE = 1024, /* longest preamble line that is accepted */
  PROTOCOL_PROBLEM = 200
};

/* `frames` in `seconds`, as in y4m; 0 frames: unknown. */
struct frame_rate {
  uint32_t frames, seconds;
};

/* Display parameters of a y4m header; all 0: none given. The first three are indexes of tables in y4m.c. */
struct y4m_look {
  uint8_t fields; /* order of the fields of interlaced pictures */
  uint8_t siting; /* chroma siting */
  uint8_t range;  /* sample range */
  uint8_t says_aspect;
  uint32_t sample_width, sample_height; /* valid with says_aspect: aspect ratio of a sample, 0:0 if unknown */
};

enum framing_state {
  FRAMING_HEADER, /* in the line before the first frame */
  FRAMING_FRAME,  /* in the line of a frame, or before its first byte */
  FRAMING_PAYLOAD /* the next byte is payload */
};

/* Fields of a native FRAME: see native_wire.h. */
struct frame_stamp {
  uint64_t tag;
  uint32_t flags;
  int64_t taken, deadline;
};

struct framing {
  enum config_protocol protocol;
  struct frame_format format; /* a header must match this */
  size_t payload;             /* bytes of a frame */
  struct frame_stamp stamp;   /* native: of the frame whose payload follows */
  struct frame_rate rate;     /* y4m: from the header */
  struct y4m_look look;
  enum framing_state state;
  size_t length; /* of the line so far */
  char line[PROTOCOL_LINE];
};

/* At the start of a stream of frames of this format. */
void framing_start(struct framing *framing, enum config_protocol protocol, const struct frame_format *format);

/* Parses preamble bytes up to the start of a payload; returns their number. SIZE_MAX: malformed; `problem` is a sentence
 * without a full stop. In state FRAMING_PAYLOAD it takes nothing. */
size_t framing_take(struct framing *framing, const char *bytes, size_t count, char problem[PROTOCOL_PROBLEM]);

/* Call after a payload: the next frame begins. */
void framing_next(struct framing *framing);

/* True if the stream may end here without losing part of a frame. */
bool framing_at_boundary(const struct framing *framing);

/* Length of the shortest preamble of a frame. That many bytes may be read behind a payload without touching the next
 * payload. */
size_t framing_shortest(const struct framing *framing);

/* The protocol that a stream seems to use instead of the expected one. */
enum stranger { STRANGER_UNKNOWN, STRANGER_Y4M, STRANGER_NATIVE, STRANGER_HTTP, STRANGER_COUNT };
extern const char *const stranger_names[STRANGER_COUNT]; /* "a y4m stream"; the first name is NULL */
enum stranger protocol_recognise(const void *bytes, size_t count);

/* -- y4m, reading and writing ---------------------------------------------------------------------------------- */

/* The line that is written before each frame. */
#define Y4M_FRAME_LINE "FRAME\n"

enum { Y4M_HEADER = 128 }; /* bytes of the longest header that is written */

/* True if y4m can carry the format: gray and yuv420p. */
bool y4m_carries(const struct frame_format *format);
/* Checks a header line (without newline) against the format, and gets the rate and the look. Parameters that cannot be read are
 * ignored. */
bool y4m_check_header(const char *line, size_t length, const struct frame_format *format, struct frame_rate *rate,
                      struct y4m_look *look, char problem[PROTOCOL_PROBLEM]);
/* Writes the header of a stream with its newline; returns its length. Unknown values: 25 frames a second, progressive, square
 * samples, chroma as in JPEG. */
size_t y4m_write_header(const struct frame_format *format, const struct frame_rate *rate, const struct y4m_look *look,
                        char line[Y4M_HEADER]);
/* Checks the indexes of a look that another process left. */
bool y4m_look_is_sound(const struct y4m_look *look);
/* The exact ratio for a number of frames a second: 29.97 is 30000 in 1001 seconds. 0: unknown. */
struct frame_rate y4m_rate_of(double frames_a_second);

#endif
