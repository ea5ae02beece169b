/* The part of config_errors that only this directory uses. */
#ifndef FRAMED_CONFIG_ERRORS_H
#define FRAMED_CONFIG_ERRORS_H

#include "config/config.h"

/* Registers a file, with its text for quotes (or NULL). The report lists files in this order. */
bool errors_add_file(struct config_errors *errors, const char *name, const char *text, size_t length);
/* Notes that memory ran out. The report then contains only this error. */
void errors_set_exhausted(struct config_errors *errors);

/* True if further errors are only counted, so that searching suggestions is pointless. */
bool errors_are_full(const struct config_errors *errors);

#endif
