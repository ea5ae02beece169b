/*
 * Writes each event as one journal entry or one line on stderr, and never blocks the control loop.
 *
 * A line is dropped if stderr would block (a full pipe) or the journal's queue is full. The next line that gets through is
 * preceded by the number of dropped lines. Lines are written in pieces of PIPE_BUF, because a pipe that poll() reports as
 * writable takes that much.
 */
#include "daemon/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log_text.h"
#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"

struct kind {
  const char *name;
  enum config_log_level level;
  bool limited;
  const char *message_id;
};

static const struct kind kinds[LOG_KIND_COUNT] = {
#define X(name, level, limited, id, catalog) [LOG_##name] = {#name, level, limited, id},
#include "daemon/base/log_kinds.def"
#undef X
};

static const int priorities[] = {
    [CONFIG_LOG_ERROR] = 3, [CONFIG_LOG_WARNING] = 4, [CONFIG_LOG_INFO] = 6, [CONFIG_LOG_DEBUG] = 7};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the state, while lines are written */
static struct {
  enum config_log_level level;
  bool to_journal;
  bool is_torn;  /* the last line on stderr is incomplete */
  uint64_t lost; /* dropped lines that were not reported yet */
  struct log_limit limit;
} state = {.level = CONFIG_LOG_INFO, .limit = LOG_LIMIT_NULL(LOG_BURST)};

void log_open(enum config_log_level level) {
  state.level = level;
  state.to_journal = systemd_has_journal();
}

void log_set_level(enum config_log_level level) { state.level = level; }

/* -- limits -------------------------------------------------------------------------------------------------------- */

/* A singly linked list is enough: it holds the limited kinds that pipelines wrote in the last ten seconds. The window of a
 * count begins with its first line, and `written` never exceeds the burst. */
struct log_limit_count {
  struct log_limit_count *next;
  unsigned kind;
  int64_t began;
  unsigned written;
  uint64_t left_out;
  char pipeline[]; /* empty: no pipeline */
};

static struct log_limit_count *find_count(const struct log_limit *limit, unsigned kind, const char *pipeline) {
  for (struct log_limit_count *count = limit->counts; count; count = count->next) {
    if (count->kind == kind && strcmp(count->pipeline, pipeline) == 0) {
      return count;
    }
  }
  return NULL;
}

static struct log_limit_count *add_count(struct log_limit *limit, unsigned kind, const char *pipeline, int64_t now) {
  size_t size = strlen(pipeline) + 1;
  struct log_limit_count *count = calloc(1, sizeof *count + size);
  if (count) {
    count->kind = kind;
    count->began = now;
    memcpy(count->pipeline, pipeline, size);
    count->next = limit->counts;
    limit->counts = count;
  }
  return count;
}

static bool is_window_over(const struct log_limit_count *count, int64_t now) {
  return now - count->began >= LOG_LIMIT_WINDOW_S * NS_PER_S;
}

bool log_limit_admit(struct log_limit *limit, unsigned kind, const char *pipeline, int64_t now, uint64_t *left_out) {
  *left_out = 0;
  const char *name = pipeline ? pipeline : "";
  struct log_limit_count *count = find_count(limit, kind, name);
  if (!count) {
    count = add_count(limit, kind, name, now);
  }
  if (!count) {
    return true;
  }
  if (is_window_over(count, now)) {
    count->began = now;
    count->written = 0;
  }
  if (count->written >= limit->burst) {
    count->left_out++;
    return false;
  }
  count->written++;
  *left_out = count->left_out;
  count->left_out = 0;
  return true;
}

void log_limit_settle(struct log_limit *limit, int64_t now, log_limit_report *report, void *context) {
  struct log_limit_count **link = &limit->counts;
  while (*link) {
    struct log_limit_count *count = *link;
    if (count->left_out > 0) {
      report(context, count->kind, count->pipeline[0] ? count->pipeline : NULL, count->left_out);
      count->left_out = 0;
    }
    if (is_window_over(count, now)) {
      *link = count->next;
      free(count);
    } else {
      link = &count->next;
    }
  }
}

/* -- the journal -------------------------------------------------------------------------------------------------- */

enum { FIELD_MAX = 6 + LOG_FIELDS };

struct entry {
  struct iovec fields[FIELD_MAX];
  int count;
};

/* Without memory the field is left out; the entry is still sent. */
__attribute__((format(printf, 2, 3))) static void add_field(struct entry *entry, const char *format, ...) {
  char *field = NULL;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&field, format, arguments);
  va_end(arguments);
  if (length >= 0) {
    entry->fields[entry->count++] = (struct iovec){.iov_base = field, .iov_len = (size_t)length};
  }
}

/* Returns true if the journal took it. */
static bool write_journal(const struct kind *kind, const char *pipeline, const struct log_field *fields, const char *text) {
  struct entry entry = {.count = 0};
  add_field(&entry, "MESSAGE=%s%s%s", pipeline ? pipeline : "", pipeline ? ": " : "", text);
  add_field(&entry, "MESSAGE_ID=%s", kind->message_id);
  add_field(&entry, "PRIORITY=%d", priorities[kind->level]);
  add_field(&entry, "SYSLOG_IDENTIFIER=framed");
  add_field(&entry, "FRAMED_KIND=%s", kind->name);
  if (pipeline) {
    add_field(&entry, "FRAMED_PIPELINE=%s", pipeline);
  }
  for (const struct log_field *field = fields; field && field->name && entry.count < FIELD_MAX; field++) {
    if (field->value[0]) {
      add_field(&entry, "FRAMED_%s=%s", field->name, field->value);
    }
  }
  bool taken = systemd_journal(entry.fields, entry.count);
  for (int i = 0; i < entry.count; i++) {
    free(entry.fields[i].iov_base);
  }
  return taken;
}

