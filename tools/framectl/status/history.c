#include "tools/framectl/status/history.h"

#include <stdio.h>
#include <string.h>

const struct history_line *history_find(const struct history *history, const char *name) {
  for (unsigned i = 0; i < history->count; i++) {
    if (strcmp(history->lines[i].name, name) == 0) {
      return &history->lines[i];
    }
  }
  return NULL;
}

static struct history_line *find_or_make(struct history *history, const char *name) {
  struct history_line *line = (struct history_line *)history_find(history, name);
  if (!line && history->count < HISTORY_PIPELINES) {
    line = &history->lines[history->count++];
    *line = (struct history_line){0};
    snprintf(line->name, sizeof line->name, "%s", name);
  }
  return line;
}

const struct history_line *history_add(struct history *history, const struct pipeline_view *view, double seconds) {
  struct history_line *line = find_or_make(history, view->name);
  if (!line) {
    return NULL;
  }
  uint64_t emitted = view->fates[FATE_EMITTED], drops = view_dropped(view);
  /* Counters that decreased belong to another daemon. */
  bool continues = line->known && emitted >= line->emitted && drops >= line->drops && seconds > line->at;
  line->fresh_drops = continues ? drops - line->drops : 0;
  if (continues) {
    line->rates[line->count++ % HISTORY_LENGTH] = (double)(emitted - line->emitted) / (seconds - line->at);
  }
  line->known = true;
  line->emitted = emitted;
  line->drops = drops;
  line->at = seconds;
  return line;
}

void history_break(struct history *history) {
  for (unsigned i = 0; i < history->count; i++) {
    history->lines[i].known = false;
  }
}

double history_rate(const struct history_line *line, unsigned age) {
  return age < line->count && age < HISTORY_LENGTH ? line->rates[(line->count - 1 - age) % HISTORY_LENGTH] : -1;
}
