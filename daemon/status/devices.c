#include "daemon/status/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/measure/clock.h"
#include "gpu/nvml.h"

enum { MOST = 64, ADDRESS_ROOM = 32, PERIOD_MS = 2000 };

#define INTEREST_NS (60 * NS_PER_S) /* longer than Prometheus usually waits before it asks again */

struct device_figures {
  char address[ADDRESS_ROOM]; /* empty: none to ask for */
  double figures[NVML_FIGURES];
};

struct devices {
  const struct status_ops *ops;
  struct loop_timer *timer; /* while somebody asks */
  int64_t asked;
  bool busy, known, stopped;
  unsigned count;
  struct device_figures shown[MOST];
  /* The worker's, while busy. */
  struct nvml *nvml;
  bool absent; /* there is no such library */
  struct device_figures read[MOST];
};

static void read_all(void *context) {
  struct devices *devices = context;
  devices->nvml = devices->nvml || devices->absent ? devices->nvml : nvml_open();
  devices->absent = !devices->nvml;
  for (unsigned i = 0; i < devices->count && devices->nvml; i++) {
    if (devices->read[i].address[0]) {
      nvml_read(devices->nvml, devices->read[i].address, devices->read[i].figures);
    }
  }
}

static void on_read(void *context) {
  struct devices *devices = context;
  memcpy(devices->shown, devices->read, sizeof devices->shown);
  devices->known = !devices->absent;
  devices->busy = false;
}

/* A device that is lost is not asked, since its driver may not answer. */
static bool choose(struct devices *devices) {
  struct server_view server;
  bool any = false;
  devices->ops->read(devices->ops->server, &server);
  devices->count = server.device_count < MOST ? server.device_count : MOST;
  for (unsigned i = 0; i < devices->count; i++) {
    struct device_view view;
    devices->ops->device(devices->ops->server, i, &view);
    snprintf(devices->read[i].address, ADDRESS_ROOM, "%s", view.lost ? "" : view.address);
    any = any || devices->read[i].address[0];
  }
  return any;
}

static void on_tick(void *context) {
  struct devices *devices = context;
  if (clock_now() - devices->asked > INTEREST_NS) {
    devices->known = false;
    devices->timer = loop_timer_close(devices->timer);
  } else if (!devices->busy && !devices->absent && choose(devices)) {
    devices->busy = loop_job(devices->ops->loop, read_all, on_read, devices);
  }
}

const double *devices_figures(struct devices *devices, unsigned index) {
  if (!devices || devices->stopped) {
    return NULL;
  }
  devices->asked = clock_now();
  if (!devices->timer) {
    devices->timer = loop_timer_new(devices->ops->loop, on_tick, devices);
    if (devices->timer) {
      loop_timer_start(devices->timer, 0, PERIOD_MS);
    }
  }
  bool known = devices->known && index < MOST && devices->shown[index].address[0];
  return known ? devices->shown[index].figures : NULL;
}

struct devices *devices_new(const struct status_ops *ops) {
  struct devices *devices = calloc(1, sizeof *devices);
  if (devices) {
    devices->ops = ops;
  }
  return devices;
}

void devices_stop(struct devices *devices) {
  if (devices) {
    devices->stopped = true;
    devices->timer = loop_timer_close(devices->timer);
  }
}

struct devices *devices_free(struct devices *devices) {
  if (devices) {
    nvml_close(devices->nvml);
  }
  free(devices);
  return NULL;
}
