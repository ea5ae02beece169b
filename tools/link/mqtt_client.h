/*
 * A connection to a broker of MQTT, by libmosquitto, which does nothing but when it is called here: no threads of its own.
 *
 * Where the program is built without the library, mqtt_client_is_built() says so, and mqtt_absent.c takes its place.
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
  int reason;                           /* of the broker's answer to CONNECT; -1: it has not answered */
  char complaint[MQTT_CLIENT_TEXT / 2]; /* the library's first words on an error of this turn; empty: none */
  char why[MQTT_CLIENT_TEXT];
  /* For each message that comes, from mqtt_client_turn(). */
  void (*take)(void *context, const char *topic, const char *payload, size_t length);
  void *context;
};

/* Before threads are started. */
bool mqtt_client_is_built(void);
void mqtt_client_init(void);

/* Connects and waits for the broker's answer, for some seconds at most, or until `stop` is readable. The broker publishes
 * "offline" on `will`, if that is not NULL, retained, once the connection is lost. False: `why` says why. */
bool mqtt_client_connect(struct mqtt_client *client, const struct settings *settings, const char *will, int stop);
/* Sends what waits, for half a second at most. The broker does not publish the will. */
void mqtt_client_disconnect(struct mqtt_client *client);
/* What to wait for, one second at most, and what to do after it. False: the connection is lost, and `why` says why. */
void mqtt_client_arm(const struct mqtt_client *client, struct pollfd *ready);
bool mqtt_client_turn(struct mqtt_client *client, const struct pollfd *ready);

bool mqtt_client_publish(struct mqtt_client *client, const char *topic, const char *text, bool retained);
/* To messages of others that come from now on, not to what is retained. */
bool mqtt_client_subscribe(struct mqtt_client *client, const char *topic);

#endif
