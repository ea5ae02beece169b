/*
 * The boxes of motion on the CPU: cells that changed enough are joined into groups, the groups are put in order.
 *
 * Groups are trees over cells whose root is always the group's first cell in reading order, because the later of
 * two roots is hung below the earlier one; so the result does not depend on the order in which cells are joined,
 * and the CUDA backend, which joins them all at once, finds the same groups.
 */
#include "gpu/stages/motion/motion.h"

#include <string.h>

static uint32_t find_first(struct motion_cell *cells, uint32_t cell) {
  while (cells[cell].parent != cell) {
    cells[cell].parent = cells[cells[cell].parent].parent; /* halves the way for the next search */
    cell = cells[cell].parent;
  }
  return cell;
}

static void join(struct motion_cell *cells, uint32_t a, uint32_t b) {
  a = find_first(cells, a);
  b = find_first(cells, b);
  if (a < b) {
    cells[b].parent = a;
  } else {
    cells[a].parent = b;
  }
}

static void begin_groups(const struct motion_constants *constants, const struct motion_scratch *scratch) {
  uint32_t index = 0;
  for (uint32_t row = 0; row < constants->rows; row++) {
    for (uint32_t column = 0; column < constants->columns; column++, index++) {
      struct motion_cell *cell = scratch->cells + index;
      bool active = motion_is_active(constants, column, row, cell->changed);
      cell->parent = active ? index : MOTION_INACTIVE;
      cell->left = cell->right = column;
      cell->top = cell->bottom = row;
      scratch->totals->changed += cell->changed;
    }
  }
}

static void join_all(const struct motion_constants *constants, struct motion_cell *cells) {
  uint32_t index = 0;
  for (uint32_t row = 0; row < constants->rows; row++) {
    for (uint32_t column = 0; column < constants->columns; column++, index++) {
      const struct motion_neighbours neighbours = motion_neighbours_of(constants, cells, index, column);
      for (uint32_t i = 0; i < neighbours.count; i++) {
        join(cells, index, neighbours.cells[i]);
      }
    }
  }
}

/* Adds each cell to its group. */
static void sum_groups(const struct motion_constants *constants, const struct motion_scratch *scratch) {
  for (uint32_t index = 0; index < scratch->count; index++) {
    const struct motion_cell *cell = scratch->cells + index;
    if (cell->parent == MOTION_INACTIVE) {
      continue;
    }
    const uint32_t column = index % constants->columns;
    struct motion_cell *group = scratch->cells + find_first(scratch->cells, index);
    group->left = column < group->left ? column : group->left;
    group->right = column > group->right ? column : group->right;
    group->bottom = index / constants->columns; /* rows only go down from the first cell's */
    group->group_changed += cell->changed;
  }
}

static void collect_keys(const struct motion_scratch *scratch) {
  for (uint32_t index = 0; index < scratch->count; index++) {
    if (scratch->cells[index].parent == index) {
      scratch->keys[scratch->totals->found++] = motion_key(scratch->cells[index].group_changed, index);
    }
  }
}

static unsigned long long greatest_below(const struct motion_scratch *scratch, unsigned long long limit) {
  unsigned long long greatest = 0;
  for (unsigned long long i = 0; i < scratch->totals->found; i++) {
    const unsigned long long key = scratch->keys[i];
    greatest = key < limit && key > greatest ? key : greatest;
  }
  return greatest;
}

void motion_list_boxes(const struct motion_constants *constants, const struct motion_scratch *scratch, float *out) {
  begin_groups(constants, scratch);
  join_all(constants, scratch->cells);
  sum_groups(constants, scratch);
  collect_keys(scratch);
  memset(out, 0, ((size_t)constants->boxes + 1) * MOTION_ROW * sizeof *out);
  unsigned long long listed = 0;
  unsigned long long key = ~0ULL;
  while (listed < constants->boxes && (key = greatest_below(scratch, key)) != 0) {
    motion_write_box(constants, scratch->cells + motion_key_cell(key), out + ++listed * MOTION_ROW);
  }
  motion_write_summary(constants, scratch->totals, listed, out);
}
