/*
 * A codec: the values of a process, one after the other, for the next image of the same program.
 *
 * What lies in a codec is passed over it by one function for both ways, so that what is put is what is taken: while a codec is
 * written, passing a value puts it there; while one is read, passing it takes it from there. Values lie as they do in memory,
 * since only a program of the same state version ever reads them. Taking more than there is, or a value that cannot be, breaks
 * the codec: from then on all that is taken is zero, so one question at the end is enough.
 *
 * Descriptors are passed by number, which the table of descriptors (fd_table.h) tells the next process the meaning of.
 */
#ifndef FRAMED_STATE_CODEC_H
#define FRAMED_STATE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct codec {
  bool writing, broken;
  bool live; /* of a process that goes on, or was killed: lanes may stand anywhere, and descriptors may be gone */
  unsigned char *bytes;
  size_t length, room; /* written; `room` is what is allocated */
  size_t at;           /* read so far */
  bool by_manager;     /* it lies with the service manager, which also passes descriptors of its own */
};

/* For writing. It may allocate as it grows; without memory it breaks. */
void codec_begin(struct codec *codec);
/* For reading `length` bytes, which are taken over. */
void codec_load(struct codec *codec, unsigned char *bytes, size_t length);
/* Frees what it holds, but closes nothing. */
void codec_clear(struct codec *codec);
void codec_break(struct codec *codec);

void codec_pass(struct codec *codec, void *value, size_t size);
void codec_pass_flag(struct codec *codec, void *flag, size_t size);
/* A flag, which must be one, or bytes as they are. */
#define CODEC_PASS(codec, value) _Generic((value), bool : codec_pass_flag, default : codec_pass)(codec, &(value), sizeof(value))
/* Nanoseconds, of a clock or between two times; any two that were taken can be added and subtracted. */
void codec_pass_time(struct codec *codec, int64_t *time);
/* A number below `limit`; another one breaks the codec that is read, and is 0. */
void codec_pass_below(struct codec *codec, unsigned *number, unsigned limit);
/* Text on the heap, or NULL; what is read is the caller's to free. */
void codec_pass_text(struct codec *codec, char **text);
/* A descriptor, or -1; one that is read is open, is taken once, and belongs to the caller. On a codec that is live it may be
 * -1, although there was one. */
void codec_pass_descriptor(struct codec *codec, int *fd);

/* Whether all of it was taken, and nothing more. */
bool codec_is_at_end(const struct codec *codec);

#endif
