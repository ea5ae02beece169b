/* The message of a camera's state. */
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/camera/report.h"

static const char *const states[] = {"connecting", "running", "waiting"};

static double tenths(double value) { return round(value * 10) / 10; }

static void set_picture(json_t *message, const struct report *report) {
  json_object_set_new(message, "codec", json_string(report->codec));
  json_object_set_new(message, "decoder", json_string("cpu"));
  json_object_set_new(message, "time", json_string(report->has_wall ? "rtcp" : "arrival"));
  if (report->width > 0) {
    json_object_set_new(message, "width", json_integer(report->width));
    json_object_set_new(message, "height", json_integer(report->height));
    json_object_set_new(
        message, "picture",
        json_pack("[i, i, i, i]", (int)report->fit.x, (int)report->fit.y, (int)report->fit.width, (int)report->fit.height));
  }
  if (report->rate > 0) {
    json_object_set_new(message, "rate", json_real(tenths(report->rate)));
    json_object_set_new(message, "bitrate", json_integer((json_int_t)report->bitrate));
  }
  if (report->clock_ahead != 0) {
    json_object_set_new(message, "clock_ahead", json_real(tenths(report->clock_ahead)));
  }
}

size_t report_write(const struct report *report, char text[REPORT_MOST]) {
  json_t *message =
      json_pack("{s:s, s:I, s:I, s:I, s:I}", "state", states[report->state], "frames", (json_int_t)report->frames, "dropped",
                (json_int_t)report->dropped, "lost", (json_int_t)report->lost, "reconnects", (json_int_t)report->reconnects);
  if (report->reason.token != REASON_NONE) {
    json_object_set_new(message, "token", json_string(reason_name(report->reason.token)));
    json_object_set_new(message, "text", json_string(report->reason.text));
  }
  if (report->codec) {
    set_picture(message, report);
  }
  if (report->state == REPORT_WAITING && report->retry > 0) {
    json_object_set_new(message, "retry", json_real(tenths(report->retry)));
  }
  size_t bytes = json_dumpb(message, text, REPORT_MOST, JSON_COMPACT | JSON_REAL_PRECISION(10));
  json_decref(message);
  return bytes <= REPORT_MOST ? bytes : 0;
}

void report_send(const struct report *report, int fd) {
  char text[REPORT_MOST];
  size_t bytes = report_write(report, text);
  if (bytes > 0) {
    (void)send(fd, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}
