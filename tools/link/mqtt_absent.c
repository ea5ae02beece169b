/*
 * Replaces mqtt.c and mqtt_client.c where libmosquitto is not installed. The configuration then rejects `mqtt`, so only
 * mqtt_client_is_built() and mqtt_client_init() are called.
 */
#include "tools/link/link.h"
#include "tools/link/mqtt_client.h"

const struct link_kind mqtt_kind = {0};

bool mqtt_client_is_built(void) { return false; }
void mqtt_client_init(void) {}

bool mqtt_client_connect(struct mqtt_client *client, const struct settings *settings, const char *will, int stop) {
  (void)client;
  (void)settings;
  (void)will;
  (void)stop;
  return false;
}

void mqtt_client_disconnect(struct mqtt_client *client) { (void)client; }
