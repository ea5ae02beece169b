#include "daemon/answer.h"

#include <stdarg.h>
#include <stdio.h>

void answer_nobody(void *context, int http_status, json_t *body) {
  (void)context;
  (void)http_status;
  json_decref(body);
}

void answer_error(server_answer *answer, void *context, int http_status, const char *remedy, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  json_t *body = json_pack("{s:s}", "error", text);
  if (remedy && remedy[0]) {
    json_object_set_new(body, "remedy", json_string(remedy));
  }
  answer(context, http_status, body);
}
