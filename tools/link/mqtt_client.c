#include "tools/link/mqtt_client.h"

#include <errno.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/link/link.h"
#include "tools/link/mqtt_address.h"

enum { ANSWER_MS = 5000, LOOK_MS = 100, PAUSE_MS = 10, FAREWELL_MS = 500, PASSWORD = 1024 };

bool mqtt_client_is_built(void) { return true; }
void mqtt_client_init(void) { mosquitto_lib_init(); }

/* -- what the library calls -------------------------------------------------------------------------------------------- */

static void on_connect(struct mosquitto *library, void *context, int reason, int flags, const mosquitto_property *properties) {
  struct mqtt_client *client = context;
  (void)library;
  (void)flags;
  (void)properties;
  client->reason = reason;
}

static void on_message(struct mosquitto *library, void *context, const struct mosquitto_message *message,
                       const mosquitto_property *properties) {
  struct mqtt_client *client = context;
  (void)library;
  (void)properties;
  client->take(client->context, message->topic, message->payload ? message->payload : "", (size_t)message->payloadlen);
}

/* The library returns one status for all TLS errors, but logs the cause. The first message names it. */
static void on_log(struct mosquitto *library, void *context, int level, const char *text) {
  struct mqtt_client *client = context;
  (void)library;
  if (level == MOSQ_LOG_ERR && client->complaint[0] == '\0') {
    const char *words = strncmp(text, "OpenSSL Error", strlen("OpenSSL Error")) == 0 ? strrchr(text, ':') : strchr(text, ':');
    words = words ? words + 1 : text;
    snprintf(client->complaint, sizeof client->complaint, "%s", words + strspn(words, " "));
  }
}

/* -- connecting -------------------------------------------------------------------------------------------------------- */

/* The library's sentences end with a full stop, and the log appends text. */
static void say(struct mqtt_client *client, const char *server, const char *what) {
  int length = (int)strlen(what);
  length -= length > 0 && what[length - 1] == '.';
  snprintf(client->why, sizeof client->why, "%s%s%.*s", server ? server : "", server ? ": " : "", length, what);
}

static void say_why(struct mqtt_client *client, const struct settings *settings, const char *what) {
  say(client, settings->mqtt_server, what);
}

static const char *describe(const struct mqtt_client *client, int status) {
  if (strcmp(client->complaint, "certificate verify failed") == 0) {
    return "its certificate cannot be verified: set mqtt.tls.ca to the certificate of its authority, or renew it if it has "
           "expired";
  }
  switch (status) {
  case MOSQ_ERR_CONN_LOST:
    return "the broker closed the connection";
  case MOSQ_ERR_KEEPALIVE:
    return "the broker does not answer";
  case MOSQ_ERR_PROTOCOL:
  case MOSQ_ERR_MALFORMED_PACKET:
    return "the broker breaks the protocol of MQTT";
  default:
    return client->complaint[0] ? client->complaint : status == MOSQ_ERR_ERRNO ? strerror(errno) : mosquitto_strerror(status);
  }
}

#define NO_MQTT_5 "it does not speak MQTT 5; use a broker that does, such as mosquitto 1.6 or later"

static const char *describe_reason(const struct settings *settings, int reason) {
  switch (reason) {
  case MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION:
    return NO_MQTT_5;
  case MQTT_RC_BAD_USERNAME_OR_PASSWORD:
  case MQTT_RC_NOT_AUTHORIZED:
    return settings->mqtt_user ? "it refuses the user or the password"
                               : "it wants a user and a password: set mqtt.user and "
                                 "mqtt.password";
  default:
    return settings->mqtt_old ? mosquitto_connack_string(reason) : mosquitto_reason_string(reason);
  }
}

/* Reads the first line of the file. It is read for each attempt, since the file may be replaced. False with errno. */
static bool read_password(const char *path, char password[PASSWORD]) {
  password[0] = '\0';
  FILE *file = path ? fopen(path, "re") : NULL;
  bool fine = !path || (file && (fgets(password, PASSWORD, file) || !ferror(file)));
  int error = errno;
  password[strcspn(password, "\r\n")] = '\0';
  if (file) {
    fclose(file);
  }
  errno = error;
  return fine;
}

