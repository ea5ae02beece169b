/*
 * A singly linked list is enough: it holds the limited kinds of the pipelines that spoke in the last ten seconds.
 * Invariant: a count's window began at its first line, and `written` never passes the burst.
 */
#include "daemon/base/log_limit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"

struct log_limit_count {
  struct log_limit_count *next;
  unsigned kind;
  int64_t began;
  unsigned written;
  uint64_t left_out;
  char pipeline[]; /* empty: of no pipeline */
};

static struct log_limit_count *find(const struct log_limit *limit, unsigned kind, const char *pipeline) {
  for (struct log_limit_count *count = limit->counts; count; count = count->next) {
    if (count->kind == kind && strcmp(count->pipeline, pipeline) == 0) {
      return count;
    }
  }
  return NULL;
}

static struct log_limit_count *add(struct log_limit *limit, unsigned kind, const char *pipeline, int64_t now) {
  size_t size = strlen(pipeline) + 1;
  struct log_limit_count *count = calloc(1, sizeof *count + size);
  if (count) {
    count->kind = kind;
    count->began = now;
    memcpy(count->pipeline, pipeline, size);
    count->next = limit->counts;
    limit->counts = count;
  }
  return count;
}

static bool is_over(const struct log_limit_count *count, int64_t now) {
  return now - count->began >= LOG_LIMIT_WINDOW_S * NS_PER_S;
}

bool log_limit_admit(struct log_limit *limit, unsigned kind, const char *pipeline, int64_t now, uint64_t *left_out) {
  *left_out = 0;
  const char *name = pipeline ? pipeline : "";
  struct log_limit_count *count = find(limit, kind, name);
  if (!count) {
    count = add(limit, kind, name, now);
  }
  if (!count) {
    return true;
  }
  if (is_over(count, now)) {
    count->began = now;
    count->written = 0;
  }
  if (count->written >= limit->burst) {
    count->left_out++;
    return false;
  }
  count->written++;
  *left_out = count->left_out;
  count->left_out = 0;
  return true;
}

void log_limit_settle(struct log_limit *limit, int64_t now, log_limit_tell *tell, void *context) {
  struct log_limit_count **link = &limit->counts;
  while (*link) {
    struct log_limit_count *count = *link;
    if (count->left_out > 0) {
      tell(context, count->kind, count->pipeline[0] ? count->pipeline : NULL, count->left_out);
      count->left_out = 0;
    }
    if (is_over(count, now)) {
      *link = count->next;
      free(count);
    } else {
      link = &count->next;
    }
  }
}
