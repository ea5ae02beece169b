#include "daemon/base/answer.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log_text.h"

void answer_nobody(void *context, int http_status, json_t *body) {
  (void)context;
  (void)http_status;
  json_decref(body);
}

json_t *answer_string(const char *text) {
  json_t *plain = json_string(text);
  if (plain) {
    return plain;
  }
  size_t size = log_text_bound(text);
  char *escaped = malloc(size);
  if (escaped) {
    log_text_escape(escaped, size, text);
  }
  json_t *document = json_string(escaped);
  free(escaped);
  return document;
}

json_t *answer_error_document(const char *error, const char *remedy) {
  bool helps = remedy && remedy[0];
  return helps ? json_pack("{s:o, s:o}", "error", answer_string(error), "remedy", answer_string(remedy))
               : json_pack("{s:o}", "error", answer_string(error));
}

void answer_error(server_answer *answer, void *context, int http_status, const char *remedy, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  answer(context, http_status, answer_error_document(text, remedy));
}
