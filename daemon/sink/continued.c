/*
 * Checks whether results can be appended to an existing file. Blocks: for a set-up thread or libuv's pool.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sink/results.h"

/* Maximum number of bytes at the end of a file that are searched for the start of its last line. */
enum { MOST_LINE = 16 << 20 };

uint64_t sink_result_bytes_in_file(const struct config_pipeline *config, const struct frame_format *output) {
  size_t result_bytes = 0;
  if (config->sink.protocol == CONFIG_PROTOCOL_JSON) {
    return 1;
  }
  if (!format_bytes(output, &result_bytes)) {
    return 0;
  }
  size_t prefix = config->sink.protocol == CONFIG_PROTOCOL_Y4M ? sizeof Y4M_FRAME_LINE - 1 : 0;
  return prefix + result_bytes;
}

/* Bytes after the last newline. A file without a newline in its last MOST_LINE bytes is not a file of lines. */
static uint64_t torn_line(int fd, off_t size) {
  char bytes[4096];
  off_t at = size;
  while (at > 0 && size - at < MOST_LINE) {
    off_t from = at > (off_t)sizeof bytes ? at - (off_t)sizeof bytes : 0;
    ssize_t got = pread(fd, bytes, (size_t)(at - from), from);
    const char *newline = got == at - from ? memrchr(bytes, '\n', (size_t)got) : NULL;
    if (newline) {
      return (uint64_t)(size - from - (newline - bytes) - 1);
    }
    at = from;
  }
  return (uint64_t)(size - at);
}

/* Bytes at the end of the file that belong to no complete result. */
static uint64_t torn_bytes(const struct config_pipeline *config, const struct frame_format *output, int fd,
                           uint64_t header_bytes, off_t size) {
  if (config->sink.protocol == CONFIG_PROTOCOL_JSON) {
    return torn_line(fd, size);
  }
  uint64_t result_bytes = sink_result_bytes_in_file(config, output);
  return result_bytes > 0 ? ((uint64_t)size - header_bytes) % result_bytes : 0;
}

/* Length of the header at the start of the file if it is one that this sink writes, at any frame rate and look; else 0. */
static size_t own_header(int fd, const struct frame_format *output) {
  char found[Y4M_HEADER], own[Y4M_HEADER], problem[PROTOCOL_PROBLEM];
  struct frame_rate rate;
  struct y4m_look look;
  ssize_t got = pread(fd, found, sizeof found, 0);
  const char *end = got > 0 ? memchr(found, '\n', (size_t)got) : NULL;
  if (!end || !y4m_check_header(found, (size_t)(end - found), output, &rate, &look, problem)) {
    return 0;
  }
  size_t length = y4m_write_header(output, &rate, &look, own);
  return length == (size_t)(end - found) + 1 && memcmp(own, found, length) == 0 ? length : 0;
}

uint64_t sink_cut_torn(const struct config_pipeline *config, const struct frame_format *output, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return 0;
  }
  size_t length = config->sink.protocol == CONFIG_PROTOCOL_Y4M ? own_header(fd, output) : 0;
  bool is_own = config->sink.protocol != CONFIG_PROTOCOL_Y4M || length > 0;
  uint64_t torn = is_own ? torn_bytes(config, output, fd, length, status.st_size) : 0;
  return torn > 0 && torn < MOST_LINE && ftruncate(fd, status.st_size - (off_t)torn) == 0 ? torn : 0;
}

bool sink_prepare_file(const struct config_pipeline *config, const struct frame_format *output, int fd,
                       struct failure *failure) {
  static const char remedy[] = "move the file away, or name another one";
  size_t length = 0;
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return true;
  }
  if (config->sink.protocol == CONFIG_PROTOCOL_Y4M) {
    length = own_header(fd, output);
    if (length == 0) {
      return failure_set_in_the_way(failure, remedy, "the file '%s' of pipeline '%s' exists and is no y4m file of this format",
                                    config->sink.path, config->name);
    }
  }
  uint64_t torn = torn_bytes(config, output, fd, length, status.st_size);
  if (torn > 0) {
    return failure_set_in_the_way(failure, remedy,
                                  "the file '%s' of pipeline '%s' ends within a result of this format, %" PRIu64
                                  " bytes after the last whole one",
                                  config->sink.path, config->name, torn);
  }
  return true;
}