static bool set_login(struct mqtt_client *client, const struct settings *settings) {
  char password[PASSWORD];
  if (!settings->mqtt_user) {
    return true;
  }
  if (!read_password(settings->mqtt_password, password)) {
    snprintf(client->why, sizeof client->why, "cannot read the password of mqtt from %s: %s", settings->mqtt_password,
             strerror(errno));
    return false;
  }
  return mosquitto_username_pw_set(client->library, settings->mqtt_user, settings->mqtt_password ? password : NULL) ==
         MOSQ_ERR_SUCCESS;
}

static bool set_security(struct mqtt_client *client, const struct settings *settings) {
  const char *files[] = {settings->mqtt_ca, settings->mqtt_certificate, settings->mqtt_key};
  int status = MOSQ_ERR_SUCCESS;
  for (unsigned i = 0; i < sizeof files / sizeof *files; i++) { /* the library would only report an invalid argument */
    if (files[i] && access(files[i], R_OK) != 0) {
      snprintf(client->why, sizeof client->why, "cannot read %s: %s", files[i], strerror(errno));
      return false;
    }
  }
  if (settings->mqtt_ca || settings->mqtt_certificate) {
    status = mosquitto_tls_set(client->library, settings->mqtt_ca, settings->mqtt_ca ? NULL : "/etc/ssl/certs",
                               settings->mqtt_certificate, settings->mqtt_key ? settings->mqtt_key : settings->mqtt_certificate,
                               NULL);
  } else {
    status = mosquitto_int_option(client->library, MOSQ_OPT_TLS_USE_OS_CERTS, 1);
  }
  if (status != MOSQ_ERR_SUCCESS) {
    say_why(client, settings, describe(client, status));
  }
  return status == MOSQ_ERR_SUCCESS;
}

static bool set_options(struct mqtt_client *client, const struct settings *settings, bool tls, const char *will) {
  struct mosquitto *library = client->library;
  mosquitto_connect_v5_callback_set(library, on_connect);
  mosquitto_message_v5_callback_set(library, on_message);
  mosquitto_log_callback_set(library, on_log);
  int version = settings->mqtt_old ? MQTT_PROTOCOL_V311 : MQTT_PROTOCOL_V5;
  int status = mosquitto_int_option(library, MOSQ_OPT_PROTOCOL_VERSION, version);
  status = status ? status : mosquitto_int_option(library, MOSQ_OPT_TCP_NODELAY, 1);
  if (will && status == MOSQ_ERR_SUCCESS) {
    status = mosquitto_will_set(library, will, (int)strlen("offline"), "offline", 0, true);
  }
  if (status != MOSQ_ERR_SUCCESS) {
    say_why(client, settings, describe(client, status));
    return false;
  }
  return set_login(client, settings) && (!tls || set_security(client, settings));
}

static int turn(struct mqtt_client *client, const struct pollfd *ready) {
  int status = MOSQ_ERR_SUCCESS;
  client->complaint[0] = '\0';
  if ((ready->revents & POLLOUT) != 0) {
    status = mosquitto_loop_write(client->library, 1);
  }
  if (status == MOSQ_ERR_SUCCESS && (ready->revents & ~POLLOUT) != 0) {
    status = mosquitto_loop_read(client->library, 1);
  }
  return status == MOSQ_ERR_SUCCESS ? mosquitto_loop_misc(client->library) : status;
}

/*
 * The answer of an MQTT 3 broker is too short for MQTT 5. libmosquitto 2.0.18 reports a malformed packet and omits the reason
 * code.
 */
static const char *describe_failure(const struct mqtt_client *client, const struct settings *settings, int status) {
  bool other = status == MOSQ_ERR_PROTOCOL || status == MOSQ_ERR_MALFORMED_PACKET;
  return other && !settings->mqtt_old ? NO_MQTT_5 : describe(client, status);
}

