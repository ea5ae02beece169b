/*
 * ONNX Runtime as a folder of libraries: where framed looks for it, and what lies there. The places are those of
 * gpu/model/onnxruntime.c, in the same order.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_MODELS_RUNTIME_H
#define FRAMED_TOOLS_FRAMECTL_MODELS_RUNTIME_H

#include <limits.h>
#include <stdbool.h>

enum { RUNTIME_PLACES = 4, RUNTIME_VERSION = 24 };

struct runtime {
  char version[RUNTIME_VERSION]; /* empty: there is no library */
  bool cuda;                     /* and what it needs to run on a GPU */
};

/* The place of that number, below RUNTIME_PLACES; false if it is nowhere, as FRAMED_ONNXRUNTIME where that is not set. */
bool runtime_place(unsigned index, char place[PATH_MAX]);
/* Where this user may install it: FRAMED_ONNXRUNTIME, the system's place or the user's own. */
bool runtime_target(char place[PATH_MAX]);
/* What lies in a folder, by the names of its files; false if there is no library. */
bool runtime_look(const char *place, struct runtime *runtime);
/* The same of what the dynamic linker finds. */
bool runtime_look_linked(struct runtime *runtime);
/* Whether the library is for this machine's processor. */
bool runtime_fits(const char *library);
/* Removes a folder with all that is in it; false with errno. */
bool runtime_remove(const char *place);
/* The bytes of all files in a folder. */
double runtime_bytes(const char *place);

#endif
