#include "daemon/base/systemd_unit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#define SYSTEMD   "org.freedesktop.systemd1"
#define INTERFACE "org.freedesktop.systemd1.Service"
#define PATIENCE  (UINT64_C(2) * 1000 * 1000) /* us */

/* Root asks systemd directly, like systemctl, so no D-Bus daemon is needed. */
static sd_bus *unit_connect(void) {
  sd_bus *bus = NULL;
  if (geteuid() == 0 && sd_bus_new(&bus) >= 0 && sd_bus_set_address(bus, "unix:path=/run/systemd/private") >= 0 &&
      sd_bus_start(bus) >= 0) {
    return bus;
  }
  sd_bus_unref(bus);
  bus = NULL;
  return sd_bus_open_system(&bus) >= 0 ? bus : NULL;
}

static bool text_is(sd_bus *bus, const char *path, const char *interface, const char *property, const char *const *values) {
  char *text = NULL;
  bool found = false;
  if (sd_bus_get_property_string(bus, SYSTEMD, path, interface, property, NULL, &text) >= 0) {
    for (; *values && !found; values++) {
      found = strcmp(text, *values) == 0;
    }
  }
  free(text);
  return found;
}

/* A "-" or "+" before a path of ReadWritePaths= is an option and not part of the path. */
static void add_paths(sd_bus *bus, const char *path, const char *property, const char *root, struct unit_rules *rules) {
  char **names = NULL;
  if (sd_bus_get_property_strv(bus, SYSTEMD, path, INTERFACE, property, NULL, &names) < 0) {
    return;
  }
  for (char **name = names; name && *name; name++) {
    char whole[4096];
    snprintf(whole, sizeof whole, "%s%s", root, *name + strspn(*name, "-+"));
    char *copy = rules->count < UNIT_FOLDERS ? strdup(whole) : NULL;
    if (copy) {
      rules->writable[rules->count++] = copy;
    }
    free(*name);
  }
  free(names);
}

static void unit_read(sd_bus *bus, const char *path, struct unit_rules *rules) {
  static const struct {
    const char *property, *root;
  } folders[] = {{"ReadWritePaths", ""},
                 {"RuntimeDirectory", "/run/"},
                 {"StateDirectory", "/var/lib/"},
                 {"CacheDirectory", "/var/cache/"},
                 {"LogsDirectory", "/var/log/"}};
  int private_tmp = 0;
  sd_bus_get_property_trivial(bus, SYSTEMD, path, INTERFACE, "PrivateTmp", NULL, 'b', &private_tmp);
  rules->private_tmp = private_tmp;
  rules->strict = text_is(bus, path, INTERFACE, "ProtectSystem", (const char *[]){"strict", NULL});
  rules->hides_homes = text_is(bus, path, INTERFACE, "ProtectHome", (const char *[]){"yes", "tmpfs", NULL});
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    add_paths(bus, path, folders[i].property, folders[i].root, rules);
  }
}

bool unit_rules_read(const char *unit, struct unit_rules *rules) {
  char *path = NULL;
  sd_bus *bus = unit_connect();
  *rules = (struct unit_rules){0};
  bool found = bus && sd_bus_set_method_call_timeout(bus, PATIENCE) >= 0 &&
               sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit, &path) >= 0 &&
               text_is(bus, path, SYSTEMD ".Unit", "LoadState", (const char *[]){"loaded", NULL});
  if (found) {
    unit_read(bus, path, rules);
  }
  free(path);
  sd_bus_close(bus);
  sd_bus_unref(bus);
  return found;
}

void unit_rules_clear(struct unit_rules *rules) {
  for (unsigned i = 0; i < rules->count; i++) {
    free(rules->writable[i]);
  }
  *rules = (struct unit_rules){0};
}
