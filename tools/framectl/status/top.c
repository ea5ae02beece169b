/* `framectl top`: asks the daemon once a second and draws its state, until q. It survives restarts of the daemon. */
#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/status/details.h"
#include "tools/framectl/status/screen.h"

enum {
  LOOK_MS = 1000,
  PATIENCE_MS = 1000,
  PAGE = 10,
  COMMAND_MS = 3000 /* longer than the daemon waits for a stuck lane */
};

struct top {
  const struct invocation *invocation;
  struct scene scene;
  struct history history;
  struct problem problem; /* why the last request failed */
  bool quit;
};

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static json_t *pipelines_of(const struct top *top) { return json_object_get(top->scene.document, "pipelines"); }

static void select_name(struct top *top, const char *name) {
  snprintf(top->scene.selected, sizeof top->scene.selected, "%s", name);
}

/* Updates the details of the open pipeline, and closes them when that pipeline no longer exists. */
static void renew_details(struct top *top) {
  struct problem problem = {0};
  if (top->scene.details) {
    char *config = daemon_text(top->invocation->socket, "/v1/config", PATIENCE_MS, &problem);
    free(top->scene.details);
    top->scene.details = details_text(top->scene.document, top->scene.selected, config);
    free(config);
    problem_clear(&problem);
  }
}

/* Called also after a change of order or filter. Keeps the selection on a row that exists. */
static void renew_rows(struct top *top) {
  struct scene *scene = &top->scene;
  rows_make(&scene->rows, scene->document, &scene->order);
  if (!scene->details && rows_find(&scene->rows, scene->selected) == scene->rows.count) {
    select_name(top, scene->rows.count > 0 ? scene->rows.items[0].view.name : "");
  }
}

static void look(struct top *top) {
  problem_clear(&top->problem);
  top->scene.problem = NULL;
  json_t *document = daemon_status(top->invocation->socket, PATIENCE_MS, &top->problem);
  if (!document) {
    top->scene.problem = top->problem.text ? top->problem.text : "no memory";
    history_break(&top->history);
    return;
  }
  rows_clear(&top->scene.rows); /* their strings belong to the previous document */
  json_decref(top->scene.document);
  top->scene.document = document;
  const char *name;
  json_t *pipeline;
  json_object_foreach(pipelines_of(top), name, pipeline) {
    struct pipeline_view view;
    view_pipeline(name, pipeline, &view);
    history_add(&top->history, &view, now_seconds());
  }
  renew_rows(top);
  renew_details(top);
}

/* -- keys ------------------------------------------------------------------------------------------------------------ */

static void go(struct top *top, int by) {
  struct scene *scene = &top->scene;
  unsigned index = rows_find(&scene->rows, scene->selected);
  if (scene->details) {
    scene->scroll = by < 0 && scene->scroll < (unsigned)-by ? 0 : scene->scroll + (unsigned)by;
  } else if (index < scene->rows.count) {
    long wanted = (long)index + by, last = (long)scene->rows.count - 1;
    select_name(top, scene->rows.items[wanted < 0 ? 0 : wanted > last ? last : wanted].view.name);
  }
}

static void open_or_close(struct top *top) {
  struct scene *scene = &top->scene;
  scene->scroll = 0;
  if (scene->details) {
    free(scene->details);
    scene->details = NULL;
    renew_rows(top);
  } else if (scene->selected[0]) {
    scene->details = strdup("");
    renew_details(top);
  }
}

static void sort_by(struct top *top, int step) {
  top->scene.order.key = (enum row_key)(((int)top->scene.order.key + step + ROW_KEYS) % ROW_KEYS);
  top->scene.order.reversed = false;
  renew_rows(top);
}

enum { KEY_OF_ESCAPE = 27, KEY_OF_DELETE = 127 };

/* A key while the filter is being typed. */
static void type(struct top *top, int key) {
  char *filter = top->scene.order.filter;
  size_t length = strlen(filter);
  if (key == '\n' || key == '\r' || key == KEY_ENTER || key == KEY_OF_ESCAPE) {
    top->scene.is_typing = false;
    length = key == KEY_OF_ESCAPE ? 0 : length;
  } else if (key == KEY_BACKSPACE || key == KEY_OF_DELETE || key == '\b') {
    length -= length > 0;
  } else if (key >= ' ' && key < KEY_OF_DELETE && length + 1 < sizeof top->scene.order.filter) {
    filter[length++] = (char)key;
  }
  filter[length] = '\0';
  renew_rows(top);
}

