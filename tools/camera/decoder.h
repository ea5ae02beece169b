/* Packets to pictures, by libavcodec on the processor. */
#ifndef FRAMED_TOOLS_CAMERA_DECODER_H
#define FRAMED_TOOLS_CAMERA_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>

#include "tools/camera/reason.h"

struct decoder {
  AVCodecContext *context;
  AVFrame *frame;   /* the last picture, until the next call */
  bool has_key;     /* a key frame has come; before it packets are left out */
  int64_t begun;    /* when the first packet came, CLOCK_MONOTONIC */
  int64_t decoded;  /* when the last picture was decoded; 0: none was */
  unsigned pending; /* packets since then */
  uint64_t damaged; /* packets and pictures that were left out as damaged */
};

/* decoder_close() is due also after failure. */
bool decoder_open(struct decoder *decoder, const AVCodecParameters *codec, struct reason *reason);
void decoder_close(struct decoder *decoder);

/* Takes a packet that arrived at `arrival`; NULL: the end, all pictures that are still inside come out. */
void decoder_put(struct decoder *decoder, AVPacket *packet, int64_t arrival);

/* The next whole picture in `frame`, whose pts is the arrival of its packet. False: none for now. */
bool decoder_get(struct decoder *decoder);

/* Whether pictures fail to come for so long that it is a problem; `give_up`: another connection may help. */
bool decoder_is_stuck(const struct decoder *decoder, int64_t now, bool *give_up, struct reason *reason);

#endif
