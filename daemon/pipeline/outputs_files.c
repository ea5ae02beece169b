/*
 * Regular files as sinks while results are written. A file that somebody moved or removed is replaced by a new one, and a full
 * segment by the next. In both cases the sink returns the file between two results and gets the new one, while results wait.
 * Pool threads open, finish and check files, because a disk may not answer. The outputs end only after the last job.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_store.h"

#define HOLD     NS_PER_S        /* minimum time that a segment continues if the next one cannot begin */
#define PATIENCE (10 * NS_PER_S) /* time for a disk to take a whole segment, before it counts as hanging */

/* -- opening ----------------------------------------------------------------------------------------------------------- */

static bool open_file(const struct outputs *outputs, struct segment_files *files, struct failure *failure) {
  const struct config_pipeline *config = outputs->config;
  struct endpoint endpoint;
  size_t bytes = 0;
  if (sink_rotates(&config->sink)) {
    bool is_sized = config->sink.protocol != CONFIG_PROTOCOL_JSON && format_bytes(&outputs->format, &bytes);
    return segments_begin(config, is_sized ? bytes : 0, files, failure);
  }
  *files = SEGMENT_FILES_NONE;
  if (!endpoint_open_sink(&config->sink, &endpoint, failure)) {
    return false;
  }
  bool is_fit = endpoint.kind == ENDPOINT_FILE
                    ? sink_prepare_file(config, &outputs->format, endpoint.fd, failure)
                    : failure_set(failure, EXIT_STATUS_CONFIG, NULL, "'%s' is no file any more", config->sink.path);
  if (!is_fit) {
    endpoint_close(&endpoint);
  }
  files->data = endpoint.fd;
  return is_fit;
}

static struct segment_times times_now(void) {
  struct timespec real;
  const int64_t now = clock_now();
  clock_gettime(CLOCK_REALTIME, &real);
  return (struct segment_times){.began = now, .shift = (int64_t)real.tv_sec * NS_PER_S + real.tv_nsec - now};
}

/* [set-up thread] Begins a segment. */
static bool outputs_open_segment(struct outputs *outputs, struct failure *failure) {
  struct segment_files files;
  if (!open_file(outputs, &files, failure)) {
    return false;
  }
  outputs->endpoint = (struct endpoint){.fd = files.data, .kind = ENDPOINT_FILE};
  outputs->file.index = files.index;
  outputs->file.times = times_now();
  return true;
}

bool outputs_attach_file(struct outputs *outputs, struct failure *failure) {
  int fd = outputs->endpoint.fd;
  if (!outputs_attach(outputs, &(struct client){.fd = fd}, &(struct quota_charge){0}, failure)) {
    return false;
  }
  outputs->endpoint.fd = -1;
  outputs->file.fd = outputs->endpoint.kind == ENDPOINT_FILE ? fd : -1;
  outputs->file.index = -1; /* owned by the reader now */
  outputs->file.seen = 0;
  return true;
}

/* A sink of the same format may be in the middle of a result there, and will end with a complete one. */
static bool is_continued(const struct outputs *outputs, const struct outputs *before) {
  return before && before->config->sink.protocol == outputs->config->sink.protocol &&
         format_equal(&before->format, &outputs->format);
}

bool outputs_open_file(struct outputs *outputs, const struct outputs *before, struct failure *failure) {
  if (outputs_is_socket(outputs) || outputs->endpoint.fd >= 0) {
    return true;
  }
  if (sink_rotates(&outputs->config->sink)) {
    return outputs_open_segment(outputs, failure);
  }
  if (!endpoint_open_sink(&outputs->config->sink, &outputs->endpoint, failure)) {
    return false;
  }
  uint64_t bytes = 0, own_bytes = sink_result_bytes_in_file(outputs->config, &outputs->format);
  bool was_written = fd_store_was_writing(outputs->config->sink.path, &bytes);
  if (outputs->endpoint.kind == ENDPOINT_FIFO && (before || was_written)) {
    endpoint_close(&outputs->endpoint); /* its reader must see the end of the previous stream */
    outputs->awaits_end = true;
  }
  /* Truncate only if the result sizes match; otherwise the tail may be a complete result. */
  if (outputs->endpoint.kind == ENDPOINT_FILE && was_written && (bytes == 0 || bytes == own_bytes)) {
    outputs->cut = sink_cut_torn(outputs->config, &outputs->format, outputs->endpoint.fd);
    outputs->cut_unsure = bytes == 0;
  }
  return outputs->endpoint.kind != ENDPOINT_FILE || is_continued(outputs, before) ||
         sink_prepare_file(outputs->config, &outputs->format, outputs->endpoint.fd, failure);
}

