#include "gpu/model/operators.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    /* the part for CUDA has none */
    "NonMaxSuppression", "QLinearConv", "QLinearMatMul", "ConvInteger", "Unique", "DFT", "STFT", "MelWeightMatrix", "Mean",
    "LpNormalization", "LpPool", "GlobalLpPool", "MaxRoiPool", "MaxUnpool", "Hardmax", "Multinomial", "Det", "Col2Im", "Tan",
    "Acos", "Asin", "Atan", "Sinh", "Cosh", "Acosh", "Asinh", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
    "BitwiseXor",
    /* the size of the result, or what is computed at all, follows from values */
    "If", "Loop", "Scan", "NonZero", "Compress",
    /* all of its domain */
    OPERATORS_LEARNING};

enum { COUNT = sizeof names / sizeof names[0], LEARNING = COUNT - 1 };
_Static_assert(COUNT <= 64, "each operator has a bit");

uint64_t operators_off_gpu(bool learning, const char *name, size_t length) {
  for (unsigned i = 0; i < LEARNING && !learning; i++) {
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
      return UINT64_C(1) << i;
    }
  }
  return learning ? UINT64_C(1) << LEARNING : 0;
}

const char *operators_describe(uint64_t operators, char text[OPERATORS_TEXT]) {
  size_t length = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < COUNT && length < OPERATORS_TEXT; i++) {
    if (operators >> i & 1) {
      length += (size_t)snprintf(text + length, OPERATORS_TEXT - length, "%s%s`%s`", length > 0 ? ", " : "",
                                 i == LEARNING ? "those of " : "", names[i]);
    }
  }
  return text;
}
