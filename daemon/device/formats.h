/*
 * Translates between the configuration's words and the GPU's: the only place where config/ and gpu/ meet.
 */
#ifndef FRAMED_DEVICE_FORMATS_H
#define FRAMED_DEVICE_FORMATS_H

#include "config/config.h"
#include "daemon/device/device.h"

struct vocabulary;

/* The stages, pixel formats and element types of this build. NULL if there is no memory. */
struct vocabulary *formats_new(void);
struct vocabulary *formats_free(struct vocabulary *vocabulary); /* NULL is fine; returns NULL */
const struct config_vocabulary *formats_words(const struct vocabulary *vocabulary);

struct frame_format formats_format(const struct config_format *format);
enum gpu_backend_choice formats_backend(enum config_backend backend);
enum gpu_priority formats_priority(enum config_priority priority);
/* Negotiates a pipeline's formats. NULL on error, as device_chain_new(). */
struct device_chain *formats_chain(struct device *device, enum config_backend backend, const struct config_pipeline *pipeline,
                                   struct gpu_error *error);

#endif