/* -- jobs on pool threads ---------------------------------------------------------------------------------------------- */

static void begin_job(struct outputs *outputs, int64_t patience, loop_callback *run, loop_callback *done, void *context) {
  if (outputs->file.jobs++ == 0) {
    atomic_store(&outputs->file.asked, clock_now() + patience);
  }
  if (!loop_job(outputs->loop, run, done, context)) {
    run(context);
    done(context);
  }
}

void outputs_begin_job(struct outputs *outputs, loop_callback *run, loop_callback *done) {
  begin_job(outputs, 0, run, done, outputs);
}

void outputs_end_job(struct outputs *outputs) {
  if (--outputs->file.jobs > 0) {
    return;
  }
  atomic_store(&outputs->file.asked, 0);
  if (outputs->file.stop_wanted) {
    sink_stop(outputs->sink);
  }
}

int64_t outputs_asked(const struct outputs *outputs) { return atomic_load(&outputs->file.asked); }

void outputs_stop(struct outputs *outputs) {
  outputs->file.stop_wanted = true;
  if (outputs->file.jobs == 0) {
    sink_stop(outputs->sink);
  }
}

/* Logs an error of the file once, and counts it, while results are still written somewhere. */
static void note_trouble(struct outputs *outputs, enum output_cause cause, const char *what) {
  const struct failure *failure = &outputs->file.failure;
  const char *remedy = failure->remedy[0] ? failure->remedy : "it is tried again and again";
  struct trouble *trouble = &outputs->troubles[cause];
  if (trouble->count == 0) {
    log_event(LOG_SINK_FAILED, outputs->config->name, "%s: %s; %s", what, failure->text, remedy);
  }
  trouble_note(trouble, clock_now(), remedy, "%s: %s", what, failure->text);
}

/* -- the end of a segment ---------------------------------------------------------------------------------------------- */

/* Handled one after the other, because each removes old segments. */
struct segment_end {
  struct segment_end *next;
  struct outputs *outputs;
  struct segment_files files; /* none: only sweep segments that an earlier process left */
  bool has_files, worked, is_full;
  struct failure failure;
};

/* After a kill a segment may still be locked by its descriptor in the descriptor store when the next process begins. So each
 * end also sweeps segments that were left. */
static void run_end(void *context) {
  struct segment_end *end = context;
  end->has_files = end->files.data >= 0;
  end->worked = !end->has_files || segments_end(&end->files, &end->failure);
  segments_drop(&end->files);
  segments_sweep(end->outputs->config, &end->outputs->file.retention, end->is_full);
}

static void on_end(void *context) {
  struct segment_end *end = context;
  struct outputs *outputs = end->outputs;
  if (!end->worked) {
    log_event(LOG_SINK_FAILED, outputs->config->name, "%s; %s", end->failure.text, end->failure.remedy);
    trouble_note(&outputs->troubles[OUTPUT_FINISH], clock_now(), end->failure.remedy, "%s", end->failure.text);
  } else if (end->has_files) {
    trouble_clear(&outputs->troubles[OUTPUT_FINISH]);
  }
  outputs->file.ends = end->next;
  free(end);
  if (outputs->file.ends) {
    begin_job(outputs, PATIENCE, run_end, on_end, outputs->file.ends);
  }
  outputs_end_job(outputs);
}

