/* How a request to the daemon ends: an HTTP status and a JSON body, at once or later, exactly once. */
#ifndef FRAMED_BASE_ANSWER_H
#define FRAMED_BASE_ANSWER_H

#include <jansson.h>

/* Called on the control loop. The body, {"ok": true, ...} or {"error": "...", "remedy": "..."}, is the receiver's. */
typedef void server_answer(void *context, int http_status, json_t *body);

/* The answer to what nobody asked for: the log has been told. */
void answer_nobody(void *context, int http_status, json_t *body);

/* Text of any bytes: what another program said, a path, a sentence that was cut in the middle of a letter. Where it is no
 * UTF-8, which JSON cannot carry, it is escaped as in the log. NULL: no memory. */
json_t *answer_string(const char *text);
/* {"error": "...", "remedy": "..."}, without a remedy that is NULL or empty. NULL: no memory. */
json_t *answer_error_document(const char *error, const char *remedy);

/* Answers with an error; `remedy` may be NULL. */
__attribute__((format(printf, 5, 6))) void answer_error(server_answer *answer, void *context, int http_status,
                                                        const char *remedy, const char *format, ...);

#endif
