/*
 * From top to bottom the screen shows title, pipelines, the selected pipeline's rate and latencies, and keys. A low terminal
 * hides the latencies first, then the graph. A narrow one cuts lines at its edge.
 */
#include "tools/framectl/status/screen.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <string.h>

#include "tools/framectl/common/text.h"
#include "tools/framectl/status/terminal.h"

enum { PAIR_GOOD = 1, PAIR_WARNING, PAIR_BAD, PAIR_DIM };
enum { ESCAPE_MS = 25 /* an escape sequence of a key arrives at once */ };
enum { FRAME_LINES = 6, LATENCY_LINES = STEP_COUNT + 1 };

static SCREEN *terminal;

bool screen_open(bool colour) {
  setlocale(LC_CTYPE, "");
  terminal = terminal_can_draw() ? newterm(NULL, stdout, stdin) : NULL;
  if (!terminal) {
    return false;
  }
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, TRUE);
  set_escdelay(ESCAPE_MS);
  if (colour && has_colors() && start_color() == OK) {
    use_default_colors();
    init_pair(PAIR_GOOD, COLOR_GREEN, -1);
    init_pair(PAIR_WARNING, COLOR_YELLOW, -1);
    init_pair(PAIR_BAD, COLOR_RED, -1);
    init_pair(PAIR_DIM, COLOR_CYAN, -1);
  }
  return true;
}

void screen_close(void) {
  endwin();
  delscreen(terminal);
  terminal = NULL;
}

/* -- pieces ----------------------------------------------------------------------------------------------------------- */

static chtype pair_of_state(const char *state) {
  if (strcmp(state, "running") == 0) {
    return (chtype)COLOR_PAIR(PAIR_GOOD);
  }
  return (chtype)COLOR_PAIR(strcmp(state, "stopped") == 0 || strcmp(state, "failed") == 0 ? PAIR_BAD : PAIR_WARNING);
}

/* Prints text at a position, and cuts it at the right edge. */
__attribute__((format(printf, 4, 5))) static void put(int y, int x, chtype attributes, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (y >= 0 && y < LINES && x < COLS) {
    attrset((int)attributes);
    mvaddnstr(y, x, text, COLS - x);
    attrset(A_NORMAL);
  }
}

/* Returns the columns that it took. Daemons of earlier versions report no health. */
static int draw_health(int x, const json_t *health) {
  size_t reasons = json_array_size(json_object_get(health, "degraded"));
  bool live = json_is_true(json_object_get(health, "live"));
  char text[TEXT_ROOM];
  if (!json_is_boolean(json_object_get(health, "ok"))) {
    return 0;
  }
  if (json_is_true(json_object_get(health, "ok"))) {
    snprintf(text, sizeof text, "healthy");
  } else {
    snprintf(text, sizeof text, "%s: %zu reason%s", live ? "degraded" : "not live", reasons, reasons == 1 ? "" : "s");
  }
  put(0, x, (chtype)COLOR_PAIR(json_is_true(json_object_get(health, "ok")) ? PAIR_GOOD : PAIR_BAD), "%s", text);
  return (int)strlen(text) + 2;
}

static void draw_title(const struct scene *scene) {
  struct daemon_view view;
  char uptime[TEXT_ROOM];
  if (!scene->document) {
    put(0, 0, A_BOLD, "framed");
    return;
  }
  view_daemon(scene->document, &view);
  put(0, 0, A_BOLD, "framed %s", view.version);
  if (scene->problem) {
    put(0, (int)strlen(view.version) + 9, (chtype)COLOR_PAIR(PAIR_BAD), "unreachable; these are its last figures");
    return;
  }
  int x = (int)strlen(view.version) + 9;
  x += draw_health(x, json_object_get(scene->document, "health"));
  char handovers[TEXT_ROOM * 2] = "", gap[TEXT_ROOM];
  if (view.handovers.total > 0) {
    snprintf(handovers, sizeof handovers, ", handed over %llu time%s, by %s after %s", (unsigned long long)view.handovers.total,
             view.handovers.total == 1 ? "" : "s", view.handovers.cause, text_duration(gap, view.handovers.gap_ms * 1000));
  }
  put(0, x, A_NORMAL, "up %s, %s on %s, %llu lane%s%s", text_uptime(uptime, view.uptime_s), view.backend, view.device,
      (unsigned long long)view.lanes, view.lanes == 1 ? "" : "s", handovers);
}

