#include "tools/framebench/load/window.h"

#include "daemon/measure/clock.h"

void load_window_init(struct load_window *window, uint64_t limit, bool spin) {
  pthread_condattr_t attributes;
  window->limit = limit < LOAD_WINDOW_LIMIT ? limit : LOAD_WINDOW_LIMIT;
  window->spin = spin;
  pthread_mutex_init(&window->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&window->moved, &attributes);
  pthread_condattr_destroy(&attributes);
}

void load_window_clear(struct load_window *window) {
  pthread_mutex_destroy(&window->mutex);
  pthread_cond_destroy(&window->moved);
}

/* The number of frames that may be sent after `sent`; 0: none now. */
static uint64_t room_after(const struct load_window *window, uint64_t sent) {
  uint64_t settled = atomic_load(&window->settled);
  uint64_t done = settled > window->floor ? settled : window->floor;
  uint64_t under_way = sent > done ? sent - done : 0;
  return under_way < window->limit ? window->limit - under_way : 0;
}

/* Sets `waiting` before it checks again. So either the settler sees the waiter, or this check sees the settler's update. */
static void sleep_for_room(struct load_window *window, uint64_t sent, int64_t deadline) {
  struct timespec until = {.tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S};
  pthread_mutex_lock(&window->mutex);
  atomic_store(&window->waiting, true);
  while (room_after(window, sent) == 0 && pthread_cond_timedwait(&window->moved, &window->mutex, &until) == 0) {
  }
  atomic_store(&window->waiting, false);
  pthread_mutex_unlock(&window->mutex);
}

uint64_t load_window_wait(struct load_window *window, uint64_t sent, int64_t patience_ns) {
  uint64_t room = room_after(window, sent);
  if (room > 0) {
    return room;
  }
  int64_t deadline = clock_now() + patience_ns;
  if (!window->spin) {
    sleep_for_room(window, sent, deadline);
  }
  while ((room = room_after(window, sent)) == 0) {
    if (clock_now() >= deadline) {
      window->floor = sent;
    }
  }
  return room;
}

void load_window_note(struct load_window *window, uint64_t number, int64_t now) {
  atomic_store_explicit(&window->sent_at[number % LOAD_WINDOW_LIMIT], now, memory_order_relaxed);
}

int64_t load_window_time(const struct load_window *window, uint64_t number) {
  return atomic_load_explicit(&window->sent_at[number % LOAD_WINDOW_LIMIT], memory_order_relaxed);
}

void load_window_settle(struct load_window *window, uint64_t settled) {
  atomic_store(&window->settled, settled);
  if (atomic_load(&window->waiting)) {
    pthread_mutex_lock(&window->mutex);
    pthread_cond_signal(&window->moved);
    pthread_mutex_unlock(&window->mutex);
  }
}
