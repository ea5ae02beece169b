#include "daemon/frame/fault.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...) {
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, size - length, format, arguments);
  va_end(arguments);
}

void fault_of_device(struct fault *fault, unsigned device, const char *text) {
  *fault = (struct fault){.device = device, .error = {.stage = -1}};
  snprintf(fault->error.text, sizeof fault->error.text, "%s", text);
}

void fault_add_stage(struct fault *fault, const char *name) {
  append(fault->stages, sizeof fault->stages, "%s%s", fault->stages[0] ? ", " : "", name);
}

void fault_add_others(struct fault *fault, uint64_t frames, const char *pipeline) {
  append(fault->others, sizeof fault->others, "%s%" PRIu64 " of %s", fault->others[0] ? ", " : "", frames, pipeline);
}

/* "20" or "20 to 21"; empty without frames. */
static void describe_frames(const struct fault *fault, const char *between, char *text, size_t size) {
  text[0] = '\0';
  if (fault->frames > 0) {
    append(text, size, "%" PRIu64, fault->first);
  }
  if (fault->frames > 1) {
    append(text, size, "%s%" PRIu64, between, fault->last);
  }
}

const char *fault_describe(const struct fault *fault, char text[FAULT_TEXT]) {
  char frames[64];
  text[0] = '\0';
  append(text, FAULT_TEXT, "%s", fault->error.text);
  describe_frames(fault, " to ", frames, sizeof frames);
  if (fault->frames > 0) {
    append(text, FAULT_TEXT, "; frame%s %s of epoch %" PRIu64 " %s on the device", fault->frames > 1 ? "s" : "", frames,
           fault->epoch, fault->frames > 1 ? "were" : "was");
    if (fault->stages[0]) {
      append(text, FAULT_TEXT, " (stage%s %s)", strchr(fault->stages, ',') ? "s" : "", fault->stages);
    }
  }
  if (fault->others[0]) {
    append(text, FAULT_TEXT, fault->frames > 0 ? ", and %s" : "; frames on the device: %s", fault->others);
  }
  return text;
}

void fault_log(const struct fault *fault, const char *outcome) {
  char text[FAULT_TEXT], sequence[64], epoch[24] = "", device[16] = "", failed[48] = "a device failed";
  describe_frames(fault, "-", sequence, sizeof sequence);
  if (fault->device != NO_DEVICE) {
    snprintf(device, sizeof device, "%u", fault->device);
    snprintf(failed, sizeof failed, "the worker of device %u failed", fault->device);
  }
  if (fault->frames > 0) {
    snprintf(epoch, sizeof epoch, "%" PRIu64, fault->epoch);
  }
  const struct log_field fields[] = {
      {"ERROR", fault->error.text}, {"DEVICE", device}, {"STAGE", fault->frames > 0 ? fault->stages : ""},
      {"SEQUENCE", sequence},       {"EPOCH", epoch},   {NULL, NULL}};
  log_event_with(LOG_GPU_FAULT, fault->pipeline, fields, "%s, and %s: %s%s%s", failed, outcome, fault_describe(fault, text),
                 fault->error.remedy[0] ? "; " : "", fault->error.remedy);
}
