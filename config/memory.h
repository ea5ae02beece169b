/*
 * The only allocations of the configuration: zeroed, checked for overflow, and in test builds made to fail at will.
 */
#ifndef FRAMED_CONFIG_MEMORY_H
#define FRAMED_CONFIG_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory for `count` elements, or NULL. */
void *memory_new(size_t count, size_t size);
/* `array` of `count` elements with room for one more (zeroed); its room is the next power of two. On NULL the old
 * array is still there. */
void *memory_grow(void *array, size_t count, size_t size);
/* `bytes` with so much room, or NULL: then they are still there as they were. */
void *memory_resize(void *bytes, size_t room);
/* A terminated copy of `length` bytes, or NULL. */
char *memory_copy(const char *text, size_t length);

#ifdef FRAMED_FAULTS
/* Allocations until all fail; negative: they never do. */
extern long memory_allocations_left;
#endif

#endif
