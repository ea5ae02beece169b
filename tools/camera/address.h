/* The URL of a source: what framed-camera understands of it, and the form that libavformat opens. */
#ifndef FRAMED_TOOLS_CAMERA_ADDRESS_H
#define FRAMED_TOOLS_CAMERA_ADDRESS_H

#include <stdbool.h>

struct reason;

enum address_kind { ADDRESS_RTSP, ADDRESS_HTTP, ADDRESS_SRT, ADDRESS_FILE, ADDRESS_V4L2 };

enum { ADDRESS_HOST = 256, ADDRESS_NAME = 100 };

struct address {
  enum address_kind kind;
  char host[ADDRESS_HOST]; /* "" for a file or a device */
  char port[8];            /* decimal */
  char name[ADDRESS_NAME]; /* for sentences: host and port, or the last part of a path; no secret */
  bool has_user;           /* a user name and a password will be sent */
  const char *protocols;   /* that libavformat may use for this source, whatever the other side asks for */
  char *url;               /* for libavformat alone: may hold the password */
};

/* `user` and `password` may be NULL; they replace those in the URL. address_clear() is due also after failure. */
bool address_read(struct address *address, const char *url, const char *user, const char *password, struct reason *reason);

/* Overwrites the password. */
void address_clear(struct address *address);

#endif
