/* A connection to a camera: opening, reading, silence, time stamps. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/camera/avlog.h"
#include "tools/camera/clock.h"
#include "tools/camera/source.h"

#define OPEN_WAIT    (10 * CLOCK_S) /* for a connection, a description and the first packet */
#define CLOSE_WAIT   (CLOCK_S / 2)  /* for a farewell */
#define HLS_WAIT     (30 * CLOCK_S) /* segments of HLS come whole, up to 10 s apart */
#define PULSE        (100 * CLOCK_MS)
#define JUMP         (5 * CLOCK_S)  /* by which time stamps and arrivals differ suddenly */
#define LONGEST_STEP (60 * CLOCK_S) /* between two time stamps, to count as an interval */

enum { SILENT_FRAMES = 5, RTP_PAYLOAD = 1400 /* usual bytes */ };

/* -- the beginning ----------------------------------------------------------------------------------------------------- */

/* Returns 0 if libavformat may continue. */
static int interrupt(void *context) {
  struct source *source = context;
  bool goes_on = source->pulse(source->owner) || source->closing;
  return goes_on && clock_now() < source->deadline ? 0 : 1;
}

/* libavformat does not tell a name that is not found from other failures. */
static bool look_up(const struct address *address, struct reason *reason) {
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
  struct addrinfo *found = NULL;
  int error = address->host[0] ? getaddrinfo(address->host, address->port, &hints, &found) : 0;
  if (found) {
    freeaddrinfo(found);
  }
  return error == 0 || reason_set_lookup(reason, error, address);
}

static const char demuxers[] =
    "rtsp,sdp,rtp,mpjpeg,hls,applehttp,mpegts,mov,mp4,matroska,webm,flv,avi,h264,hevc,mjpeg,aac,webvtt";

static AVDictionary *options_of(const struct settings *settings) {
  AVDictionary *options = NULL;
  const struct address *address = &settings->address;
  av_dict_set(&options, "protocol_whitelist", address->protocols, 0);
  av_dict_set(&options, "format_whitelist", demuxers, 0);
  if (address->kind == ADDRESS_RTSP) {
    av_dict_set(&options, "rtsp_transport", settings->udp ? "udp" : "tcp", 0);
    av_dict_set(&options, "allowed_media_types", "video", 0);
    av_dict_set(&options, "reorder_queue_size", settings->udp ? "500" : "2", 0); /* without a queue no loss is noticed */
    av_dict_set(&options, "max_delay", "100000", 0);                             /* us to wait for a packet out of order */
    av_dict_set(&options, "buffer_size", "1048576", 0);
  }
  if (address->kind == ADDRESS_RTSP || address->kind == ADDRESS_HTTP) {
    av_dict_set(&options, "user_agent", "framed-camera", 0);
  }
  return options;
}

static bool fail(const struct source *source, int error, struct reason *reason) {
  bool overdue = error == AVERROR_EXIT || error == AVERROR(EAGAIN);
  reason_set_error(reason, error, avlog_take_status(), !source->opened, &source->settings->address);
  if (source->opened && overdue) {
    int64_t interval = source_interval(source);
    double seconds = (double)(clock_now() - source->returned) / (double)CLOCK_S;
    return reason_set(reason, REASON_SILENT,
                      "nothing came from the camera for %.1f s, %.1f times the time between its pictures", seconds,
                      interval > 0 ? seconds * (double)CLOCK_S / (double)interval : 0);
  }
  return false;
}

static bool is_format(const struct source *source, const char *name) {
  return source->format && strcmp(source->format->iformat->name, name) == 0;
}

const AVCodecParameters *source_codec(const struct source *source) {
  return source->format ? source->format->streams[source->stream]->codecpar : source->v4l2.codec;
}

/* Takes the first video. Others, and sound, are not asked for any more. */
static void choose_stream(struct source *source) {
  for (unsigned i = 0; i < source->format->nb_streams; i++) {
    AVStream *stream = source->format->streams[i];
    bool is_video = stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !(stream->disposition & AV_DISPOSITION_ATTACHED_PIC);
    if (source->stream < 0 && is_video) {
      source->stream = (int)i;
    }
    bool is_known = stream->codecpar->codec_type != AVMEDIA_TYPE_UNKNOWN;
    stream->discard = (int)i == source->stream || !is_known ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  }
}

