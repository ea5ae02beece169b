/* One decoder for one connection. Bytes of strangers are parsed here: sizes are limited before memory is taken. */
#include <string.h>

#include "tools/camera/clock.h"
#include "tools/camera/decoder.h"

#define KEY_FRAME_WARNING (5 * CLOCK_S)
#define KEY_FRAME_WAIT    (30 * CLOCK_S) /* cameras with "smart" codecs send one in 10 s and more */
#define PICTURE_WAIT      (10 * CLOCK_S)

enum { MOST_PENDING = 20 };         /* packets without a picture: more than any order of B-frames needs */
enum { MOST_PIXELS = 4096 * 4096 }; /* the largest cameras have 16 million */

/* Decoders that cameras need. Hundreds of rarer ones in libavcodec are less tested, and a stranger chooses the codec. */
static bool is_allowed(enum AVCodecID id) {
  static const enum AVCodecID allowed[] = {AV_CODEC_ID_H264,       AV_CODEC_ID_HEVC,  AV_CODEC_ID_MJPEG,
                                           AV_CODEC_ID_AV1,        AV_CODEC_ID_VP8,   AV_CODEC_ID_VP9,
                                           AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_MPEG4, AV_CODEC_ID_RAWVIDEO};
  for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
    if (allowed[i] == id) {
      return true;
    }
  }
  return false;
}

bool decoder_open(struct decoder *decoder, const AVCodecParameters *codec, struct reason *reason) {
  *decoder = (struct decoder){.begun = clock_now()};
  const AVCodec *found = is_allowed(codec->codec_id) ? avcodec_find_decoder(codec->codec_id) : NULL;
  if (!found) {
    return reason_set(reason, REASON_CODEC, "the camera sends %s, which is not decoded here: set it to H.264, H.265 or MJPEG",
                      codec->codec_id == AV_CODEC_ID_NONE ? "an unknown codec" : avcodec_get_name(codec->codec_id));
  }
  decoder->context = avcodec_alloc_context3(found);
  decoder->frame = av_frame_alloc();
  if (!decoder->context || !decoder->frame || avcodec_parameters_to_context(decoder->context, codec) < 0) {
    return reason_set(reason, REASON_CODEC, "no memory for a decoder of %s", avcodec_get_name(codec->codec_id));
  }
  decoder->context->thread_count = 1; /* one camera uses one core at most */
  decoder->context->max_pixels = MOST_PIXELS;
  if (avcodec_open2(decoder->context, found, NULL) < 0) {
    return reason_set(reason, REASON_CODEC, "the camera sends %s with parameters that cannot be decoded",
                      avcodec_get_name(codec->codec_id));
  }
  return true;
}

void decoder_close(struct decoder *decoder) {
  avcodec_free_context(&decoder->context);
  av_frame_free(&decoder->frame);
}

void decoder_put(struct decoder *decoder, AVPacket *packet, int64_t arrival) {
  if (packet) {
    decoder->has_key |= (packet->flags & AV_PKT_FLAG_KEY) != 0;
    if (!decoder->has_key) {
      return;
    }
    decoder->pending++;
    packet->pts = arrival; /* pictures bring it back, in whatever order they come */
    packet->dts = AV_NOPTS_VALUE;
  }
  if (avcodec_send_packet(decoder->context, packet) < 0 && packet) {
    decoder->damaged++;
  }
}

static bool is_whole(const AVFrame *frame) {
  return !(frame->flags & AV_FRAME_FLAG_CORRUPT) && frame->decode_error_flags == 0 && frame->width > 0 && frame->height > 0;
}

bool decoder_get(struct decoder *decoder) {
  while (avcodec_receive_frame(decoder->context, decoder->frame) >= 0) {
    if (is_whole(decoder->frame)) {
      decoder->decoded = clock_now();
      decoder->pending = 0;
      return true;
    }
    decoder->damaged++;
  }
  return false;
}

bool decoder_is_stuck(const struct decoder *decoder, int64_t now, bool *give_up, struct reason *reason) {
  int64_t waited = now - (decoder->decoded ? decoder->decoded : decoder->begun);
  bool is_slow = decoder->has_key && decoder->pending <= MOST_PENDING; /* a picture a minute is fine */
  *give_up = waited >= KEY_FRAME_WAIT && !is_slow;
  if (!decoder->has_key && waited >= KEY_FRAME_WARNING) {
    reason_set(reason, REASON_KEY_FRAME,
               "no key frame for %d s: shorten the key frame interval (GOP, I-frame interval) in the camera",
               (int)(waited / CLOCK_S));
    return true;
  }
  if (decoder->has_key && waited >= PICTURE_WAIT && !is_slow) {
    reason_set(reason, REASON_CODEC, "no picture could be decoded for %d s, though packets of %s come: restart the camera",
               (int)(waited / CLOCK_S), avcodec_get_name(decoder->context->codec_id));
    return true;
  }
  return false;
}
