#include "tools/framectl/doctor/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/framectl/common/forecast.h"
#include "tools/framectl/common/text.h"

enum { TITLE_COLUMNS = 10, LEAST_COLUMNS = 16, LEAST_A_FRAME = 3, IDLE = 0 };

/* A cell holds the number of the frame that is served then, plus 1; 0 is idle. */
struct canvas {
  unsigned columns;
  double wall;
  uint64_t *cells; /* OVERLAP_ENGINES rows */
  unsigned slots;
};

static unsigned columns_for_time(unsigned columns) {
  return columns > TITLE_COLUMNS + LEAST_COLUMNS ? columns - TITLE_COLUMNS : LEAST_COLUMNS;
}

uint64_t timeline_frames(const struct overlap_work *work, uint64_t frames, unsigned columns) {
  double period = overlap_period(work);
  uint64_t shown = 1;
  while (shown < frames && forecast_wall(work, shown + 1) * LEAST_A_FRAME <= period * columns_for_time(columns)) {
    shown++;
  }
  return shown;
}

/* A span takes at least one cell, unless its time is 0. */
static void paint(struct canvas *canvas, int engine, const struct overlap_span *span, uint64_t number) {
  double scale = canvas->wall > 0 ? canvas->columns / canvas->wall : 0;
  if (span->end <= span->begin) {
    return;
  }
  long begin = lround(span->begin * scale), end = lround(span->end * scale);
  end = end > begin ? end : begin + 1;
  for (long column = begin; column < end && column < (long)canvas->columns; column++) {
    canvas->cells[(unsigned)engine * canvas->columns + (unsigned)column] = number + 1;
  }
}

static void paint_all(struct canvas *canvas, const struct overlap_work *work, uint64_t frames) {
  struct forecast_timeline timeline;
  forecast_start(&timeline, work);
  for (uint64_t i = 0; i < frames; i++) {
    struct overlap_frame frame = forecast_next(&timeline);
    for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
      paint(canvas, engine, &frame.spans[engine], frame.number);
    }
  }
}

static enum text_colour colour_of(const struct canvas *canvas, uint64_t number) {
  static const enum text_colour colours[] = {COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED, COLOUR_BOLD, COLOUR_DIM};
  return colours[number % canvas->slots % (sizeof colours / sizeof colours[0])];
}

static void print_row(FILE *out, const struct canvas *canvas, const uint64_t *row, bool colour) {
  enum text_colour now = COLOUR_NONE;
  for (unsigned column = 0; column < canvas->columns; column++) {
    enum text_colour next = row[column] == IDLE ? COLOUR_NONE : colour_of(canvas, row[column] - 1);
    if (next != now) {
      text_colour_end(out, now, colour);
      text_colour_begin(out, next, colour);
      now = next;
    }
    fputc(row[column] == IDLE ? '.' : (char)('0' + (row[column] - 1) % 10), out);
  }
  text_colour_end(out, now, colour);
  fputc('\n', out);
}

static void print_axis(FILE *out, const struct canvas *canvas) {
  char end[TEXT_ROOM];
  text_duration(end, canvas->wall);
  fprintf(out, "%*s0%*s\n", TITLE_COLUMNS, "", (int)canvas->columns - 1, end);
}

bool timeline_draw(FILE *out, const struct overlap_work *work, uint64_t frames, unsigned columns, bool colour) {
  struct canvas canvas = {.columns = columns_for_time(columns),
                          .wall = forecast_wall(work, frames),
                          .slots = work->slots != OVERLAP_UNLIMITED ? work->slots : OVERLAP_MAX_SLOTS};
  canvas.cells = calloc((size_t)OVERLAP_ENGINES * canvas.columns, sizeof *canvas.cells);
  if (!canvas.cells) {
    return false;
  }
  paint_all(&canvas, work, frames);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    fprintf(out, "%-*s", TITLE_COLUMNS, overlap_engine_titles[engine]);
    print_row(out, &canvas, canvas.cells + (unsigned)engine * canvas.columns, colour);
  }
  print_axis(out, &canvas);
  free(canvas.cells);
  return true;
}
