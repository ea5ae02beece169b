/* The log of libavformat: two kinds of lines are understood by their format, which 4.4 to 7.1 share. */
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <libavutil/log.h>

#include "tools/camera/avlog.h"

static atomic_int status;
static _Atomic uint64_t missed; /* libsrt has threads */

static int begins(const char *format, const char *with) { return strncmp(format, with, strlen(with)) == 0; }

static void read_line(void *context, int level, const char *format, va_list arguments) {
  (void)context;
  (void)level;
  if (begins(format, "method %s failed: %d")) {
    (void)va_arg(arguments, const char *);
    atomic_store(&status, va_arg(arguments, int));
  } else if (begins(format, "HTTP error %d")) {
    atomic_store(&status, va_arg(arguments, int));
  } else if (begins(format, "RTP: missed %d packets")) {
    int count = va_arg(arguments, int);
    atomic_fetch_add(&missed, (uint64_t)(count > 0 ? count : 0));
  }
}

void avlog_begin(void) { av_log_set_callback(read_line); }

int avlog_take_status(void) { return atomic_exchange(&status, 0); }

uint64_t avlog_missed(void) { return atomic_load(&missed); }
