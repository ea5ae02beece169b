/* A client whose daemon may die and be there again, and what either side must find of the other then. */
#ifndef FRAMED_TESTS_UNIT_CLIENT_RESUME_FIXTURE_H
#define FRAMED_TESTS_UNIT_CLIENT_RESUME_FIXTURE_H

#include "tests/unit/libframed/fake.h"
#include "tests/unit/runner.h"

#define SECOND INT64_C(1000000000)

extern struct fake fake;
extern struct framed *client;

void open_for(int role, int transport, int64_t reconnect_for_ns);
/* After each test. */
void close_both(void);

/* -- over the stream --------------------------------------------------------------------------------------------------- */

/* What the client has sent is this frame, as fake_submit() made it; returns its mark. */
uint32_t expect_frame(uint64_t sequence, bool again);
void say_result(uint64_t sequence, uint64_t dropped, uint32_t flags);

/* -- in shared memory -------------------------------------------------------------------------------------------------- */

const struct native_submission *submission(unsigned number);
void expect_submission(unsigned number, uint64_t sequence, bool again);
void complete(uint32_t slot, uint32_t fate, uint64_t sequence);

/* -- over both --------------------------------------------------------------------------------------------------------- */

/* The client's next result is this one, and is released. */
void expect_result(uint64_t sequence);
void expect_no_result(void);

#endif
