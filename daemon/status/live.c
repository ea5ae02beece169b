#include "daemon/status/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/status/pictures.h"
#include "daemon/status/viewer.h"

enum { NAME_ROOM = 65, HEAD_ROOM = 160 };

/* What always holds: it is freed by on_left() or, where a picture is on its way then, by whatever comes of that. */
struct live {
  const struct status_ops *ops;
  struct http_request *request; /* not after on_left() */
  struct picture_order order;
  struct viewer viewer;   /* whose rights a reload may take away */
  server_answer *refused; /* until the first picture is there */
  char pipeline[NAME_ROOM];
  bool begun, asking, over, left;
  char *part; /* what goes out, or NULL */
  size_t length, sent;
};

static void live_free(struct live *live) {
  --*live->ops->live_viewers;
  viewer_clear(&live->viewer);
  free(live->part);
  free(live);
}

static bool may_see(const struct live *live) {
  struct server_view view;
  live->ops->read(live->ops->server, &view);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    const struct config_pipeline *config = pipeline_config(live->ops->pipeline(live->ops->server, i));
    if (strcmp(config->name, live->pipeline) == 0) {
      return viewer_sees_side(&live->viewer, config, live->order.side == PICTURE_OUT);
    }
  }
  return true; /* it has gone, and the answer says so */
}

static void ask(struct live *live) {
  live->asking = true;
  live->ops->picture(live->ops->server, &live->order);
}

/* -- going out ------------------------------------------------------------------------------------------------------ */

/* With the next boundary at its end: browsers show a picture when they see that. */
static bool make_part(struct live *live, const unsigned char *file, size_t length) {
  static const char tail[] = "\r\n--" LIVE_BOUNDARY "\r\n";
  char head[HEAD_ROOM];
  size_t head_length = (size_t)snprintf(head, sizeof head, "%sContent-Type: image/jpeg\r\nContent-Length: %zu\r\n\r\n",
                                        live->begun ? "" : "--" LIVE_BOUNDARY "\r\n", length);
  live->length = head_length + length + sizeof tail - 1;
  live->sent = 0;
  live->part = malloc(live->length);
  if (live->part) {
    memcpy(live->part, head, head_length);
    memcpy(live->part + head_length, file, length);
    memcpy(live->part + head_length + length, tail, sizeof tail - 1);
  }
  return live->part != NULL;
}

static size_t read_part(void *context, char *bytes, size_t room) {
  struct live *live = context;
  if (!live->part && !live->over && !live->asking) {
    live->over = !may_see(live);
    if (!live->over) {
      ask(live);
    }
  }
  if (!live->part) {
    return live->over ? 0 : HTTP_LATER;
  }
  size_t rest = live->length - live->sent;
  size_t count = rest < room ? rest : room;
  memcpy(bytes, live->part + live->sent, count);
  live->sent += count;
  if (live->sent == live->length) {
    free(live->part);
    live->part = NULL;
  }
  return count;
}

static void on_left(void *context) {
  struct live *live = context;
  live->left = true;
  if (!live->asking) {
    live_free(live);
  }
}

/* -- pictures ------------------------------------------------------------------------------------------------------- */

static void on_picture(void *context, unsigned char *file, size_t length) {
  struct live *live = context;
  live->asking = false;
  if (live->left) {
    live_free(live);
  } else {
    live->over = !make_part(live, file, length);
    if (live->begun) {
      http_go_on(live->request);
    } else {
      struct http_answer answer = {
          .status = 200, .type = LIVE_TYPE, .stream = {.read = read_part, .free = on_left, .context = live}, .live = true};
      live->begun = true;
      http_answer(live->request, &answer);
    }
  }
  free(file);
}

/* Where nothing came for a while, somebody may still watch. */
static void on_failed(void *context, int code, json_t *body) {
  struct live *live = context;
  live->asking = false;
  if (live->left) {
    live_free(live);
  } else if (code == 204 && may_see(live) && !http_client_left(live->request)) {
    ask(live);
  } else if (!live->begun) {
    live->refused(live->request, code, body);
    live_free(live);
    return;
  } else {
    live->over = true;
    http_go_on(live->request);
  }
  json_decref(body);
}

void live_answer(const struct status_ops *ops, struct http_request *request, const struct picture_order *order,
                 bool has_token) {
  if (*ops->live_viewers >= PICTURES_MOST) {
    answer_error(order->failed, request, 503, "close one of them, or ask for single pictures", "%d viewers watch already",
                 PICTURES_MOST);
    return;
  }
  struct live *live = calloc(1, sizeof *live);
  if (!live) {
    answer_error(order->failed, request, 503, NULL, "not enough memory for a live view");
    return;
  }
  ++*ops->live_viewers;
  live->ops = ops;
  live->request = request;
  viewer_read(&live->viewer, request, has_token);
  live->refused = order->failed;
  live->order = *order;
  live->order.live = true;
  live->order.ready = on_picture;
  live->order.failed = on_failed;
  live->order.context = live;
  snprintf(live->pipeline, sizeof live->pipeline, "%s", order->pipeline);
  live->order.pipeline = live->pipeline;
  ask(live);
}
