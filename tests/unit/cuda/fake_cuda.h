/*
 * A CUDA runtime that runs nothing by itself: operations lie on their streams until a test lets them run, in any order
 * that streams and events allow. It fails the test on whatever must never happen: a call on the default stream or by a
 * thread that has no current device, an object used after its end, a device-side wait for what never comes.
 *
 * What is captured runs only where its graph is launched, and records external events alone. Its clock stands still but
 * for the operations it runs. cudaEventQuery() lets a few operations run in random streams, so that polling gets on; where it
 * does, an event with timing on an idle stream happens at once.
 */
#ifndef FRAMED_TESTS_UNIT_CUDA_FAKE_CUDA_H
#define FRAMED_TESTS_UNIT_CUDA_FAKE_CUDA_H

#include "tests/unit/cuda/fake/cuda_runtime_api.h"

#include <stdbool.h>
#include <stdint.h>

void fake_reset(void);             /* forgets everything */
void fake_set_seed(unsigned seed); /* decides in which order streams run */

/* Whether queries let operations run by themselves (they do at first). */
void fake_set_polling(bool runs);
/* An event with timing on an idle stream does not happen at once, but when other streams have little left. */
void fake_set_late_records(bool late);
/* Runs up to `count` operations of one stream, as far as it may go; gives how many. */
unsigned fake_run_stream(cudaStream_t stream, unsigned count);
/* Runs everything, and fails the test if something can never run. */
void fake_run_all(void);

/* A kernel: `run(argument)` after `ns` of work. */
void fake_launch(cudaStream_t stream, void (*run)(void *argument), void *argument, int64_t ns);

/* The clock by which the warm-up measures and programs choose which frames are timed: this machine's, or with a step one that
 * goes on by so much whenever it is read. */
int64_t fake_host_now(void);
void fake_set_host_step(int64_t ns);

/* What the kernel says of NUMA nodes: device 1 is near node 3. */
int fake_pci_node(const char *directory, const char *address);

/* Kernels do not find pinned memory where the host has it. */
void fake_set_blind(bool blind);
void fake_set_old(void); /* a device of before Turing */

void fake_set_ungreen(void); /* a driver without green contexts */
void fake_set_driver(int version);
/* Which groups of multiprocessors the kernels of a stream keep to, a bit for each; 0: all. */
unsigned fake_groups(cudaStream_t stream);

/* What the host's clock with a step goes on by besides whenever a copy runs, that of an engine and that of a kernel. */
void fake_set_copy_costs(int64_t engine_ns, int64_t kernel_ns);

/* How long a copy takes, and what an event with timing takes before it happens. A copy of a few bytes takes no time, and
 * cuda_nothing() neither. */
void fake_set_copy_ns(int64_t ns);
void fake_set_event_ns(int64_t ns);

/* The call after `calls` more ones fails, once (or for ever, with sticky). */
void fake_fail(unsigned calls, cudaError_t status, bool sticky);
bool fake_heal(void); /* no call fails any more; true: the one that was to fail had not come yet */
/* Every call fails from now on, and nothing runs any more: what an illegal access does. */
void fake_die(cudaError_t status);
/* Calls that could have failed since the reset. */
unsigned fake_calls(void);

/* Streams, events, allocations and registrations that are alive. */
unsigned fake_alive(void);
unsigned fake_host_functions(void); /* launched since the reset, also by graphs */
unsigned fake_graph_launches(void); /* since the reset */
unsigned fake_records(void);        /* of events since the reset, also by graphs */
unsigned fake_kernel_copies(void);  /* run since the reset */

#endif
