/* The canonical text: YAML of a whole configuration with all defaults. Reading it produces the same configuration. */
#ifndef FRAMED_CONFIG_TEXT_H
#define FRAMED_CONFIG_TEXT_H

#include "config/config.h"

/* All return allocated texts, or NULL if there is no memory. */
char *text_of_config(const struct config *config, const struct config_vocabulary *vocabulary);
/* A model without its name. It must be open. */
char *text_of_model(const struct config_model *model, const struct config_vocabulary *vocabulary);
/* Includes the identities of the current files, including that of its credentials. */
char *text_of_pipeline(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary);
/* Everything except the stages; it includes the identity of the file with credentials. */
char *text_of_ends(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary);

#endif
