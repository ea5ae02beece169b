/*
 * The main loop. One connection after the other: open, then packets to pictures to frames until something fails, then a pause.
 *
 * Everything happens on one thread. Where libavformat waits, it calls pulse(), which keeps up the rest: the daemon's end is
 * noticed, the connection for frames moves, and the report of each second is sent.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/camera/avlog.h"
#include "tools/camera/camera.h"
#include "tools/camera/clock.h"
#include "tools/camera/decoder.h"
#include "tools/camera/output.h"
#include "tools/camera/picture.h"
#include "tools/camera/report.h"
#include "tools/camera/source.h"

#define FIRST_PAUSE   (CLOCK_S * 2 / 3) /* 0.5 s with the least jitter */
#define LONGEST_PAUSE (24 * CLOCK_S)    /* 30 s with the most */
#define STEADY        (10 * CLOCK_S)    /* a stream that ran for so long is tried again at once */
#define JUMP_SHOWN    (10 * CLOCK_S)    /* how long a report names a jump of the time stamps */
#define TURN          (100 * CLOCK_MS)
#define SEND_WAIT     (20 * CLOCK_MS) /* for a frame on its way; less than the time between pictures */
#define MOST_LOSS     0.01
#define MOST_LAG      (2 * CLOCK_S)
#define MOST_OFFSET   5.0 /* seconds between the clocks, beyond which the camera's is wrong */

enum { STUCK_S = 60, FEW_PICTURES = 5 /* too few to know a rate */ };

struct camera {
  const struct settings *settings;
  struct report report;
  struct output output;
  struct picture picture;
  struct source source;
  struct decoder decoder;
  bool over;         /* the daemon has ended this process's work, */
  bool failed;       /* or the connection for frames */
  int64_t reported;  /* when the last report was sent */
  int64_t connected; /* when the first picture of this connection came; 0: none has */
  unsigned failures; /* one after the other, since the last steady stream */
  uint64_t damaged;  /* pictures, of the connections before */
  struct {
    int64_t since;
    uint64_t pictures, bytes;
  } second; /* what the rates are measured over */
  uint64_t pictures;
  struct {
    int64_t since;
    uint64_t packets, missed;
    double share;
  } loss;
};

/* -- other duties ------------ ----------------------------------------------------------------------------------------- */

