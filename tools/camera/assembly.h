/*
 * Packets of RTP to whole pictures of H.264 and H.265, at once where that is possible.
 *
 * libavformat does not hand on the mark by which RTP says that a picture is complete. Its parser waits until the next picture
 * begins, which costs 40 ms at 25 pictures a second. But cameras fill each packet of a picture except the last, and send the
 * same number of slices each time. So a picture is complete when its usual number of slices has come and the last packet is not
 * full.
 *
 * That is a guess, so it is proved first: it must have been right for a second of pictures. One that proves wrong damages one
 * picture; then pictures wait for the next one again, and the guess must be right for four times as long.
 */
#ifndef FRAMED_TOOLS_CAMERA_ASSEMBLY_H
#define FRAMED_TOOLS_CAMERA_ASSEMBLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>

struct assembly {
  enum AVCodecID codec;
  AVCodecParserContext *parser; /* knows key frames, also those that are none but from which decoding can begin */
  AVCodecContext *context;      /* the parser's */
  AVPacket *unit;               /* the picture that is being put together */
  AVPacket *waiting;            /* the first packet of the next one */
  int64_t arrival;              /* of the unit's first packet, CLOCK_MONOTONIC */
  int64_t waiting_arrival;
  int64_t done_pts; /* of the picture that was returned before the next one began */
  size_t largest;   /* packet so far, as bytes of RTP */
  unsigned slices;  /* of the unit */
  unsigned most[2]; /* slices of one picture so far: others, key frames */
  bool is_key;
  bool complete;   /* the unit is, by a reliable guess */
  bool guessed;    /* the unit was complete by the guess when its last packet came */
  unsigned right;  /* guesses in a row */
  unsigned needed; /* so many make it reliable */
};

/* assembly_close() is due also after failure. */
bool assembly_open(struct assembly *assembly, const AVCodecParameters *codec);
void assembly_close(struct assembly *assembly);

/* Whether packets of this codec are put together here. */
bool assembly_knows(enum AVCodecID codec);

/*
 * Takes the content of `packet`, which arrived at `now`. True: `packet` is now a whole picture, and `arrival` is when its first
 * packet came. False: more packets are needed, and `packet` is empty.
 */
bool assembly_put(struct assembly *assembly, AVPacket *packet, int64_t now, int64_t *arrival);

/* Takes another picture that is complete, before the next packet is read. */
bool assembly_take(struct assembly *assembly, AVPacket *packet, int64_t *arrival);

#endif
