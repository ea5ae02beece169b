/*
 * A client of a native pipeline: it sends frames and takes their results, on the same connection where the pipeline replies,
 * else as a consumer beside the producer, in one thread, by libframed. Frames are filled once and sent again and again, since
 * filling them would be what is measured otherwise.
 *
 * A part of load_client, with the same life and the same pace; results bear their numbers.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_NATIVE_H
#define FRAMED_FRAMEBENCH_LOAD_NATIVE_H

#include "tools/framebench/load/client.h"

struct load_native;

struct load_native *load_native_new(const struct load_native_wire *wire, struct problem *problem);
bool load_native_start(struct load_native *native, const struct load_pace *pace, struct problem *problem);
bool load_native_is_broken(const struct load_native *native);
/* Waits until all results are there; with `hurry` for none. */
void load_native_finish(struct load_native *native, bool hurry);
bool load_native_figures(const struct load_native *native, struct load_figures *figures, struct problem *problem);
struct load_native *load_native_free(struct load_native *native); /* NULL is fine; returns NULL */

#endif
