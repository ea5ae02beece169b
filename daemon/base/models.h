/*
 * Opens the models that a configuration names, each once, whoever runs it. A configuration keeps what was opened for it, and
 * whoever runs a model keeps its configuration, so that a model is open for as long as somebody runs it. A new configuration
 * takes over those models of the one in force that have not changed, and opens the others beside them.
 */
#ifndef FRAMED_BASE_MODELS_H
#define FRAMED_BASE_MODELS_H

#include "config/config.h"

/* Opens one model of `config`, which is being read, and the one in its shadow, as the hook `open` of config_load(). `before`:
 * the configuration in force, or NULL. May take seconds: for set-up threads. */
bool models_open(const struct config *before, const struct config *config, struct config_model *model,
                 struct config_errors *errors);

#endif
