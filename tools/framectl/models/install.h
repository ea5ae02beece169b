/* Installs ONNX Runtime into a folder: with pip from the machine's package index, or from wheels. */
#ifndef FRAMED_TOOLS_FRAMECTL_MODELS_INSTALL_H
#define FRAMED_TOOLS_FRAMECTL_MODELS_INSTALL_H

#include "tools/framectl/common/problem.h"

/*
 * Prints the sizes, prepares the files beside `target`, and replaces `target` in one step. Without wheels it uses pip; `cuda`
 * also fetches the CUDA libraries that the dynamic linker does not find.
 */
bool install_runtime(const char *target, bool cuda, const char *const *wheels, unsigned count, struct problem *problem);

#endif
