#include "tools/link/mqtt_address.h"

#include <stdint.h>
#include <string.h>

#include "config/units.h"

bool mqtt_address_read(const char *text, struct mqtt_address *address) {
  static const char plain[] = "mqtt://", tls[] = "mqtts://";
  *address = (struct mqtt_address){.tls = strncmp(text, tls, sizeof tls - 1) == 0};
  if (!address->tls && strncmp(text, plain, sizeof plain - 1) != 0) {
    return false;
  }
  const char *host = text + (address->tls ? sizeof tls : sizeof plain) - 1;
  bool bracketed = *host == '[';
  host += bracketed;
  size_t length = strcspn(host, bracketed ? "]" : ":/");
  const char *rest = host + length;
  if (length == 0 || length >= sizeof address->host || memchr(host, '@', length) || (bracketed && *rest++ != ']')) {
    return false;
  }
  memcpy(address->host, host, length);
  int64_t port = address->tls ? 8883 : 1883;
  if (*rest == ':' && units_whole(rest + 1, &port) != UNITS_OK) {
    return false;
  }
  address->port = (int)port;
  return (*rest == ':' || *rest == '\0') && port >= 1 && port <= 65535;
}
