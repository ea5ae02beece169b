#include "tools/framebench/load/target.h"

#include "daemon/wire/protocol.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/http.h"
#include "tools/framectl/status/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- pipelines ------------------------------------------------------------------------------------------------------ */

/* Makes a y4m header from a format in status, such as "yuv420p 640x480". */
static bool make_header(const char *format, struct load_form *form) {
  char pixels[16];
  unsigned width, height;
  if (sscanf(format, "%15s %ux%u", pixels, &width, &height) != 3) {
    return false;
  }
  enum pixel_format which = strcmp(pixels, pixel_format_names[PIXELS_GRAY]) == 0 ? PIXELS_GRAY : PIXELS_YUV420P;
  const struct frame_format image = format_image(which, width, height);
  const struct frame_rate unknown = {0};
  const struct y4m_look look = {0};
  char line[Y4M_HEADER];
  int length = (int)y4m_write_header(&image, &unknown, &look, line);
  snprintf(form->header, sizeof form->header, "%.*s", length, line);
  return true;
}

static bool read_form(const struct end_view *end, struct load_form *form) {
  *form = (struct load_form){.y4m = strcmp(end->protocol, "y4m") == 0, .frame_bytes = end->frame_bytes};
  return form->frame_bytes > 0 && (form->y4m || strcmp(end->protocol, "raw") == 0);
}

static bool speaks(const struct end_view *end, const char *protocol) { return strcmp(end->protocol, protocol) == 0; }

/* A producer of `auto` can be native, and a reply uses the producer's protocol. */
static bool is_native(const struct pipeline_view *view) {
  bool takes_native = speaks(&view->source, "native") || speaks(&view->source, "auto");
  return takes_native && (view->sink.reply || speaks(&view->sink, "native"));
}

static bool refuse(struct problem *problem, const char *name, const char *remedy, const char *what) {
  return problem_set(problem, EXIT_STATUS_REFUSED, remedy, "the pipeline %s %s", name, what);
}

static bool read_pipeline(const struct pipeline_view *view, struct load_pipeline *pipeline, struct problem *problem) {
  *pipeline = (struct load_pipeline){0};
  snprintf(pipeline->name, sizeof pipeline->name, "%s", view->name);
  if (!view->source.socket) {
    return refuse(problem, view->name, "give its source a socket", "takes its frames from a file");
  }
  if (!view->sink.socket && !view->sink.reply) {
    return refuse(problem, view->name, "give its sink a socket, or let it reply", "writes its results to a file");
  }
  snprintf(pipeline->source, sizeof pipeline->source, "%s", view->source.socket);
  snprintf(pipeline->sink, sizeof pipeline->sink, "%s", view->sink.socket ? view->sink.socket : "");
  pipeline->native = is_native(view);
  if (pipeline->native) {
    pipeline->in = (struct load_form){.frame_bytes = view->source.frame_bytes};
    pipeline->out = (struct load_form){.frame_bytes = view->sink.frame_bytes};
    return true;
  }
  if (speaks(&view->source, "native") || speaks(&view->sink, "native")) {
    return refuse(problem, view->name, "set `protocol: native` at both ends, or at neither", "is native at one end only");
  }
  if (!read_form(&view->source, &pipeline->in) || !read_form(&view->sink, &pipeline->out) ||
      (pipeline->in.y4m && !make_header(view->source.format, &pipeline->in))) {
    return refuse(problem, view->name, NULL, "uses a protocol that framebench does not support");
  }
  return true;
}

static bool read_named(struct load_target *target, json_t *document, const char *const *names, unsigned count,
                       struct problem *problem) {
  for (unsigned i = 0; i < count; i++) {
    struct pipeline_view view;
    for (unsigned j = 0; j < i; j++) {
      if (strcmp(names[i], names[j]) == 0) {
        return problem_set(problem, EXIT_STATUS_USAGE, "name it once, and give --clients", "%s is named twice", names[i]);
      }
    }
    if (!view_find(document, names[i], &view, problem) || !read_pipeline(&view, &target->pipelines[i], problem)) {
      return false;
    }
    target->count++;
  }
  return true;
}

