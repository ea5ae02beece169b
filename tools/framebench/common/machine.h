/* Describes the machine of a measurement, for the head of a document: processor, kernel, driver and date. */
#ifndef FRAMED_FRAMEBENCH_COMMON_MACHINE_H
#define FRAMED_FRAMEBENCH_COMMON_MACHINE_H

#include <jansson.h>

/* A new object; NULL without memory. */
json_t *machine_describe(void);

/* The number of processors that this process may use. */
unsigned machine_processors(void);

#endif
