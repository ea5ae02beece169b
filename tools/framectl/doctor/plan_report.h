/* What `framectl plan` says of a work: for people with a drawn timeline, for machines as JSON. */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_PLAN_REPORT_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_PLAN_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/measure/overlap.h"

struct plan_request {
  struct overlap_work work; /* microseconds, of one frame or chunk */
  uint64_t frames;          /* or chunks */
  bool is_cut;              /* the frames are chunks of one piece of work */
  unsigned kept_free;       /* more slots, which the pipeline keeps off the device for frames that may replace others */
  const char *keeper;       /* which of its keys asks for that */
  const char *measured;     /* the pipeline that the times are of; NULL: they were given */
  double model_us;          /* of the kernel's time, what a model takes; 0: there is none */
  double run_us, batched;   /* how long it takes for a batch, and the frames of one */
  char bound_by[16];        /* what the daemon says that bounds it now; "": it does not say */
};

/* False if there is no memory. */
bool plan_report_text(FILE *out, const struct plan_request *request, unsigned columns, bool colour);
bool plan_report_json(FILE *out, const struct plan_request *request);

#endif
