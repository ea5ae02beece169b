/* Errors of libavformat and answers of cameras, as tokens and sentences. */
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>

#include <libavutil/common.h> /* error.h of 4.4 needs it */
#include <libavutil/error.h>

#include "tools/camera/reason.h"

/* Status codes of HTTP that RTSP shares, and two of RTSP's own. */
enum {
  STATUS_UNAUTHORIZED = 401,
  STATUS_FORBIDDEN = 403,
  STATUS_NOT_FOUND = 404,
  STATUS_GONE = 410,
  STATUS_UNSUPPORTED_MEDIA = 415,
  STATUS_NOT_ENOUGH_BANDWIDTH = 453,
  STATUS_UNSUPPORTED_TRANSPORT = 461,
  STATUS_UNAVAILABLE = 503
};

static const char *const names[REASON_TOKENS] = {
    "",
    "camera.password",
    "camera.name",
    "camera.refused",
    "camera.sessions",
    "camera.path",
    "camera.codec",
    "camera.key_frame",
    "camera.loss",
    "camera.clock",
    "camera.slow",
    "camera.silent",
    "camera.unreachable",
    "camera.ended",
    "camera.url",
};

const char *reason_name(enum reason_token token) { return token < REASON_TOKENS ? names[token] : ""; }

bool reason_set(struct reason *reason, enum reason_token token, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  reason->token = token;
  vsnprintf(reason->text, sizeof reason->text, format, arguments);
  va_end(arguments);
  return false;
}

static bool set_password(struct reason *reason, const struct address *address) {
  return address->has_user
             ? reason_set(reason, REASON_PASSWORD, "the camera refused the user name or the password: check the credentials")
             : reason_set(reason, REASON_PASSWORD,
                          "the camera wants a user name and a password: add credentials to the source");
}

static bool set_unreachable(struct reason *reason, const struct address *address) {
  return reason_set(reason, REASON_UNREACHABLE, "%s does not answer: check the address, the network and the camera's power",
                    address->name);
}

static bool set_path(struct reason *reason, const struct address *address, int error) {
  char why[64] = "";
  av_strerror(error, why, sizeof why);
  if (address->kind == ADDRESS_FILE || address->kind == ADDRESS_V4L2) {
    return reason_set(reason, REASON_PATH, "cannot open %s: %s", address->name, why);
  }
  return reason_set(reason, REASON_PATH, "the camera has no stream at this path: check the path in the URL");
}

/* True: the status says more than any error. */
static bool set_status(struct reason *reason, int status, const struct address *address) {
  switch (status) {
  case STATUS_UNAUTHORIZED:
  case STATUS_FORBIDDEN:
    set_password(reason, address);
    return true;
  case STATUS_NOT_FOUND:
  case STATUS_GONE:
    set_path(reason, address, 0);
    return true;
  case STATUS_NOT_ENOUGH_BANDWIDTH:
  case STATUS_UNAVAILABLE:
    reason_set(reason, REASON_SESSIONS,
               "the camera allows no further session (it answered %d; it has a limit): close other viewers, or take its second "
               "stream",
               status);
    return true;
  case STATUS_UNSUPPORTED_MEDIA:
    reason_set(reason, REASON_CODEC, "the camera answered 415 (unsupported media): set it to H.264, H.265 or MJPEG");
    return true;
  case STATUS_UNSUPPORTED_TRANSPORT:
    reason_set(reason, REASON_URL, "the camera does not offer this transport: choose the other one (tcp or udp)");
    return true;
  default:
    if (status >= 400) {
      reason_set(reason, REASON_REFUSED, "the camera answered %d: check the URL, or restart the camera", status);
    }
    return status >= 400;
  }
}

static bool set_ended(struct reason *reason, const struct address *address) {
  if (address->kind == ADDRESS_V4L2) {
    return reason_set(reason, REASON_ENDED, "%s was unplugged, or its driver ended the stream", address->name);
  }
  return address->kind == ADDRESS_FILE ? reason_set(reason, REASON_ENDED, "%s has ended", address->name)
                                       : reason_set(reason, REASON_ENDED, "the camera ended the stream");
}

bool reason_set_error(struct reason *reason, int error, int status, bool opening, const struct address *address) {
  if (set_status(reason, status, address)) {
    return false;
  }
  char why[64] = "";
  switch (error) {
  case AVERROR_HTTP_UNAUTHORIZED:
  case AVERROR_HTTP_FORBIDDEN:
    return set_password(reason, address);
  case AVERROR_HTTP_NOT_FOUND:
  case AVERROR(ENOENT):
  case AVERROR(EACCES):
  case AVERROR(EISDIR):
    return set_path(reason, address, error);
  case AVERROR(ENODEV):
    return opening ? set_path(reason, address, error) : set_ended(reason, address);
  case AVERROR(ECONNREFUSED):
    return reason_set(reason, REASON_REFUSED, "%s refused the connection: check the address and the port", address->name);
  case AVERROR(EHOSTUNREACH):
  case AVERROR(ENETUNREACH):
  case AVERROR(EHOSTDOWN):
    return set_unreachable(reason, address);
  case AVERROR_PROTOCOL_NOT_FOUND:
    return reason_set(reason, REASON_URL, "the libavformat of this system does not know this kind of URL");
  case AVERROR(EINVAL): /* a demuxer outside the list */
  case AVERROR_INVALIDDATA:
  case AVERROR_DECODER_NOT_FOUND:
  case AVERROR_DEMUXER_NOT_FOUND:
    return reason_set(reason, REASON_CODEC, "%s sends nothing that is known as video here", address->name);
  case AVERROR_EOF:
  case AVERROR(ECONNRESET):
  case AVERROR(EPIPE):
    return set_ended(reason, address);
  case AVERROR(ETIMEDOUT):
  case AVERROR_EXIT:
    return opening ? set_unreachable(reason, address) : reason_set(reason, REASON_SILENT, "nothing came from the camera");
  default:
    av_strerror(error, why, sizeof why);
    return reason_set(reason, opening ? REASON_UNREACHABLE : REASON_ENDED, "the connection to %s failed: %s", address->name,
                      why);
  }
}

bool reason_set_lookup(struct reason *reason, int error, const struct address *address) {
  if (error == EAI_AGAIN || error == EAI_FAIL || error == EAI_SYSTEM) {
    return reason_set(reason, REASON_NAME, "no name server answered for %.100s: check the network and /etc/resolv.conf",
                      address->host);
  }
  return reason_set(reason, REASON_NAME, "the name %.100s was not found: check it, or write the camera's address",
                    address->host);
}
