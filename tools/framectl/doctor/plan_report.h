/* The output of `framectl plan`: text with a drawn timeline, or JSON. */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_PLAN_REPORT_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_PLAN_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/measure/overlap.h"

struct plan_request {
  struct overlap_work work; /* microseconds, of one frame or chunk */
  uint64_t frames;          /* frames, or chunks */
  bool is_cut;              /* the frames are chunks of one piece of work */
  unsigned kept_free;       /* further slots, which the pipeline keeps off the device for newer frames */
  const char *keeper;       /* the configuration key that keeps them free */
  const char *measured;     /* the pipeline that was measured; NULL: times of the command line */
  double model_us;          /* the model's part of the kernel's time; 0: no model */
  double run_us, batched;   /* the time of a batch, and its number of frames */
  char bound_by[16];        /* the daemon's `bound_by`; "": unknown */
};

/* Both return false if there is no memory. */
bool plan_report_text(FILE *out, const struct plan_request *request, unsigned columns, bool colour);
bool plan_report_json(FILE *out, const struct plan_request *request);

#endif
