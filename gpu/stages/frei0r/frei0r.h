/*
 * Plugins of frei0r 1: where they lie, what they say of themselves, and their functions. The structs are those of its public
 * interface, which never changes within version 1.
 */
#ifndef FRAMED_GPU_STAGES_FREI0R_FREI0R_H
#define FRAMED_GPU_STAGES_FREI0R_FREI0R_H

#include "gpu/stage.h"

enum frei0r_type { FREI0R_FILTER, FREI0R_SOURCE, FREI0R_MIXER2, FREI0R_MIXER3 };
enum frei0r_colours { FREI0R_BGRA, FREI0R_RGBA, FREI0R_PACKED };
enum frei0r_kind { FREI0R_BOOL, FREI0R_DOUBLE, FREI0R_COLOUR, FREI0R_POSITION, FREI0R_STRING };

struct frei0r_info {
  const char *name, *author;
  int type, colours, version, major, minor;
  int parameters;
  const char *explanation;
};

struct frei0r_parameter {
  const char *name;
  int kind;
  const char *explanation;
};

struct frei0r_plugin {
  void *handle;
  struct frei0r_info info;
  void (*parameter_info)(struct frei0r_parameter *info, int index);
  void *(*construct)(unsigned width, unsigned height);
  void (*destruct)(void *instance);
  void (*set)(void *instance, const void *value, int index);
  void (*get)(void *instance, void *value, int index);
  void (*update)(void *instance, double seconds, const uint32_t *in, uint32_t *out);
};

/* Opens the filter of that name, and keeps its file (NULL: does not); it stays in the process until that ends, since some
 * cannot be opened twice. False: `problem` and `remedy` say why. */
bool frei0r_open(struct frei0r_plugin *plugin, const char *name, struct kept_file *kept, char problem[STAGE_TEXT],
                 const char **remedy);

/* Calls `found` for the name of each plugin in the usual folders, sorted, each once. */
void frei0r_list(void (*found)(const char *name, void *context), void *context);

#endif
