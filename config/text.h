/* The canonical text: YAML of a whole configuration with every default, which reads back as the same. */
#ifndef FRAMED_CONFIG_TEXT_H
#define FRAMED_CONFIG_TEXT_H

#include "config/config.h"

/* Allocated texts, or NULL if there is no memory. */
char *text_of_config(const struct config *config, const struct config_vocabulary *vocabulary);
/* Of a model without its name, once it is open. */
char *text_of_model(const struct config_model *model, const struct config_vocabulary *vocabulary);
/* With which files there are now, that of its credentials included. */
char *text_of_pipeline(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary);
/* The same of all but the stages. */
char *text_of_ends(const struct config_pipeline *pipeline, const struct config_vocabulary *vocabulary);

#endif
