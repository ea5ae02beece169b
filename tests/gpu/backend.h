/*
 * What the tests of the CUDA backend on a real GPU share: one rig, the ways in which its frames go to the device, and stages
 * asked for. Each test_backend_*.c adds its tests to the one group that test_backend.c runs.
 *
 * Each test is a process of its own (Check forks before anything touched CUDA), so the rig is always a test's own, and a
 * device that dies in one test is alive in the next. What takes a process longest is making its CUDA context, so a test that
 * leaves the device alive tries all ways in one process, and says which it is in.
 */
#ifndef FRAMED_TESTS_GPU_BACKEND_H
#define FRAMED_TESTS_GPU_BACKEND_H

#include "tests/fault/fault.h"
#include "tests/unit/gpu/rig.h"

#include <check.h>

enum { BACKEND_HANG_IS_OVER = 42 }; /* exit status of a test that ends so */
enum { BACKEND_WAYS = 12, BACKEND_PLAIN = 0 };

extern struct rig rig;

/* Runs the test in those ways; the line tells where it is, should it not end. */
void backend_in_ways(const char *test, void (*run)(int way), int from, int to);
/* Opens the device and makes and warms up a program for gray images with that many pixels to a side. */
void backend_open_in(int way, unsigned slots, unsigned side, const struct gpu_stage_request *requests, unsigned count);
/* The same for a kernel that stays. */
void backend_open_resident(unsigned slots, unsigned side, const struct gpu_stage_request *requests, unsigned count);
struct gpu_chain *backend_chain(struct frame_format format, const struct gpu_stage_request *requests, unsigned count);

struct gpu_stage_request backend_affine(double scale, double offset);
struct gpu_stage_request backend_fault(enum fault_kind kind, double at, double every, double ms);

void backend_add_frames(TCase *group);
void backend_add_times(TCase *group);
void backend_add_errors(TCase *group);

#endif
