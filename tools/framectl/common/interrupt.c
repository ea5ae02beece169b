#include "tools/framectl/common/interrupt.h"

#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int descriptor = -1;
static volatile sig_atomic_t came;

static void take(int signal) {
  const uint64_t one = 1;
  (void)signal;
  came = 1;
  if (write(descriptor, &one, sizeof one) < 0) { /* fails only when it is readable already */
    return;
  }
}

/* Without SA_RESTART, so that an interrupt also ends a blocked write to a pipe. */
bool interrupt_watch(void) {
  const struct sigaction action = {.sa_handler = take, .sa_flags = (int)SA_RESETHAND};
  descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return descriptor >= 0 && sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0;
}

int interrupt_descriptor(void) { return descriptor; }

bool interrupt_came(void) { return came; }
