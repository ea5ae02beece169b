#include "tools/framebench/overlap/picture.h"

#include "tools/framectl/common/text.h"

#include <math.h>

enum { TITLE_COLUMNS = 10 };

struct overlap_span picture_extent(const struct overlap_frame *frames, uint64_t count) {
  struct overlap_span extent = {0, 0};
  for (uint64_t i = 0; i < count; i++) {
    for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
      const struct overlap_span *span = &frames[i].spans[engine];
      bool first = i == 0 && engine == 0;
      extent.begin = first || span->begin < extent.begin ? span->begin : extent.begin;
      extent.end = first || span->end > extent.end ? span->end : extent.end;
    }
  }
  return extent;
}

/* -- for a terminal ------------------------------------------------------------------------------------------------- */

/* What a row shows in the cell that lies at `column`: a digit or a dot. */
static char cell(const struct overlap_frame *frames, uint64_t count, int engine, const struct overlap_span *extent,
                 double width, unsigned column) {
  char shown = '.';
  for (uint64_t i = 0; i < count; i++) {
    const struct overlap_span *span = &frames[i].spans[engine];
    double begin = floor((span->begin - extent->begin) / width), end = ceil((span->end - extent->begin) / width);
    if (span->end > span->begin && column >= begin && column < end) {
      shown = (char)('0' + frames[i].number % 10);
    }
  }
  return shown;
}

void picture_text(FILE *out, const struct overlap_frame *frames, uint64_t count, unsigned columns) {
  char end[TEXT_ROOM];
  const struct overlap_span extent = picture_extent(frames, count);
  unsigned cells = columns > 3 * TITLE_COLUMNS ? columns - TITLE_COLUMNS : 2 * TITLE_COLUMNS;
  double width = (extent.end - extent.begin) / cells;
  if (!(width > 0)) {
    return;
  }
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    fprintf(out, "  %-*s", TITLE_COLUMNS, overlap_engine_titles[engine]);
    for (unsigned column = 0; column < cells; column++) {
      fputc(cell(frames, count, engine, &extent, width, column), out);
    }
    fputc('\n', out);
  }
  text_duration(end, extent.end - extent.begin);
  fprintf(out, "  %*s0%*s\n\n", TITLE_COLUMNS, "", (int)cells - 1, end);
}

/* -- SVG ------------------------------------------------------------------------------------------------------------ */

enum { LEFT = 80, TOP = 40, ROW = 34, BAR = 26, WIDTH = 1000, MARGIN = 20, TICKS = 10 };

static void print_bar(FILE *out, const struct overlap_frame *frame, int engine, const struct overlap_span *extent,
                      double scale) {
  /* One colour a slot, so that a buffer's way can be followed; dark enough for the digits on it. */
  static const char *const colours[] = {"#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#975a16", "#2c7a7b", "#4a5568"};
  const struct overlap_span *span = &frame->spans[engine];
  double x = LEFT + (span->begin - extent->begin) * scale, width = (span->end - span->begin) * scale;
  int y = TOP + engine * ROW;
  if (width <= 0) {
    return;
  }
  fprintf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\"/>\n", x, y, width, BAR,
          colours[frame->slot % (sizeof colours / sizeof colours[0])]);
  if (width > 10) {
    fprintf(out, "<text x=\"%.1f\" y=\"%d\" fill=\"#ffffff\" text-anchor=\"middle\">%llu</text>\n", x + width / 2, y + 18,
            (unsigned long long)frame->number);
  }
}

static void print_axis(FILE *out, const struct overlap_span *extent, double scale) {
  int y = TOP + OVERLAP_ENGINES * ROW;
  for (int tick = 0; tick <= TICKS; tick++) {
    char text[TEXT_ROOM];
    double at = (extent->end - extent->begin) * tick / TICKS;
    fprintf(out, "<text x=\"%.1f\" y=\"%d\" fill=\"#4a5568\" text-anchor=\"middle\" font-size=\"11\">%s</text>\n",
            LEFT + at * scale, y + 14, text_duration(text, at));
  }
}

void picture_svg(FILE *out, const struct overlap_frame *frames, uint64_t count, const char *title) {
  const struct overlap_span extent = picture_extent(frames, count);
  double scale = extent.end > extent.begin ? WIDTH / (extent.end - extent.begin) : 0;
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n",
          LEFT + WIDTH + 2 * MARGIN, TOP + OVERLAP_ENGINES * ROW + 2 * MARGIN);
  fprintf(out,
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"%d\" y=\"24\" fill=\"#1a202c\">%s</text>\n",
          LEFT, title);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    fprintf(out, "<text x=\"8\" y=\"%d\" fill=\"#1a202c\">%s</text>\n", TOP + engine * ROW + 18, overlap_engine_titles[engine]);
    for (uint64_t i = 0; i < count; i++) {
      print_bar(out, &frames[i], engine, &extent, scale);
    }
  }
  print_axis(out, &extent, scale);
  fputs("</svg>\n", out);
}
