/* The address of an MQTT broker in the configuration. */
#ifndef FRAMED_TOOLS_LINK_MQTT_ADDRESS_H
#define FRAMED_TOOLS_LINK_MQTT_ADDRESS_H

#include <stdbool.h>

struct mqtt_address {
  char host[256];
  int port;
  bool tls;
};

/* Parses "mqtt://HOST[:1883]" or "mqtts://HOST[:8883]". False for any other form. */
bool mqtt_address_read(const char *text, struct mqtt_address *address);

#endif
