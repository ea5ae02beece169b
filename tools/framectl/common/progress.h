/*
 * How far a long piece of work is: one line on standard error, written again and again, and gone before anything else is
 * printed. Nothing where standard error is no terminal, nor in the first seconds, so that what is quick stays quiet.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_PROGRESS_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_PROGRESS_H

#include <stdbool.h>

struct progress { /* all zero: never shows anything */
  bool wanted, shown;
  double began, drawn; /* seconds */
};

void progress_begin(struct progress *progress);
/* To be called often: it draws a few times a second. `share` is how much is done, up to 1; less than 0: nobody knows, and the
 * time so far is shown in place of the time that is left; 0: the text says it all. */
__attribute__((format(printf, 3, 4))) void progress_show(struct progress *progress, double share, const char *format, ...);
/* Takes the line away: before something is printed, and at the end. */
void progress_clear(struct progress *progress);

#endif
