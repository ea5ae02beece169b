#include "tools/framectl/picture.h"

#include <ctype.h>
#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_SIDE = 65536, MOST_LEVEL = 255 };

enum picture_kind picture_recognise(const unsigned char *data, size_t size) {
  static const unsigned char png[] = {0x89, 'P', 'N', 'G'};
  if (size >= sizeof png && memcmp(data, png, sizeof png) == 0) {
    return PICTURE_PNG;
  }
  bool pnm = size > 3 && data[0] == 'P' && (data[1] == '5' || data[1] == '6') && isspace(data[2]);
  return pnm ? PICTURE_PNM : PICTURE_RAW;
}

enum picture_kind picture_of_name(const char *name) {
  const char *ending = strrchr(name, '.');
  if (ending && strcasecmp(ending, ".png") == 0) {
    return PICTURE_PNG;
  }
  bool pnm = ending && (strcasecmp(ending, ".ppm") == 0 || strcasecmp(ending, ".pgm") == 0 || strcasecmp(ending, ".pnm") == 0);
  return pnm ? PICTURE_PNM : PICTURE_RAW;
}

/* -- reading ------------------------------------------------------------------------------------------------------ */

static bool make_room(struct picture *picture, const char *name, struct problem *problem) {
  if (picture->width == 0 || picture->height == 0 || picture->width > MOST_SIDE || picture->height > MOST_SIDE) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s has %u x %u pixels; sides go from 1 to %d", name, picture->width,
                       picture->height, MOST_SIDE);
  }
  picture->bytes = (size_t)picture->width * picture->height * picture->channels;
  picture->pixels = malloc(picture->bytes);
  return picture->pixels || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for %s", name);
}

static bool decode_png(const unsigned char *data, size_t size, const char *name, struct picture *picture,
                       struct problem *problem) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  const png_color black = {0, 0, 0};
  bool good = png_image_begin_read_from_memory(&image, data, size);
  bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  *picture = (struct picture){.width = image.width, .height = image.height, .channels = colour ? 3 : 1};
  if (good && !make_room(picture, name, problem)) {
    png_image_free(&image);
    return false;
  }
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (good && png_image_finish_read(&image, &black, picture->pixels, 0, NULL)) {
    return true;
  }
  problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s cannot be read: %s", name, image.message);
  png_image_free(&image);
  return false;
}

/* Reads the next number of a PNM header, after spaces and comments; 0 if there is no number. */
static unsigned read_number(const unsigned char **at, const unsigned char *end) {
  unsigned number = 0;
  while (*at < end && (isspace(**at) || **at == '#')) {
    bool comment = **at == '#';
    while (comment && *at < end && **at != '\n') {
      ++*at;
    }
    *at += *at < end;
  }
  for (; *at < end && isdigit(**at) && number <= MOST_SIDE; ++*at) {
    number = number * 10 + (unsigned)(**at - '0');
  }
  return number;
}

static bool decode_pnm(const unsigned char *data, size_t size, const char *name, struct picture *picture,
                       struct problem *problem) {
  const unsigned char *at = data + 2, *end = data + size;
  *picture = (struct picture){.channels = data[1] == '6' ? 3 : 1};
  picture->width = read_number(&at, end);
  picture->height = read_number(&at, end);
  if (read_number(&at, end) != MOST_LEVEL) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s is no PGM or PPM of 8 bits", name);
  }
  at += at < end;
  if (!make_room(picture, name, problem)) {
    return false;
  }
  if ((size_t)(end - at) < picture->bytes) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s ends before its last pixel", name);
  }
  memcpy(picture->pixels, at, picture->bytes);
  return true;
}

bool picture_decode(const unsigned char *data, size_t size, const char *name, struct picture *picture,
                    struct problem *problem) {
  bool good = picture_recognise(data, size) == PICTURE_PNG ? decode_png(data, size, name, picture, problem)
                                                           : decode_pnm(data, size, name, picture, problem);
  if (!good) {
    free(picture->pixels);
    picture->pixels = NULL;
  }
  return good;
}

/* -- writing ------------------------------------------------------------------------------------------------------ */

static bool write_png(FILE *file, const struct picture *picture) {
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = picture->width,
                     .height = picture->height,
                     .format = picture->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
  return png_image_write_to_stdio(&image, file, 0, picture->pixels, 0, NULL);
}

bool picture_write(FILE *file, enum picture_kind kind, const struct picture *picture, const char *name,
                   struct problem *problem) {
  bool good = true;
  errno = 0;
  if (kind == PICTURE_PNG) {
    good = write_png(file, picture);
  } else {
    if (kind == PICTURE_PNM) {
      fprintf(file, "P%c\n%u %u\n%d\n", picture->channels == 3 ? '6' : '5', picture->width, picture->height, MOST_LEVEL);
    }
    good = fwrite(picture->pixels, 1, picture->bytes, file) == picture->bytes;
  }
  good = fflush(file) == 0 && good && !ferror(file);
  return good || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write %s: %s", name, strerror(errno));
}