/* Without memory the next start does this. */
static void add_end(struct outputs *outputs, struct segment_files files, bool is_full) {
  struct segment_end *end = calloc(1, sizeof *end), **last = &outputs->file.ends;
  if (!end) {
    segments_drop(&files);
    return;
  }
  *end = (struct segment_end){.outputs = outputs, .files = files, .is_full = is_full};
  while (*last) {
    last = &(*last)->next;
  }
  *last = end;
  if (outputs->file.ends == end) {
    begin_job(outputs, PATIENCE, run_end, on_end, end);
  }
}

void outputs_sweep(struct outputs *outputs) {
  if (sink_rotates(&outputs->config->sink)) {
    add_end(outputs, SEGMENT_FILES_NONE, false);
  }
}

/* Results wait or are lost meanwhile, so this does not wait for the end of a segment. */
void outputs_make_room(struct outputs *outputs) {
  const struct config_sink *sink = &outputs->config->sink;
  if (sink_rotates(sink) && retention_makes_room(&sink->rotate) && !outputs->file.ends && !outputs->file.stop_wanted) {
    add_end(outputs, SEGMENT_FILES_NONE, true);
  }
}

void outputs_note_full(struct outputs *outputs, bool is_full) {
  outputs->file.is_full = is_full;
  if (is_full) {
    outputs_make_room(outputs);
  }
}

static void end_at_once(const struct outputs *outputs, struct segment_files *files) {
  struct failure failure;
  if (files->index >= 0 && !segments_end(files, &failure)) {
    log_event(LOG_SINK_FAILED, outputs->config->name, "%s; %s", failure.text, failure.remedy);
  }
  segments_drop(files);
}

void outputs_end_file(struct outputs *outputs) {
  struct segment_files files = {outputs->endpoint.fd, outputs->file.index};
  end_at_once(outputs, &outputs->file.next); /* it is empty */
  end_at_once(outputs, &files);
  outputs->endpoint.fd = outputs->file.index = -1;
}

/* -- another file ------------------------------------------------------------------------------------------------------ */

/* Attaches the next file to the sink, in place of `endpoint`. */
static void take_next(struct outputs *outputs) {
  struct failure failure;
  struct segment_files before = {outputs->endpoint.fd, outputs->file.index};
  outputs->endpoint.fd = outputs->file.next.data;
  outputs->file.index = outputs->file.next.index;
  outputs->file.count = 0;
  outputs->file.times = times_now();
  outputs->file.next = SEGMENT_FILES_NONE;
  if (before.index >= 0) {
    add_end(outputs, before, false);
  } else {
    segments_drop(&before);
  }
  if (outputs_attach_file(outputs, &failure)) {
    trouble_clear(&outputs->troubles[OUTPUT_NEXT]);
    trouble_clear(&outputs->troubles[OUTPUT_MOVED]);
    return;
  }
  outputs->ended = true;
  trouble_note(&outputs->troubles[OUTPUT_ENDS], clock_now(), "restart the daemon", "%s", failure.text);
}

/* Attaches the same file to the sink again. */
static void take_again(struct outputs *outputs, int64_t hold_ns) {
  struct failure failure;
  outputs->file.times.hold_ns = hold_ns;
  outputs->file.times.began = 0;
  if (!outputs_attach_file(outputs, &failure)) {
    outputs->ended = true;
    trouble_note(&outputs->troubles[OUTPUT_ENDS], clock_now(), "restart the daemon", "%s", failure.text);
  }
}

/* Frames that a handover still flushes go into the previous segment. */
void outputs_recall(struct outputs *outputs) {
  bool is_back = outputs->endpoint.fd >= 0 && outputs->file.index >= 0;
  if (is_back && outputs->file.busy && !outputs->file.stop_wanted && !outputs->closed) {
    take_again(outputs, HOLD);
  }
}

static void run_next(void *context) {
  struct outputs *outputs = context;
  outputs->file.worked = open_file(outputs, &outputs->file.next, &outputs->file.failure);
}

