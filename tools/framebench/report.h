/* The targets of many documents as one table in Markdown. */
#ifndef FRAMED_TOOLS_FRAMEBENCH_REPORT_H
#define FRAMED_TOOLS_FRAMEBENCH_REPORT_H

#include <jansson.h>
#include <stdio.h>

/* Where it was measured, as one sentence: from a document that names a device, before others. */
void report_print_machine(FILE *out, const json_t *documents);
/* All rows of the sections "targets", in the order of the documents. Gives how many there are. */
size_t report_print_targets(FILE *out, const json_t *documents);

#endif
