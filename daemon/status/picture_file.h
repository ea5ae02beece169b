/*
 * A picture as a JPEG file, by libjpeg-turbo; for a worker thread. Numbers that are no colours are shown as grey between the
 * least and the greatest of them.
 */
#ifndef FRAMED_STATUS_PICTURE_FILE_H
#define FRAMED_STATUS_PICTURE_FILE_H

#include "daemon/frame/picture.h"

/* A file from malloc() of at most that width (0: the picture's); NULL if there is no memory. `heat`: numbers that are no
 * colours from black over red to yellow, in which the eye tells more of them apart. */
unsigned char *picture_file(const struct picture *picture, unsigned width, bool heat, size_t *length);

/* The picture as `width` times `height` pixels of red, green and blue, boxes drawn in. */
void picture_render(const struct picture *picture, unsigned width, unsigned height, unsigned char *rgb);
/* What is grey becomes what it is on a map of heat. */
void picture_heat(unsigned char *rgb, size_t pixels);

#endif