static void on_next(void *context) {
  struct outputs *outputs = context;
  outputs->file.busy = false;
  bool ends = outputs->file.stop_wanted; /* then outputs_end_file() handles both */
  bool is_back = outputs->endpoint.fd >= 0;
  if (!ends && outputs->file.worked && is_back) {
    take_next(outputs);
  } else if (!ends && outputs->file.worked) {
    sink_detach_file(outputs->sink); /* it was returned to the sink meanwhile */
  } else if (!ends) {
    note_trouble(outputs, OUTPUT_NEXT, "results continue in the previous segment");
    if (is_back) {
      take_again(outputs, HOLD);
    }
  }
  outputs_end_job(outputs);
}

static void begin_next(struct outputs *outputs) {
  outputs->file.wants_next = false;
  outputs->file.busy = true;
  begin_job(outputs, 0, run_next, on_next, outputs);
}

bool outputs_on_file_back(struct outputs *outputs, const struct sink_event *event) {
  outputs->endpoint.fd = event->fd;
  outputs->file.fd = -1;
  outputs->file.index = reader_index(event->reader, &outputs->file.count);
  outputs->file.emitted += event->emitted;
  if (outputs->closed) {
    return false;
  }
  if (outputs->file.next.data >= 0) {
    take_next(outputs);
  } else if (!event->full) {
    take_again(outputs, 0);
  } else if (outputs->file.busy) {
    outputs->file.wants_next = true;
  } else {
    begin_next(outputs);
  }
  return true;
}

/* -- a file that is gone ----------------------------------------------------------------------------------------------- */

static bool has_gone(const struct outputs *outputs, const struct stat *status) {
  const char *path = outputs->config->sink.path;
  bool gone;
  if (sink_rotates(&outputs->config->sink)) {
    return status->st_nlink == 0;
  }
  return strcmp(path, "-") != 0 && (endpoint_has_moved(path, outputs->file.checked_fd, &gone) || gone);
}

static void run_check(void *context) {
  struct outputs *outputs = context;
  struct file_work *file = &outputs->file;
  struct stat status;
  file->moved = file->worked = false;
  if (fstat(file->checked_fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return;
  }
  file->moved = has_gone(outputs, &status);
  if (file->moved) {
    file->worked = open_file(outputs, &file->next, &file->failure);
    return;
  }
  bool was_cut = status.st_size < file->seen; /* for example by logrotate's copytruncate: continue at its end */
  file->seen = status.st_size;
  if (was_cut && !sink_rotates(&outputs->config->sink)) {
    file->next.data = fcntl(file->checked_fd, F_DUPFD_CLOEXEC, 0);
    file->worked = file->next.data >= 0;
  }
}

static void on_check(void *context) {
  struct outputs *outputs = context;
  struct file_work *file = &outputs->file;
  const char *name = outputs->config->name, *path = outputs->config->sink.path;
  file->busy = false;
  bool ends = file->stop_wanted; /* then outputs_end_file() handles it */
  if (!ends && file->worked) {
    log_event(LOG_MOVED, name,
              file->moved ? "'%s' was moved or removed: results go into a new file"
                          : "'%s' was truncated: results continue at its end",
              path);
    if (outputs->endpoint.fd >= 0) {
      take_next(outputs); /* the sink has already returned it */
    } else {
      sink_detach_file(outputs->sink);
    }
  } else if (!ends && file->moved) {
    note_trouble(outputs, OUTPUT_MOVED, "the file was moved or removed, and results still go into the old one");
  } else if (!ends) {
    trouble_clear(&outputs->troubles[OUTPUT_MOVED]);
  }
  if (file->wants_next && outputs->endpoint.fd >= 0 && !ends) {
    begin_next(outputs);
  }
  file->wants_next = false;
  outputs_end_job(outputs);
}

void outputs_check_file(struct outputs *outputs) {
  struct file_work *file = &outputs->file;
  if (file->is_full) {
    outputs_make_room(outputs);
  }
  if (file->fd >= 0 && !file->busy && file->next.data < 0 && !file->stop_wanted) {
    file->busy = true;
    file->checked_fd = file->fd;
    begin_job(outputs, 0, run_check, on_check, outputs);
  }
}
