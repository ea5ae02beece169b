/* Scaling by libswscale, into a place of its own and from there into the frame. */
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include "tools/camera/picture.h"

enum { ALIGNMENT = 64, DIRECT = 32 /* pixels: whole vectors of the scaler, which then writes nothing past a row */ };

bool picture_open(struct picture *picture, unsigned width, unsigned height, enum AVPixelFormat pixels) {
  *picture = (struct picture){.width = width, .height = height, .pixels = pixels};
  int bytes = av_image_get_buffer_size(pixels, (int)width, (int)height, 1);
  picture->bytes = bytes > 0 ? (size_t)bytes : 0;
  return bytes > 0;
}

static void free_rows(struct picture *picture) {
  av_freep(&picture->rows[0]);
  picture->rows_width = picture->rows_height = 0;
}

void picture_close(struct picture *picture) {
  sws_freeContext(picture->scaler);
  picture->scaler = NULL;
  free_rows(picture);
}

/* -- where it goes ------------------------------------------------------------------------------------------------------- */

static unsigned even(uint64_t value, unsigned most) {
  unsigned rounded = (unsigned)((value + 1) / 2 * 2);
  return rounded < 2 ? (most < 2 ? most : 2) : rounded > most ? most : rounded;
}

struct fit picture_fit(unsigned from_width, unsigned from_height, AVRational aspect, unsigned width, unsigned height) {
  bool is_sane = aspect.num > 0 && aspect.den > 0 && aspect.num / 4 <= aspect.den && aspect.den / 4 <= aspect.num &&
                 aspect.num <= UINT16_MAX && aspect.den <= UINT16_MAX;
  uint64_t across = (uint64_t)from_width * (is_sane ? (unsigned)aspect.num : 1);
  uint64_t down = (uint64_t)from_height * (is_sane ? (unsigned)aspect.den : 1);
  struct fit fit = {.width = width, .height = height};
  if (across * height > down * width) {
    fit.height = even((down * width + across / 2) / across, height);
  } else if (across * height < down * width) {
    fit.width = even((across * height + down / 2) / down, width);
  }
  fit.x = (width - fit.width) / 2 & ~1U;
  fit.y = (height - fit.height) / 2 & ~1U;
  return fit;
}

/* -- the scaler ---------------------------------------------------------------------------------------------------------- */

static bool is_full_range(const AVFrame *from) {
  return from->color_range == AVCOL_RANGE_JPEG || from->format == AV_PIX_FMT_YUVJ420P || from->format == AV_PIX_FMT_YUVJ422P ||
         from->format == AV_PIX_FMT_YUVJ444P || from->format == AV_PIX_FMT_YUVJ440P;
}

/* Gray here has no head room, as everywhere in the daemon. */
static bool writes_full_range(enum AVPixelFormat pixels) {
  const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(pixels);
  return (about->flags & AV_PIX_FMT_FLAG_RGB) != 0 || about->nb_components < 3;
}

/* YUV stays in the matrix that it has. RGB needs to know that matrix; streams that do not say use BT.709 from 720 rows on. */
static bool set_colours(struct SwsContext *scaler, const AVFrame *from, enum AVPixelFormat to) {
  int space = from->colorspace == AVCOL_SPC_BT709                                                   ? SWS_CS_ITU709
              : from->colorspace == AVCOL_SPC_BT2020_NCL || from->colorspace == AVCOL_SPC_BT2020_CL ? SWS_CS_BT2020
              : from->colorspace == AVCOL_SPC_UNSPECIFIED && from->height >= 720                    ? SWS_CS_ITU709
                                                                                                    : SWS_CS_ITU601;
  const int *table = sws_getCoefficients(space);
  return sws_setColorspaceDetails(scaler, table, is_full_range(from), table, writes_full_range(to), 0, 1 << 16, 1 << 16) >= 0;
}

static bool prepare(struct picture *picture, const AVFrame *from) {
  struct fit fit =
      picture_fit((unsigned)from->width, (unsigned)from->height, from->sample_aspect_ratio, picture->width, picture->height);
  struct SwsContext *before = picture->scaler;
  bool is_known = from->format >= 0 && sws_isSupportedInput((enum AVPixelFormat)from->format);
  picture->fit = fit;
  picture->scaler = is_known
                        ? sws_getCachedContext(before, from->width, from->height, (enum AVPixelFormat)from->format,
                                               (int)fit.width, (int)fit.height, picture->pixels, SWS_BILINEAR, NULL, NULL, NULL)
                        : before;
  if (!is_known || !picture->scaler) {
    return false;
  }
  if (picture->scaler != before) {
    (void)set_colours(picture->scaler, from, picture->pixels); /* refused where neither side is YUV */
  }
  if (picture->rows_width != fit.width || picture->rows_height != fit.height) {
    free_rows(picture);
    if (av_image_alloc(picture->rows, picture->row_bytes, (int)fit.width, (int)fit.height, picture->pixels, ALIGNMENT) < 0) {
      return false;
    }
    picture->rows_width = fit.width;
    picture->rows_height = fit.height;
  }
  return true;
}

/* -- the frame ----------------------------------------------------------------------------------------------------------- */

static void fill_black(const struct picture *picture, uint8_t *planes[4], const int lines[4]) {
  ptrdiff_t steps[4];
  for (int i = 0; i < 4; i++) {
    steps[i] = lines[i];
  }
  enum AVColorRange range = writes_full_range(picture->pixels) ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
  av_image_fill_black(planes, steps, picture->pixels, range, (int)picture->width, (int)picture->height);
}

/* From the aligned rows to their place in the frame. */
static void copy_in(const struct picture *picture, uint8_t *planes[4], const int lines[4]) {
  const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(picture->pixels);
  const struct fit *fit = &picture->fit;
  uint8_t *to[4] = {NULL};
  const uint8_t *rows[4] = {picture->rows[0], picture->rows[1], picture->rows[2], picture->rows[3]};
  for (int i = 0; i < 4 && planes[i]; i++) {
    int shift = i == 1 || i == 2 ? about->log2_chroma_h : 0;
    ptrdiff_t across = av_image_get_linesize(picture->pixels, (int)fit->x, i);
    to[i] = planes[i] + (ptrdiff_t)(fit->y >> shift) * lines[i] + (across > 0 ? across : 0);
  }
  av_image_copy(to, (int *)lines, rows, picture->row_bytes, picture->pixels, (int)fit->width, (int)fit->height);
}

bool picture_write(struct picture *picture, const AVFrame *from, void *frame) {
  uint8_t *planes[4] = {NULL};
  int lines[4] = {0};
  if (!prepare(picture, from) ||
      av_image_fill_arrays(planes, lines, frame, picture->pixels, (int)picture->width, (int)picture->height, 1) < 0) {
    return false;
  }
  const uint8_t *const *rows = (const uint8_t *const *)from->data;
  bool whole = picture->fit.width == picture->width && picture->fit.height == picture->height;
  if (whole && picture->width % DIRECT == 0) {
    return sws_scale(picture->scaler, rows, from->linesize, 0, from->height, planes, lines) > 0;
  }
  if (sws_scale(picture->scaler, rows, from->linesize, 0, from->height, picture->rows, picture->row_bytes) <= 0) {
    return false;
  }
  if (!whole) {
    fill_black(picture, planes, lines);
  }
  copy_in(picture, planes, lines);
  return true;
}
