/* One pipeline with all there is to say of it, as text: what an opened row of `framectl top` shows. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_DETAILS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_DETAILS_H

#include <jansson.h>

/* `config` is what /v1/config gives, NULL if it did not. To free; NULL without memory, or if there is no such pipeline. */
char *details_text(json_t *document, const char *name, const char *config);

#endif