static void say_stuck(int signal) {
  static const char text[] = "{\"state\":\"waiting\",\"token\":\"camera.silent\",\"text\":\"a decoder or a name server held "
                             "framed-camera for a minute: it is started again\"}";
  (void)signal;
  (void)send(CAMERA_CONTROL, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  _exit(EXIT_FAILURE);
}

void camera_alive(void) {
  signal(SIGALRM, say_stuck);
  alarm(STUCK_S);
}

/* After a reload another pipeline takes the frames, on a connection of its own. The daemon sends it before it closes the old
 * one.
 */
static void change_output(struct camera *camera, int fd) {
  char text[REASON_TEXT];
  struct reason reason;
  if (!output_change(&camera->output, fd, camera->picture.bytes, text, sizeof text)) {
    camera->failed = true;
    reason_set(&reason, REASON_ENDED, "%s", text);
    camera_refuse(&reason);
  }
}

/* Reads what the daemon sends after the start message. Returns false at the end of the control socket. */
static bool read_control(struct camera *camera, int timeout_ms) {
  struct pollfd control = {.fd = CAMERA_CONTROL, .events = POLLIN};
  char text[64];
  _Alignas(struct cmsghdr) unsigned char room[CMSG_SPACE(sizeof(int))];
  struct iovec vector = {.iov_base = text, .iov_len = sizeof text};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  if (poll(&control, 1, timeout_ms) <= 0 || control.revents == 0) {
    return true;
  }
  ssize_t got = recvmsg(CAMERA_CONTROL, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    change_output(camera, fd);
  }
  return got > 0;
}

/* Moves bytes of frames. An end of the connection counts only if the daemon has not sent another connection. */
static void move_output(struct camera *camera, int64_t ns) {
  if (!output_turn(&camera->output, ns)) {
    camera->over |= !read_control(camera, 0);
    camera->failed |= !output_turn(&camera->output, 0);
  }
}

static void send_report(struct camera *camera) {
  camera->reported = clock_now();
  camera->report.frames = camera->output.frames;
  camera->report.dropped = camera->output.dropped;
  camera->report.lost = camera->damaged + camera->decoder.damaged + avlog_missed();
  report_send(&camera->report, CAMERA_CONTROL);
}

static void change_state(struct camera *camera, enum report_state state, const struct reason *reason) {
  camera->report.state = state;
  camera->report.reason = reason ? *reason : (struct reason){.token = REASON_NONE};
  send_report(camera);
}

static void measure(struct camera *camera, int64_t now);
static void judge(struct camera *camera, int64_t now);

static bool turn(struct camera *camera, int timeout_ms) {
  alarm(STUCK_S);
  camera->over |= !read_control(camera, timeout_ms);
  move_output(camera, 0);
  int64_t now = clock_now();
  if (now - camera->reported >= CLOCK_S) {
    measure(camera, now);
    judge(camera, now);
    send_report(camera);
  }
  return !camera->over && !camera->failed;
}

static bool pulse(void *owner) { return turn(owner, 0); }

/* -- figures and judgement ----------------------------------------------------------------------------------------------- */

static void measure(struct camera *camera, int64_t now) {
  double seconds = (double)(now - camera->second.since) / (double)CLOCK_S;
  uint64_t pictures = camera->pictures - camera->second.pictures;
  if (!camera->connected || seconds < 1 || (pictures < FEW_PICTURES && seconds < 10)) {
    return;
  }
  double rate = (double)pictures / seconds;
  double bitrate = 8 * (double)(camera->source.bytes - camera->second.bytes) / seconds;
  bool first = camera->report.rate == 0;
  camera->report.rate = first ? rate : (camera->report.rate + rate) / 2;
  camera->report.bitrate = first ? bitrate : (camera->report.bitrate + bitrate) / 2;
  camera->second.since = now;
  camera->second.pictures = camera->pictures;
  camera->second.bytes = camera->source.bytes;
}

/* Each second counts a quarter, so that reports name a burst for some seconds. */
static void measure_loss(struct camera *camera, int64_t now) {
  uint64_t missed_in_all = avlog_missed();
  if (now - camera->loss.since < CLOCK_S) {
    return;
  }
  double missed = (double)(missed_in_all - camera->loss.missed), got = (double)(camera->source.packets - camera->loss.packets);
  double share = missed > 0 ? missed / (missed + got) : 0;
  camera->loss.share = (3 * camera->loss.share + share) / 4;
  camera->loss.since = now;
  camera->loss.missed = missed_in_all;
  camera->loss.packets = camera->source.packets;
}

/* Looks for a problem of a stream that runs; the gravest comes first. */
static void judge(struct camera *camera, int64_t now) {
  const struct source *source = &camera->source;
  double ahead = source->has_wall ? (double)source->wall_offset / (double)CLOCK_S : 0;
  struct reason reason = {.token = REASON_NONE};
  bool give_up;
  if (camera->report.state == REPORT_WAITING || !camera->decoder.context) {
    return;
  }
  measure_loss(camera, now);
  camera->report.clock_ahead = ahead;
  camera->report.has_wall = source->has_wall && ahead < MOST_OFFSET && ahead > -MOST_OFFSET;
  if (decoder_is_stuck(&camera->decoder, now, &give_up, &reason)) {
    camera->report.reason = reason;
    return;
  }
  if (camera->loss.share > MOST_LOSS) {
    reason_set(&reason, REASON_LOSS, "about %.0f %% of the camera's packets are lost: check the network%s",
               100 * camera->loss.share, camera->settings->udp ? ", or take transport tcp" : "");
  } else if (source->lag > MOST_LAG && camera->settings->address.kind != ADDRESS_FILE) {
    reason_set(
        &reason, REASON_SLOW,
        "pictures come %.0f s late: the network or this processor is too slow for the stream; take the camera's second one",
        (double)source->lag / (double)CLOCK_S);
  } else if (source->has_wall && !camera->report.has_wall) {
    reason_set(&reason, REASON_CLOCK, "the camera's clock is %.0f s %s this machine's: set a time server (NTP) in the camera",
               ahead > 0 ? ahead : -ahead, ahead > 0 ? "ahead of" : "behind");
  } else if (source->jumped != 0 && now - source->jumped < JUMP_SHOWN) {
    reason_set(&reason, REASON_CLOCK, "the camera's time stamps jumped by %.0f s: set a time server (NTP) in the camera",
               source->jump);
  }
  camera->report.reason = reason;
}

/* -- pictures ------------------------------------------------------------------------------------------------------------ */

static void note_first(struct camera *camera) {
  int64_t now = clock_now();
  camera->connected = now;
  camera->second.since = now;
  camera->second.pictures = camera->pictures;
  camera->second.bytes = camera->source.bytes;
}

/* A file waits for the pipeline; a camera never does. */
static void *find_room(struct camera *camera) {
  void *frame = output_acquire(&camera->output);
  while (!frame && camera->settings->address.kind == ADDRESS_FILE && turn(camera, 0)) {
    frame = output_wait(&camera->output, TURN) ? output_acquire(&camera->output) : NULL;
  }
  return frame;
}

static bool deliver(struct camera *camera, struct reason *reason) {
  const AVFrame *from = camera->decoder.frame;
  void *frame = find_room(camera);
  camera->pictures++;
  if (!camera->connected) {
    note_first(camera);
  }
  if (!frame) {
    output_drop(&camera->output);
  } else if (!picture_write(&camera->picture, from, frame)) {
    output_cancel(&camera->output, frame);
    return reason_set(reason, REASON_CODEC, "pictures of %dx%d in the camera's pixel format cannot be converted here",
                      from->width, from->height);
  } else {
    output_submit(&camera->output, frame, from->pts > 0 ? from->pts : camera->source.arrival);
    move_output(camera, SEND_WAIT);
  }
  bool changed = camera->report.width != (unsigned)from->width || camera->report.height != (unsigned)from->height;
  camera->report.width = (unsigned)from->width;
  camera->report.height = (unsigned)from->height;
  camera->report.fit = picture_fit(camera->report.width, camera->report.height, from->sample_aspect_ratio,
                                   camera->picture.width, camera->picture.height);
  if (camera->report.state != REPORT_RUNNING || changed) {
    change_state(camera, REPORT_RUNNING, NULL);
  }
  return true;
}

static bool decode(struct camera *camera, AVPacket *packet, struct reason *reason) {
  decoder_put(&camera->decoder, packet, camera->source.arrival);
  while (decoder_get(&camera->decoder)) {
    if (!deliver(camera, reason)) {
      return false;
    }
  }
  return true;
}

/* -- one connection ------------------------------------------------------------------------------------------------------ */

static bool begin_decoding(struct camera *camera, struct reason *reason) {
  const AVCodecParameters *codec = source_codec(&camera->source);
  camera->report.codec = avcodec_get_name(codec->codec_id);
  camera->loss.since = clock_now();
  camera->loss.missed = avlog_missed();
  camera->loss.share = 0;
  camera->loss.packets = camera->source.packets;
  return decoder_open(&camera->decoder, codec, reason);
}

/* Returns only with a reason, or when the program ends. */
static void stream(struct camera *camera, struct reason *reason) {
  bool good = source_open(&camera->source, camera->settings, pulse, camera, reason), give_up = false;
  while (good && turn(camera, 0)) {
    good = source_read(&camera->source, reason) && (camera->decoder.context || begin_decoding(camera, reason)) &&
           decode(camera, camera->source.packet, reason);
    if (good && decoder_is_stuck(&camera->decoder, clock_now(), &give_up, reason)) {
      good = !give_up;
    }
  }
  if (camera->settings->address.kind == ADDRESS_FILE && reason->token == REASON_ENDED && camera->decoder.context) {
    (void)decode(camera, NULL, reason);
  }
}

static void disconnect(struct camera *camera) {
  source_close(&camera->source);
  camera->damaged += camera->decoder.damaged;
  decoder_close(&camera->decoder);
  camera->decoder = (struct decoder){.context = NULL};
  camera->report.rate = camera->report.bitrate = 0;
}

/* -- pauses -------------------------------------------------------------------------------------------------------------- */

/* From 0.5 to 30 s, doubled each time, and up to a quarter more or less, so that cameras of one switch do not come at once. */
static int64_t pause_length(const struct camera *camera, enum reason_token token) {
  bool long_one = token == REASON_PASSWORD || token == REASON_URL; /* cameras lock users out, and a URL does not change */
  int64_t length = FIRST_PAUSE << (camera->failures < 6 ? camera->failures : 6);
  length = long_one || length > LONGEST_PAUSE ? LONGEST_PAUSE : length;
  uint32_t chance = UINT32_MAX / 2;
  (void)!getrandom(&chance, sizeof chance, GRND_NONBLOCK);
  return (int64_t)((double)length * (0.75 + 0.5 * (double)chance / (double)UINT32_MAX));
}

static void rest(struct camera *camera, const struct reason *reason) {
  int64_t now = clock_now();
  bool was_steady = camera->connected && now - camera->connected >= STEADY;
  bool is_done = camera->settings->address.kind == ADDRESS_FILE && reason->token == REASON_ENDED;
  camera->failures = was_steady ? 0 : camera->failures;
  int64_t until = is_done ? INT64_MAX : now + pause_length(camera, reason->token);
  camera->failures++;
  camera->report.retry = is_done ? 0 : (double)(until - now) / (double)CLOCK_S;
  change_state(camera, REPORT_WAITING, reason);
  for (; now < until && turn(camera, (int)(TURN / CLOCK_MS)); now = clock_now()) {
    camera->report.retry = is_done ? 0 : (double)(until - now) / (double)CLOCK_S;
  }
}

/* -- all of it ----------------------------------------------------------------------------------------------------------- */

void camera_refuse(const struct reason *reason) {
  const struct report report = {.state = REPORT_WAITING, .reason = *reason};
  report_send(&report, CAMERA_CONTROL);
}

static bool prepare(struct camera *camera) {
  struct reason reason;
  char text[REASON_TEXT];
  if (!picture_open(&camera->picture, camera->settings->width, camera->settings->height, camera->settings->pixels)) {
    reason_set(&reason, REASON_URL, "frames of this size are not possible");
  } else if (!output_open(&camera->output, CAMERA_FRAMES, camera->picture.bytes, text, sizeof text)) {
    reason_set(&reason, REASON_ENDED, "%s", text);
  } else {
    return true;
  }
  camera_refuse(&reason);
  return false;
}

int camera_run(const struct settings *settings) {
  struct camera camera = {.settings = settings};
  bool good = prepare(&camera);
  while (good && !camera.over && !camera.failed) {
    struct reason reason = {.token = REASON_NONE};
    camera.connected = 0;
    change_state(&camera, REPORT_CONNECTING, camera.failures > 0 ? &camera.report.reason : NULL);
    stream(&camera, &reason);
    disconnect(&camera);
    if (!camera.over && !camera.failed) {
      rest(&camera, &reason);
      camera.report.reconnects++;
    }
  }
  output_close(&camera.output);
  picture_close(&camera.picture);
  return camera.over ? EXIT_SUCCESS : EXIT_FAILURE;
}
