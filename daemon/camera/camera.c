#include "daemon/camera/camera.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/camera/credential.h"
#include "daemon/camera/launch.h"
#include "daemon/measure/clock.h"

#define FIRST_PAUSE (NS_PER_S / 2)
#define LAST_PAUSE  (30 * NS_PER_S)
#define PROVEN      (30 * NS_PER_S) /* a process that ran for so long was no failure from its start: the pauses begin again */
#define START_TIME  (5 * NS_PER_S)  /* for so long at most a process counts as one that starts */
#define PATIENCE    (30 * NS_PER_S) /* with a process that says nothing: it says something each second while pictures come */

enum {
  STARTS_A_CORE = 2, /* loading and probing take most of a core for 0.1 to 0.3 s */
  LOOK_MS = 1000,
  END_MS = 2000,
  MOST_MESSAGES = 64, /* between two looks; one a second and one a change are expected */
  MOST_ALONE = 2,     /* looks: a process ends by itself in this time */
  CAMERA_DESCRIPTORS = 5
};

struct cameras {
  unsigned starting, most;
  struct camera *first; /* of those that wait for their turn, in order */
};

enum phase {
  PHASE_QUEUED, /* waits for its turn */
  PHASE_UP,     /* there is a process */
  PHASE_PAUSED, /* until the next one */
  PHASE_ENDING  /* its control socket is closed, and it has to end */
};

/* Another file in its place, or one that was written to, has another identity. Zero: no file. */
struct file_identity {
  uint64_t device, inode, size, seconds, nanoseconds;
};

struct camera {
  struct camera_setup setup;
  struct file_identity credentials; /* when they were last read */
  struct camera *next;              /* in the queue */
  enum phase phase;
  bool closed; /* by its owner: what ends now is not started again */
  bool starts; /* counts as one of those that start */
  struct child *child;
  int control;
  struct loop_watch *watch;
  struct loop_timer *timer; /* UP: looks after the process; PAUSED: the next start; ENDING: kills it */
  int64_t began, heard;     /* when the process was started, and when it last said something */
  int64_t pause;
  unsigned messages; /* since the last look */
  unsigned alone;    /* looks in a row that found no connection to the pipeline */
  bool blamed;       /* the view says why the process was killed */
  struct camera_view view;
  uint64_t lost_before, reconnects_before; /* by earlier processes; each further start counts as a reconnect */
  struct trouble trouble;
  char logged[CAMERA_WORD]; /* what the log said last: a token, or "running" */
};

bool camera_check(const struct config_source *source, struct failure *failure) {
  struct credential credential;
  bool readable = !source->credentials || credential_read(source->credentials, &credential, failure);
  if (source->credentials) {
    credential_clear(&credential);
  }
  return readable && launch_open(failure);
}

/* -- what is known of it ------------------------------------------------------------------------------------------- */

/* One line for each change: a camera that is tried again and again says the same each time. */
static void log_change(struct camera *camera) {
  const struct camera_view *view = &camera->view;
  const char *name = camera->setup.config->name;
  const char *now = view->token[0] ? view->token : view->state == CAMERA_RUNNING ? "running" : camera->logged;
  if (strcmp(now, camera->logged) == 0) {
    return;
  }
  snprintf(camera->logged, sizeof camera->logged, "%s", now);
  char rate[32] = ""; /* not measured yet at the first picture */
  if (view->rate > 0) {
    snprintf(rate, sizeof rate, ", %.3g a second", view->rate);
  }
  if (view->token[0]) {
    log_event(LOG_CAMERA_TROUBLE, name, "%s (%s)", view->text, view->token);
  } else {
    log_event(LOG_CAMERA, name, "pictures come from the camera: %s %ux%u%s, decoder %s",
              view->codec[0] ? view->codec : "unknown codec", view->width, view->height, rate,
              view->decoder[0] ? view->decoder : "unknown");
  }
}

static void follow(struct camera *camera) {
  const struct camera_view *view = &camera->view;
  if (view->token[0]) {
    if (camera->trouble.count == 0) {
      trouble_note(&camera->trouble, clock_now(), NULL, "%s (%s)", view->text, view->token);
    } else {
      trouble_repeat(&camera->trouble, clock_now(), view->state == CAMERA_WAITING);
      trouble_describe(&camera->trouble, NULL, "%s (%s)", view->text, view->token);
    }
  } else if (view->state == CAMERA_RUNNING) {
    trouble_clear(&camera->trouble);
  }
  log_change(camera);
}

__attribute__((format(printf, 3, 4))) static void blame(struct camera *camera, const char *token, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(camera->view.text, sizeof camera->view.text, format, arguments);
  va_end(arguments);
  snprintf(camera->view.token, sizeof camera->view.token, "%s", token);
  camera->view.state = CAMERA_WAITING;
  camera->view.retry = (double)camera->pause / (double)NS_PER_S;
  follow(camera);
}

/* -- its turn ------------------------------------------------------------------------------------------------------ */

static void camera_begin(struct camera *camera);

