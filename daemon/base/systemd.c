/*
 * With systemd_unit.c the only user of libsystemd. Passed listeners are read once, at the first call. Each leaves the list when
 * it is taken. The environment variables are cleared then, so that no child uses them.
 */
#include "daemon/base/systemd.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/datagram.h"
#include "daemon/measure/clock.h"

/* -- notifications ------------------------------------------------------------------------------------------------ */

enum { NOTIFICATION = 512 };

/* A message that systemd could not take yet is replaced by a newer one, so that the newest reaches it. */
static struct {
  struct datagram socket;
  char state[NOTIFICATION], status[NOTIFICATION]; /* to be sent; empty: nothing */
} manager = {.socket = {.fd = -1}};

/* Opens the manager's socket at the first use. If there was no descriptor, the next call tries again. */
static bool send_message(const char *text, int fd, bool waits) {
  const char *address = getenv("NOTIFY_SOCKET");
  const struct iovec part = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
  return address && (manager.socket.fd >= 0 || datagram_open(&manager.socket, address)) &&
         datagram_send(&manager.socket, &part, 1, fd, waits);
}

void systemd_flush(void) {
  if (manager.state[0] && send_message(manager.state, -1, false)) {
    manager.state[0] = '\0';
  }
  if (manager.status[0] && !manager.state[0] && send_message(manager.status, -1, false)) {
    manager.status[0] = '\0';
  }
}

/* The text ends at a line break, which would begin another assignment. */
static int line_length(const char *text) { return (int)strcspn(text, "\n"); }

/* A state contains its own status, which replaces a status that was not sent yet. */
__attribute__((format(printf, 1, 2))) static void send_state(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(manager.state, sizeof manager.state, format, arguments);
  va_end(arguments);
  manager.status[0] = '\0';
  systemd_flush();
}

#define WATCHED "FRAMED_WATCHED" /* environment variable for the next image: this process has been ready */

static bool has_been_ready;

void systemd_ready(const char *status) {
  has_been_ready = true;
  send_state("READY=1\nSTATUS=%.*s", line_length(status), status);
}

void systemd_status(const char *status) {
  snprintf(manager.status, sizeof manager.status, "STATUS=%.*s", line_length(status), status);
  systemd_flush();
}

void systemd_reloading(void) { send_state("RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_now() / NS_PER_US); }

void systemd_stopping(const char *status) { send_state("STOPPING=1\nSTATUS=%.*s", line_length(status), status); }

void systemd_watchdog(void) { send_message("WATCHDOG=1", -1, false); }

int64_t systemd_watchdog_interval(void) {
  uint64_t microseconds = 0;
  bool wanted = sd_watchdog_enabled(0, &microseconds) > 0 && microseconds <= INT64_MAX / NS_PER_US;
  return wanted ? (int64_t)microseconds * NS_PER_US : 0;
}

bool systemd_watches(void) { return systemd_watchdog_interval() > 0 && (has_been_ready || getenv(WATCHED)); }

/* -- socket activation -------------------------------------------------------------------------------------------- */

#define KEPT   "framed-"       /* prefix of the name of each descriptor that the descriptor store kept */
#define PASSED "FRAMED_PASSED" /* environment variable for the next image: sockets were passed */
enum { BARRIER_MS = 5000 };

static struct {
  bool asked;
  bool others; /* some did not come from the descriptor store */
  int count;
  char **names;   /* of descriptor SD_LISTEN_FDS_START + index; NULL once taken */
  char *as_given; /* all names, or NULL */
} passed;

static void ask_once(void) {
  if (passed.asked) {
    return;
  }
  passed.asked = true;
  const char *names = getenv("LISTEN_FDNAMES");
  passed.as_given = names ? strdup(names) : NULL;
  int count = sd_listen_fds_with_names(1, &passed.names);
  passed.count = count > 0 ? count : 0;
  passed.others = systemd_unclaimed() != NULL;
}

bool systemd_has_passed(void) { return passed.others || getenv(PASSED); }

static int systemd_find_listener(const char *name, const char *path) {
  for (int i = 0; name && i < passed.count; i++) {
    if (passed.names[i] && strcmp(passed.names[i], name) == 0 &&
        sd_is_socket(SD_LISTEN_FDS_START + i, AF_UNSPEC, SOCK_STREAM, 1) > 0) {
      return i;
    }
  }
  for (int i = 0; path && i < passed.count; i++) {
    if (passed.names[i] && sd_is_socket_unix(SD_LISTEN_FDS_START + i, SOCK_STREAM, 1, path, 0) > 0) {
      return i;
    }
  }
  return -1;
}

int systemd_take_listener(const char *name, const char *path) {
  ask_once();
  int index = systemd_find_listener(name, path);
  if (index < 0) {
    return -1;
  }
  int fd = SD_LISTEN_FDS_START + index;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return -1; /* stays in the list, so systemd_unclaimed() names it */
  }
  free(passed.names[index]);
  passed.names[index] = NULL;
  return fd;
}

const char *systemd_unclaimed(void) {
  ask_once();
  for (int i = 0; i < passed.count; i++) {
    if (passed.names[i] && strncmp(passed.names[i], KEPT, strlen(KEPT)) != 0) {
      return passed.names[i];
    }
  }
  return NULL;
}

/* -- the descriptor store ------------------------------------------------------------------------------------------- */

unsigned systemd_keeps(void) {
  const char *limit = getenv("FDSTORE");
  long room = getenv("NOTIFY_SOCKET") && limit ? strtol(limit, NULL, 10) : 0;
  return room <= 0 ? 0 : room > SYSTEMD_MOST_KEPT ? SYSTEMD_MOST_KEPT : (unsigned)room;
}

static bool systemd_export(const char *variable, const char *value) {
  return (value ? setenv(variable, value, 1) : unsetenv(variable)) == 0;
}

bool systemd_pass_on(void) {
  return systemd_export(PASSED, systemd_has_passed() ? "1" : NULL) && systemd_export(WATCHED, systemd_watches() ? "1" : NULL);
}

/* -- its contents ---------------------------------------------------------------------------------------------------- */

/* Without FDPOLL=0 systemd would drop a connection whose client is gone, and its last frames would be lost. */
bool systemd_keep(int fd, const char *kind, uint64_t number) {
  char text[128];
  snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=" KEPT "%s%" PRIu64, kind, number);
  return send_message(text, fd, true);
}

bool systemd_forget(const char *kind, uint64_t number) {
  char text[128];
  snprintf(text, sizeof text, "FDSTOREREMOVE=1\nFDNAME=" KEPT "%s%" PRIu64, kind, number);
  return systemd_keeps() == 0 || send_message(text, -1, true);
}

/* systemd has the other end of this pipe and closes it when it gets to the message. */
static bool is_closed_in_time(int fd) {
  int64_t limit = clock_now() + BARRIER_MS * NS_PER_MS;
  struct pollfd end = {.fd = fd};
  int count;
  do {
    int64_t left = limit - clock_now();
    count = poll(&end, 1, left > 0 ? (int)(left / NS_PER_MS) : 0);
  } while (count < 0 && errno == EINTR);
  return count == 1 && (end.revents & POLLHUP);
}

bool systemd_has_read(void) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return false;
  }
  bool asked = send_message("BARRIER=1", ends[1], true);
  close(ends[1]);
  bool read = asked && is_closed_in_time(ends[0]);
  close(ends[0]);
  return read;
}

