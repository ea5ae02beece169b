/* The cameras of the local network that answer to ONVIF's WS-Discovery. */
#ifndef FRAMED_TOOLS_FRAMECTL_CAMERA_FIND_H
#define FRAMED_TOOLS_FRAMECTL_CAMERA_FIND_H

#include <stddef.h>

#include "tools/framectl/command.h"

enum { FOUND_TEXT = 256 };

struct found {
  char address[64];          /* the sender's */
  char endpoint[FOUND_TEXT]; /* its name in WS-Discovery: the same in each answer of one camera */
  char service[FOUND_TEXT];  /* URL of its ONVIF service */
  char name[FOUND_TEXT], hardware[FOUND_TEXT];
};

/* Reads one answer. Texts that are too long are cut. False: it is no answer of a camera. */
bool find_parse(const char *answer, struct found *found);

/* Asks all networks of this machine, or one address, and prints the cameras that answer. */
bool find_cameras(const struct invocation *invocation, const char *address, struct problem *problem);

#endif
