/*
 * A progress line on standard error, which is overwritten and erased before other output. It appears only on a terminal, and
 * only after some seconds, so that quick commands print nothing extra.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_PROGRESS_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_PROGRESS_H

#include <stdbool.h>

struct progress { /* all zero: never shows anything */
  bool wanted, shown;
  double began, drawn; /* seconds */
};

void progress_begin(struct progress *progress);
/*
 * Call this often; it draws a few times a second. `share` is the part that is done, up to 1. A negative share shows the elapsed
 * time in place of the remaining time; 0 shows only the text.
 */
__attribute__((format(printf, 3, 4))) void progress_show(struct progress *progress, double share, const char *format, ...);
/* Erases the line. Call this before other output, and at the end. */
void progress_clear(struct progress *progress);

#endif
