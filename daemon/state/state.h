/*
 * The room state/: what outlives a process.
 *
 * A state: the bytes of a codec in a record of the image, for the next process.
 *
 * Their version is the image's; a checksum stands before them, so that bytes with one bit wrong are none.
 */
#ifndef FRAMED_STATE_STATE_H
#define FRAMED_STATE_STATE_H

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"
#include "daemon/measure/trouble.h"
#include "daemon/state/codec.h"

/* Raised with every change of what is in the image or a codec, or of what it means. */
enum { STATE_VERSION = 21 };

/* A record with the codec's bytes, and whether it is live, which image_free() frees; or NULL. */
void *state_write(const struct codec *codec, struct failure *failure);
/* Loads the record of that name from the image that a process before this one left. False, with a sentence, if it is not whole.
 */
bool state_read(uint64_t name, struct codec *codec, struct failure *failure);
/* Whether that one is live: its process was killed. */
bool state_was_live(void);
/* Changes bytes of the record that was read last to those of the codec, which is as long. */
bool state_write_again(const struct codec *codec);

/* The sizes and limits of what states hold as it lies in memory, which this file does not know. Before any thread is started.
 */
void state_set_layout(const size_t *sizes, size_t count);

/* What must be equal for a state to be understood, as text: the version, and the layout of what is passed whole. */
enum { STATE_VERSION_TEXT = 32 };
const char *state_version(char text[STATE_VERSION_TEXT]);
uint64_t state_checksum(const void *bytes, size_t length);

/* What is known of all process images, which goes from each to the next. */
void history_pass(struct history *history, struct codec *codec);
/* Puts it in the place, in a codec that was read, where it was taken from. */
bool history_replace(struct history *history, struct codec *codec, size_t at);

/* Takes what was wrong with something. False: it makes no sense. */
bool trouble_adopt(struct trouble *trouble, const struct trouble *left);

#endif
