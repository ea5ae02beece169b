/* Where a broker of MQTT is, as a configuration names it. */
#ifndef FRAMED_TOOLS_LINK_MQTT_ADDRESS_H
#define FRAMED_TOOLS_LINK_MQTT_ADDRESS_H

#include <stdbool.h>

struct mqtt_address {
  char host[256];
  int port;
  bool tls;
};

/* "mqtt://HOST[:1883]" or "mqtts://HOST[:8883]". False: it is neither. */
bool mqtt_address_read(const char *text, struct mqtt_address *address);

#endif
