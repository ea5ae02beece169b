/* Threads that compute batches: every frame comes back once, those of a program in their order, and closing waits for nobody.
 */
#include "gpu/model/batches.h"

#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "tests/unit/runner.h"

enum { PROGRAMS = 4, SLOTS = 3, FRAMES = 200 };

static struct model model;
static struct gpu_device device;
static struct gpu_error error;
static const struct stage_plan plan = {.object = &model};
static atomic_uint opened, failing;
static unsigned largest; /* of the batches; changes in start(), of which there is one at a time */

/* -- an engine ------------------------------------------------------------------------------------------------------------ */

static void *open_instance(struct gpu_device *on, struct model *of, unsigned number, struct gpu_error *why) {
  ck_assert(on == &device && of == &model && number == opened + 1);
  if (number == failing) {
    gpu_error_set(why, 0, NULL, "it cannot be opened");
    return NULL;
  }
  opened++;
  return &opened;
}

static void *close_instance(void *instance) {
  ck_assert_ptr_eq(instance, &opened);
  opened--;
  return NULL;
}

static void start(void *instance, struct batch *batch) {
  (void)instance;
  largest = batch->count > largest ? batch->count : largest;
  ck_assert_uint_le(batch->count, model.batch.most);
  for (unsigned i = 0; i < batch->count; i++) {
    ck_assert(batch->places[i]->frame.deadline == batch->places[i]->call->deadline);
  }
  batch_resume(batch);
}

static void run(void *instance, struct batch *batch) {
  (void)batch;
  ck_assert_ptr_eq(instance, &opened);
}

static const struct batch_engine engine = {open_instance, close_instance, start, run};

/* -- programs that hand frames over --------------------------------------------------------------------------------------- */

struct program {
  struct batch_member *member;
  struct stage_call calls[SLOTS];
  struct stage_run runs[SLOTS];
  sem_t free;
  uint64_t next; /* the frame that comes back next */
};

static void resume(struct stage_call *call) {
  struct program *program = call->session;
  ck_assert_uint_eq(call->sequence, program->next++);
  ck_assert_uint_ge(call->run->batch, 1);
  sem_post(&program->free);
}

static void *hand_all(void *argument) {
  struct program *program = argument;
  for (uint64_t i = 0; i < FRAMES; i++) {
    while (sem_wait(&program->free) != 0) {
    }
    unsigned slot = (unsigned)(i % SLOTS);
    program->calls[slot] = (struct stage_call){.session = program,
                                               .sequence = i,
                                               .slot = slot,
                                               .deadline = INT64_MAX - (int64_t)i,
                                               .run = &program->runs[slot],
                                               .resume = resume};
    batches_hand(program->member, &program->calls[slot]);
  }
  for (int i = 0; i < SLOTS; i++) {
    while (sem_wait(&program->free) != 0) {
    }
  }
  return NULL;
}

static void set_up_model(unsigned instances, unsigned most, int64_t wait_ns) {
  opened = failing = largest = 0;
  model = (struct model){.instances = instances,
                         .holders = 1,
                         .batch = {.most = most, .wait_ns = wait_ns},
                         .served = model.own_served,
                         .batches = model.own_batches};
}

START_TEST(every_frame_comes_back_in_its_programs_order) {
  struct program programs[PROGRAMS] = {0};
  pthread_t threads[PROGRAMS];
  uint64_t frames = 0, batches[MODEL_MOST_BATCH];
  set_up_model(2, 1 + 3 * (unsigned)(_i % 2), _i < 2 ? 0 : 200000);
  for (int i = 0; i < PROGRAMS; i++) {
    programs[i].member = batches_join(&engine, &device, &plan, &error);
    ck_assert_ptr_nonnull(programs[i].member);
    sem_init(&programs[i].free, 0, SLOTS);
  }
  ck_assert_uint_eq(opened, 2);
  for (int i = 0; i < PROGRAMS; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, hand_all, &programs[i]), 0);
  }
  for (int i = 0; i < PROGRAMS; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_uint_eq(programs[i].next, FRAMES);
    batches_leave(programs[i].member);
    sem_destroy(&programs[i].free);
  }
  ck_assert_uint_eq(opened, 0);
  ck_assert_uint_eq(model_batches(&model, batches), model.batch.most);
  for (unsigned i = 0; i < MODEL_MOST_BATCH; i++) {
    frames += batches[i] * (i + 1);
  }
  ck_assert_uint_eq(frames, PROGRAMS * FRAMES);
  ck_assert_uint_eq(model.holders, 1);
}
END_TEST

START_TEST(an_instance_that_does_not_open_leaves_nothing) {
  set_up_model(3, 2, 0);
  failing = 3;
  ck_assert_ptr_null(batches_join(&engine, &device, &plan, &error));
  ck_assert_str_eq(error.text, "it cannot be opened");
  ck_assert_uint_eq(opened, 0);
  ck_assert_uint_eq(model.holders, 1);
}
END_TEST

Suite *batches_suite(void);
Suite *batches_suite(void) {
  Suite *suite = suite_create("batches");
  TCase *tests = tcase_create("threads");
  tcase_add_loop_test(tests, every_frame_comes_back_in_its_programs_order, 0, 4);
  tcase_add_test(tests, an_instance_that_does_not_open_leaves_nothing);
  suite_add_tcase(suite, tests);
  return suite;
}
