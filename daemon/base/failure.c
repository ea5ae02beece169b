#include "daemon/base/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/wire/folder.h"

static void fill(struct failure *failure, enum exit_status status, const char *remedy, const char *format, va_list arguments) {
  failure->status = status;
  failure->device = failure->later = failure->passes = false;
  vsnprintf(failure->text, sizeof failure->text, format, arguments);
  snprintf(failure->remedy, sizeof failure->remedy, "%s", remedy ? remedy : "");
}

bool failure_set(struct failure *failure, enum exit_status status, const char *remedy, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(failure, status, remedy, format, arguments);
  va_end(arguments);
  return false;
}

bool failure_passes(int error) {
  switch (error) {
  case EISDIR: /* the path names a file of the wrong kind, or is invalid */
  case ENAMETOOLONG:
  case ELOOP:
  case EINVAL:
  case EADDRINUSE: /* in use by another daemon, which does not end by itself */
  case EADDRNOTAVAIL:
  case EAFNOSUPPORT:
    return false;
  default:
    return true;
  }
}

static const char *remedy_of(int error) {
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return "make room on that disk, of blocks and of inodes";
  case EROFS:
  case EACCES:
  case EPERM:
    return "give the daemon's user access to it (under systemd also ReadWritePaths=)";
  case ENOENT:
  case ENOTDIR:
    return "check the path and its directory, and that its disk is mounted";
  case ELOOP:
    return "name a folder that only root or the daemon's user may replace";
  case EMFILE:
  case ENFILE:
    return "raise the limit of open files (LimitNOFILE=)";
  case ENOMEM:
    return "free memory, or give the service more (MemoryMax=)";
  case EIO:
  case ESTALE:
    return "look at the disk (dmesg)";
  default:
    return "";
  }
}

bool failure_set_system(struct failure *failure, int error, const char *remedy, const char *format, ...) {
  bool passes = failure_passes(error);
  va_list arguments;
  va_start(arguments, format);
  fill(failure, passes ? EXIT_STATUS_INTERNAL : EXIT_STATUS_CONFIG, remedy ? remedy : remedy_of(error), format, arguments);
  va_end(arguments);
  failure->passes = passes;
  size_t length = strlen(failure->text);
  snprintf(failure->text + length, sizeof failure->text - length, ": %s", folder_problem(error));
  return false;
}

bool failure_set_in_the_way(struct failure *failure, const char *remedy, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(failure, EXIT_STATUS_CONFIG, remedy, format, arguments);
  va_end(arguments);
  failure->passes = true;
  return false;
}

bool failure_set_memory(struct failure *failure, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(failure, EXIT_STATUS_INTERNAL, remedy_of(ENOMEM), format, arguments);
  va_end(arguments);
  failure->passes = true;
  return false;
}