/* -- the table ------------------------------------------------------------------------------------------------------- */

/* The width of a column at `x`. The last column takes the rest of the line. */
static int width_of(enum row_key key, int x) { return row_columns[key].width > 0 ? row_columns[key].width : COLS - x; }

static bool is_shown(enum row_key key) { return COLS >= row_columns[key].least; }

static void draw_heading(int y, const struct scene *scene) {
  put(y, 0, A_REVERSE, "%*s", COLS, "");
  int x = 0;
  for (enum row_key key = 0; key < ROW_KEYS; key++) {
    const struct row_column *column = &row_columns[key];
    bool orders = scene->order.key == key;
    chtype bold = orders ? A_BOLD | A_UNDERLINE : A_NORMAL;
    if (is_shown(key)) {
      put(y, x, A_REVERSE | bold, column->is_text ? "%-*s" : "%*s", width_of(key, x), column->title);
      x += width_of(key, x) + 1;
    }
  }
}

static chtype colour_of(const struct row *row, enum row_key key, const struct history_line *line) {
  const chtype bad = (chtype)COLOR_PAIR(PAIR_BAD), warning = (chtype)COLOR_PAIR(PAIR_WARNING);
  switch (key) {
  case ROW_STATE:
    return row->view.is_degraded ? bad : pair_of_state(row->view.state);
  case ROW_AGE:
    return row->view.is_silent ? bad : A_NORMAL;
  case ROW_DROPPED:
    return row->dropped == 0 ? A_NORMAL : line && line->fresh_drops > 0 ? bad : warning;
  case ROW_ERROR:
    return row->error[0] ? bad : A_NORMAL;
  default:
    return A_NORMAL;
  }
}

static void draw_row(int y, const struct row *row, const struct history_line *line, bool selected) {
  int x = 0;
  for (enum row_key key = 0; key < ROW_KEYS; key++) {
    char text[ROW_TEXT];
    int width = width_of(key, x);
    chtype bold = !selected ? A_NORMAL : key == ROW_NAME ? A_REVERSE : A_BOLD;
    if (is_shown(key)) {
      put(y, x, bold | colour_of(row, key, line), row_columns[key].is_text ? "%-*.*s" : "%*.*s", width, width,
          row_text(row, key, text));
      x += width + 1;
    }
  }
}

/* Scrolls so that the selected pipeline, at `index`, is visible. */
static void scroll_to(struct scene *scene, unsigned index, unsigned rows, unsigned count) {
  if (index < scene->top) {
    scene->top = index;
  } else if (rows > 0 && index >= scene->top + rows) {
    scene->top = index - rows + 1;
  }
  if (scene->top + rows > count) {
    scene->top = count > rows ? count - rows : 0;
  }
}

static void draw_table(struct scene *scene, int y, unsigned rows) {
  unsigned selected = rows_find(&scene->rows, scene->selected);
  if (selected < scene->rows.count) {
    scroll_to(scene, selected, rows, scene->rows.count);
  }
  draw_heading(y++, scene);
  for (unsigned index = scene->top; index < scene->rows.count && index < scene->top + rows; index++) {
    const struct row *row = &scene->rows.items[index];
    draw_row(y++, row, history_find(scene->history, row->view.name), index == selected);
  }
  if (scene->rows.count == 0 && scene->rows.all > 0) {
    put(y, 0, (chtype)COLOR_PAIR(PAIR_DIM), "none of %u pipelines has '%s'", scene->rows.all, scene->order.filter);
  }
}

/* -- the selected pipeline ----------------------------------------------------------------------------------------- */

