/* The end of a request to the daemon: an HTTP status and a JSON body, now or later, exactly once. */
#ifndef FRAMED_BASE_ANSWER_H
#define FRAMED_BASE_ANSWER_H

#include <jansson.h>

/* Called on the control loop. The receiver owns the body: {"ok": true, ...} or {"error": "...", "remedy": "..."}. */
typedef void server_answer(void *context, int http_status, json_t *body);

/* Discards the answer to a change that no client requested. The log has it already. */
void answer_nobody(void *context, int http_status, json_t *body);

/* A JSON string of any bytes: another program's text, a path, a truncated sentence. Bytes that are not UTF-8 are escaped as in
 * the log, because JSON cannot carry them. NULL without memory. */
json_t *answer_string(const char *text);
/* {"error": "...", "remedy": "..."}, without `remedy` if it is NULL or empty. NULL without memory. */
json_t *answer_error_document(const char *error, const char *remedy);

/* Answers with an error. `remedy` may be NULL. */
__attribute__((format(printf, 5, 6))) void answer_error(server_answer *answer, void *context, int http_status,
                                                        const char *remedy, const char *format, ...);

#endif
