#include "daemon/status/cameras.h"

#include <math.h>

#include "daemon/base/answer.h"
#include "daemon/status/metrics_format.h"

static json_t *rounded(double value) { return json_real(round(value * 1e3) / 1e3); }

json_t *camera_document(const struct pipeline_snapshot *snapshot) {
  const struct camera_view *view = &snapshot->camera;
  if (!snapshot->has_camera) {
    return json_null();
  }
  const unsigned *picture = view->picture;
  return json_pack("{s:s, s:s, s:o, s:s, s:I, s:I, s:[i, i, i, i], s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:o, s:i}", "state",
                   camera_state_names[view->state], "token", view->token, "text", answer_string(view->text), "codec",
                   view->codec, "width", (json_int_t)view->width, "height", (json_int_t)view->height, "picture",
                   (int)picture[0], (int)picture[1], (int)picture[2], (int)picture[3], "rate", rounded(view->rate), "bitrate",
                   rounded(view->bitrate), "decoder", view->decoder, "time", view->time, "frames", (json_int_t)view->frames,
                   "lost", (json_int_t)view->lost, "reconnects", (json_int_t)view->reconnects, "retry_s", rounded(view->retry),
                   "pid", (int)snapshot->camera_pid);
}

typedef uint64_t camera_figure(const struct camera_view *view);

static uint64_t is_up(const struct camera_view *view) { return view->state == CAMERA_RUNNING; }
static uint64_t reconnects(const struct camera_view *view) { return view->reconnects; }
static uint64_t lost(const struct camera_view *view) { return view->lost; }

static const struct {
  const char *name, *type, *help;
  camera_figure *figure;
} figures[] = {
    {"framed_camera_up", "gauge", "1 if pictures come from the camera of a source with a URL, else 0.", is_up},
    {"framed_camera_reconnects_total", "counter", "How often the camera was connected again, or its process started again.",
     reconnects},
    {"framed_camera_lost_total", "counter", "Packets of the camera that did not arrive.", lost},
};

void cameras_write_metrics(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count) {
  bool any = false;
  for (unsigned p = 0; p < count; p++) {
    any = any || pipelines[p].has_camera;
  }
  for (size_t i = 0; any && i < sizeof figures / sizeof figures[0]; i++) {
    write_head(out, figures[i].name, figures[i].type, figures[i].help);
    for (unsigned p = 0; p < count; p++) {
      if (pipelines[p].has_camera) {
        write_count(out, figures[i].name, (struct label[]){{"pipeline", pipelines[p].name}, {0}},
                    figures[i].figure(&pipelines[p].camera));
      }
    }
  }
}
