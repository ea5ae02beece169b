/*
 * Decides whether a call must fail, for fail_call.c, which replaces the calls. All symbols are hidden, since the program under
 * test may have the same names.
 */
#ifndef FRAMED_TESTS_INJECTION_TURN_H
#define FRAMED_TESTS_INJECTION_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#pragma GCC visibility push(hidden)

/*
 * Counts a call of the selected kind; with `libuv_too` also if libuv made it. Ends the process if that is the plan, and marks
 * the call if the plan acts after the call.
 */
bool turn_is(const char *call, const void *caller, bool libuv_too);
/* Does so for a call on a descriptor. libuv makes such calls for others if the descriptor is a file. */
bool turn_is_on(const char *call, const void *caller, int fd);
/* Acts on a marked call: after it if the call moves bytes, otherwise before it runs. */
void turn_act_if_due(void);

/* The plan for a call that moves `*size` bytes. True: it fails; false: it runs, possibly with half the bytes. */
bool turn_fails(bool turn, size_t *size);
bool turn_fails_vector(bool turn, const struct iovec **vector, int *count, struct iovec *half);

int turn_error(void); /* the value for errno */
bool turn_is_of_program(const void *address);

#pragma GCC visibility pop

#endif