static void draw_graph(int y, const struct history_line *line) {
  static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char *const letters[] = {" ", "_", ".", "-", "=", "+", "*", "%", "#"};
  const char *const *marks = strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? blocks : letters;
  int width = COLS - 22 < HISTORY_LENGTH ? COLS - 22 : HISTORY_LENGTH;
  double highest = 0;
  for (int age = 0; age < width; age++) {
    double rate = history_rate(line, (unsigned)age);
    highest = rate > highest ? rate : highest;
  }
  char text[TEXT_ROOM];
  put(y, 0, A_NORMAL, "1 s fps, max %-7s", text_rate(text, highest));
  for (int x = 0; x < width; x++) {
    double rate = history_rate(line, (unsigned)(width - 1 - x));
    int level = rate <= 0 || highest <= 0 ? 0 : 1 + (int)(rate / highest * 7);
    put(y, 20 + x, (chtype)COLOR_PAIR(PAIR_GOOD), "%s", marks[level]);
  }
}

static void draw_drops(int y, const struct pipeline_view *view) {
  int x = 0;
  put(y, x, A_NORMAL, "dropped ");
  x += 8;
  if (view_dropped(view) == 0) {
    put(y, x, A_NORMAL, "none");
  }
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    if (view->fates[fate] > 0) {
      char text[TEXT_ROOM];
      int length = snprintf(text, sizeof text, "%s %llu  ", fate_names[fate], (unsigned long long)view->fates[fate]);
      put(y, x, (chtype)COLOR_PAIR(PAIR_BAD), "%s", text);
      x += length;
    }
  }
}

static void draw_frames(int y, const struct pipeline_view *view, const struct history_line *line) {
  put(y, 0, A_BOLD, "%s", view->name);
  put(y, (int)strlen(view->name) + 2, (chtype)COLOR_PAIR(PAIR_DIM), "%s -> %s", view->source.format, view->sink.format);
  put(y + 1, 0, A_NORMAL, "producers %llu of %llu, readers %llu, clients refused %llu, results missed %llu",
      (unsigned long long)view->sessions, (unsigned long long)view->clients, (unsigned long long)view->readers,
      (unsigned long long)view->refused, (unsigned long long)view->missed);
  char in[TEXT_ROOM], out[TEXT_ROOM];
  put(y + 2, 0, A_NORMAL, "frames in %llu, emitted %llu, in flight %llu; in %s/s, out %s/s", (unsigned long long)view->in,
      (unsigned long long)view->fates[FATE_EMITTED], (unsigned long long)view->in_flight, text_bytes(in, view->in_bytes_per_s),
      text_bytes(out, view->out_bytes_per_s));
  draw_drops(y + 3, view);
  char won[TEXT_ROOM] = "";
  if (view->overlap.ratio > 0) {
    snprintf(won, sizeof won, "; overlap %.2f times, %.2f at best", view->overlap.speedup, view->overlap.ideal_speedup);
  }
  bool is_bound = strcmp(view->overlap.bound_by, "nothing") != 0;
  put(y + 4, 0, A_NORMAL, "%s%s%s%s%s", is_bound ? "bound by " : "", is_bound ? view->overlap.bound_by : "",
      is_bound ? ": " : "", view->overlap.advice, won);
  if (line) {
    draw_graph(y + 5, line);
  }
}

static void draw_latencies(int y, const struct pipeline_view *view) {
  put(y++, 0, A_REVERSE, "%-9s %8s %8s %8s %8s  %-*s", "STEP", "P50", "P99", "P99.9", "MAX", COLS > 47 ? COLS - 47 : 0,
      "LAST 10 SECONDS");
  for (int step = 0; step < STEP_COUNT; step++) {
    const struct latency_view *latency = &view->latency[step];
    if (step == STEP_MODEL && latency->count == 0) {
      continue;
    }
    char p50[TEXT_ROOM] = "-", p99[TEXT_ROOM] = "-", p999[TEXT_ROOM] = "-", max[TEXT_ROOM] = "-";
    if (latency->count > 0) {
      text_duration(p50, latency->p50);
      text_duration(p99, latency->p99);
      text_duration(p999, latency->p999);
      text_duration(max, latency->max);
    }
    chtype bold = step == STEP_TOTAL ? A_BOLD : A_NORMAL;
    put(y, 0, bold, "%-9s %8s %8s %8s %8s", step_names[step], p50, p99, p999, max);
    put(y++, 47, (chtype)COLOR_PAIR(PAIR_DIM), "%s", step_help[step]);
  }
}

