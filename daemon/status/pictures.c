#include "daemon/status/pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/measure/clock.h"
#include "daemon/status/picture_file.h"

enum { TICK_MS = 20, NAME_ROOM = 65 };

#define PATIENCE_NS (2 * NS_PER_S)
#define INTERVAL_NS (NS_PER_S / PICTURES_A_SECOND)

/* One side of one session that somebody watches. */
struct view {
  struct view *next;
  char pipeline[NAME_ROOM];
  unsigned producer;
  enum picture_side side;
  struct picture *picture; /* held; asked for, or NULL */
  int64_t taken;           /* when the last one was */
  unsigned files;          /* that are made of it; the next picture is asked for when they are done */
};

/* Waits for the next picture of a view, or, with a picture, for its file. The first of a list has the file made for all behind
 * it, who asked for the same. */
struct viewer {
  struct viewer *next;
  struct pictures *pictures;
  struct view *view;
  struct picture_order order;
  int64_t since;
  struct picture *picture;
  unsigned char *file;
  size_t length;
};

struct pictures {
  const struct status_ops *ops;
  struct loop_timer *timer; /* while there is a view */
  struct worker *worker;    /* makes the files; NULL: no memory for it */
  struct view *views;
  struct viewer *viewers; /* that wait */
  unsigned count;         /* of viewers, also of those whose file is made */
  bool stopped;
};

static struct pipeline *find_pipeline(const struct pictures *pictures, const char *name) {
  struct server_view server;
  pictures->ops->read(pictures->ops->server, &server);
  for (unsigned i = 0; i < server.pipeline_count; i++) {
    struct pipeline *pipeline = pictures->ops->pipeline(pictures->ops->server, i);
    if (strcmp(pipeline_config(pipeline)->name, name) == 0) {
      return pipeline;
    }
  }
  return NULL;
}

static void viewer_free(struct viewer *viewer) {
  picture_drop(viewer->picture);
  free(viewer);
}

static void viewer_fail(struct viewer *viewer, int status, const char *remedy, const char *why) {
  viewer->pictures->count -= !viewer->order.live;
  answer_error(viewer->order.failed, viewer->order.context, status, remedy, "%s", why);
  viewer_free(viewer);
}

static void fail_viewers(struct viewer *viewers, int status, const char *remedy, const char *why) {
  for (struct viewer *viewer = viewers, *next; viewer; viewer = next) {
    next = viewer->next;
    viewer_fail(viewer, status, remedy, why);
  }
}

/* -- files ---------------------------------------------------------------------------------------------------------- */

static void make_file(void *context) {
  struct viewer *viewer = context;
  viewer->file = picture_file(viewer->picture, viewer->order.width, viewer->order.heat, &viewer->length);
}

static unsigned char *copy_file(const unsigned char *file, size_t length) {
  unsigned char *copy = malloc(length);
  return copy ? memcpy(copy, file, length) : NULL;
}

/* The last viewer gets the file itself. */
static void on_file(void *context) {
  struct viewer *first = context;
  unsigned char *file = first->file;
  const size_t length = first->length;
  first->view->files--;
  for (struct viewer *viewer = first, *next; viewer; viewer = next) {
    next = viewer->next;
    unsigned char *own = file && next ? copy_file(file, length) : file;
    if (own) {
      viewer->pictures->count -= !viewer->order.live;
      viewer->order.ready(viewer->order.context, own, length);
      viewer_free(viewer);
    } else {
      viewer_fail(viewer, 503, NULL, "not enough memory for this picture");
    }
  }
}

/* -- waiting --------------------------------------------------------------------------------------------------------- */

/* Takes the viewers of that view off the list that have waited since then. Live ones may be left, since they can wait. */
static struct viewer *take_waiting(struct pictures *pictures, const struct view *view, int64_t since, bool with_live) {
  struct viewer *taken = NULL;
  for (struct viewer **link = &pictures->viewers; *link;) {
    struct viewer *viewer = *link;
    if (viewer->view == view && viewer->since <= since && (with_live || !viewer->order.live)) {
      *link = viewer->next;
      viewer->next = taken;
      taken = viewer;
    } else {
      link = &viewer->next;
    }
  }
  return taken;
}