/* Escape goes back one step. */
static void go_back(struct top *top) {
  if (top->scene.details) {
    open_or_close(top);
  } else {
    top->scene.order.filter[0] = '\0';
    renew_rows(top);
  }
}

static void pause_or_resume(struct top *top) {
  const char *state = json_string_value(json_object_get(json_object_get(pipelines_of(top), top->scene.selected), "state"));
  if (!state) {
    return;
  }
  const char *command = strcmp(state, "running") == 0 || strcmp(state, "starting") == 0 ? "pause" : "resume";
  struct problem problem = {0};
  json_t *answer = daemon_command(top->invocation->socket, top->scene.selected, command, COMMAND_MS, &problem);
  snprintf(top->scene.message, sizeof top->scene.message, "%s %s%s%s", command, top->scene.selected, answer ? " done" : ": ",
           answer         ? ""
           : problem.text ? problem.text
                          : "no memory");
  json_decref(answer);
  problem_clear(&problem);
  look(top);
}

/* Handles the keys that move or open. False for any other key. */
static bool take_moving_key(struct top *top, int key) {
  switch (key) {
  case KEY_UP:
  case 'k':
    go(top, -1);
    return true;
  case KEY_DOWN:
  case 'j':
    go(top, 1);
    return true;
  case KEY_PPAGE:
    go(top, -PAGE);
    return true;
  case KEY_NPAGE:
    go(top, PAGE);
    return true;
  case KEY_LEFT:
  case '<':
    sort_by(top, -1);
    return true;
  case KEY_RIGHT:
  case '>':
    sort_by(top, 1);
    return true;
  default:
    return false;
  }
}

static void take_other_key(struct top *top, int key) {
  switch (key) {
  case '\n':
  case '\r':
  case KEY_ENTER:
    open_or_close(top);
    break;
  case KEY_OF_ESCAPE:
    go_back(top);
    break;
  case '/':
    top->scene.is_typing = !top->scene.details;
    break;
  case 'r':
    top->scene.order.reversed = !top->scene.order.reversed;
    renew_rows(top);
    break;
  case 'q':
    top->quit = true;
    break;
  case 'p':
    top->scene.frozen = !top->scene.frozen;
    break;
  case '?':
  case 'h':
    top->scene.help = !top->scene.help;
    break;
  case ' ':
    pause_or_resume(top);
    break;
  default: /* the next drawing uses the new size after KEY_RESIZE */
    break;
  }
}

static void take_key(struct top *top, int key) {
  top->scene.message[0] = '\0';
  if (top->scene.is_typing) {
    type(top, key);
  } else if (!take_moving_key(top, key)) {
    take_other_key(top, key);
  }
}

static void run(struct top *top) {
  double next = now_seconds();
  while (!top->quit) {
    double left = next - now_seconds();
    if (left <= 0) {
      if (!top->scene.frozen) {
        look(top);
      }
      next = now_seconds() + LOOK_MS / 1e3;
      continue;
    }
    screen_draw(&top->scene);
    timeout((int)(left * 1000) + 1);
    int key = getch();
    if (key != ERR) {
      take_key(top, key);
    } else if (!isatty(STDIN_FILENO)) { /* the terminal is closed */
      top->quit = true;
    }
  }
}

bool command_top(const struct invocation *invocation, struct problem *problem) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    return problem_set(problem, EXIT_STATUS_USAGE, "use `framectl status`, perhaps with --json", "top needs a terminal");
  }
  struct top *top = calloc(1, sizeof *top);
  if (!top) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
  }
  top->invocation = invocation;
  top->scene.history = &top->history;
  select_name(top, invocation->operand ? invocation->operand : "");
  bool fine = screen_open(invocation->colour);
  if (fine) {
    run(top);
    screen_close();
  } else {
    problem_set(problem, EXIT_STATUS_USAGE, "set TERM to the kind of this terminal, or use `framectl status`",
                "top cannot draw on this terminal");
  }
  rows_clear(&top->scene.rows);
  free(top->scene.details);
  json_decref(top->scene.document);
  problem_clear(&top->problem);
  free(top);
  return fine;
}
