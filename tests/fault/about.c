/* The parameters of the stage fault. */
#include "tests/fault/fault.h"

#define MAX_SEQUENCE 9007199254740992.0 /* the largest whole number that a double represents exactly */

static const struct stage_parameter fault[] = {
    {.name = "kind",
     .type = STAGE_CHOICE,
     .required = true,
     .maximum = FAULT_LOST,
     .choices = STAGE_WORDS("illegal", "hang", "delay", "lost"), /* in the order of enum fault_kind */
     .help = "What strikes: an illegal access, a kernel that never ends, a delay, or the end of the device."},
    {.name = "at", .type = STAGE_INTEGER, .maximum = MAX_SEQUENCE, .help = "Number of the first frame that is struck."},
    {.name = "every",
     .type = STAGE_INTEGER,
     .maximum = MAX_SEQUENCE,
     .fallback = 1,
     .help = "Strikes every so many frames from there on; 0: only that one."},
    {.name = "again",
     .type = STAGE_CHOICE,
     .maximum = 1,
     .fallback = 1,
     .choices = STAGE_WORDS("no", "yes"),
     .help = "Whether a frame is struck once more when it runs again after a fault."},
    {.name = "ms", .type = STAGE_NUMBER, .maximum = 60000, .fallback = 10, .help = "Length of a delay in milliseconds."},
};

const struct stage_about fault_about = {
    .name = "fault",
    .help = "Passes frames on and strikes some of them, to test what the daemon does then.",
    STAGE_PARAMETERS(fault),
};
