/*
 * Live views: a stream of JPEG files, multipart/x-mixed-replace, for as long as somebody watches.
 *
 * The next picture is asked for when the one before has been read, so a viewer that does not read costs nothing, and where
 * nobody watches no picture is taken. Viewers of the same side share its pictures and files (pictures.h).
 */
#ifndef FRAMED_STATUS_LIVE_H
#define FRAMED_STATUS_LIVE_H

#include "daemon/status/http.h"
#include "daemon/status/status_ops.h"

#define LIVE_BOUNDARY "frame"
#define LIVE_TYPE     "multipart/x-mixed-replace; boundary=" LIVE_BOUNDARY

/* Answers the request with a stream of what `order` names, whose callbacks it sets; with 503 where too many watch already, and
 * otherwise with `failed` where the first picture is none. The stream ends when a reload takes the right to see it away. */
void live_answer(const struct status_ops *ops, struct http_request *request, const struct picture_order *order, bool has_token);

#endif
