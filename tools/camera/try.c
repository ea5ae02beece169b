/*
 * `framed-camera --try` shows what one camera sends. It reads the start message from standard input, without a size of frames.
 * It writes one line of JSON and, if there is a picture, the first one as rgb24 to standard output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/camera/avlog.h"
#include "tools/camera/camera.h"
#include "tools/camera/clock.h"
#include "tools/camera/confine.h"
#include "tools/camera/decoder.h"
#include "tools/camera/picture.h"
#include "tools/camera/report.h"
#include "tools/camera/source.h"

#define LOOK (2 * CLOCK_S) /* for which a stream is watched, to know its rate */

struct trial {
  struct settings settings;
  struct source source;
  struct decoder decoder;
  struct picture picture;
  unsigned char *pixels; /* of the first picture */
  struct report report;
  int64_t first; /* when it came */
};

static bool go_on(void *owner) {
  (void)owner;
  camera_alive();
  return true;
}

/* Keeps the first picture; counts the others. */
static bool take(struct trial *trial, struct reason *reason) {
  const AVFrame *frame = trial->decoder.frame;
  trial->report.frames++;
  if (trial->pixels) {
    return true;
  }
  trial->first = clock_now();
  trial->report.width = (unsigned)frame->width;
  trial->report.height = (unsigned)frame->height;
  bool good = picture_open(&trial->picture, trial->report.width, trial->report.height, AV_PIX_FMT_RGB24) &&
              (trial->pixels = malloc(trial->picture.bytes)) && picture_write(&trial->picture, frame, trial->pixels);
  trial->report.fit = trial->picture.fit;
  return good || reason_set(reason, REASON_CODEC, "the camera's pixel format cannot be converted here");
}

static bool step(struct trial *trial, struct reason *reason) {
  struct source *source = &trial->source;
  if (!source_read(source, reason) ||
      (!trial->decoder.context && !decoder_open(&trial->decoder, source_codec(source), reason))) {
    return false;
  }
  decoder_put(&trial->decoder, source->packet, source->arrival);
  while (decoder_get(&trial->decoder)) {
    if (!take(trial, reason)) {
      return false;
    }
  }
  bool give_up;
  return !decoder_is_stuck(&trial->decoder, clock_now(), &give_up, reason);
}

static void watch(struct trial *trial, struct reason *reason) {
  struct source *source = &trial->source;
  bool good = source_open(source, &trial->settings, go_on, NULL, reason);
  while (good && (!trial->pixels || clock_now() - trial->first < LOOK)) {
    good = step(trial, reason);
  }
  double seconds = trial->first ? (double)(clock_now() - trial->first) / (double)CLOCK_S : 0;
  if (source->stream >= 0) {
    trial->report.codec = avcodec_get_name(source_codec(source)->codec_id);
    trial->report.has_wall = source->has_wall;
    trial->report.clock_ahead = source->has_wall ? (double)source->wall_offset / (double)CLOCK_S : 0;
  }
  if (source_interval(source) > 0) {
    trial->report.rate = (double)CLOCK_S / (double)source_interval(source);
  }
  trial->report.bitrate = seconds > 0 ? 8 * (double)source->bytes / seconds : 0;
  if (good || (reason->token == REASON_ENDED && trial->pixels)) {
    *reason = (struct reason){.token = REASON_NONE}; /* a file may be short */
    trial->report.state = REPORT_RUNNING;
  }
}

static bool answer(struct trial *trial, const struct reason *reason) {
  char text[REPORT_MOST];
  trial->report.reason = *reason;
  trial->report.lost = trial->decoder.damaged + avlog_missed();
  size_t bytes = report_write(&trial->report, text);
  bool good = fwrite(text, 1, bytes, stdout) == bytes && putchar('\n') != EOF;
  if (trial->pixels && reason->token == REASON_NONE) {
    good = fwrite(trial->pixels, 1, trial->picture.bytes, stdout) == trial->picture.bytes && good;
  }
  return fflush(stdout) == 0 && good;
}

int try_run(void) {
  struct trial trial = {.report = {.state = REPORT_WAITING}};
  struct reason reason = {.token = REASON_NONE};
  char text[SETTINGS_MOST];
  confine_secrets();
  size_t got = fread(text, 1, sizeof text, stdin);
  if (settings_read(&trial.settings, text, got, &reason) &&
      (confine_all(trial.settings.address.kind == ADDRESS_V4L2) ||
       reason_set(&reason, REASON_URL, "the system refuses a limit that framed-camera sets for itself"))) {
    watch(&trial, &reason);
    source_close(&trial.source);
  }
  explicit_bzero(text, sizeof text);
  bool good = answer(&trial, &reason);
  decoder_close(&trial.decoder);
  picture_close(&trial.picture);
  free(trial.pixels);
  settings_clear(&trial.settings);
  return good && reason.token == REASON_NONE ? EXIT_SUCCESS : EXIT_FAILURE;
}
