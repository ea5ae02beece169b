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

/* Says in the log which models were opened, unless `before` had them open, and which ones nobody runs. */
void models_log(const struct config *config, const struct config *before);

/* The table of --check. */
void models_print(FILE *out, const struct config *config);

#endif
