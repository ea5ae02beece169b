#include "daemon/departure.h"

#include <inttypes.h>

#include "daemon/log.h"
#include "daemon/peer.h"

/* The event's text, where there is one, says more. */
static const struct {
  enum log_kind kind;
  bool tell; /* the producer may not know */
  const char *text;
} reasons[] = {
    [DETACH_END] = {LOG_DISCONNECTED, false, "left"},
    [DETACH_TRUNCATED] = {LOG_TRUNCATED, true, "ended too early"},
    [DETACH_MALFORMED] = {LOG_MALFORMED, true, "broke its protocol"},
    [DETACH_TIMEOUT] = {LOG_TIMED_OUT, true, "was too slow"},
    [DETACH_ERROR] = {LOG_CLIENT_ERROR, false, "failed"},
    [DETACH_CLIENT_GONE] = {LOG_DISCONNECTED, false, "left"},
    [DETACH_STOPPED] = {LOG_DISCONNECTED, false, "was disconnected"},
};

void departure_log(const struct config_pipeline *pipeline, const struct session_event *event, pid_t pid, uid_t uid) {
  enum log_kind kind = reasons[event->reason].kind;
  const char *what = reasons[event->reason].text;
  const char *colon = event->text[0] ? ": " : "";
  if (pipeline->source.endpoint == CONFIG_SOCKET) {
    log_event(kind, pipeline->name, "producer pid %d (user %u) %s after %" PRIu64 " frames%s%s", (int)pid, (unsigned)uid, what,
              event->frames, colon, event->text);
  } else {
    log_event(kind, pipeline->name, "source '%s' %s after %" PRIu64 " frames%s%s", pipeline->source.path,
              event->reason == DETACH_END ? "ended" : what, event->frames, colon, event->text);
  }
}

static enum native_error_code code_of(enum detach_reason reason) {
  switch (reason) {
  case DETACH_TIMEOUT:
    return NATIVE_E_TIMEOUT;
  case DETACH_STOPPED:
    return NATIVE_E_STOPPING;
  default:
    return NATIVE_E_PROTOCOL;
  }
}

/* Results go to a replying client's connection, and only where they are messages may another follow them: a whole one, which
 * the last one is not if the client was cut off by a stop. */
void departure_tell(const struct config_pipeline *pipeline, const struct session_event *event, const struct guest *producer,
                    bool shared) {
  bool no_results = pipeline->sink.endpoint != CONFIG_REPLY || shared;
  bool takes_text = pipeline->source.endpoint == CONFIG_SOCKET && (producer->native || no_results);
  bool tell = event->reason == DETACH_STOPPED ? producer->native && no_results : reasons[event->reason].tell;
  if (takes_text && tell) {
    guest_tell(producer, code_of(event->reason), "%s", event->text[0] ? event->text : reasons[event->reason].text);
  }
}
