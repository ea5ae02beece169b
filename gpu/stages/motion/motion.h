/*
 * motion: what differs from a background that follows the picture, as a mask or as a list of boxes.
 *
 * Each pixel has a background value, in state kept from frame to frame: the first frame of a session sets it,
 * and every frame, that one included, is compared with it before it moves towards the frame by `rate` of the
 * difference. A pixel has changed where the difference exceeds `threshold` levels. The mask is gray, 255 where
 * changed and 0 elsewhere.
 *
 * Boxes come from a grid of square cells (cut off at the right and lower edge). A cell is active if it has a
 * changed pixel and at least the share `fill` of its pixels has changed; active cells that touch, corners
 * included, form one group. The result is a float32 tensor [boxes + 1, 5]:
 *
 *   row 0       boxes listed, groups found, share of the frame's pixels that changed, 0, 0
 *   row 1 on    x, y, width, height in pixels, changed pixels within the group; rows not used are 0
 *
 * Groups with more changed pixels come first, at a tie the one whose first cell in reading order comes first.
 */
#ifndef FRAMED_GPU_STAGES_MOTION_H
#define FRAMED_GPU_STAGES_MOTION_H

#include "gpu/stage.h"

enum { MOTION_ROW = 5 };

struct motion_constants {
  float rate, threshold, fill;
  uint32_t width, height;
  uint32_t cell, columns, rows; /* side of a cell in pixels, and the grid */
  uint32_t boxes;               /* most boxes listed; 0: a mask is wanted */
};

/* A cell, and at the first cell of a group also what the group is. Sides are in cells, inclusive. */
struct motion_cell {
  unsigned long long group_changed;
  uint32_t changed; /* pixels of this cell */
  uint32_t parent;  /* towards the group's first cell, which is its own parent; MOTION_INACTIVE */
  uint32_t left, top, right, bottom;
};

#define MOTION_INACTIVE UINT32_MAX

struct motion_totals {
  unsigned long long changed; /* pixels of the frame */
  unsigned long long found;   /* groups */
};

/* Where things lie in the slot's scratch memory when boxes are wanted. */
struct motion_scratch {
  struct motion_totals *totals;
  struct motion_cell *cells;
  unsigned long long *keys; /* of the groups found, one a cell at most */
  uint32_t count;           /* of cells */
};

extern const struct stage_descriptor motion_stage;

int motion_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

/* On the CPU: from the cells' changed pixels, all else being zero, to the result. */
void motion_list_boxes(const struct motion_constants *constants, const struct motion_scratch *scratch, float *out);

/* Bytes at the start of the scratch memory that must be zero before pixels are counted. */
STAGE_INLINE size_t motion_cleared_bytes(uint32_t cells) {
  return sizeof(struct motion_totals) + cells * sizeof(struct motion_cell);
}

STAGE_INLINE size_t motion_scratch_bytes(uint32_t cells) {
  return motion_cleared_bytes(cells) + cells * sizeof(unsigned long long);
}

STAGE_INLINE struct motion_scratch motion_scratch_at(const struct motion_constants *constants, void *memory) {
  struct motion_scratch scratch;
  scratch.count = constants->columns * constants->rows;
  scratch.totals = (struct motion_totals *)memory;
  scratch.cells = (struct motion_cell *)(scratch.totals + 1);
  scratch.keys = (unsigned long long *)(scratch.cells + scratch.count);
  return scratch;
}

/* Compares one pixel with its background and moves that. 255 or 0. */
STAGE_INLINE uint8_t motion_pixel(uint8_t value, float *background, bool restart, float rate, float threshold) {
  const float now = (float)value;
  const float before = restart ? now : *background;
  const float difference = now - before;
  const float distance = difference < 0 ? -difference : difference;
  *background = before + rate * difference;
  return distance > threshold ? 255 : 0;
}

STAGE_INLINE uint32_t motion_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Where the cells of one line end, cut off at the frame's edge. */
STAGE_INLINE uint32_t motion_edge(uint32_t cell, uint32_t side, uint32_t limit) {
  return motion_least((cell + 1) * side, limit);
}

STAGE_INLINE bool motion_is_active(const struct motion_constants *constants, uint32_t column, uint32_t row, uint32_t changed) {
  const uint32_t width = motion_edge(column, constants->cell, constants->width) - column * constants->cell;
  const uint32_t height = motion_edge(row, constants->cell, constants->height) - row * constants->cell;
  return changed > 0 && (float)changed >= constants->fill * (float)(width * height);
}

/* Active cells that an active cell must be joined with. Each cell only looks at those before it in reading order,
 * left and the three above; what an active cell between them touches is joined by that one. */
struct motion_neighbours {
  uint32_t count;
  uint32_t cells[2];
};

STAGE_INLINE struct motion_neighbours motion_neighbours_of(const struct motion_constants *constants,
                                                           const struct motion_cell *cells, uint32_t index, uint32_t column) {
  struct motion_neighbours neighbours = {0, {0, 0}};
  const uint32_t above = index - constants->columns;
  const bool has_above = index >= constants->columns;
  const bool has_left = column > 0;
  const bool has_right = column + 1 < constants->columns;
  if (cells[index].parent == MOTION_INACTIVE) {
    return neighbours;
  }
  if (has_above && cells[above].parent != MOTION_INACTIVE) {
    neighbours.cells[neighbours.count++] = above; /* touches the three others */
    return neighbours;
  }
  if (has_above && has_left && cells[above - 1].parent != MOTION_INACTIVE) {
    neighbours.cells[neighbours.count++] = above - 1; /* touches the one to the left */
  } else if (has_left && cells[index - 1].parent != MOTION_INACTIVE) {
    neighbours.cells[neighbours.count++] = index - 1;
  }
  if (has_above && has_right && cells[above + 1].parent != MOTION_INACTIVE) {
    neighbours.cells[neighbours.count++] = above + 1;
  }
  return neighbours;
}

/* Orders groups: more changed pixels first, then the lower first cell. A frame has under 2^33 pixels and, at 4
 * pixels or more a side, at most 2^28 cells. Never 0, since a group has a changed pixel. */
STAGE_INLINE unsigned long long motion_key(unsigned long long changed, uint32_t first_cell) {
  return changed << 30 | (0x3fffffffU - first_cell);
}

STAGE_INLINE uint32_t motion_key_cell(unsigned long long key) { return 0x3fffffffU - (uint32_t)(key & 0x3fffffffU); }

STAGE_INLINE void motion_write_box(const struct motion_constants *constants, const struct motion_cell *group, float *row) {
  const uint32_t x = group->left * constants->cell;
  const uint32_t y = group->top * constants->cell;
  row[0] = (float)x;
  row[1] = (float)y;
  row[2] = (float)(motion_edge(group->right, constants->cell, constants->width) - x);
  row[3] = (float)(motion_edge(group->bottom, constants->cell, constants->height) - y);
  row[4] = (float)group->group_changed;
}

STAGE_INLINE void motion_write_summary(const struct motion_constants *constants, const struct motion_totals *totals,
                                       unsigned long long listed, float *row) {
  const double pixels = (double)constants->width * (double)constants->height;
  row[0] = (float)listed;
  row[1] = (float)totals->found;
  row[2] = (float)((double)totals->changed / pixels);
  row[3] = 0;
  row[4] = 0;
}

#endif