static bool read_all(struct load_target *target, json_t *document, struct problem *problem) {
  const char *name;
  json_t *entry;
  json_object_foreach(json_object_get(document, "pipelines"), name, entry) {
    struct pipeline_view view;
    view_pipeline(name, entry, &view);
    if (!read_pipeline(&view, &target->pipelines[target->count], problem)) {
      return false;
    }
    target->count++;
  }
  return target->count > 0 || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "the daemon has no pipeline");
}

/* -- the process ---------------------------------------------------------------------------------------------------- */

/* Asks the kernel which process listens at the socket. */
static bool find_process(struct load_target *target, struct problem *problem) {
  struct ucred peer = {0};
  socklen_t length = sizeof peer;
  int fd = unix_connect(target->socket, "framed", DAEMON_PATIENCE_MS, problem);
  if (fd < 0) {
    return false;
  }
  bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  close(fd);
  target->pid = known ? peer.pid : 0;
  return known ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot find the process at %s: %s", target->socket, strerror(errno));
}

bool load_cpu_read(pid_t pid, struct load_cpu *cpu) {
  char path[64], text[1024];
  unsigned long user = 0, system = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) {
    fclose(file);
  }
  text[length] = '\0';
  /* The second field is a name that may contain parentheses; utime and stime are the 14th and 15th. */
  const char *rest = strrchr(text, ')');
  if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) {
    return false;
  }
  double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
  *cpu = (struct load_cpu){(double)user * tick, (double)system * tick};
  return true;
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static bool read_daemon(struct load_target *target, json_t *document, struct problem *problem) {
  struct daemon_view view;
  view_daemon(document, &view);
  target->daemon = json_pack("{s:s, s:s, s:s, s:i, s:i}", "version", view.version, "backend", view.backend, "device",
                             view.device, "lanes", (int)view.lanes, "pid", (int)target->pid);
  return target->daemon || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
}

bool load_target_open(struct load_target *target, const char *socket, const char *const *names, unsigned count,
                      struct problem *problem) {
  *target = (struct load_target){0};
  if (strlen(socket) >= sizeof target->socket) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "the path of the socket is too long: %s", socket);
  }
  snprintf(target->socket, sizeof target->socket, "%s", socket);
  json_t *document = daemon_status(socket, DAEMON_PATIENCE_MS, problem);
  if (!document) {
    return false;
  }
  size_t room = count > 0 ? count : json_object_size(json_object_get(document, "pipelines"));
  target->pipelines = calloc(room + 1, sizeof *target->pipelines);
  bool done = target->pipelines
                  ? find_process(target, problem) && read_daemon(target, document, problem) &&
                        (count > 0 ? read_named(target, document, names, count, problem) : read_all(target, document, problem))
                  : problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
  json_decref(document);
  if (!done) {
    load_target_close(target);
  }
  return done;
}

void load_target_close(struct load_target *target) {
  json_decref(target->daemon);
  free(target->pipelines);
  *target = (struct load_target){0};
}

/* -- the ledger ----------------------------------------------------------------------------------------------------- */

bool load_target_look(const struct load_target *target, struct load_ledger *ledgers, struct problem *problem) {
  json_t *document = daemon_status(target->socket, DAEMON_PATIENCE_MS, problem);
  bool found = document != NULL;
  for (unsigned i = 0; i < target->count && found; i++) {
    struct pipeline_view view;
    found = view_find(document, target->pipelines[i].name, &view, problem);
    if (found) {
      ledgers[i] = (struct load_ledger){
          .in = view.in, .in_flight = view.in_flight, .missed = view.missed, .clients = view.clients, .readers = view.readers};
      memcpy(ledgers[i].fates, view.fates, sizeof view.fates);
    }
  }
  json_decref(document);
  return found;
}

struct load_ledger load_ledger_since(const struct load_ledger *before, const struct load_ledger *after) {
  struct load_ledger since = *after;
  since.in -= before->in;
  since.missed -= before->missed;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    since.fates[fate] -= before->fates[fate];
  }
  return since;
}

uint64_t load_ledger_dropped(const struct load_ledger *ledger) {
  uint64_t dropped = 0;
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    dropped += ledger->fates[fate];
  }
  return dropped;
}
