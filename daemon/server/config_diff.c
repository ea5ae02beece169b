#include "daemon/server/config_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static enum change change_of(const struct config_pipeline *old, const struct config_pipeline *now) {
  if (same_text(old->text, now->text)) {
    return CHANGE_NONE;
  }
  return old->ends && same_text(old->ends, now->ends) ? CHANGE_STAGES : CHANGE_CHANGED;
}

static bool config_diff_find(const struct config *config, const char *name, unsigned *index) {
  for (*index = 0; *index < config->pipeline_count; (*index)++) {
    if (strcmp(config->pipelines[*index].name, name) == 0) {
      return true;
    }
  }
  return false;
}

bool config_diff_make(struct diff *diff, const struct config *old, const struct config *now) {
  diff->new_count = now->pipeline_count;
  diff->old_count = old->pipeline_count;
  diff->now = calloc(now->pipeline_count + 1, sizeof *diff->now);
  diff->removed = calloc(old->pipeline_count + 1, sizeof *diff->removed);
  if (!diff->now || !diff->removed) {
    config_diff_clear(diff);
    return false;
  }
  unsigned index;
  for (unsigned i = 0; i < now->pipeline_count; i++) {
    const struct config_pipeline *pipeline = &now->pipelines[i];
    if (!config_diff_find(old, pipeline->name, &index)) {
      diff->now[i].change = CHANGE_ADDED;
      continue;
    }
    diff->now[i].old = index;
    diff->now[i].change = change_of(&old->pipelines[index], pipeline);
  }
  for (unsigned i = 0; i < old->pipeline_count; i++) {
    diff->removed[i] = !config_diff_find(now, old->pipelines[i].name, &index);
  }
  return true;
}

void config_diff_clear(struct diff *diff) {
  free(diff->now);
  free(diff->removed);
  *diff = (struct diff){0};
}

static bool same_realtime(const struct config_realtime *a, const struct config_realtime *b) {
  return a->policy == b->policy && a->priority == b->priority && a->lock == b->lock &&
         memcmp(&a->processors, &b->processors, sizeof a->processors) == 0;
}

bool config_diff_fixed_keys(const struct config *old, const struct config *now, char *text, size_t size) {
  const struct {
    const char *key;
    bool same;
  } keys[] = {
      {"lanes", old->lanes == now->lanes},
      {"realtime", same_realtime(&old->realtime, &now->realtime)},
      {"status.socket", same_text(old->status.socket, now->status.socket)},
      {"gpu.backend", old->gpu.backend == now->gpu.backend},
      {"gpu.device", old->gpu.device == now->gpu.device},
      {"gpu.count", old->gpu.count == now->gpu.count},
      {"gpu.timeout", old->gpu.timeout_ns == now->gpu.timeout_ns},
  };
  size_t length = 0;
  text[0] = '\0';
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!keys[i].same && length < size) {
      length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", keys[i].key);
    }
  }
  return length > 0;
}