struct cameras *cameras_new(void) {
  struct cameras *cameras = calloc(1, sizeof *cameras);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cameras) {
    cameras->most = STARTS_A_CORE * (cores > 0 ? (unsigned)cores : 1);
  }
  return cameras;
}

struct cameras *cameras_free(struct cameras *cameras) {
  free(cameras);
  return NULL;
}

static void enqueue(struct camera *camera) {
  struct camera **end = &camera->setup.cameras->first;
  while (*end) {
    end = &(*end)->next;
  }
  *end = camera;
  camera->next = NULL;
  camera->phase = PHASE_QUEUED;
}

static void dequeue(struct camera *camera) {
  struct camera **at = &camera->setup.cameras->first;
  while (*at && *at != camera) {
    at = &(*at)->next;
  }
  if (*at) {
    *at = camera->next;
  }
}

static void start_next(struct cameras *cameras) {
  while (cameras->first && cameras->starting < cameras->most) {
    struct camera *camera = cameras->first;
    cameras->first = camera->next;
    camera_begin(camera);
  }
}

/* The process has loaded, and the next one may. */
static void has_started(struct camera *camera) {
  if (camera->starts) {
    camera->starts = false;
    camera->setup.cameras->starting--;
    start_next(camera->setup.cameras);
  }
}

static void identify(const struct camera *camera, struct file_identity *identity) {
  const char *name = camera->setup.config->source.credentials;
  char path[PATH_MAX];
  struct stat file;
  *identity = (struct file_identity){0};
  if (name) {
    config_credentials_path(name, path, sizeof path);
  }
  if (name && stat(path, &file) == 0) {
    *identity = (struct file_identity){.device = file.st_dev,
                                       .inode = file.st_ino,
                                       .size = (uint64_t)file.st_size,
                                       .seconds = (uint64_t)file.st_mtim.tv_sec,
                                       .nanoseconds = (uint64_t)file.st_mtim.tv_nsec};
  }
}

/* -- its process --------------------------------------------------------------------------------------------------- */

static void close_control(struct camera *camera) {
  camera->watch = loop_watch_close(camera->watch);
  if (camera->control >= 0) {
    close(camera->control);
  }
  camera->control = -1;
}

static void camera_free(struct camera *camera) {
  loop_timer_close(camera->timer);
  free(camera);
}

static void camera_pause(struct camera *camera) {
  camera->phase = PHASE_PAUSED;
  loop_timer_start(camera->timer, (uint64_t)(camera->pause / NS_PER_MS), 0);
  camera->pause = 2 * camera->pause < LAST_PAUSE ? 2 * camera->pause : LAST_PAUSE;
}

static void on_end(void *context, int status, int signal) {
  struct camera *camera = context;
  camera->child = NULL;
  close_control(camera);
  has_started(camera);
  if (camera->closed) {
    camera_free(camera);
    return;
  }
  if (clock_now() - camera->began > PROVEN) {
    camera->pause = FIRST_PAUSE;
  }
  camera->lost_before = camera->view.lost;
  camera->reconnects_before = ++camera->view.reconnects;
  bool has_said_why = camera->blamed || (camera->view.state == CAMERA_WAITING && camera->view.token[0]);
  if (signal != 0 && !camera->blamed) {
    blame(camera, "camera.ended", "framed-camera was ended by signal %d (%s)", signal, strsignal(signal));
  } else if (!has_said_why) {
    blame(camera, "camera.ended", "framed-camera has ended with status %d", status);
  }
  camera_pause(camera);
}

/* The process sees the end of its control socket. A process that does not end by then is killed. */
static void end_process(struct camera *camera) {
  close_control(camera);
  camera->phase = PHASE_ENDING;
  loop_timer_start(camera->timer, END_MS, 0);
}