static void draw_selected(const struct scene *scene, int y, int lines) {
  unsigned selected = rows_find(&scene->rows, scene->selected);
  if (selected == scene->rows.count || lines < FRAME_LINES) {
    return;
  }
  const struct pipeline_view *view = &scene->rows.items[selected].view;
  draw_frames(y, view, history_find(scene->history, scene->selected));
  if (lines >= FRAME_LINES + LATENCY_LINES) {
    draw_latencies(y + FRAME_LINES, view);
  }
}

/* Lines are cut at the right edge, as everywhere. */
static void draw_details(struct scene *scene, int y, int lines) {
  unsigned all = 0;
  for (const char *text = scene->details; *text; text++) {
    all += *text == '\n';
  }
  unsigned most = all > (unsigned)lines ? all - (unsigned)lines : 0, number = 0;
  scene->scroll = scene->scroll < most ? scene->scroll : most;
  for (const char *line = scene->details; *line && number < scene->scroll + (unsigned)lines; number++) {
    size_t length = strcspn(line, "\n");
    if (number >= scene->scroll) {
      put(y++, 0, number == 0 ? A_BOLD : A_NORMAL, "%.*s", (int)length, line);
    }
    line += length + (line[length] == '\n');
  }
}

/* -- the whole ---------------------------------------------------------------------------------------------------------- */

static void draw_help(void) {
  static const char *const lines[] = {"up, down     select a pipeline; in an opened one scroll",
                                      "enter        open it, with steps, ledger, clients and configuration; close it",
                                      "left, right  sort by another column; r: the other way round",
                                      "/            show only rows with these letters; escape: all",
                                      "space        pause or resume the selected pipeline",
                                      "p            freeze the display",
                                      "?            this help",
                                      "q            quit",
                                      "",
                                      "FPS, bytes and latencies are of the last ten seconds, the graph of each.",
                                      "Drops are of the last minute: red ones also of the last second."};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    put(2 + (int)i, 2, A_NORMAL, "%s", lines[i]);
  }
}

static void draw_footer(const struct scene *scene) {
  int y = LINES - 1;
  if (scene->problem) {
    put(y, 0, A_BOLD | (chtype)COLOR_PAIR(PAIR_BAD), "no daemon, trying again: %s", scene->problem);
  } else if (scene->message[0]) {
    put(y, 0, (chtype)COLOR_PAIR(PAIR_WARNING), "%s", scene->message);
  } else if (scene->is_typing) {
    put(y, 0, A_BOLD, "show only: %s_", scene->order.filter);
  } else {
    char shown[TEXT_ROOM] = "";
    if (scene->order.filter[0]) {
      snprintf(shown, sizeof shown, "   %u of %u: %s", scene->rows.count, scene->rows.all, scene->order.filter);
    }
    put(y, 0, (chtype)COLOR_PAIR(PAIR_DIM), "q quit   enter %s   / filter   left, right sort   space pause   ? help%s%s",
        scene->details ? "close" : "open", scene->frozen ? "   (frozen)" : "", shown);
  }
}

/* The number of visible pipelines: all of them if the selected one's details still fit below. */
static int rows_for(int room, int count) {
  int beside_all = room - 1 - FRAME_LINES - LATENCY_LINES, beside_frames = room - 1 - FRAME_LINES;
  int rows = beside_all > 0 ? beside_all : beside_frames > 0 ? beside_frames : room;
  return rows < 0 ? 0 : rows < count ? rows : count;
}

void screen_draw(struct scene *scene) {
  erase();
  draw_title(scene);
  if (scene->help) {
    draw_help();
  } else if (scene->details) {
    draw_details(scene, 2, LINES - 3);
  } else if (scene->document) {
    int room = LINES - 3; /* without title, heading and footer */
    int rows = rows_for(room, (int)scene->rows.count);
    draw_table(scene, 1, (unsigned)rows);
    draw_selected(scene, rows + 3, room - rows - 1);
  }
  draw_footer(scene);
  refresh();
}
