#include "tools/link/tell.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { HOLDS_S = 10, PATIENCE_S = 1, ANSWER = 512 };

/* NULL: there is nothing to tell yet, or no memory. */
static char *make_word(struct link *link, bool gone) {
  struct standing *standing = &link->standing;
  char *word = NULL;
  pthread_mutex_lock(&standing->lock);
  if (standing->since != 0) {
    json_t *document = json_pack("{s:s, s:b, s:b, s:f, s:i, s:i, s:s}", "role", settings_role(link->settings), "connected",
                                 standing->connected, "warns", standing->warns, "since_s",
                                 (double)(link_clock() - standing->since) / 1e9, "expires_s", gone ? 0 : HOLDS_S,
                                 "unacknowledged", (int)atomic_load(&link->in_flight), "error", standing->error);
    if (document && standing->has_queue) {
      json_object_set_new(document, "queue",
                          json_pack("{s:I, s:I, s:f}", "depth", (json_int_t)standing->depth, "unserved",
                                    (json_int_t)standing->unserved, "oldest_s", (double)standing->oldest_ns / 1e9));
    }
    word = document ? json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
  }
  pthread_mutex_unlock(&standing->lock);
  return word;
}

/* -1 with errno. The daemon takes what comes at once, or does not live. */
static int reach(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const struct timeval patience = {.tv_sec = PATIENCE_S};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
      connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
    return fd;
  }
  int error = errno;
  if (fd >= 0) {
    close(fd);
  }
  errno = error;
  return -1;
}

enum outcome { TOLD, REFUSED, NOBODY };

static enum outcome post(const struct settings *settings, const char *pipeline, const char *word, char why[ANSWER]) {
  static const char good[] = "HTTP/1.1 200";
  char answer[ANSWER] = "";
  int fd = reach(settings->status);
  bool asked = fd >= 0 && dprintf(fd,
                                  "POST /v1/pipelines/%s/link HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n"
                                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                  pipeline, strlen(word), word) > 0;
  ssize_t came = asked ? recv(fd, answer, sizeof answer - 1, 0) : -1;
  bool answered = came > 0;
  snprintf(why, ANSWER, "%s",
           came == 0         ? "it closes the connection"
           : errno == EAGAIN ? "it does not answer"
                             : strerror(errno));
  if (answered) {
    answer[strcspn(answer, "\r\n")] = '\0';
    snprintf(why, ANSWER, "it answers %.200s", answer);
  }
  if (fd >= 0) {
    close(fd);
  }
  return !answered ? NOBODY : strncmp(answer, good, sizeof good - 1) == 0 ? TOLD : REFUSED;
}

void tell_links(struct fleet *fleet, bool *silent) {
  enum outcome outcome = TOLD;
  bool fine = true;
  for (unsigned i = 0; i < fleet->count && outcome != NOBODY; i++) {
    struct link *link = &fleet->links[i];
    bool gone = fleet->ended[i];
    char why[ANSWER], *word = link->settings ? make_word(link, gone) : NULL;
    outcome = word ? post(fleet->settings, link->settings->name, word, why) : TOLD;
    if (outcome != TOLD && !*silent && !gone) {
      link_say(link, "the daemon at %s is not told of this link: %s", fleet->settings->status, why);
    }
    fine = fine && outcome == TOLD;
    free(word);
  }
  *silent = !fine;
}
