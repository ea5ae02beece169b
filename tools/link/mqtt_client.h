/*
 * A connection to an MQTT broker with libmosquitto. The library starts no thread and works only during these calls.
 *
 * Without the library, mqtt_absent.c replaces this module, and mqtt_client_is_built() returns false.
 */
#ifndef FRAMED_TOOLS_LINK_MQTT_CLIENT_H
#define FRAMED_TOOLS_LINK_MQTT_CLIENT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/link/settings.h"

enum { MQTT_CLIENT_TEXT = 256, MQTT_CLIENT_KEEPALIVE_S = 10 };

struct mosquitto;

struct mqtt_client {
  struct mosquitto *library;            /* NULL: not connected */
  int reason;                           /* of the broker's answer to CONNECT; -1: no answer yet */
  char complaint[MQTT_CLIENT_TEXT / 2]; /* the library's first error message of this turn, or empty */
  char why[MQTT_CLIENT_TEXT];
  /* Called from mqtt_client_turn() for each message. */
  void (*take)(void *context, const char *topic, const char *payload, size_t length);
  void *context;
};

/* Call both before threads are started. */
bool mqtt_client_is_built(void);
void mqtt_client_init(void);

/*
 * Connects and waits for the broker's answer, for some seconds at most, or until `stop` is readable. If the connection is lost,
 * the broker publishes a retained "offline" on `will`, unless that is NULL. False with `why`.
 */
bool mqtt_client_connect(struct mqtt_client *client, const struct settings *settings, const char *will, int stop);
/* Sends waiting messages, for half a second at most. The broker does not publish the will. */
void mqtt_client_disconnect(struct mqtt_client *client);
/*
 * Prepares the poll entry, for a wait of one second at most. mqtt_client_turn() handles its events; false with `why`: the
 * connection is lost.
 */
void mqtt_client_arm(const struct mqtt_client *client, struct pollfd *ready);
bool mqtt_client_turn(struct mqtt_client *client, const struct pollfd *ready);

bool mqtt_client_publish(struct mqtt_client *client, const char *topic, const char *text, bool retained);
/* Subscribes to future messages of others, without retained ones. */
bool mqtt_client_subscribe(struct mqtt_client *client, const char *topic);

#endif
