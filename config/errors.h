/* What the readers of this directory need of config_errors beyond config.h. */
#ifndef FRAMED_CONFIG_ERRORS_H
#define FRAMED_CONFIG_ERRORS_H

#include "config/config.h"

/* Makes a file known, with its text for quoting (or NULL). Files are reported in the order in which they came. */
bool errors_add_file(struct config_errors *errors, const char *name, const char *text, size_t length);
/* Says that memory ran out: the report is then that alone, and there is at least one error. */
void errors_set_exhausted(struct config_errors *errors);

/* Whether further errors are only counted, so that suggestions for them need not be sought. */
bool errors_are_full(const struct config_errors *errors);

#endif
