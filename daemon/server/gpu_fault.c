/*
 * What becomes of the daemon when a GPU fails. The device is lost to this image of the process, and only to this one: another
 * image goes on with everything. Where that cannot be, or happens too often, the process just ends: nothing may wait for a dead
 * device, and freeing what is on it might wait. phases.c is told what is decided here, and enters the phase.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/server/private.h"

enum { LIMIT_TEXT = 128 };

static const char *say_limit(const struct server *server, char text[LIMIT_TEXT]) {
  unsigned limit = server->config->gpu.faults;
  snprintf(text, LIMIT_TEXT, "the daemon ends, since that was more than %u times in a minute (gpu.faults)", limit);
  return limit > 0 ? text : "the daemon ends at once, as gpu.faults has it";
}

void server_end_by_faults(struct server *server, const struct fault *fault) {
  char text[LIMIT_TEXT];
  fault_log(fault, say_limit(server, text));
  server_end_now(server, EXIT_STATUS_GPU_LOST);
}

void server_end_after_fault(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_log_account(server->pipelines[i]);
    if (!server->reload ||
        !reload_is_at_sockets(server->reload)) { /* else the sockets of pipelines stay for the next process */
      pipeline_abandon(server->pipelines[i]);
    }
  }
  server_end_now(server, EXIT_STATUS_GPU_LOST);
}

__attribute__((format(printf, 3, 4))) static void end_by_fault(struct server *server, const struct fault *fault,
                                                               const char *why, ...) {
  if (server->phase == SERVER_FAULTED) {
    return; /* another device has failed meanwhile */
  }
  char outcome[sizeof((struct failure *)NULL)->text + 80];
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(outcome, sizeof outcome, why, arguments);
  va_end(arguments);
  fault_log(fault, outcome);
  systemd_stopping("the GPU failed");
  fault_describe(fault, server->fault);
  server->report(server, SERVER_LOST, NULL);
}

/* Adds the frames that pipelines other than the one that saw the fault have on the device, as far as their lanes have said. */
static void add_others(const struct server *server, struct fault *fault) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    const struct config_pipeline *config = pipeline_config(server->pipelines[i]);
    struct health_work work;
    pipeline_work(server->pipelines[i], fault->device, &work);
    uint64_t told = fault->pipeline && strcmp(fault->pipeline, config->name) == 0 ? fault->frames : 0;
    if (work.frames > told) {
      fault_add_others(fault, work.frames - told, config->name);
    }
  }
}

void server_end_unanswered(void *context) {
  struct server *server = context;
  end_by_fault(server, server->unanswered, "the daemon ends, since a reload stands between two configurations");
}

/* While a reload exchanges pipelines nothing of them can be handed over. The exchange will be over soon. */
static void wait_for_reload(struct server *server, const struct fault *fault) {
  if (server->unanswered) {
    return;
  }
  server->unanswered = malloc(sizeof *fault);
  if (!server->unanswered) {
    end_by_fault(server, fault, "the daemon ends, since there is no memory to wait for a reload");
    return;
  }
  *server->unanswered = *fault;
  server->report(server, SERVER_FAULT_WAITS, NULL);
}

static void take_up_again(struct server *server, const struct fault *fault) {
  struct failure failure;
  char text[FAULT_TEXT], sentence[HISTORY_TEXT];
  fault_log(fault, "everything is taken up again");
  snprintf(sentence, sizeof sentence, "%s%s%s", fault->pipeline ? fault->pipeline : "", fault->pipeline ? ": " : "",
           fault_describe(fault, text));
  server->history.suspects = true;
  if (server->reload) {
    reload_on_fault(server->reload);
  }
  server_hand_over(server, HISTORY_FAULT, sentence, NULL, &failure);
  end_by_fault(server, fault, "the daemon ends, since nothing could be taken up again (%s)", failure.text);
}

/* A device that fails again and again is left out, where every pipeline has another one. */
static bool leave_out(struct server *server, const struct fault *fault, unsigned limit) {
  char text[ENGINE_TEXT];
  if (limit == 0 || !engine_device(server->engine, fault->device) ||
      !engine_can_spare(server->engine, server->config, fault->device, NULL)) {
    return false;
  }
  snprintf(text, sizeof text, "it failed more than %u times in a minute: %.200s", limit, fault->error.text);
  engine_leave_out(server->engine, fault->device, ENGINE_FAILED, text);
  log_event(LOG_DEVICE, NULL, "device %u is left out, and its sessions move to others: %s", fault->device, text);
  memset(server->history.faults, 0, sizeof server->history.faults);
  return true;
}

/* By the configuration in force, which a reload that was under way may have brought. */
static void answer_fault(struct server *server, const struct fault *fault) {
  int64_t now = clock_now();
  unsigned limit_a_minute = server->config->gpu.faults;
  bool is_known = retry_is_on(engine_retry(server->engine)); /* it is the suspected frame's fault and not the device's */
  bool is_too_much = limit_a_minute == 0 || (!is_known && history_is_too_fast(&server->history, limit_a_minute, now));
  if (is_too_much && !leave_out(server, fault, limit_a_minute)) {
    char text[LIMIT_TEXT];
    end_by_fault(server, fault, "%s", say_limit(server, text));
  } else {
    if (!is_known) {
      history_note_fault(&server->history, now);
    }
    take_up_again(server, fault);
  }
}

/* The pipeline that saw the fault may have gone with the reload. */
void server_answer_fault(struct server *server) {
  struct fault fault = *server->unanswered;
  bool is_there = false;
  free(server->unanswered);
  server->unanswered = NULL;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    is_there = is_there || pipeline_config(server->pipelines[i])->name == fault.pipeline;
  }
  fault.pipeline = is_there ? fault.pipeline : NULL;
  answer_fault(server, &fault);
}

/* What was told of frames is of no use where another device than theirs is at fault. */
static void blame(const struct server *server, struct fault *fault) {
  struct gpu_error error = fault->error;
  unsigned device = engine_at_fault(server->engine, fault->device, error.text, sizeof error.text);
  if (device != fault->device) {
    *fault = (struct fault){.device = device, .error = error};
  }
}

void server_fault(struct server *server, const struct server_cause *cause) {
  struct fault fault = *cause->fault;
  struct failure later;
  if (server->handing_over) {
    return;
  }
  blame(server, &fault);
  add_others(server, &fault);
  if (server->reload && !server_may_hand_over(server, &later)) {
    wait_for_reload(server, &fault);
  } else {
    answer_fault(server, &fault);
  }
}
