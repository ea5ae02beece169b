/*
 * Problems of a camera: a stable token for programs and one sentence for people.
 *
 * A sentence never holds a URL, since a URL may hold a password: it names the host and the port at most.
 */
#ifndef FRAMED_TOOLS_CAMERA_REASON_H
#define FRAMED_TOOLS_CAMERA_REASON_H

#include <stdbool.h>

#include "tools/camera/address.h"

enum reason_token {
  REASON_NONE,
  REASON_PASSWORD,    /* the camera wants another user name or password */
  REASON_NAME,        /* the name of the host has no address */
  REASON_REFUSED,     /* nothing listens at that port */
  REASON_SESSIONS,    /* the camera serves as many clients as it can */
  REASON_PATH,        /* the camera has no stream of that name */
  REASON_CODEC,       /* there is no video, or none that can be decoded here */
  REASON_KEY_FRAME,   /* no picture can be decoded before a key frame comes */
  REASON_LOSS,        /* the network loses packets */
  REASON_CLOCK,       /* the camera's clock is wrong, or its time stamps jump */
  REASON_SLOW,        /* pictures come later and later: the network or the processor is too slow */
  REASON_SILENT,      /* the stream is open and nothing comes */
  REASON_UNREACHABLE, /* no answer */
  REASON_ENDED,       /* the camera closed the stream */
  REASON_URL,         /* the URL cannot be used */
  REASON_TOKENS
};

enum { REASON_TEXT = 200 }; /* bytes of a sentence, with its final zero */

struct reason {
  enum reason_token token;
  char text[REASON_TEXT];
};

/* "camera.password"; "" for REASON_NONE. */
const char *reason_name(enum reason_token token);

/* Returns false, so that a function can return its result. */
bool reason_set(struct reason *reason, enum reason_token token, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Says why libavformat failed. `error` is its error code, `status` the answer of RTSP or HTTP (0: none), and `opening` is false
 * if the stream had been open. Returns false.
 */
bool reason_set_error(struct reason *reason, int error, int status, bool opening, const struct address *address);

/* Says why getaddrinfo() failed. Returns false. */
bool reason_set_lookup(struct reason *reason, int error, const struct address *address);

#endif
