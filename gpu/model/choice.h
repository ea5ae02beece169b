/*
 * How a model is opened on a GPU, and what is known of that from before: which of few ways was the fastest is kept in a file,
 * so that it is measured once for each model, device and set of versions.
 *
 * The file is a help and no more: one that is missing, broken, somebody else's or of other versions is as none, and nothing
 * comes of one that cannot be written.
 */
#ifndef FRAMED_GPU_MODEL_CHOICE_H
#define FRAMED_GPU_MODEL_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

struct model_choice {
  bool channels_last; /* samples of one place side by side, and not planes of samples */
  bool exhaustive;    /* cuDNN tries all its algorithms for each convolution when the model is opened, and not the likely one */
  bool adds_bias;     /* convolutions add their bias, and not kernels of their own after them */
};

enum { CHOICE_KEY = 1024 };

/* What was found best under this key: text of whole lines with all that it depends on. */
bool choice_find(const char *key, struct model_choice *choice);
void choice_keep(const char *key, const struct model_choice *choice);

#endif
