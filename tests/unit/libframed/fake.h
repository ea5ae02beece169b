/*
 * A daemon that says to a client what a test wants, true or not, and lends it memory of whatever kind.
 *
 * fake_connect() plays the greeting in a thread of its own and gives the client; afterwards the test is the daemon.
 */
#ifndef FRAMED_TESTS_UNIT_CLIENT_FAKE_H
#define FRAMED_TESTS_UNIT_CLIENT_FAKE_H

#include <stdbool.h>

#include "tools/client/client.h"

enum { FAKE_INPUT = 100, FAKE_OUTPUT = 200, FAKE_STRIDE = 4096, FAKE_SLOTS = 4 };

struct fake {
  struct framed_options options;
  /* What is to be said; set to what is right by fake_open(). */
  struct native_welcome welcome;
  uint16_t type;
  const char *text; /* said in place of a message */
  uint32_t error;   /* not 0: an ERROR with this code and `text` */
  unsigned descriptors;
  bool unsealed, silent;
  size_t cut;                         /* not 0: of a WELCOME only so many bytes are said */
  size_t shorter[SHARED_DESCRIPTORS]; /* memory that much too small */
  /* The state of things. */
  struct native_hello hello; /* as it came */
  int listener, fd;
  int memory[SHARED_DESCRIPTORS];
  struct native_control *control;
  unsigned char *input, *output;
  struct framed_error problem;
  char folder[64], path[96];
};

void fake_open(struct fake *fake, int role, int transport);
struct framed *fake_connect(struct fake *fake); /* NULL: `problem` says why not */
/* Both at once, where nothing is to go wrong. */
struct framed *fake_client(struct fake *fake, int role, int transport);
void fake_close(struct fake *fake);

/* The daemon dies: its connection ends, and its memory stays the client's. */
void fake_die(struct fake *fake);
/* Another daemon is there. Takes the client's connection up to the HELLO, */
void fake_accept(struct fake *fake, struct framed *client);
/* and says WELCOME, with new memory for the shared transport. */
void fake_welcome(struct fake *fake);
/* All of this, until the client knows of it. */
void fake_return(struct fake *fake, struct framed *client);

/* Submits a frame full of the lowest byte of its sequence, with timestamp 11 and deadline 22. */
void *fake_submit(struct framed *client, uint64_t sequence);

void fake_send(struct fake *fake, const void *bytes, size_t count);
void fake_read(struct fake *fake, void *bytes, size_t count);
/* A RESULT whose payload is full of `byte`. */
void fake_result(struct fake *fake, uint64_t sequence, unsigned char byte);
/* The same as bytes, with other words than those of fake_result(). */
enum { FAKE_RESULT = RESULT_BYTES + FAKE_OUTPUT };
void fake_result_bytes(unsigned char bytes[FAKE_RESULT], const struct native_result *result, unsigned char byte);
void fake_ack(struct fake *fake, uint64_t frames);
void fake_error(struct fake *fake, uint32_t code, const char *sentence);
/* Moves the cursor of completions, and rings if the client sleeps: true if it did. */
bool fake_complete(struct fake *fake, uint32_t slot, uint32_t fate, uint64_t sequence);

#endif
