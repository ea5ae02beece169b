/* Where something was measured: processor, kernel, driver and date, for the head of a document. */
#ifndef FRAMED_FRAMEBENCH_COMMON_MACHINE_H
#define FRAMED_FRAMEBENCH_COMMON_MACHINE_H

#include <jansson.h>

/* A new object; NULL without memory. */
json_t *machine_describe(void);

/* On how many processors this process may run. */
unsigned machine_processors(void);

#endif
