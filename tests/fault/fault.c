/* The stage fault: its descriptor, and its work on the CPU backend. See fault.h. */
#include "tests/fault/fault.h"

#include "gpu/stages/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct fault_constants constants = {
      .kind = (enum fault_kind)values[0].numbers[0],
      .at = (uint64_t)values[1].numbers[0],
      .every = (uint64_t)values[2].numbers[0],
      .again = values[3].numbers[0] != 0,
      .delay_ns = (uint64_t)(values[4].numbers[0] * 1e6),
  };
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

bool fault_strikes_warm_up(uint64_t sequence) {
  const char *path = sequence == STAGE_WARM_UP ? getenv("FRAMED_FAULT_WARM_UPS") : NULL;
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) {
    return false;
  }
  off_t left = lseek(fd, 0, SEEK_END);
  bool strikes = left > 0 && ftruncate(fd, left - 1) == 0;
  close(fd);
  return strikes;
}

static void delay(uint64_t ns) {
  struct timespec rest = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct fault_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  if (fault_strikes(constants, call->sequence, call->again) || fault_strikes_warm_up(call->sequence)) {
    switch (constants.kind) {
    case FAULT_ILLEGAL:
      cpu_fault_illegal();
      break;
    case FAULT_HANG:
      cpu_fault_hang();
      break;
    case FAULT_LOST:
      cpu_fault_lost();
      break;
    case FAULT_DELAY:
      delay(constants.delay_ns);
      break;
    }
  }
  memcpy(call->output, call->input, plan->input_bytes);
}

static bool differs(const struct stage_plan *plan, uint64_t sequence) {
  struct fault_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  return fault_strikes(constants, sequence, false);
}

const struct stage_descriptor fault_stage = {
    .about = &fault_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(fault_enqueue), .differs = differs};
