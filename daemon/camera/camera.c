#include "daemon/camera/camera.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/camera/credential.h"
#include "daemon/camera/launch.h"
#include "daemon/camera/turns.h"
#include "daemon/measure/clock.h"

#define FIRST_PAUSE (NS_PER_S / 2)
#define LAST_PAUSE  (30 * NS_PER_S)
#define PROVEN      (30 * NS_PER_S) /* a process that ran for so long was no failure from its start: the pauses begin again */
#define START_TIME  (5 * NS_PER_S)  /* for so long at most a process counts as one that starts */

enum {
  LOOK_MS = 1000,
  END_MS = 2000,
  MESSAGES_A_SECOND = 64, /* one a second and one a change are expected */
  MOST_CREDIT = 1000,     /* messages that have queued up while the daemon was stopped */
  MOST_ALONE = 2,         /* looks: a process ends by itself in this time */
  MOST_SILENT = 30        /* looks: while pictures come, the process reports once a second */
};

enum phase {
  PHASE_QUEUED, /* waits for its turn */
  PHASE_UP,     /* there is a process */
  PHASE_PAUSED, /* until the next one */
  PHASE_ENDING  /* its control socket is closed, and it has to end */
};

struct camera {
  struct camera_setup setup;
  struct file_identity credentials; /* when they were last read */
  struct turn turn;
  enum phase phase;
  bool closed; /* by its owner: what ends now is not started again */
  struct child *child;
  int control;
  struct loop_watch *watch;
  struct loop_timer *timer; /* UP: looks after the process; PAUSED: the next start; ENDING: kills it */
  int64_t began;            /* when the process was started */
  int64_t pause;
  int64_t heard;   /* when the last message came, */
  double credit;   /* and how many may come at once */
  unsigned silent; /* looks in a row without a message; the clock would count time in which this process was stopped */
  unsigned alone;  /* looks in a row without a connection to the pipeline */
  bool blamed;     /* the view says why the process was killed */
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

/* True unless the message is garbage. */
static bool take_message(struct camera *camera, const char *message, size_t length) {
  bool taken = length <= CAMERA_MESSAGE && camera_hear(&camera->view, message, length);
  if (taken) {
    camera->view.lost += camera->lost_before;
    camera->view.reconnects += camera->reconnects_before;
    follow(camera);
  }
  return taken;
}

/* The last message may have the reason of the end. */
static void take_last_messages(struct camera *camera) {
  char message[CAMERA_MESSAGE + 1];
  ssize_t length = camera->control >= 0 ? 1 : 0;
  for (int i = 0; i < MESSAGES_A_SECOND && length > 0; i++) {
    length = recv(camera->control, message, sizeof message, MSG_DONTWAIT);
    length = length > 0 && take_message(camera, message, (size_t)length) ? length : 0;
  }
}

static void on_end(void *context, int status, int signal) {
  struct camera *camera = context;
  camera->child = NULL;
  if (!camera->closed) {
    take_last_messages(camera);
  }
  close_control(camera);
  turn_end(camera->setup.cameras, &camera->turn);
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

static bool has_credit(struct camera *camera) {
  int64_t now = clock_now();
  camera->credit += (double)(now - camera->heard) / (double)NS_PER_S * MESSAGES_A_SECOND;
  camera->credit = camera->credit < MOST_CREDIT ? camera->credit - 1 : MOST_CREDIT;
  camera->heard = now;
  return camera->credit >= 0;
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
  } else if (!has_credit(camera)) {
    condemn(camera, "it sent more than %d messages a second", MESSAGES_A_SECOND);
  } else if (!take_message(camera, message, (size_t)length)) {
    condemn(camera, "it said what makes no sense");
  } else {
    camera->silent = 0;
    if (camera->view.state != CAMERA_CONNECTING) {
      turn_end(camera->setup.cameras, &camera->turn);
    }
  }
}

static void look(struct camera *camera) {
  int64_t now = clock_now();
  bool talks = camera->view.state == CAMERA_STARTING || camera->view.state == CAMERA_RUNNING;
  camera->silent++;
  camera->alone = camera->setup.is_connected(camera->setup.context) ? 0 : camera->alone + 1;
  if (now - camera->began > START_TIME) {
    turn_end(camera->setup.cameras, &camera->turn);
  }
  if (talks && camera->silent > MOST_SILENT) {
    condemn(camera, "it said nothing for %d s", MOST_SILENT * LOOK_MS / 1000);
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
    camera->phase = PHASE_QUEUED;
    turn_request(camera->setup.cameras, &camera->turn);
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
  camera->silent = camera->alone = 0;
  camera->credit = MESSAGES_A_SECOND;
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
  credential_identify(camera->setup.config->source.credentials, &camera->credentials);
  if (!follow_process(camera, launched.pid, launched.control)) {
    close(launched.frames);
    return failure_set_memory(failure, "not enough memory to watch framed-camera");
  }
  camera->view.state = CAMERA_STARTING;
  camera->setup.connected(camera->setup.context, launched.frames, launched.pid);
  return true;
}

static void camera_begin(void *context) {
  struct camera *camera = context;
  struct failure failure;
  if (!start_process(camera, &failure)) {
    blame(camera, "camera.ended", "%s%s%s", failure.text, failure.remedy[0] ? "; " : "", failure.remedy);
    camera_pause(camera);
    turn_end(camera->setup.cameras, &camera->turn);
  }
}

/* -- what its owner asks -------------------------------------------------------------------------------------------- */

struct camera *camera_new(const struct camera_setup *setup, const struct camera_process *left) {
  struct camera *camera = calloc(1, sizeof *camera);
  if (!camera) {
    return NULL;
  }
  *camera =
      (struct camera){.setup = *setup, .control = -1, .pause = FIRST_PAUSE, .turn = {.begin = camera_begin, .context = camera}};
  camera->timer = loop_timer_new(setup->loop, on_timer, camera);
  if (!camera->timer) {
    free(camera);
    return NULL;
  }
  credential_identify(camera->setup.config->source.credentials, &camera->credentials);
  if (left->pid > 0 && left->control >= 0 && follow_process(camera, left->pid, left->control)) {
    return camera;
  }
  turn_request(setup->cameras, &camera->turn);
  return camera;
}

static bool is_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Whether the start message for that pipeline is the same as for the pipeline that the camera has. */
static bool fits(const struct camera *camera, const struct config_pipeline *config) {
  const struct config_source *own = &camera->setup.config->source, *other = &config->source;
  struct file_identity now;
  credential_identify(other->credentials, &now);
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
    turn_end(camera->setup.cameras, &camera->turn);
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