/* RTSP names its streams before the first packet. Pictures of some codecs are put together here and not by libavformat. */
static bool begin_rtsp(struct source *source, struct reason *reason) {
  choose_stream(source);
  if (source->stream < 0 || !assembly_knows(source_codec(source)->codec_id)) {
    return true;
  }
  source->format->flags |= AVFMT_FLAG_NOPARSE | AVFMT_FLAG_NOFILLIN;
  return assembly_open(&source->assembly, source_codec(source)) ||
         reason_set(reason, REASON_CODEC, "no memory for packets of %s", source->settings->address.name);
}

bool source_open(struct source *source, const struct settings *settings, bool (*pulse)(void *owner), void *owner,
                 struct reason *reason) {
  *source = (struct source){.settings = settings, .pulse = pulse, .owner = owner, .stream = -1, .v4l2 = {.fd = -1}};
  (void)avlog_take_status();
  if (!look_up(&settings->address, reason)) {
    return false;
  }
  source->deadline = clock_now() + OPEN_WAIT;
  source->packet = av_packet_alloc();
  if (source->packet && settings->address.kind == ADDRESS_V4L2) {
    source->stream = 0;
    source->returned = clock_now();
    return v4l2_open(&source->v4l2, settings, reason);
  }
  source->format = avformat_alloc_context();
  if (!source->packet || !source->format) {
    return reason_set(reason, REASON_ENDED, "no memory for a connection");
  }
  source->format->interrupt_callback = (AVIOInterruptCB){.callback = interrupt, .opaque = source};
  AVDictionary *options = options_of(settings);
  int error = avformat_open_input(&source->format, settings->address.url, NULL, &options);
  av_dict_free(&options);
  if (error < 0) {
    return fail(source, error, reason);
  }
  source->returned = clock_now();
  source->deadline = source->returned + OPEN_WAIT;
  return !is_format(source, "rtsp") || begin_rtsp(source, reason);
}

/* -- packets ------------------------------------------------------------------------------------------------------------ */

static bool is_hls(const struct source *source) { return is_format(source, "hls") || is_format(source, "hls,applehttp"); }

int64_t source_interval(const struct source *source) {
  return source->stamped > source->waited ? source->stamped : source->waited;
}

static int64_t average(int64_t before, int64_t step) { return before == 0 ? step : (7 * before + step) / 8; }

/* By when the next packet must be there: 5 frames of the stream's own interval. */
static int64_t patience(const struct source *source) {
  int64_t own = SILENT_FRAMES * source_interval(source);
  int64_t least = is_hls(source) ? HLS_WAIT : source->settings->silence;
  return source->count < SILENT_FRAMES ? OPEN_WAIT : own > least ? own : least;
}

/* Takes the wall-clock time of the packet, which libavformat computes from the sender reports of RTCP. */
static void take_wall(struct source *source, int64_t now) {
  source->has_wall = false;
  for (int i = 0; i < source->packet->side_data_elems; i++) {
    const AVPacketSideData *data = &source->packet->side_data[i];
    if (data->type == AV_PKT_DATA_PRFT && (size_t)data->size >= sizeof(AVProducerReferenceTime)) {
      AVProducerReferenceTime time;
      memcpy(&time, data->data, sizeof time);
      source->has_wall = true;
      source->wall_offset = time.wallclock * 1000 - (clock_wall() - (now - source->arrival));
    }
  }
}

/*
 * A stream that comes more slowly than it was recorded waits somewhere, and pictures get older and older. The least offset may
 * rise by a twentieth of the time, since the clocks of cameras are no better than that.
 */
static void measure_lag(struct source *source, int64_t now, int64_t at) {
  int64_t offset = now - at, raised = source->offset + (now - source->returned) / 20;
  source->offset = !source->has_pts || offset < raised ? offset : raised;
  bool is_even = is_format(source, "rtsp") || is_format(source, "mpegts"); /* HLS has bursts, MJPEG invents its stamps */
  source->lag = is_even ? offset - source->offset : 0;
}

