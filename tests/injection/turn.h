/*
 * Whether it is the turn of a call to fail, for fail_call.c, which takes the place of the calls. None of this is to be seen
 * outside the library, where the program under test might have the same names.
 */
#ifndef FRAMED_TESTS_INJECTION_TURN_H
#define FRAMED_TESTS_INJECTION_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#pragma GCC visibility push(hidden)

/* Counts the call, if it is of the kind that is counted; `libuv_too`: also where libuv made it. Ends the process if that is
 * what is to happen, and marks the call if something is to happen after it. */
bool turn_is(const char *call, const void *caller, bool libuv_too);
/* The same for a call on a descriptor, which libuv makes for others where it is a file. */
bool turn_is_on(const char *call, const void *caller, int fd);
/* In a call that is marked: after it, if it is one that moves bytes, and before it otherwise. */
void turn_act_if_due(void);

/* What a turn means for a call that moves `*size` bytes: true, it fails; false, it goes ahead, maybe with half of them. */
bool turn_fails(bool turn, size_t *size);
bool turn_fails_vector(bool turn, const struct iovec **vector, int *count, struct iovec *half);

int turn_error(void); /* what errno gets */
bool turn_is_of_program(const void *address);

#pragma GCC visibility pop

#endif