__attribute__((format(printf, 2, 3))) static void condemn(struct camera *camera, const char *format, ...) {
  char text[CAMERA_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  camera->blamed = true;
  blame(camera, "camera.ended", "framed-camera was killed: %s", text);
  end_process(camera);
  child_kill(camera->child);
}

static void on_message(void *context) {
  struct camera *camera = context;
  char message[CAMERA_MESSAGE + 1];
  ssize_t length = recv(camera->control, message, sizeof message, MSG_DONTWAIT);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (length <= 0) { /* it ends by itself, or is killed */
    end_process(camera);
  } else if (++camera->messages > MOST_MESSAGES) {
    condemn(camera, "it sent more than %d messages a second", MOST_MESSAGES);
  } else if (length > CAMERA_MESSAGE || !camera_hear(&camera->view, message, (size_t)length)) {
    condemn(camera, "it said what makes no sense");
  } else {
    camera->heard = clock_now();
    camera->view.lost += camera->lost_before;
    camera->view.reconnects += camera->reconnects_before;
    follow(camera);
    if (camera->view.state != CAMERA_CONNECTING) {
      has_started(camera);
    }
  }
}

static void look(struct camera *camera) {
  int64_t now = clock_now();
  bool talks = camera->view.state == CAMERA_STARTING || camera->view.state == CAMERA_RUNNING;
  camera->messages = 0;
  camera->alone = camera->setup.is_connected(camera->setup.context) ? 0 : camera->alone + 1;
  if (now - camera->began > START_TIME) {
    has_started(camera);
  }
  if (talks && now - camera->heard > PATIENCE) {
    condemn(camera, "it said nothing for %d s", (int)(PATIENCE / NS_PER_S));
  } else if (camera->alone >= MOST_ALONE) {
    condemn(camera, "its connection to the pipeline was closed, for a reason that the log says");
  }
}

static void on_timer(void *context) {
  struct camera *camera = context;
  switch (camera->phase) {
  case PHASE_UP:
    look(camera);
    break;
  case PHASE_PAUSED:
    enqueue(camera);
    start_next(camera->setup.cameras);
    break;
  case PHASE_ENDING:
    child_kill(camera->child);
    break;
  case PHASE_QUEUED:
    break;
  }
}

/* Watches a process and its control socket, which the camera owns from here on. A process that cannot be watched is killed. */
static bool follow_process(struct camera *camera, pid_t pid, int control) {
  camera->child = child_watch(camera->setup.loop, pid, on_end, camera);
  camera->control = control;
  camera->watch = camera->child ? loop_watch_new(camera->setup.loop, control, on_message, camera) : NULL;
  camera->began = camera->heard = clock_now();
  camera->messages = camera->alone = 0;
  camera->blamed = false;
  if (!camera->child) {
    child_end(pid);
    close_control(camera);
  } else if (!camera->watch) {
    condemn(camera, "it cannot be watched: not enough memory");
  } else {
    loop_watch_start(camera->watch);
    camera->phase = PHASE_UP;
    loop_timer_start(camera->timer, LOOK_MS, LOOK_MS);
  }
  return camera->child;
}

static bool start_process(struct camera *camera, struct failure *failure) {
  struct launched launched;
  if (!launch_process(camera->setup.config, camera->setup.pixels, &launched, failure)) {
    return false;
  }
  identify(camera, &camera->credentials);
  if (!follow_process(camera, launched.pid, launched.control)) {
    close(launched.frames);
    return failure_set_memory(failure, "not enough memory to watch framed-camera");
  }
  camera->view.state = CAMERA_STARTING;
  camera->setup.connected(camera->setup.context, launched.frames, launched.pid);
  return true;
}

static void camera_begin(struct camera *camera) {
  struct failure failure;
  camera->starts = true;
  camera->setup.cameras->starting++;
  if (!start_process(camera, &failure)) {
    blame(camera, "camera.ended", "%s%s%s", failure.text, failure.remedy[0] ? "; " : "", failure.remedy);
    camera->starts = false;
    camera->setup.cameras->starting--;
    camera_pause(camera);
  }
}

/* -- what its owner asks -------------------------------------------------------------------------------------------- */

struct camera *camera_new(const struct camera_setup *setup, const struct camera_process *left) {
  struct camera *camera = calloc(1, sizeof *camera);
  if (!camera) {
    return NULL;
  }
  *camera = (struct camera){.setup = *setup, .control = -1, .pause = FIRST_PAUSE};
  camera->timer = loop_timer_new(setup->loop, on_timer, camera);
  if (!camera->timer) {
    free(camera);
    return NULL;
  }
  identify(camera, &camera->credentials);
  if (left->pid > 0 && left->control >= 0 && follow_process(camera, left->pid, left->control)) {
    return camera;
  }
  enqueue(camera);
  start_next(setup->cameras);
  return camera;
}

static bool is_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Whether the start message for that pipeline is the same as for the pipeline that the camera has. */
static bool fits(const struct camera *camera, const struct config_pipeline *config) {
  const struct config_source *own = &camera->setup.config->source, *other = &config->source;
  struct file_identity now;
  identify(camera, &now);
  return is_same(own->path, other->path) && is_same(own->credentials, other->credentials) &&
         own->transport == other->transport && own->format.pixels == other->format.pixels &&
         own->format.width == other->format.width && own->format.height == other->format.height &&
         memcmp(&now, &camera->credentials, sizeof now) == 0;
}

bool camera_move(struct camera *camera, const struct camera_setup *setup, int *frames) {
  struct failure failure;
  *frames = -1;
  if (!fits(camera, setup->config)) {
    return false;
  }
  camera->setup = *setup;
  if (camera->phase == PHASE_UP && !launch_connection(camera->control, frames, &failure)) {
    condemn(camera, "%s", failure.text);
  }
  return true;
}

struct camera *camera_close(struct camera *camera) {
  if (!camera) {
    return NULL;
  }
  camera->closed = true;
  if (camera->phase == PHASE_UP) {
    end_process(camera);
  } else if (camera->phase != PHASE_ENDING) {
    dequeue(camera);
    camera_free(camera);
  }
  return NULL;
}

const struct camera_view *camera_view(const struct camera *camera) { return &camera->view; }

const struct trouble *camera_trouble(const struct camera *camera) { return &camera->trouble; }

struct camera_process camera_process(const struct camera *camera) {
  bool is_up = camera->phase == PHASE_UP;
  return (struct camera_process){.pid = is_up ? child_pid(camera->child) : 0, .control = is_up ? camera->control : -1};
}
