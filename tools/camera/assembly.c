/* Access units of H.264 and H.265 from the packets that libavformat makes of RTP, one for each packet of the network. */
#include <string.h>

#include "tools/camera/assembly.h"

enum {
  START = 4,         /* bytes of a start code, which libavformat puts before each NAL unit */
  FRAGMENT_HEAD = 2, /* bytes of RTP that the packet of a fragment lacks, about */
  SLACK = 4,         /* a packet that lacks more than this is not full */
  PROOF = 25,        /* right guesses that make the guess reliable */
  MOST_PROOF = 100000,
  MOST_UNIT = 16 << 20 /* bytes of a picture; a stream without ends would take all memory */
};

bool assembly_knows(enum AVCodecID codec) { return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC; }

bool assembly_open(struct assembly *assembly, const AVCodecParameters *codec) {
  *assembly = (struct assembly){.codec = codec->codec_id, .done_pts = AV_NOPTS_VALUE, .needed = PROOF};
  assembly->unit = av_packet_alloc();
  assembly->waiting = av_packet_alloc();
  assembly->parser = av_parser_init((int)codec->codec_id);
  assembly->context = avcodec_alloc_context3(NULL);
  if (!assembly->unit || !assembly->waiting || !assembly->parser || !assembly->context ||
      avcodec_parameters_to_context(assembly->context, codec) < 0) {
    return false;
  }
  assembly->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
  return true;
}

void assembly_close(struct assembly *assembly) {
  av_packet_free(&assembly->unit);
  av_packet_free(&assembly->waiting);
  av_parser_close(assembly->parser);
  avcodec_free_context(&assembly->context);
  assembly->parser = NULL;
}

/* -- what is in a packet -------------------------------------------------------------------------------------------------- */

static bool begins_unit(const uint8_t *at, const uint8_t *end) {
  return end - at > START && at[0] == 0 && at[1] == 0 && at[2] == 0 && at[3] == 1;
}

/* Counts the slices that begin in the packet. Payload has no start code: an encoder escapes them. */
static void count_slices(struct assembly *assembly, const AVPacket *packet) {
  const uint8_t *end = packet->data + packet->size;
  for (const uint8_t *at = packet->data; (at = memchr(at, 0, (size_t)(end - at))); at++) {
    if (!begins_unit(at, end)) {
      continue;
    }
    unsigned type = assembly->codec == AV_CODEC_ID_H264 ? at[START] & 0x1fU : at[START] >> 1 & 0x3fU;
    bool is_key = assembly->codec == AV_CODEC_ID_H264 ? type == 5 : type >= 16 && type <= 23;
    bool is_slice = assembly->codec == AV_CODEC_ID_H264 ? type >= 1 && type <= 5 : type < 32;
    assembly->slices += is_slice;
    assembly->is_key |= is_key;
  }
}

/* About the bytes that the packet had on the network. */
static size_t network_size(const AVPacket *packet) {
  bool begins = begins_unit(packet->data, packet->data + packet->size);
  return begins ? (size_t)packet->size - START + 1 : (size_t)packet->size + FRAGMENT_HEAD;
}

/* -- the guess ------------------------------------------------------------------------------------------------------------ */

static bool looks_complete(const struct assembly *assembly, size_t size) {
  unsigned usual = assembly->most[assembly->is_key];
  return usual > 0 && assembly->slices >= usual && size + SLACK < assembly->largest;
}

static void note_wrong(struct assembly *assembly) {
  assembly->right = 0;
  assembly->needed = assembly->needed < MOST_PROOF ? assembly->needed * 4 : MOST_PROOF;
}

/* The unit has ended for certain, since the next one begins. */
static void learn(struct assembly *assembly) {
  unsigned *most = &assembly->most[assembly->is_key];
  *most = assembly->slices > *most ? assembly->slices : *most;
  assembly->right += assembly->guessed && assembly->right < MOST_PROOF;
}

/* -- putting together ----------------------------------------------------------------------------------------------------- */

static bool append(AVPacket *unit, const AVPacket *packet) {
  int before = unit->size;
  if (before == 0) {
    return av_packet_ref(unit, packet) >= 0;
  }
  if (before > MOST_UNIT - packet->size || av_grow_packet(unit, packet->size) < 0) {
    return false;
  }
  memcpy(unit->data + before, packet->data, (size_t)packet->size);
  return true;
}

/* Adds a packet to the unit. True: it completes the unit, as a reliable guess says. */
static bool add(struct assembly *assembly, const AVPacket *packet, int64_t now) {
  if (assembly->unit->size == 0) {
    assembly->arrival = now;
    assembly->slices = 0;
    assembly->is_key = assembly->guessed = false;
  }
  if (assembly->guessed) { /* a packet behind the guessed end */
    note_wrong(assembly);
  }
  if (!append(assembly->unit, packet)) {
    av_packet_unref(assembly->unit);
    return false;
  }
  size_t size = network_size(packet);
  count_slices(assembly, packet);
  assembly->guessed = looks_complete(assembly, size);
  assembly->largest = size > assembly->largest ? size : assembly->largest;
  return assembly->guessed && assembly->right >= assembly->needed;
}

static void mark_key_frame(struct assembly *assembly, AVPacket *packet) {
  uint8_t *whole;
  int size;
  (void)av_parser_parse2(assembly->parser, assembly->context, &whole, &size, packet->data, packet->size, AV_NOPTS_VALUE,
                         AV_NOPTS_VALUE, 0);
  bool is_key = assembly->is_key || assembly->parser->key_frame == 1;
  packet->flags = is_key ? packet->flags | AV_PKT_FLAG_KEY : packet->flags & ~AV_PKT_FLAG_KEY;
}

static void give(struct assembly *assembly, AVPacket *packet, int64_t *arrival) {
  av_packet_unref(packet);
  av_packet_move_ref(packet, assembly->unit);
  mark_key_frame(assembly, packet);
  *arrival = assembly->arrival;
  assembly->complete = false;
}

bool assembly_take(struct assembly *assembly, AVPacket *packet, int64_t *arrival) {
  if (!assembly->complete) {
    return false;
  }
  assembly->done_pts = assembly->unit->pts;
  assembly->right += assembly->right < MOST_PROOF;
  give(assembly, packet, arrival);
  return true;
}

bool assembly_put(struct assembly *assembly, AVPacket *packet, int64_t now, int64_t *arrival) {
  if (packet->pts != AV_NOPTS_VALUE && packet->pts == assembly->done_pts) { /* a packet behind a returned picture */
    note_wrong(assembly);
  }
  if (assembly->unit->size > 0 && packet->pts != assembly->unit->pts) {
    learn(assembly);
    av_packet_unref(assembly->waiting);
    av_packet_move_ref(assembly->waiting, packet);
    give(assembly, packet, arrival);
    assembly->complete = add(assembly, assembly->waiting, now);
    av_packet_unref(assembly->waiting);
    return true;
  }
  assembly->complete = add(assembly, packet, now);
  av_packet_unref(packet);
  return assembly_take(assembly, packet, arrival);
}
