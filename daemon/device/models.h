/*
 * Opens the models that a configuration names. A configuration keeps what was opened for it, and whoever runs a model keeps its
 * configuration, so that a model is open for as long as somebody runs it. One that is open already, for this configuration or
 * the one in force, is not opened once more; one with something else in its files is opened beside the old one.
 */
#ifndef FRAMED_DEVICE_MODELS_H
#define FRAMED_DEVICE_MODELS_H

#include "config/config.h"
#include "gpu/kept.h"

/* Opens a model of a configuration that is being read, for the hook `open` of config_load(). May take seconds: for set-up
 * threads. */
bool models_open(struct config_model *model, struct config_errors *errors);

/* Says in the log which models were opened, unless `before` (NULL: none) had them open, and which ones nobody runs. */
void models_log(const struct config *config, const struct config *before);

/* Adds the files of the models that are open for the configuration to a list as kept_list() does. */
unsigned models_files(const struct config *config, struct kept_file *files, unsigned count, unsigned most);

/* Whoever runs them has opened them: the worker that judged them may let go. */
void models_settle(const struct config *config);

/* The table of --check. */
void models_print(FILE *out, const struct config *config);

#endif