/* -- stderr ------------------------------------------------------------------------------------------------------- */

static bool would_take(int fd) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
  return poll(&poll_fd, 1, 0) == 1 && poll_fd.revents == POLLOUT;
}

/* Returns true if all of it was written; `*written` has the number of bytes. */
static bool write_pieces(const char *line, size_t length, size_t *written) {
  *written = 0;
  while (*written < length && would_take(STDERR_FILENO)) {
    size_t rest = length - *written;
    ssize_t taken = write(STDERR_FILENO, line + *written, rest < PIPE_BUF ? rest : PIPE_BUF);
    if (taken < 0 && errno != EINTR) {
      break;
    }
    *written += taken > 0 ? (size_t)taken : 0;
  }
  return *written == length;
}

static void format_time(char *out, size_t size) {
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t length = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(out + length, size - length, ".%03ldZ", now.tv_nsec / NS_PER_MS);
}

/* Returns true if the complete line was written. */
static bool write_line(const struct kind *kind, const char *pipeline, const char *text) {
  char stamp[48];
  format_time(stamp, sizeof stamp);
  char *line = NULL;
  int length = asprintf(&line, "%s%s %s %s%s%s\n", state.is_torn ? "\n" : "", stamp, config_log_level_names[kind->level],
                        pipeline ? pipeline : "", pipeline ? ": " : "", text);
  if (length < 0) {
    return false;
  }
  size_t written;
  bool whole = write_pieces(line, (size_t)length, &written);
  if (written > 0) {
    state.is_torn = !whole;
  }
  free(line);
  return whole;
}

/* -- events ------------------------------------------------------------------------------------------------------- */

static bool write_somewhere(const struct kind *kind, const char *pipeline, const struct log_field *fields, const char *text) {
  return state.to_journal ? write_journal(kind, pipeline, fields, text) : write_line(kind, pipeline, text);
}

static void report_lost(void) {
  char count[96];
  snprintf(count, sizeof count, "%" PRIu64 " lines were lost because %s", state.lost,
           state.to_journal ? "the journal did not take them" : "stderr was not read");
  if (state.lost > 0 && write_somewhere(&kinds[LOG_SUPPRESSED], NULL, NULL, count)) {
    state.lost = 0;
  }
}

static void write_entry(const struct kind *kind, const char *pipeline, const struct log_field *fields, const char *text) {
  report_lost();
  if (!write_somewhere(kind, pipeline, fields, text)) {
    state.lost++;
  }
}

/* Without memory: only the beginning of the text. */
static const char *make_short_text(const char *format, va_list arguments) {
  static char raw[256], text[4 * sizeof raw + 1];
  vsnprintf(raw, sizeof raw, format, arguments);
  log_text_escape(text, sizeof text, raw);
  return text;
}

/* Formats and escapes the text, and adds the number of earlier lines that were left out. NULL without memory. The caller frees
 * it. */
static char *make_text(uint64_t left_out, const char *format, va_list arguments) {
  char *raw = NULL;
  if (vasprintf(&raw, format, arguments) < 0) {
    return NULL;
  }
  enum { SUFFIX = 64 };
  size_t size = log_text_bound(raw) + SUFFIX;
  char *text = malloc(size);
  if (text) {
    size_t length = log_text_escape(text, size, raw);
    if (left_out > 0) {
      snprintf(text + length, size - length, " (%" PRIu64 " more like this were left out)", left_out);
    }
  }
  free(raw);
  return text;
}

__attribute__((format(printf, 4, 0))) static void
write_event(enum log_kind number, const char *pipeline, const struct log_field *fields, const char *format, va_list arguments) {
  const struct kind *kind = &kinds[number];
  uint64_t left_out = 0;
  if (kind->level > state.level ||
      (kind->limited && !log_limit_admit(&state.limit, number, pipeline, clock_now(), &left_out))) {
    return;
  }
  int saved = errno;
  va_list again;
  va_copy(again, arguments);
  char *text = make_text(left_out, format, arguments);
  write_entry(kind, pipeline, fields, text ? text : make_short_text(format, again));
  va_end(again);
  free(text);
  errno = saved;
}

void log_event(enum log_kind kind, const char *pipeline, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&lock);
  write_event(kind, pipeline, NULL, format, arguments);
  pthread_mutex_unlock(&lock);
  va_end(arguments);
}

void log_event_with(enum log_kind kind, const char *pipeline, const struct log_field *fields, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&lock);
  write_event(kind, pipeline, fields, format, arguments);
  pthread_mutex_unlock(&lock);
  va_end(arguments);
}

static void report_left_out(void *context, unsigned number, const char *pipeline, uint64_t left_out) {
  (void)context;
  char text[128];
  snprintf(text, sizeof text, "%" PRIu64 " more of kind %s left out: the log takes %d in %d s of each pipeline", left_out,
           kinds[number].name, LOG_BURST, LOG_LIMIT_WINDOW_S);
  write_entry(&kinds[LOG_SUPPRESSED], pipeline, NULL, text);
}

void log_flush(void) {
  pthread_mutex_lock(&lock);
  log_limit_settle(&state.limit, clock_now(), report_left_out, NULL);
  report_lost();
  pthread_mutex_unlock(&lock);
}
