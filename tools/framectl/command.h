/* The arguments of a command, and all commands. A command prints its result, or returns false with a problem. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMAND_H
#define FRAMED_TOOLS_FRAMECTL_COMMAND_H

#include <limits.h>
#include <stdint.h>

#include "tools/framectl/common/problem.h"

/* Options of `plan`, in the order of the command line's table. */
enum plan_option {
  PLAN_H2D,
  PLAN_KERNEL,
  PLAN_D2H,
  PLAN_TURNAROUND,
  PLAN_HOST,
  PLAN_SLOTS,
  PLAN_CHUNKS,
  PLAN_FROM,
  PLAN_OPTIONS
};

struct invocation {
  const char *socket;          /* of the daemon */
  const char *operand;         /* a pipeline's name, a file or an action; NULL: none */
  const char *const *operands; /* all of them, where the command takes several */
  unsigned operand_count;
  bool json;                      /* print JSON */
  bool colour;                    /* standard output is a terminal that shows colours */
  bool shared;                    /* native frames in shared memory */
  bool cuda;                      /* with the libraries of CUDA */
  bool force;                     /* binary data to a terminal */
  uint64_t frames;                /* stop after so many; 0: no limit, or the command's default */
  const char *output;             /* a file for the result; NULL: the command's default */
  const char *input, *format;     /* of `try`: a file and its format; NULL: standard input, a picture */
  const char *config, *against;   /* of `replay`: two configurations; NULL: framed's own; not set */
  bool cpu;                       /* use the CPU backend */
  const char *credentials;        /* of `camera`: a file; NULL: none */
  bool terminal;                  /* show the picture on this terminal */
  double seconds;                 /* 0: the command's default */
  const char *plan[PLAN_OPTIONS]; /* NULL: not set */
};

typedef bool command_run(const struct invocation *invocation, struct problem *problem);

command_run command_status, command_health, command_watch, command_metrics, command_top, command_reload, command_upgrade,
    command_device, command_drain, command_pause, command_resume, command_record, command_check, command_push, command_pull,
    command_trace, command_plan, command_doctor, command_models, command_stages, command_try, command_replay, command_repair,
    command_camera;

/*
 * Finds the daemon's program: beside this one, so that an unpacked build works, or else in PATH. Writes to `path` and returns
 * it.
 */
const char *command_find_framed(char path[PATH_MAX]);

#endif
