/*
 * In place of mqtt_client.c where libmosquitto is not installed: the configuration refuses `mqtt`, so nothing is called but
 * mqtt_client_is_built().
 */
#include <stdio.h>

#include "tools/link/mqtt_client.h"

bool mqtt_client_is_built(void) { return false; }
void mqtt_client_init(void) {}

bool mqtt_client_connect(struct mqtt_client *client, const struct settings *settings, const char *will, int stop) {
  (void)settings;
  (void)will;
  (void)stop;
  snprintf(client->why, sizeof client->why, "this framed-link is built without libmosquitto");
  return false;
}

void mqtt_client_disconnect(struct mqtt_client *client) { (void)client; }
void mqtt_client_arm(const struct mqtt_client *client, struct pollfd *ready) {
  (void)client;
  *ready = (struct pollfd){.fd = -1};
}

bool mqtt_client_turn(struct mqtt_client *client, const struct pollfd *ready) {
  (void)client;
  (void)ready;
  return true;
}

bool mqtt_client_publish(struct mqtt_client *client, const char *topic, const char *text, bool retained) {
  (void)client;
  (void)topic;
  (void)text;
  (void)retained;
  return false;
}

bool mqtt_client_subscribe(struct mqtt_client *client, const char *topic) {
  (void)client;
  (void)topic;
  return false;
}
