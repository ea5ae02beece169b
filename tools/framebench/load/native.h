/*
 * A client of a native pipeline, with libframed in one thread. It receives results on the producer's connection if the pipeline
 * replies, and otherwise with a separate consumer. Frames are filled once and sent repeatedly, since filling would dominate the
 * measurement.
 *
 * It is a part of load_client, with the same calls and the same pace. Results carry their numbers.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_NATIVE_H
#define FRAMED_FRAMEBENCH_LOAD_NATIVE_H

#include "tools/framebench/load/client.h"

struct load_native;

struct load_native *load_native_new(const struct load_native_wire *wire, struct problem *problem);
bool load_native_start(struct load_native *native, const struct load_pace *pace, struct problem *problem);
bool load_native_is_broken(const struct load_native *native);
/* Waits for all results; with `hurry` it ends at once. */
void load_native_finish(struct load_native *native, bool hurry);
bool load_native_figures(const struct load_native *native, struct load_figures *figures, struct problem *problem);
struct load_native *load_native_free(struct load_native *native); /* NULL is valid; returns NULL */

#endif
