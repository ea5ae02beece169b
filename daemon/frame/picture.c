#include "daemon/frame/picture.h"

#include <stdlib.h>
#include <string.h>

static void add_plane(struct picture *picture, size_t row_bytes, size_t rows) {
  const struct picture_plane *before = picture->plane_count > 0 ? &picture->planes[picture->plane_count - 1] : NULL;
  size_t offset = before ? before->offset + before->row_bytes * before->rows : 0;
  picture->planes[picture->plane_count++] =
      (struct picture_plane){.offset = offset, .row_bytes = row_bytes, .rows = (unsigned)rows};
}

static void add_image_planes(struct picture *picture, const struct frame_format *format) {
  size_t width = format->width;
  size_t height = format->height;
  size_t half_width = (width + 1) / 2;
  size_t half_height = (height + 1) / 2;
  switch (format->pixels) {
  case PIXELS_NV12:
    add_plane(picture, width, height);
    add_plane(picture, 2 * half_width, half_height);
    break;
  case PIXELS_YUV420P:
    add_plane(picture, width, height);
    add_plane(picture, half_width, half_height);
    add_plane(picture, half_width, half_height);
    break;
  case PIXELS_YUYV422:
    add_plane(picture, 4 * half_width, height);
    break;
  default:
    add_plane(picture, format_samples(format) / height * format_element_bytes(format->dtype), height);
  }
}

/* A plane of a tensor is its last two dimensions. Three planes are colours; of any other number the first is shown. Returns
 * false if the tensor has no such planes. */
static bool add_tensor_planes(struct picture *picture, const struct frame_format *format) {
  unsigned rank = format->rank;
  const uint64_t *shape = format->shape;
  if (rank < 2 || shape[rank - 1] < 2 || shape[rank - 2] < 2 || shape[rank - 1] > FORMAT_MAX_SIDE ||
      shape[rank - 2] > FORMAT_MAX_SIDE) {
    return false;
  }
  unsigned planes = rank > 2 && shape[rank - 3] == PICTURE_PLANES ? PICTURE_PLANES : 1;
  for (unsigned i = 0; i < planes; i++) {
    add_plane(picture, (size_t)shape[rank - 1] * format_element_bytes(format->dtype), (size_t)shape[rank - 2]);
  }
  picture->format.width = (uint32_t)shape[rank - 1];
  picture->format.height = (uint32_t)shape[rank - 2];
  return true;
}

/* Leaves out enough rows to fit. Returns the number of bytes that are kept. */
static size_t choose_rows(struct picture *picture) {
  size_t bytes = 0;
  for (unsigned i = 0; i < picture->plane_count; i++) {
    bytes += picture->planes[i].row_bytes * picture->planes[i].rows;
  }
  picture->step = (unsigned)(bytes / PICTURE_MOST_BYTES) + 1;
  bytes = 0;
  for (unsigned i = 0; i < picture->plane_count; i++) {
    struct picture_plane *plane = &picture->planes[i];
    plane->rows = (plane->rows + picture->step - 1) / picture->step;
    plane->at = bytes;
    bytes += plane->row_bytes * plane->rows;
  }
  return bytes;
}

struct picture *picture_new(const struct frame_format *input, const struct frame_format *output, enum picture_side side,
                            const char **reason) {
  bool result = side == PICTURE_OUT;
  bool boxes = result && (output->meaning == MEANING_BOXES || output->meaning == MEANING_MOTION);
  struct picture plan = {.format = result && !boxes ? *output : *input, .is_result = result && !boxes};
  *reason = NULL;
  if (plan.format.pixels != PIXELS_NONE) {
    add_image_planes(&plan, &plan.format);
  } else if (!add_tensor_planes(&plan, &plan.format)) {
    *reason = "its frames are no pictures: a tensor needs two dimensions of at least 2";
    return NULL;
  }
  size_t bytes = choose_rows(&plan);
  if (boxes) {
    plan.boxes = *output;
    plan.boxes_at = (bytes + 15) / 16 * 16;
    format_bytes(output, &plan.boxes_bytes);
    bytes = plan.boxes_at + plan.boxes_bytes;
  }
  struct picture *picture = malloc(sizeof *picture + bytes);
  if (picture) {
    *picture = plan;
    atomic_init(&picture->holders, 1);
  }
  return picture;
}

struct picture *picture_drop(struct picture *picture) {
  if (picture && atomic_fetch_sub(&picture->holders, 1) == 1) {
    free(picture);
  }
  return NULL;
}

void picture_take(struct picture *picture, const unsigned char *input, const unsigned char *output, uint64_t sequence) {
  const unsigned char *frame = picture->is_result ? output : input;
  for (unsigned i = 0; i < picture->plane_count; i++) {
    const struct picture_plane *plane = &picture->planes[i];
    if (picture->step == 1) {
      memcpy(picture->bytes + plane->at, frame + plane->offset, plane->row_bytes * plane->rows);
      continue;
    }
    for (size_t row = 0; row < plane->rows; row++) {
      memcpy(picture->bytes + plane->at + row * plane->row_bytes,
             frame + plane->offset + row * picture->step * plane->row_bytes, plane->row_bytes);
    }
  }
  if (picture->boxes_bytes > 0) {
    memcpy(picture->bytes + picture->boxes_at, output, picture->boxes_bytes);
  }
  picture->sequence = sequence;
  /* Drops the flow's hold. It is never the last one, because the requester keeps its own until it has seen PICTURE_TAKEN. */
  atomic_fetch_sub(&picture->holders, 1);
  atomic_store_explicit(&picture->state, PICTURE_TAKEN, memory_order_release);
}