/* A unit may use the same name for a socket, but without the number. */
static bool was_kept(const char *name, const char *kind, uint64_t *number) {
  size_t own = strlen(KEPT), stem = own + strlen(kind);
  bool is_of_kind = name && strncmp(name, KEPT, own) == 0 && strncmp(name + own, kind, stem - own) == 0;
  if (!is_of_kind || !name[stem] || name[stem + strspn(name + stem, "0123456789")]) {
    return false;
  }
  *number = strtoull(name + stem, NULL, 10);
  return true;
}

int systemd_take_kept(const char *kind, uint64_t *number) {
  ask_once();
  for (int i = 0; i < passed.count; i++) {
    if (was_kept(passed.names[i], kind, number)) {
      free(passed.names[i]);
      passed.names[i] = NULL;
      return SD_LISTEN_FDS_START + i;
    }
  }
  return -1;
}

static bool set_number(const char *variable, long number) {
  char text[32];
  snprintf(text, sizeof text, "%ld", number);
  return setenv(variable, text, 1) == 0;
}

bool systemd_pass_again(void) {
  bool there = passed.as_given;
  for (int i = 0; there && i < passed.count; i++) {
    /* sd_listen_fds() checks each number, and one that is closed makes the whole list invalid. */
    int place = SD_LISTEN_FDS_START + i;
    there = fcntl(place, F_SETFD, 0) == 0 || dup2(STDERR_FILENO, place) >= 0;
  }
  return there && set_number("LISTEN_PID", getpid()) && set_number("LISTEN_FDS", passed.count) &&
         setenv("LISTEN_FDNAMES", passed.as_given, 1) == 0;
}

void systemd_pass_nothing(void) {
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
}

/* -- the journal, by its own protocol: an entry is one datagram with all fields, and nothing waits for the journal --------- */

#define JOURNAL "/run/systemd/journal/socket"

bool systemd_has_journal(void) {
  const char *stream = getenv("JOURNAL_STREAM");
  uintmax_t device = 0;
  uintmax_t inode = 0;
  char rest = 0;
  struct stat status;
  /* If stderr was redirected the variable is still set, so only the same device and inode mean the journal. */
  return stream && sscanf(stream, "%ju:%ju%c", &device, &inode, &rest) == 2 && fstat(STDERR_FILENO, &status) == 0 &&
         device == (uintmax_t)status.st_dev && inode == (uintmax_t)status.st_ino;
}

static struct datagram journal = {.fd = -1};

enum { MOST_FIELDS = 32, PARTS = 5 };

/* NAME=value and a newline. If the value contains newlines: NAME, a newline, its length, the value, a newline. */
static int journal_field(const struct iovec *field, uint64_t *length, struct iovec *parts) {
  char *text = field->iov_base;
  const char *equals = memchr(text, '=', field->iov_len);
  static char line_end[] = "\n";
  const struct iovec end = {.iov_base = line_end, .iov_len = 1};
  if (!equals || !memchr(text, '\n', field->iov_len)) {
    parts[0] = *field;
    parts[1] = end;
    return 2;
  }
  size_t name = (size_t)(equals - text);
  *length = htole64(field->iov_len - name - 1);
  parts[0] = (struct iovec){.iov_base = text, .iov_len = name};
  parts[1] = end;
  parts[2] = (struct iovec){.iov_base = length, .iov_len = sizeof *length};
  parts[3] = (struct iovec){.iov_base = text + name + 1, .iov_len = field->iov_len - name - 1};
  parts[4] = end;
  return 5;
}

bool systemd_journal(const struct iovec *fields, int count) {
  struct iovec parts[MOST_FIELDS * PARTS];
  uint64_t lengths[MOST_FIELDS];
  int used = 0;
  for (int i = 0; i < count && i < MOST_FIELDS; i++) {
    used += journal_field(&fields[i], &lengths[i], parts + used);
  }
  return (journal.fd >= 0 || datagram_open(&journal, JOURNAL)) && datagram_send_large(&journal, parts, used);
}
