#include "daemon/client/detach.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/device/formats.h"

enum { DEPARTURE_TEXT = 320 };

/* Log text for each reason, followed by the text of the event if it has one. */
static const struct {
  enum log_kind kind;
  bool send_reason; /* the producer may not know the reason */
  const char *text;
} reasons[] = {
    [DETACH_END] = {LOG_DISCONNECTED, false, "left"},
    [DETACH_TRUNCATED] = {LOG_TRUNCATED, true, "ended too early"},
    [DETACH_MALFORMED] = {LOG_MALFORMED, true, "broke its protocol"},
    [DETACH_TIMEOUT] = {LOG_TIMED_OUT, true, "was too slow"},
    [DETACH_ERROR] = {LOG_CLIENT_ERROR, false, "failed"},
    [DETACH_CLIENT_GONE] = {LOG_DISCONNECTED, false, "left"},
    [DETACH_STOPPED] = {LOG_DISCONNECTED, false, "was disconnected"},
    [DETACH_CUT] = {LOG_CUT_OFF, false, "is cut off"},
};

/* A producer that sent no complete frame uses another protocol than this source; it did not break the right one. */
static void detach_describe(const struct session_event *event, bool is_client, char text[DEPARTURE_TEXT]) {
  const char *colon = event->text[0] ? ": " : "";
  const char *what = event->reason == DETACH_END && !is_client ? "ended" : reasons[event->reason].text;
  if (event->reason == DETACH_MALFORMED && event->frames == 0) {
    snprintf(text, DEPARTURE_TEXT, "was turned away%s%s", colon, event->text);
  } else {
    snprintf(text, DEPARTURE_TEXT, "%s after %" PRIu64 " frames%s%s", what, event->frames, colon, event->text);
  }
}

static void log_client(enum log_kind kind, const struct config_pipeline *pipeline, struct refusals *refusals,
                       const char *text) {
  if (kind != LOG_MALFORMED) {
    log_event(kind, pipeline->name, "%s", text);
    return;
  }
  const struct frame_format format = formats_format(&pipeline->source.format);
  enum config_protocol protocol = pipeline->source.protocol;
  char remedy[REFUSAL_REMEDY], described[FORMAT_TEXT];
  snprintf(remedy, sizeof remedy, "send it %s, %s, or configure another `protocol` or `format`",
           protocol == CONFIG_PROTOCOL_AUTO ? "y4m or native" : config_protocol_names[protocol],
           format_describe(&format, described));
  refusals_add(refusals, kind, pipeline->name, remedy, "%s", text);
}

void detach_log(const struct config_pipeline *pipeline, const struct session_event *event, const struct client *client,
                struct refusals *refusals) {
  enum log_kind kind = reasons[event->reason].kind;
  char what[DEPARTURE_TEXT], text[REFUSAL_TEXT];
  bool is_client = pipeline->source.endpoint == CONFIG_SOCKET;
  detach_describe(event, is_client, what);
  if (!is_client) {
    log_event(kind, pipeline->name, "source '%s' %s", pipeline->source.path, what);
    return;
  }
  snprintf(text, sizeof text, "producer pid %d (user %u) %s", (int)client->pid, (unsigned)client->uid, what);
  log_client(kind, pipeline, refusals, text);
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

/* A client with `reply` gets results on this connection, so text may follow only if they are messages, and only after a
 * complete one. After a stop the last one may be incomplete. */
void detach_notify(const struct config_pipeline *pipeline, const struct session_event *event, const struct client *client,
                   bool shared) {
  bool no_results = pipeline->sink.endpoint != CONFIG_REPLY || shared;
  bool takes_text = pipeline->source.endpoint != CONFIG_FILE && (client->native || no_results);
  bool send_reason = event->reason == DETACH_STOPPED ? client->native && no_results : reasons[event->reason].send_reason;
  if (takes_text && send_reason) {
    client_send_error(client, code_of(event->reason), "%s", event->text[0] ? event->text : reasons[event->reason].text);
  }
}
