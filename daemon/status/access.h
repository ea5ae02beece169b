/*
 * Who may ask: what a website elsewhere must not do through the browser of somebody who has this daemon's page open, and who
 * needs a token.
 *
 * A website cannot choose the Host header but by a name of its own that it lets lead here ("DNS rebinding"); such names have
 * dots, and addresses and names of one machine have none. What a browser asks for other websites names their origin.
 */
#ifndef FRAMED_STATUS_ACCESS_H
#define FRAMED_STATUS_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

enum access { ACCESS_GRANTED, ACCESS_WRONG_HOST, ACCESS_WRONG_ORIGIN, ACCESS_NO_TOKEN, ACCESS_NO_FILE };

/* Headers as they came; NULL: there was none. */
struct access_headers {
  const char *host, *origin, *site, *mode; /* Host, Origin, Sec-Fetch-Site, Sec-Fetch-Mode */
  bool commands;                           /* the request is a POST */
  const char *authorization, *cookie;      /* Authorization, and the value of the cookie `framed_token` */
};

/* `token` is the path of a file with the token; NULL: none is needed. */
enum access access_judge(const struct access_headers *headers, const char *token);

#endif
