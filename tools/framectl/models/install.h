/* Puts ONNX Runtime into a folder: from the machine's own package index with pip, or from wheels at hand. */
#ifndef FRAMED_TOOLS_FRAMECTL_MODELS_INSTALL_H
#define FRAMED_TOOLS_FRAMECTL_MODELS_INSTALL_H

#include "tools/framectl/common/problem.h"

/* Says what it takes, fetches and unpacks it beside `target`, and puts it there at once in place of what there was. Without
 * wheels it asks pip; `cuda`: for one with the libraries of CUDA that the linker does not find. */
bool install_runtime(const char *target, bool cuda, const char *const *wheels, unsigned count, struct problem *problem);

#endif
