/* All allocations of the configuration: zeroed and checked for overflow. Test builds can make them fail. */
#ifndef FRAMED_CONFIG_MEMORY_H
#define FRAMED_CONFIG_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory for `count` elements, or NULL. */
void *memory_new(size_t count, size_t size);
/*
 * Grows `array` of `count` elements to the next power of two, so that one more fits. New elements are zero. On NULL the old
 * array is unchanged.
 */
void *memory_grow(void *array, size_t count, size_t size);
/* Resizes `bytes` to `room`. On NULL the old bytes are unchanged. */
void *memory_resize(void *bytes, size_t room);
/* A terminated copy of `length` bytes, or NULL. */
char *memory_copy(const char *text, size_t length);

#ifdef FRAMED_FAULTS
/* number of allocations until all fail; negative: they never fail */
extern long memory_allocations_left;
#endif

#endif
