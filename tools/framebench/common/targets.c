#include "tools/framebench/common/targets.h"

static const struct section targets_section = {"targets", "What framed is held to, and the limit in this run",
                                               (const struct column[]){{"what", "WHAT", COLUMN_TEXT},
                                                                       {"limit", "LIMIT", COLUMN_TEXT},
                                                                       {"unit", "UNIT", COLUMN_TEXT},
                                                                       {"value", "MEASURED", COLUMN_RATIO},
                                                                       {"limit_value", "LIMIT", COLUMN_RATIO},
                                                                       {"ratio", "RATIO", COLUMN_RATIO},
                                                                       {"at_least", "AT LEAST", COLUMN_RATIO},
                                                                       {"at_most", "AT MOST", COLUMN_RATIO},
                                                                       {"reached", "REACHED", COLUMN_TEXT},
                                                                       {0}}};

void targets_begin(struct results *results) { results_section(results, &targets_section); }

static double ratio_of(const struct target *target) {
  return target->limit_value > 0 ? target->value / target->limit_value : 0;
}

bool targets_reached(const struct target *target) {
  return target->at_most ? target->value <= target->bound : ratio_of(target) >= target->bound;
}

void targets_add(struct results *results, const struct target *target) {
  json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:s}", "what", target->what, "limit", target->limit, "unit", target->unit,
                          "value", target->value, target->at_most ? "at_most" : "at_least", target->bound, "reached",
                          targets_reached(target) ? "yes" : "no");
  if (target->limit_value > 0) {
    json_object_set_new(row, "limit_value", json_real(target->limit_value));
    json_object_set_new(row, "ratio", json_real(ratio_of(target)));
  }
  results_row(results, row);
}