static struct viewer *take_viewers(struct pictures *pictures, const struct view *view, int64_t since) {
  return take_waiting(pictures, view, since, true);
}

static struct viewer *take_impatient(struct pictures *pictures, const struct view *view, int64_t since) {
  return take_waiting(pictures, view, since, false);
}

/* Takes the first one off the list, with those behind it that asked for the same file. */
static struct viewer *take_equals(struct viewer **viewers) {
  struct viewer *first = *viewers;
  *viewers = first->next;
  first->next = NULL;
  for (struct viewer **link = viewers; *link;) {
    struct viewer *viewer = *link;
    if (viewer->order.width == first->order.width && viewer->order.heat == first->order.heat) {
      *link = viewer->next;
      viewer->next = first->next;
      first->next = viewer;
    } else {
      link = &viewer->next;
    }
  }
  return first;
}

static void give(struct pictures *pictures, struct view *view) {
  struct viewer *viewers = take_viewers(pictures, view, INT64_MAX);
  while (viewers) {
    struct viewer *first = take_equals(&viewers);
    atomic_fetch_add(&view->picture->holders, 1);
    first->picture = view->picture;
    if (pictures->worker && worker_do(pictures->worker, make_file, on_file, first)) {
      view->files++;
    } else {
      fail_viewers(first, 503, NULL, "not enough memory for this picture");
    }
  }
}

static bool has_viewers(const struct pictures *pictures, const struct view *view) {
  const struct viewer *viewer = pictures->viewers;
  while (viewer && viewer->view != view) {
    viewer = viewer->next;
  }
  return viewer != NULL;
}

static void ask(struct pictures *pictures, struct view *view) {
  struct pipeline *pipeline = find_pipeline(pictures, view->pipeline);
  const char *reason = NULL;
  if (pipeline && view->producer < pipeline_seats(pipeline)) {
    view->picture = pipeline_request_picture(pipeline, view->producer, view->side, &reason);
  }
  if (!view->picture) {
    bool memory = pipeline && view->producer < pipeline_seats(pipeline) && !reason;
    fail_viewers(take_viewers(pictures, view, INT64_MAX), memory ? 503 : 404, NULL,
                 reason   ? reason
                 : memory ? "not enough memory for this picture"
                          : "there is no such pipeline, or no such producer of it");
  }
}

static void view_tend(struct pictures *pictures, struct view *view, int64_t now) {
  enum picture_state state = view->picture ? atomic_load_explicit(&view->picture->state, memory_order_acquire) : PICTURE_GONE;
  if (state == PICTURE_TAKEN) {
    view->taken = now;
    give(pictures, view);
  }
  if (state != PICTURE_REQUESTED) {
    view->picture = picture_drop(view->picture);
  }
  if (view->files > 0) {
    fail_viewers(take_impatient(pictures, view, now - PATIENCE_NS), 503, "ask again later, or for smaller pictures",
                 "pictures of this pipeline take longer to make than they are waited for");
  } else {
    fail_viewers(take_viewers(pictures, view, now - PATIENCE_NS), 204, "see in framectl status what the pipeline waits for",
                 "no result came within two seconds");
  }
  bool watched = has_viewers(pictures, view);
  if (watched && !view->picture && view->files == 0 && now - view->taken >= INTERVAL_NS) {
    ask(pictures, view);
  } else if (!watched && view->picture) { /* its session need not copy it */
    struct pipeline *pipeline = find_pipeline(pictures, view->pipeline);
    if (pipeline && view->producer < pipeline_seats(pipeline)) {
      pipeline_end_picture(pipeline, view->producer, view->side);
    }
  }
}

