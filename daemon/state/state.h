/*
 * The room state/: what outlives a process.
 *
 * The state memfd: the bytes of a codec, which outlive their process.
 *
 * Its header names the version of what is in the codec and holds checksums of itself and of the rest; a memory with one bit
 * wrong, or of another version, is none. It is never registered with a device, since a wild kernel can write what is.
 */
#ifndef FRAMED_STATE_STATE_H
#define FRAMED_STATE_STATE_H

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"
#include "daemon/measure/trouble.h"
#include "daemon/state/codec.h"

/* Raised with every change of what is in the codec, or of what it means. */
enum { STATE_VERSION = 20 };

/* Writes the codec to a new memory; returns its descriptor (closed on exec), or -1. */
int state_write(const struct codec *codec, struct failure *failure);
/* Loads what state_write() wrote. False, with a sentence, if it is not whole or not of this version. */
bool state_read(int fd, struct codec *codec, struct failure *failure);

/* The sizes and limits of what states hold as it lies in memory, which this file does not know. Before any thread is started.
 */
void state_set_layout(const size_t *sizes, size_t count);

/* What must be equal for a state to be understood, as text: the version, and the layout of what is passed whole. */
enum { STATE_VERSION_TEXT = 32 };
const char *state_version(char text[STATE_VERSION_TEXT]);

/* [for tests] The checksum over bytes. */
uint64_t state_checksum(const void *bytes, size_t length);

/* What is known of all process images, which goes from each to the next. */
void history_pass(struct history *history, struct codec *codec);
/* Puts it in the place, in a codec that was read, where it was taken from. */
bool history_replace(struct history *history, struct codec *codec, size_t at);

/* What is wrong with something that goes on in the next image. */
void trouble_pass(struct trouble *trouble, struct codec *codec);

#endif
