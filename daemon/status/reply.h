/* What is answered to a request: a text, or a document of JSON. */
#ifndef FRAMED_STATUS_REPLY_H
#define FRAMED_STATUS_REPLY_H

#include <jansson.h>

#include "daemon/status/http.h"

/* Takes `text`; NULL means that there was no memory for it, and so no answer. `allow`: see struct http_answer. */
void reply_text(struct http_request *request, unsigned code, const char *type, char *text, const char *allow);
/* Takes `document`; NULL likewise. */
void reply_json(struct http_request *request, unsigned code, json_t *document, const char *allow);
/* A server_answer, whose context is the request. */
void reply_later(void *context, int code, json_t *body);

#endif
