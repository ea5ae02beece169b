/*
 * The name, help text and parameters of each stage, as plain records. The configuration, the schema and the manual need these
 * only, and run no stage.
 *
 * A program can link these records (stage_about.c, picture_stages.c, model_stages.c) with gpu/format.c alone.
 */
#ifndef FRAMED_GPU_RECORD_STAGE_ABOUT_H
#define FRAMED_GPU_RECORD_STAGE_ABOUT_H

#include <stdbool.h>

enum {
  STAGE_MAX_PARAMETERS = 12,
  STAGE_MAX_NUMBERS = 4, /* length of a list of numbers, one for each channel */
  STAGE_TEXT = 400
};

enum stage_parameter_type {
  STAGE_NUMBER,  /* a finite double */
  STAGE_INTEGER, /* a whole number */
  STAGE_CHOICE,  /* one of `choices`; the value is its index */
  STAGE_NUMBERS, /* a number, or a list of 1 to STAGE_MAX_NUMBERS numbers */
  STAGE_WORD,    /* a text */
  STAGE_FILE,    /* a path; a relative one begins at the folder of the configuration file */
  STAGE_SETTINGS /* a mapping of names to texts, numbers or lists of numbers */
};

struct stage_parameter {
  const char *name;
  enum stage_parameter_type type;
  bool required;
  double minimum, maximum;    /* inclusive; of each number in a list */
  double fallback;            /* the default of a number, integer or choice (index); each element of a list */
  const char *const *choices; /* NULL terminated */
  const char *help;           /* one sentence, shown in the manual page and the schema */
};

struct stage_about {
  const char *name;
  const char *help; /* one sentence */
  const struct stage_parameter *parameters;
  unsigned parameter_count;
  bool runs_model;  /* the model has instances and times of its own */
  bool is_foreign;  /* runs users' code or models, which a frame may make break the device */
  bool any_element; /* takes tensors of every element type; without it those of uint8 and float32 */
};

/* A record's parameters, from a table of them; and the words of a choice. */
#define STAGE_PARAMETERS(table) .parameters = (table), .parameter_count = sizeof(table) / sizeof(table)[0]
#define STAGE_WORDS(...)        ((const char *const[]){__VA_ARGS__, NULL})

#define STAGE(name) extern const struct stage_about name##_about;
#include "gpu/record/stages.def"
#undef STAGE

/* All stages of this build, NULL terminated, in the order of the documentation. */
extern const struct stage_about *const stage_abouts[];

const struct stage_about *stage_about_find(const char *name); /* NULL: there is none */

#endif