static void take_stamp(struct source *source, int64_t now) {
  const AVRational ns = {1, 1000000000};
  const AVPacket *packet = source->packet;
  int64_t stamp = packet->dts != AV_NOPTS_VALUE ? packet->dts : packet->pts;
  if (stamp == AV_NOPTS_VALUE) {
    return;
  }
  int64_t at = av_rescale_q(stamp, source->format->streams[source->stream]->time_base, ns);
  int64_t step = at - source->last_pts, waited = now - source->returned;
  bool is_live = source->settings->address.kind != ADDRESS_FILE && !is_hls(source);
  if (source->has_pts && is_live && (step < -JUMP || step - waited > JUMP)) {
    source->jumped = now;
    source->jump = (double)step / (double)CLOCK_S;
    source->has_pts = false;
  } else if (source->has_pts && step > 0 && step < LONGEST_STEP) {
    source->stamped = average(source->stamped, step);
  }
  measure_lag(source, now, at);
  source->last_pts = at;
  source->has_pts = true;
}

/*
 * MPEG-TS does not say where a picture ends, so that libavformat returns one when the next one begins. The return before was
 * the time at which this one began.
 */
static bool comes_late(const struct source *source) {
  return source->count > 0 && is_format(source, "mpegts") && assembly_knows(source_codec(source)->codec_id);
}

/* `arrival`: of the picture's first bytes, 0 if it is not known. */
static void note_packet(struct source *source, int64_t arrival) {
  int64_t now = clock_now();
  source->arrival = arrival != 0 ? arrival : comes_late(source) ? source->returned : now;
  take_wall(source, now);
  take_stamp(source, now);
  if (source->count > 0) {
    source->waited = average(source->waited, now - source->returned);
  }
  source->count += source->count < SILENT_FRAMES;
  source->returned = now;
  source->bytes += (uint64_t)source->packet->size;
  source->packets += (uint64_t)source->packet->size / RTP_PAYLOAD + 1;
}

static bool read_device(struct source *source, struct reason *reason) {
  struct pollfd ready = {.fd = source->v4l2.fd, .events = POLLIN};
  int64_t captured = 0;
  source->opened = true;
  av_packet_unref(source->packet);
  int taken = v4l2_take(&source->v4l2, source->packet, &captured);
  while (taken == 0 && !interrupt(source)) {
    (void)poll(&ready, 1, (int)(PULSE / CLOCK_MS));
    (void)poll(NULL, 0, ready.revents & (POLLERR | POLLHUP) ? (int)(PULSE / CLOCK_MS) : 0);
    taken = v4l2_take(&source->v4l2, source->packet, &captured);
  }
  if (taken <= 0) {
    return fail(source, taken == 0 ? AVERROR_EXIT : taken, reason);
  }
  note_packet(source, captured);
  return true;
}

/* Whether the packet is a picture, or completes one, which takes its place. */
static bool is_picture(struct source *source, int64_t *arrival) {
  return source->packet->stream_index == source->stream &&
         (!source->assembly.unit || assembly_put(&source->assembly, source->packet, clock_now(), arrival));
}

static bool fail_to_read(struct source *source, int error, struct reason *reason) {
  source->opened = true;
  if (source->stream < 0 && (error == AVERROR_EOF || error == AVERROR_EXIT)) {
    return reason_set(reason, REASON_CODEC, "%s sends no video", source->settings->address.name);
  }
  return fail(source, error, reason);
}

static bool read_stream(struct source *source, struct reason *reason) {
  int64_t arrival = 0;
  bool there = source->assembly.complete && assembly_take(&source->assembly, source->packet, &arrival);
  while (!there) {
    av_packet_unref(source->packet);
    int error = av_read_frame(source->format, source->packet);
    error = error >= 0 || error == AVERROR(EAGAIN) ? (interrupt(source) ? AVERROR_EXIT : error) : error;
    if (error < 0 && error != AVERROR(EAGAIN)) {
      return fail_to_read(source, error, reason);
    }
    if (error >= 0 && source->stream < 0) {
      choose_stream(source);
    }
    there = error >= 0 && is_picture(source, &arrival);
  }
  source->opened = true;
  note_packet(source, arrival);
  return true;
}

bool source_read(struct source *source, struct reason *reason) {
  source->deadline = clock_now() + patience(source);
  return source->format ? read_stream(source, reason) : read_device(source, reason);
}

void source_close(struct source *source) {
  source->closing = true;
  source->deadline = clock_now() + CLOSE_WAIT;
  avformat_close_input(&source->format);
  v4l2_close(&source->v4l2);
  assembly_close(&source->assembly);
  av_packet_free(&source->packet);
}
