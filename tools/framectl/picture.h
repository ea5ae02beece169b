/* Picture files: reads and writes PNG, PGM and PPM. */
#ifndef FRAMED_TOOLS_FRAMECTL_PICTURE_H
#define FRAMED_TOOLS_FRAMECTL_PICTURE_H

#include <stddef.h>
#include <stdio.h>

#include "tools/framectl/common/problem.h"

enum picture_kind { PICTURE_RAW, PICTURE_PNG, PICTURE_PNM };

/* Recognises the kind by the first bytes. */
enum picture_kind picture_recognise(const unsigned char *data, size_t size);
/* Recognises the kind by the ending of a file's name. */
enum picture_kind picture_of_name(const char *name);

struct picture {
  unsigned width, height, channels; /* 1: gray; 3: red, green, blue */
  unsigned char *pixels;            /* on the heap */
  size_t bytes;
};

/* False with a problem that contains `name`. Transparent pixels become black, and 16 bits become 8. */
bool picture_decode(const unsigned char *data, size_t size, const char *name, struct picture *picture, struct problem *problem);
/* PICTURE_RAW writes only the pixels. */
bool picture_write(FILE *file, enum picture_kind kind, const struct picture *picture, const char *name,
                   struct problem *problem);

#endif
