#include "daemon/measure/health.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/measure/clock.h"

/* A shorter limit would judge the scheduler and not the device. */
#define SHORTEST      (100 * NS_PER_MS)
#define CANARY_PERIOD NS_PER_S

/* A frame may take this many times its warm-up time, because the warm-up ran alone. */
enum { WARM_UP_FACTOR = 5 };

const char *const health_reason_names[HEALTH_REASON_COUNT] = {
#define X(name, text, meaning) [HEALTH_##name] = text,
    HEALTH_REASONS(X)
#undef X
};

static int64_t health_later(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t health_patience(int64_t timeout_ns, int64_t alone_ns) { return health_later(timeout_ns, WARM_UP_FACTOR * alone_ns); }

int64_t health_limit(int64_t timeout_ns) { return health_later(timeout_ns / 2, SHORTEST); }

int64_t health_period(int64_t timeout_ns) {
  int64_t limit = health_limit(timeout_ns);
  return limit < CANARY_PERIOD ? limit : CANARY_PERIOD;
}

int64_t health_device_limit(const struct health_moment *moment, const struct health_device *device) {
  return health_later(moment->limit, health_patience(0, device->work.alone) / 2);
}

/* -- verdicts -------------------------------------------------------------------------------------------------- */

static void health_begin(struct health_item *item, enum health_kind kind, const char *name) {
  *item = (struct health_item){.kind = kind, .ok = true, .remedy = ""};
  snprintf(item->name, sizeof item->name, "%s", name);
}

static double seconds(int64_t ns) { return (double)ns / (double)NS_PER_S; }

/* The item has not moved for `still` ns. */
__attribute__((format(printf, 3, 4))) static void health_condemn(struct health_item *item, int64_t still, const char *format,
                                                                 ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(item->why, sizeof item->why, format, arguments);
  va_end(arguments);
  item->ok = false;
  item->reason = HEALTH_STUCK;
  item->since_s = seconds(still);
  item->count = 1;
  item->remedy = "journalctl -u framed -x says what came before; a device: nvidia-smi and dmesg (Xid) may say more";
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

/* -- rules for each kind --------------------------------------------------------------------------------------- */

void health_of_lanes(const struct health_moment *moment, int64_t beat, struct health_item *item) {
  health_begin(item, HEALTH_LANES, "");
  item->age_s = seconds(health_later(moment->now - beat, 0));
  int64_t still = moment->now - health_later(beat, moment->awake);
  if (still > moment->lane_limit) {
    health_condemn(item, still, "a lane has finished no turn for %.3g s, and %.3g s is the limit", seconds(still),
                   seconds(moment->lane_limit));
  }
}

/* How long no frame has come back. */
static int64_t stillness(const struct health_moment *moment, const struct health_device *device,
                         const struct health_work *work) {
  return moment->now - health_later(health_later(work->since, device->completed), moment->awake);
}

/* Without frames on the device its canary must come back. A canary that is due may take as long as a frame. */
static void judge_canary(const struct health_moment *moment, const struct health_device *device, struct health_item *item) {
  int64_t proven = health_later(health_later(device->completed, device->probed), moment->awake);
  int64_t unproven = moment->now - proven;
  if (unproven > moment->period + moment->limit) {
    health_condemn(
        item, unproven,
        "nothing has come back from it for %.3g s: no frame is there, and the canary of every %.3g s has not come back within "
        "%.3g s",
        seconds(unproven), seconds(moment->period), seconds(moment->limit));
  }
}

void health_of_device(const struct health_moment *moment, const struct health_device *device, struct health_item *item) {
  const struct health_work *work = &device->work;
  const int64_t limit = health_device_limit(moment, device);
  char name[HEALTH_NAME];
  snprintf(name, sizeof name, "%u", device->number);
  health_begin(item, HEALTH_DEVICE, name);
  item->canary_s = device->canary_s;
  item->canary_age_s = device->canary_age_s;
  if (work->frames == 0) {
    judge_canary(moment, device, item);
  } else if (stillness(moment, device, work) > limit) {
    health_condemn(item, stillness(moment, device, work),
                   "nothing has come back from it for %.3g s with %" PRIu64 " frame%s there, and %.3g s is the limit",
                   seconds(stillness(moment, device, work)), work->frames, plural(work->frames), seconds(limit));
  }
}

void health_of_left_out(const struct health_moment *moment, unsigned number, int64_t since, const char *text,
                        struct health_item *item) {
  char name[HEALTH_NAME];
  snprintf(name, sizeof name, "%u", number);
  health_begin(item, HEALTH_ABSENT, name);
  item->ok = false;
  item->reason = HEALTH_LEFT_OUT;
  item->since_s = seconds(health_later(moment->now - since, 0));
  item->count = 1;
  item->remedy = "nvidia-smi and dmesg (Xid) may say what it needs; then framectl device NUMBER resume brings it back";
  snprintf(item->why, sizeof item->why, "it is left out: %s", text);
}

void health_of_waiting(const struct health_moment *moment, unsigned number, int64_t since, const char *why,
                       struct health_item *item) {
  health_of_left_out(moment, number, since, "", item);
  item->reason = HEALTH_WAITING;
  item->remedy =
      "mend the stages that it fails of, and reload, which tries it at once; nvidia-smi and dmesg (Xid) may say more";
  snprintf(item->why, sizeof item->why, "its workers fail too often, and the next one is started after a pause: %s", why);
}

void health_of_pipeline(const struct health_moment *moment, const char *name, const struct health_device *device,
                        const struct health_work *work, struct health_item *item) {
  health_begin(item, HEALTH_PIPELINE, name);
  const int64_t limit = health_device_limit(moment, device);
  int64_t own = moment->now - health_later(work->since, moment->awake);
  if (work->frames == 0) {
    return;
  }
  if (stillness(moment, device, work) > limit) {
    health_condemn(item, own, "its %" PRIu64 " frame%s on device %u did not come back for %.3g s, and %.3g s is the limit",
                   work->frames, plural(work->frames), device->number, seconds(own), seconds(limit));
  } else if (own > HEALTH_OTHERS_EXCUSE * limit) {
    health_condemn(item, own, "its %" PRIu64 " frame%s on device %u did not come back for %.3g s, while those of others did",
                   work->frames, plural(work->frames), device->number, seconds(own));
  }
}

void health_of_trouble(const struct health_moment *moment, const char *name, enum health_reason reason,
                       const struct trouble *trouble, struct health_item *item) {
  health_begin(item, HEALTH_TROUBLE, name);
  item->ok = false;
  item->reason = reason;
  item->since_s = seconds(health_later(moment->now - trouble->since, 0));
  item->count = trouble->count;
  item->remedy = trouble->remedy;
  snprintf(item->why, sizeof item->why, "%s", trouble->text);
}

/* -- summary --------------------------------------------------------------------------------------------------- */

void health_sum_up(struct health *health) {
  static const char *const prefixes[] = {[HEALTH_LANES] = "lanes",
                                         [HEALTH_DEVICE] = "device ",
                                         [HEALTH_ABSENT] = "device ",
                                         [HEALTH_PIPELINE] = "pipeline ",
                                         [HEALTH_TROUBLE] = "pipeline "};
  health->live = health->ok = true;
  health->why[0] = '\0';
  for (unsigned i = 0; i < health->count; i++) {
    const struct health_item *item = &health->items[i];
    if (!item->ok && health->ok) {
      snprintf(health->why, sizeof health->why, "%s%s: %s", prefixes[item->kind], item->name, item->why);
    }
    health->ok = health->ok && item->ok;
    health->live = health->live && (item->ok || item->kind == HEALTH_TROUBLE || item->kind == HEALTH_ABSENT);
  }
}

const struct health_item *health_find(const struct health *health, const char *pipeline) {
  for (unsigned i = 0; i < health->count; i++) {
    const struct health_item *item = &health->items[i];
    bool is_of_pipeline = item->kind == HEALTH_PIPELINE || item->kind == HEALTH_TROUBLE;
    if (!item->ok && is_of_pipeline && strcmp(item->name, pipeline) == 0) {
      return item;
    }
  }
  return NULL;
}
