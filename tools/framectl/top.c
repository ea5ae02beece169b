/* `framectl top`: looks at the daemon once a second and shows it, until q. A daemon that goes away may come back. */
#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/daemon.h"
#include "tools/framectl/screen.h"

enum { LOOK_MS = 1000, PATIENCE_MS = 1000, COMMAND_MS = 3000 /* longer than the daemon looks for a lane that is stuck */ };

struct top {
  const struct invocation *invocation;
  struct scene scene;
  struct history history;
  struct problem problem; /* why the last look failed */
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

/* Keeps the selection on a pipeline that is there. */
static void keep_selection(struct top *top) {
  json_t *pipelines = pipelines_of(top);
  if (!json_object_get(pipelines, top->scene.selected)) {
    void *first = json_object_iter(pipelines);
    select_name(top, first ? json_object_iter_key(first) : "");
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
  json_decref(top->scene.document);
  top->scene.document = document;
  const char *name;
  json_t *pipeline;
  json_object_foreach(pipelines_of(top), name, pipeline) {
    struct pipeline_view view;
    view_pipeline(name, pipeline, &view);
    history_add(&top->history, &view, now_seconds());
  }
  keep_selection(top);
}

/* -- keys ------------------------------------------------------------------------------------------------------------ */

static void select_neighbour(struct top *top, bool next) {
  json_t *pipelines = pipelines_of(top), *pipeline;
  const char *name, *before = NULL;
  bool take = false;
  json_object_foreach(pipelines, name, pipeline) {
    if (take) {
      select_name(top, name);
      return;
    }
    if (strcmp(name, top->scene.selected) == 0) {
      take = next;
      if (!next && before) {
        select_name(top, before);
        return;
      }
    }
    before = name;
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

static void take_key(struct top *top, int key) {
  top->scene.message[0] = '\0';
  switch (key) {
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
  case KEY_UP:
  case 'k':
    select_neighbour(top, false);
    break;
  case KEY_DOWN:
  case 'j':
    select_neighbour(top, true);
    break;
  default: /* KEY_RESIZE too: the next drawing has the new size */
    break;
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
    } else if (!isatty(STDIN_FILENO)) { /* the terminal is gone */
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
  json_decref(top->scene.document);
  problem_clear(&top->problem);
  free(top);
  return fine;
}
