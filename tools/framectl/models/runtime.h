/*
 * ONNX Runtime as a folder of libraries: the places where framed searches, and their contents. The places and their order are
 * those of gpu/model/onnxruntime.c.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_MODELS_RUNTIME_H
#define FRAMED_TOOLS_FRAMECTL_MODELS_RUNTIME_H

#include <limits.h>
#include <stdbool.h>

enum { RUNTIME_PLACES = 4, RUNTIME_VERSION = 24 };

struct runtime {
  char version[RUNTIME_VERSION]; /* empty: no library */
  bool cuda;                     /* it has what a GPU needs */
};

/* The place with that number, below RUNTIME_PLACES. False if it does not exist, such as FRAMED_ONNXRUNTIME without a value. */
bool runtime_place(unsigned index, char place[PATH_MAX]);
/* The place where this user may install: FRAMED_ONNXRUNTIME, the system's place or the user's own. */
bool runtime_target(char place[PATH_MAX]);
/* Reads the version from the names of the files in a folder. False if it has no library. */
bool runtime_look(const char *place, struct runtime *runtime);
/* Does so for the library that the dynamic linker finds. */
bool runtime_look_linked(struct runtime *runtime);
/* Whether the library is for this machine's processor. */
bool runtime_fits(const char *library);
/* Removes a folder and its contents; false with errno. */
bool runtime_remove(const char *place);
double runtime_bytes(const char *place);

#endif
