/* All information on one pipeline as text, which `framectl top` shows for an opened row. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_DETAILS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_DETAILS_H

#include <jansson.h>

/* `config` is the text of /v1/config, or NULL. The caller frees the result. NULL: no memory, or no such pipeline. */
char *details_text(json_t *document, const char *name, const char *config);

#endif
