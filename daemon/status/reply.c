#include "daemon/status/reply.h"

#include <stdlib.h>
#include <string.h>

enum { JSON_FORM = JSON_INDENT(1) | JSON_REAL_PRECISION(15) };

void reply_text(struct http_request *request, unsigned code, const char *type, char *text, const char *allow) {
  struct http_answer answer = {.status = code, .type = type, .allow = allow, .body = text, .length = text ? strlen(text) : 0};
  http_answer(request, &answer);
}

/* Into memory that suffices, since a text that grows may lack a part where it could not. With an end of line behind it, so that
 * the shell's prompt is not glued to what curl shows. */
static char *json_text(json_t *document) {
  size_t length = document ? json_dumpb(document, NULL, 0, JSON_FORM) : 0;
  char *text = length > 0 ? malloc(length + sizeof "\n") : NULL;
  if (!text || json_dumpb(document, text, length, JSON_FORM) != length) {
    free(text);
    return NULL;
  }
  memcpy(text + length, "\n", sizeof "\n");
  return text;
}

void reply_json(struct http_request *request, unsigned code, json_t *document, const char *allow) {
  char *text = json_text(document);
  json_decref(document);
  reply_text(request, code, "application/json", text, allow);
}

void reply_later(void *context, int code, json_t *body) {
  if (code == 204) { /* which has no body */
    json_decref(body);
    reply_text(context, 204, "image/jpeg", strdup(""), NULL);
  } else {
    reply_json(context, (unsigned)code, body, NULL);
  }
}
