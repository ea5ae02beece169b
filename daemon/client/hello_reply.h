/*
 * What a pipeline tells native clients of itself.
 */
#ifndef FRAMED_CLIENT_HELLO_REPLY_H
#define FRAMED_CLIENT_HELLO_REPLY_H

#include "config/config.h"
#include "daemon/wire/native_wire.h"
#include "gpu/gpu.h"

/* For the stream transport; `session` is the caller's to count. */
struct native_welcome hello_reply_of(const struct config_pipeline *config, const struct frame_format *input,
                                     const struct frame_format *output, enum native_role role);

/* "producer", "consumer" or "both". */
const char *welcome_role_name(uint32_t role);

#endif
