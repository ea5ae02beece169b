/*
 * Counts how often each function of the daemon is called, by thread, for `make bench-calls`: the compiler calls it at the
 * beginning of every function. Where the process ends, the counts go to the file that FRAMED_CALLS names: thread, address,
 * calls.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PLACES = 8192 }; /* more than the daemon has functions */

struct call_count {
  const void *function;
  unsigned long calls;
};

/* One for each thread, which alone writes it. Nobody frees it: a thread may end before the counts are written. */
struct call_table {
  struct call_table *next;
  long thread;
  struct call_count counts[PLACES];
};

static struct call_table *_Atomic tables;
static _Thread_local struct call_table *own_table;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static struct call_table *make_table(void) {
  struct call_table *table = calloc(1, sizeof *table);
  if (!table) {
    abort();
  }
  table->thread = syscall(SYS_gettid);
  table->next = atomic_load(&tables);
  while (!atomic_compare_exchange_weak(&tables, &table->next, table)) {
  }
  return table;
}

void __cyg_profile_func_enter(void *function, void *caller) {
  (void)caller;
  own_table = own_table ? own_table : make_table();
  size_t at = ((size_t)function >> 2) * 2654435761U % PLACES;
  while (own_table->counts[at].function && own_table->counts[at].function != function) {
    at = (at + 1) % PLACES;
  }
  own_table->counts[at].function = function;
  own_table->counts[at].calls++;
}

void __cyg_profile_func_exit(void *function, void *caller) {
  (void)function;
  (void)caller;
}

static void write_counts(void) {
  extern const char __executable_start; /* by the linker */
  const char *path = getenv("FRAMED_CALLS");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) {
    return;
  }
  for (const struct call_table *table = atomic_load(&tables); table; table = table->next) {
    for (size_t at = 0; at < PLACES; at++) {
      const struct call_count *count = &table->counts[at];
      if (count->function) {
        fprintf(file, "%ld %lx %lu\n", table->thread, (unsigned long)((const char *)count->function - &__executable_start),
                count->calls);
      }
    }
  }
  fclose(file);
}

__attribute__((constructor)) static void count_until_exit(void) { atexit(write_counts); }

/* A daemon that leaves its state to a service manager ends by this, which runs nothing of what atexit() was told. */
void _exit(int status) {
  write_counts();
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}
