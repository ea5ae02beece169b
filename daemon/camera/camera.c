#include "daemon/camera/camera.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/program.h"
#include "daemon/camera/credential.h"
#include "daemon/camera/message.h"
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

struct camera {
  struct camera_setup setup;
  struct camera *next; /* in the queue */
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

static struct program program = {.name = "framed-camera", .variable = "FRAMED_CAMERA", .fd = -1}; /* with `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_program(struct failure *failure) {
  pthread_mutex_lock(&lock);
  bool opened = program_open(&program, failure);
  pthread_mutex_unlock(&lock);
  return opened;
}

bool camera_check(const struct config_source *source, struct failure *failure) {
  struct credential credential;
  bool readable = !source->credentials || credential_read(source->credentials, &credential, failure);
  if (source->credentials) {
    credential_clear(&credential);
  }
  return readable && open_program(failure);
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

/* Both ends of a control socket, and of a connection for frames; the camera's ends are high. */
static bool make_sockets(int control[2], int frames[2], struct failure *failure) {
  bool made = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0;
  made = made && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, frames) == 0;
  made = made && (control[1] = program_descriptor(control[1])) >= 0 && (frames[1] = program_descriptor(frames[1])) >= 0;
  return (made && fcntl(frames[0], F_SETFL, O_NONBLOCK) == 0) ||
         failure_set_system(failure, errno, NULL, "no socket for framed-camera");
}

static void close_pair(const int pair[2]) {
  for (int i = 0; i < 2; i++) {
    if (pair[i] >= 0) {
      close(pair[i]);
    }
  }
}

/* Its errors go where the daemon's go: a library that is missing is said there. */
static bool execute(int control, int frames, pid_t *pid, struct failure *failure) {
  char name[] = "framed-camera", version[] = FRAMED_VERSION;
  char *const arguments[] = {name, version, NULL};
  const int descriptors[CAMERA_DESCRIPTORS] = {CHILD_NULL, CHILD_NULL, CHILD_KEEPS, control, frames};
  if (!open_program(failure)) {
    return false;
  }
  int error = program_spawn(&program, arguments, descriptors, CAMERA_DESCRIPTORS, pid);
  return error == 0 || failure_set_system(failure, error, NULL, "cannot execute framed-camera");
}

/* Watches a process and its control socket, which is the camera's from here on, also on false. */
static bool follow_process(struct camera *camera, pid_t pid, int control, struct failure *failure) {
  camera->child = child_watch(camera->setup.loop, pid, on_end, camera);
  camera->control = control;
  camera->watch = camera->child ? loop_watch_new(camera->setup.loop, control, on_message, camera) : NULL;
  if (!camera->child) {
    child_end(pid);
  }
  if (!camera->watch) {
    return failure_set_system(failure, ENOMEM, NULL, "framed-camera cannot be watched");
  }
  loop_watch_start(camera->watch);
  camera->began = camera->heard = clock_now();
  camera->messages = camera->alone = 0;
  camera->blamed = false;
  camera->phase = PHASE_UP;
  loop_timer_start(camera->timer, LOOK_MS, LOOK_MS);
  return true;
}

static bool start_process(struct camera *camera, struct failure *failure) {
  int control[] = {-1, -1}, frames[] = {-1, -1};
  pid_t pid;
  bool started = make_sockets(control, frames, failure) &&
                 message_send(control[0], camera->setup.config, camera->setup.pixels, failure) &&
                 execute(control[1], frames[1], &pid, failure);
  if (started) {
    started = follow_process(camera, pid, control[0], failure);
    control[0] = -1;
  }
  if (started) {
    camera->view.state = CAMERA_STARTING;
    camera->setup.connected(camera->setup.context, frames[0], pid);
    frames[0] = -1;
  }
  close_pair(control);
  close_pair(frames);
  return started;
}

static void camera_begin(struct camera *camera) {
  struct failure failure;
  camera->starts = true;
  camera->setup.cameras->starting++;
  if (start_process(camera, &failure)) {
    return;
  }
  blame(camera, "camera.ended", "%s%s%s", failure.text, failure.remedy[0] ? "; " : "", failure.remedy);
  if (camera->child) { /* it cannot be watched; on_end() tries again */
    camera->blamed = true;
    end_process(camera);
    child_kill(camera->child);
    return;
  }
  close_control(camera);
  camera->starts = false;
  camera->setup.cameras->starting--;
  camera_pause(camera);
}

/* -- what its owner asks -------------------------------------------------------------------------------------------- */

struct camera *camera_new(const struct camera_setup *setup, const struct camera_process *left) {
  struct failure failure;
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
  if (left->pid > 0 && left->control >= 0 && follow_process(camera, left->pid, left->control, &failure)) {
    return camera;
  }
  enqueue(camera);
  start_next(setup->cameras);
  return camera;
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