/* Only the look-up of names blocks here; the rest happens when the socket is ready. */
static bool await_answer(struct mqtt_client *client, const struct settings *settings, int stop) {
  struct pollfd polls[2] = {{.fd = -1}, {.fd = stop, .events = POLLIN}};
  const int64_t deadline = link_clock() + (int64_t)ANSWER_MS * MS;
  bool wrote = false;
  while (client->reason < 0 && link_clock() < deadline && polls[1].revents == 0) {
    mqtt_client_arm(client, &polls[0]);
    /*
     * libmosquitto 2.0.18 asks for POLLOUT during the whole TLS handshake, which would poll busily. Only the broker's answer
     * helps.
     */
    polls[0].events &= wrote ? ~POLLOUT : ~0;
    poll(polls, 2, wrote ? PAUSE_MS : LOOK_MS);
    wrote = (polls[0].revents & POLLOUT) != 0;
    int status = turn(client, &polls[0]);
    if (status != MOSQ_ERR_SUCCESS && client->reason < 0) {
      say_why(client, settings, describe_failure(client, settings, status));
      return false;
    }
  }
  if (client->reason != 0) {
    say_why(client, settings, client->reason < 0 ? "it does not answer" : describe_reason(settings, client->reason));
  }
  return client->reason == 0;
}

bool mqtt_client_connect(struct mqtt_client *client, const struct settings *settings, const char *will, int stop) {
  struct mqtt_address address;
  client->reason = -1;
  client->complaint[0] = '\0';
  client->library = mosquitto_new(NULL, true, client);
  if (!client->library || !mqtt_address_read(settings->mqtt_server, &address)) {
    say_why(client, settings, "not enough memory");
  } else if (set_options(client, settings, address.tls, will)) {
    int status = mosquitto_connect_async(client->library, address.host, address.port, MQTT_CLIENT_KEEPALIVE_S);
    if (status != MOSQ_ERR_SUCCESS) {
      say_why(client, settings, describe(client, status));
    } else if (await_answer(client, settings, stop)) {
      return true;
    }
  }
  mosquitto_destroy(client->library);
  client->library = NULL;
  return false;
}

void mqtt_client_disconnect(struct mqtt_client *client) {
  struct pollfd ready;
  if (!client->library) {
    return;
  }
  mosquitto_disconnect(client->library);
  for (int waited = 0; mosquitto_want_write(client->library) && waited < FAREWELL_MS; waited += LOOK_MS) {
    ready = (struct pollfd){.fd = mosquitto_socket(client->library), .events = POLLOUT};
    poll(&ready, 1, LOOK_MS);
    if (mosquitto_loop_write(client->library, 1) != MOSQ_ERR_SUCCESS) {
      break;
    }
  }
  mosquitto_destroy(client->library);
  client->library = NULL;
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

void mqtt_client_arm(const struct mqtt_client *client, struct pollfd *ready) {
  *ready = (struct pollfd){.fd = client->library ? mosquitto_socket(client->library) : -1, .events = POLLIN};
  if (client->library && mosquitto_want_write(client->library)) {
    ready->events |= POLLOUT;
  }
}

bool mqtt_client_turn(struct mqtt_client *client, const struct pollfd *ready) {
  int status = client->library ? turn(client, ready) : MOSQ_ERR_SUCCESS;
  if (status != MOSQ_ERR_SUCCESS) {
    say(client, NULL, describe(client, status));
  }
  return status == MOSQ_ERR_SUCCESS;
}

bool mqtt_client_publish(struct mqtt_client *client, const char *topic, const char *text, bool retained) {
  return mosquitto_publish(client->library, NULL, topic, (int)strlen(text), text, 0, retained) == MOSQ_ERR_SUCCESS;
}

bool mqtt_client_subscribe(struct mqtt_client *client, const char *topic) {
  const int options = MQTT_SUB_OPT_NO_LOCAL | MQTT_SUB_OPT_SEND_RETAIN_NEVER; /* ignored by MQTT 3 */
  return mosquitto_subscribe_v5(client->library, NULL, topic, 0, options, NULL) == MOSQ_ERR_SUCCESS;
}
