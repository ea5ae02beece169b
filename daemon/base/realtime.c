#include "daemon/base/realtime.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_capability(unsigned number) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
  return syscall(SYS_capget, &header, data) == 0 && (data[number / 32].effective >> number % 32 & 1) != 0;
}

/* -- policy and priority ------------------------------------------------------------------------------------------------ */

static bool set_policy(const struct config_realtime *realtime, pthread_t thread, int *code) {
  const struct sched_param param = {.sched_priority = (int)realtime->priority};
  *code = pthread_setschedparam(thread, realtime->policy == CONFIG_POLICY_FIFO ? SCHED_FIFO : SCHED_RR, &param);
  return *code == 0;
}

static bool refuse_policy(const struct config_realtime *realtime, int code, struct failure *failure) {
  struct rlimit limit = {0};
  char remedy[FAILURE_REMEDY];
  char reason[64];
  bool limited = getrlimit(RLIMIT_RTPRIO, &limit) == 0 && limit.rlim_cur < realtime->priority && !has_capability(CAP_SYS_NICE);
  if (code == EPERM && limited) {
    snprintf(
        remedy, sizeof remedy,
        "write LimitRTPRIO=%u and RestrictRealtime=no in a drop-in of the unit, as realtime.conf among the examples does, or "
        "`ulimit -r %u` as root before the start",
        realtime->priority, realtime->priority);
    return failure_set(failure, EXIT_STATUS_CONFIG, remedy,
                       "realtime.priority is %u, and this process may have %ju at most (RLIMIT_RTPRIO)", realtime->priority,
                       (uintmax_t)limit.rlim_cur);
  }
  return failure_set(
      failure, EXIT_STATUS_CONFIG,
      "write RestrictRealtime=no in a drop-in of the unit; a control group of version 1 needs some cpu.rt_runtime_us",
      "realtime.policy '%s' is refused: %s", config_policy_names[realtime->policy], strerror_r(code, reason, sizeof reason));
}

static bool try_policy(const struct config_realtime *realtime, struct failure *failure) {
  struct sched_param before;
  int policy, code;
  if (realtime->policy == CONFIG_POLICY_OTHER || pthread_getschedparam(pthread_self(), &policy, &before) != 0) {
    return true;
  }
  bool good = set_policy(realtime, pthread_self(), &code);
  if (good) {
    pthread_setschedparam(pthread_self(), policy, &before);
  }
  return good || refuse_policy(realtime, code, failure);
}

/* -- processors ---------------------------------------------------------------------------------------------------------- */

unsigned realtime_processors(const struct config_realtime *realtime) {
  unsigned count = 0;
  for (size_t i = 0; i < sizeof realtime->processors.bits / sizeof realtime->processors.bits[0]; i++) {
    count += (unsigned)__builtin_popcountll(realtime->processors.bits[i]);
  }
  return count;
}

static bool refuse_processor(unsigned number, struct failure *failure) {
  return failure_set(
      failure, EXIT_STATUS_CONFIG,
      "name some that `cat /sys/fs/cgroup/cpuset.cpus.effective` or `lscpu -e` lists; AllowedCPUs= of the unit takes "
      "others away",
      "realtime.cpus names processor %u, which is not there or not for this process", number);
}

/* Tries each processor alone, because of a set the kernel silently ignores those that are not allowed. */
static bool try_processors(const struct config_realtime *realtime, struct failure *failure) {
  cpu_set_t before, one;
  if (realtime_processors(realtime) == 0 || sched_getaffinity(0, sizeof before, &before) != 0) {
    return true;
  }
  bool good = true;
  for (unsigned i = 0; i < CONFIG_MAX_PROCESSORS && i < CPU_SETSIZE && good; i++) {
    if (config_has_processor(&realtime->processors, i)) {
      CPU_ZERO(&one);
      CPU_SET(i, &one);
      good = sched_setaffinity(0, sizeof one, &one) == 0 || refuse_processor(i, failure);
    }
  }
  sched_setaffinity(0, sizeof before, &before);
  return good;
}

static int set_processors(const struct config_realtime *realtime, pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned i = 0; i < CONFIG_MAX_PROCESSORS && i < CPU_SETSIZE; i++) {
    if (config_has_processor(&realtime->processors, i)) {
      CPU_SET(i, &set);
    }
  }
  return pthread_setaffinity_np(thread, sizeof set, &set);
}

/* -- memory -------------------------------------------------------------------------------------------------------------- */

#define UNLOCKED_REMEDY "write LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited` as root before the start"

/* With a limit, some later allocation would fail. */
static bool may_lock(const struct config_realtime *realtime, struct failure *failure) {
  struct rlimit limit;
  return !realtime->lock || has_capability(CAP_IPC_LOCK) || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
         limit.rlim_cur == RLIM_INFINITY ||
         failure_set(failure, EXIT_STATUS_CONFIG, UNLOCKED_REMEDY,
                     "realtime.lock keeps all memory, and this process may lock %ju bytes (RLIMIT_MEMLOCK)",
                     (uintmax_t)limit.rlim_cur);
}

/* Locks pages when they are first used, because a driver reserves far more addresses than it uses. */
bool realtime_lock(const struct config_realtime *realtime, struct failure *failure) {
  char reason[64];
  return !realtime->lock || mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 ||
         failure_set(failure, EXIT_STATUS_CONFIG, UNLOCKED_REMEDY, "realtime.lock: memory cannot be locked: %s",
                     strerror_r(errno, reason, sizeof reason));
}

/* -- all of it ----------------------------------------------------------------------------------------------------------- */

bool realtime_check(const struct config_realtime *realtime, struct failure *failure) {
  return try_policy(realtime, failure) && try_processors(realtime, failure) && may_lock(realtime, failure);
}

bool realtime_apply(const struct config_realtime *realtime, pthread_t thread, struct failure *failure) {
  char reason[64];
  int code = realtime_processors(realtime) > 0 ? set_processors(realtime, thread) : 0;
  if (code != 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "realtime.cpus: a lane cannot be kept on them: %s",
                       strerror_r(code, reason, sizeof reason));
  }
  return realtime->policy == CONFIG_POLICY_OTHER || set_policy(realtime, thread, &code) ||
         refuse_policy(realtime, code, failure);
}
