/*
 * Operators that ONNX Runtime does not compute on a GPU alone, which a model there must do without: those that its part for
 * CUDA has not, as of 1.28, and those for which the host has to look at a value in the middle of a model.
 *
 * These are the ones that models of pictures and signals are seen to have; whether all others run is seen when it is opened
 * there.
 */
#ifndef FRAMED_GPU_MODEL_OPERATORS_H
#define FRAMED_GPU_MODEL_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPERATORS_LEARNING "ai.onnx.ml" /* the domain of trees, scalers and the like, all of them for the CPU */

enum { OPERATORS_TEXT = 256 };

/* A bit for the operator of that name; 0: as far as is known, a GPU computes it. `learning`: it is of the domain above, and
 * else of the standard one. */
uint64_t operators_off_gpu(bool learning, const char *name, size_t length);

/* "`NonMaxSuppression`, `Loop`"; returns the text. */
const char *operators_describe(uint64_t operators, char text[OPERATORS_TEXT]);

#endif