static void on_tick(void *context) {
  struct pictures *pictures = context;
  int64_t now = clock_now();
  for (struct view **link = &pictures->views; *link;) {
    struct view *view = *link;
    view_tend(pictures, view, now);
    if (!view->picture && view->files == 0 && !has_viewers(pictures, view) && now - view->taken >= INTERVAL_NS) {
      *link = view->next;
      free(view);
    } else {
      link = &view->next;
    }
  }
  if (!pictures->views) {
    pictures->timer = loop_timer_close(pictures->timer);
  }
}

static struct view *find_view(struct pictures *pictures, const struct picture_order *order) {
  struct view *view = pictures->views;
  while (view &&
         (strcmp(view->pipeline, order->pipeline) != 0 || view->producer != order->producer || view->side != order->side)) {
    view = view->next;
  }
  view = view ? view : calloc(1, sizeof *view);
  if (view && !view->pipeline[0]) {
    snprintf(view->pipeline, sizeof view->pipeline, "%s", order->pipeline);
    view->producer = order->producer;
    view->side = order->side;
    view->taken = clock_now() - INTERVAL_NS;
    view->next = pictures->views;
    pictures->views = view;
  }
  return view;
}

static bool start(struct pictures *pictures) {
  if (!pictures->timer) {
    pictures->timer = loop_timer_new(pictures->ops->loop, on_tick, pictures);
    if (pictures->timer) {
      loop_timer_start(pictures->timer, 0, TICK_MS);
    }
  }
  return pictures->timer != NULL;
}

/* Viewers who ask for nearly the same width share a file. A width of 0 is the frame's own. */
static unsigned round_width(unsigned width) {
  static const unsigned widths[] = {16, 64, 160, 320, 480, 640, 960, 1280, 1920, 2560, 3840};
  unsigned rounded = width == 0 ? 0 : widths[0];
  for (size_t i = 0; i < sizeof widths / sizeof *widths && widths[i] <= width; i++) {
    rounded = widths[i];
  }
  return rounded;
}

void pictures_take(struct pictures *pictures, const struct picture_order *order) {
  if (pictures->stopped || (!order->live && pictures->count >= PICTURES_MOST)) {
    answer_error(order->failed, order->context, 503, "ask again later",
                 pictures->stopped ? "the daemon is stopping" : "%d viewers wait for pictures", PICTURES_MOST);
    return;
  }
  struct viewer *viewer = calloc(1, sizeof *viewer);
  struct view *view = viewer && start(pictures) ? find_view(pictures, order) : NULL;
  if (!view) {
    free(viewer);
    answer_error(order->failed, order->context, 503, NULL, "not enough memory for a picture");
    return;
  }
  *viewer =
      (struct viewer){.next = pictures->viewers, .pictures = pictures, .view = view, .order = *order, .since = clock_now()};
  viewer->order.pipeline = view->pipeline;
  viewer->order.width = round_width(order->width);
  pictures->viewers = viewer;
  pictures->count += !order->live;
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

struct pictures *pictures_new(const struct status_ops *ops) {
  struct pictures *pictures = calloc(1, sizeof *pictures);
  if (pictures) {
    pictures->ops = ops;
    pictures->worker = worker_new(ops->loop, "framed-pictures");
  }
  return pictures;
}

void pictures_stop(struct pictures *pictures) {
  if (!pictures || pictures->stopped) {
    return;
  }
  pictures->stopped = true;
  for (const struct view *view = pictures->views; view; view = view->next) {
    fail_viewers(take_viewers(pictures, view, INT64_MAX), 503, "ask again when it runs", "the daemon is stopping");
  }
  pictures->timer = loop_timer_close(pictures->timer);
  pictures->worker = worker_close(pictures->worker);
}

struct pictures *pictures_free(struct pictures *pictures) {
  while (pictures && pictures->views) {
    struct view *view = pictures->views;
    pictures->views = view->next;
    picture_drop(view->picture);
    free(view);
  }
  free(pictures);
  return NULL;
}
