#include "daemon/client/hello_reply.h"

#include <assert.h>
#include <stdio.h>

static_assert((int)NATIVE_TEXT >= (int)FORMAT_TEXT, "a welcome has room for every format");

struct native_welcome hello_reply_of(const struct config_pipeline *config, const struct frame_format *input,
                                     const struct frame_format *output, enum native_role role) {
  struct native_welcome reply = {
      .version = NATIVE_VERSION, .role = (uint32_t)role, .transport = NATIVE_STREAM, .slots = config->slots};
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  format_bytes(input, &input_bytes);
  format_bytes(output, &output_bytes);
  reply.input_bytes = input_bytes;
  reply.output_bytes = output_bytes;
  snprintf(reply.pipeline, sizeof reply.pipeline, "%s", config->name);
  format_describe(input, reply.input_format);
  format_describe(output, reply.output_format);
  return reply;
}

const char *welcome_role_name(uint32_t role) {
  static const char *const names[] = {[NATIVE_PRODUCER] = "producer", [NATIVE_CONSUMER] = "consumer", [NATIVE_BOTH] = "both"};
  return role >= NATIVE_PRODUCER && role <= NATIVE_BOTH ? names[role] : "?";
}
