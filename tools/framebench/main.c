/*
 * framebench measures what this machine allows, and how much of that framed uses.
 *
 * Only this file has the list of subcommands. Each reads the rest of its command line itself, since they have little in common.
 * A new one needs a line in the table below and a declaration in command.h.
 */
#include "config/suggest.h"
#include "tools/framebench/command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
  const char *name, *operands;
  const char *summary; /* one line of the list */
  const char *help;    /* the rest of `framebench NAME --help` */
  command_run *run;
} commands[] = {
    {"limits", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "limits of this machine's link, launches and sockets",
     "Measures copies, launches, completion, sockets without a GPU, and frames back to back in a bare loop and in framed's\n"
     "engine. --quick uses small sizes and few rounds, for a first test.",
     command_limits},
    {"overlap", "[--json] [--quick] [--backend cpu|cuda] [--device N] [--witness]",
     "the same work serially and with 1 to 8 slots",
     "Measures frames of 4 KiB to 24 MiB with kernels that take almost no time, half as long, as long, and twice as long as\n"
     "a copy. They run serially, and with 1, 2, 3, 4 and 8 slots, with spin or callback. Each is compared with the limit of\n"
     "its own copies and kernels. Then it measures programs of textbooks.\n"
     "  --witness      compare the engine's times with CUPTI's records",
     command_overlap},
    {"stages", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "every stage compared with the limit of memory",
     "Measures each stage on images of 640x480 to 7680x4320. Its floor is the time in which memory reads the input and\n"
     "writes the output once, and reads and writes the stage's state. With a GPU it measures both backends. If ffmpeg is\n"
     "installed, its filters are compared with the stages of the cpu backend.",
     command_stages},
    {"model", "[--json] [--quick] [--backend cpu|cuda] [--device N] FILE", "a model in the daemon and in one process",
     "Starts its own daemons and runs the model of this file (1x3xHEIGHTxWIDTH floats) in them: 3 and 8 instances in shared\n"
     "memory, and one frame at a time, each compared with one process without a daemon. If the first side is open, it also\n"
     "measures 64 cameras in batches, a loop of such batches, and the latency at a third of that rate. With a GPU it also\n"
     "measures 32 cameras of 1080p at 30 frames/s, and the device memory of 32 pipelines and of one.",
     command_model},
    {"daemon", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "the daemon from socket to socket, and sockets alone",
     "Starts its own daemon (framed beside this program, or $FRAMED_BINARY). Compares 4 MiB frames with a plain relay of\n"
     "sockets, one 4 KiB frame at a time with device and sockets alone, and 64 pipelines with one.",
     command_daemon},
    {"transport", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "client to daemon to client in shared memory",
     "Starts its own daemon and sends frames with libframed in shared memory: 4 MiB and 64 KiB at the highest rate, and\n"
     "4 KiB one at a time. Each is compared with the same work in one process without a daemon, and 4 MiB also with the\n"
     "daemon's sockets.",
     command_transport},
    {"scale", "[--json] [--quick] [--backend cpu|cuda] [--devices N] [FILE]", "a pipeline on 1, 2, 4 and more devices",
     "Starts its own daemon and sends 4 MiB frames in shared memory through pipelines on 1, 2, 4 and more devices, with two\n"
     "sessions on each. The work is affine, which the link limits, and work, which the device limits, or the model of FILE.\n"
     "Each is compared with a multiple of one device's rate, and with loops without a daemon on all these devices at once.\n"
     "  --devices N    limit of devices (default: all; the cpu backend appears as 4)",
     command_scale},
    {"load",
     "[-s SOCKET] [--rate N|max] [--in-flight N] [--clients N] [--search GOAL] [--duration TIME] [--warm-up TIME] [--spin]\n"
     "                       [--transport shm|stream] [--json] [PIPELINE]...",
     "frames into a running daemon and results out of it",
     "Sends frames to the sockets of these pipelines (default: all) and reads their results. With a rate, each frame has a\n"
     "due time from which its latency counts, so that a stalled daemon cannot hide it. No other client should use these\n"
     "pipelines meanwhile.\n"
     "  -s, --socket SOCKET  the daemon's status socket (default: $FRAMED_SOCKET, or /run/framed/status.sock)\n"
     "  --rate N             frames a second, of all clients together; max (the default) is the rate under back pressure\n"
     "  --in-flight N        instead of a rate: each client sends when fewer than N of its frames are in flight\n"
     "  --clients N          producers of each pipeline, which must then have a `reply` sink (default: 1)\n"
     "  --search GOAL        find the highest rate that holds a goal: 'p99<5ms', 'p99.9<800us', 'max<20ms'\n"
     "  --duration TIME      of each measurement (default: 10s), after --warm-up (1s)\n"
     "  --spin               poll sockets and clock instead of sleeping\n"
     "  --transport WHICH    of pipelines that are native at both ends: shm, shared memory, or stream, the connection\n"
     "                       (default: shm if the daemon offers it)",
     command_load},
    {"report", "FOLDER", "one table of the results in a folder",
     "Reads every .json file in FOLDER, as measure.sh writes them. Prints framed's performance targets as a table in\n"
     "Markdown, each with the limit of the same run.",
     command_report},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(void) {
  printf("usage: framebench COMMAND [OPTION]...\n\nMeasures the limits of this machine, and how close framed comes.\n\n");
  for (const struct command *command = commands; command < commands + COMMAND_COUNT; command++) {
    printf("  %-10s  %s\n", command->name, command->summary);
  }
  printf("\n  -h, --help  print this help, or that of a command\n"
         "  --version   print the version\n\n"
         "Exit status: 0 success, 1 the measurement failed, 64 usage, 69 no device or daemon, 70 internal error.\n");
}

static void print_command_help(const struct command *command) {
  printf("usage: framebench %s %s\n\n%s\n", command->name, command->operands, command->help);
}

/* NULL with a problem if there is no such command. */
static const struct command *find_command(const char *name, struct problem *problem) {
  struct suggestion suggestion = suggest_begin(name);
  for (const struct command *command = commands; command < commands + COMMAND_COUNT; command++) {
    if (strcmp(name, command->name) == 0) {
      return command;
    }
    suggest_offer(&suggestion, command->name);
  }
  char remedy[SUGGEST_TEXT];
  problem_set(problem, EXIT_STATUS_USAGE, suggest_text(&suggestion, "`framebench --help` lists the commands", remedy),
              "there is no command '%s'", name);
  return NULL;
}

static bool is_option(const char *argument, const char *name) { return argument && strcmp(argument, name) == 0; }

static bool is_help(const char *argument) { return is_option(argument, "--help") || is_option(argument, "-h"); }

static bool asks_for_help(char **arguments) {
  while (*arguments && !is_help(*arguments)) {
    arguments++;
  }
  return *arguments != NULL;
}

static bool run_command(int count, char **arguments, struct problem *problem) {
  const struct command *command = find_command(arguments[1], problem);
  if (command && asks_for_help(arguments + 2)) {
    print_command_help(command);
    return true;
  }
  return command && command->run(count - 1, arguments + 1, problem);
}

static bool run(int count, char **arguments, struct problem *problem) {
  if (count < 2) {
    return problem_set(problem, EXIT_STATUS_USAGE, "`framebench --help` lists the commands", "no command given");
  }
  if (is_help(arguments[1])) {
    print_help();
  } else if (is_option(arguments[1], "--version")) {
    printf("framebench %s\n", FRAMED_VERSION);
  } else if (!run_command(count, arguments, problem)) {
    return false;
  }
  return problem_set_unless_printed(problem);
}

int main(int count, char **arguments) {
  struct problem problem = {0};
  signal(SIGPIPE, SIG_IGN);
  if (run(count, arguments, &problem)) {
    return EXIT_STATUS_OK;
  }
  fprintf(stderr, "framebench: %s\n", problem.text ? problem.text : "no memory");
  if (problem.remedy) {
    fprintf(stderr, "  %s\n", problem.remedy);
  }
  int status = (int)problem.status;
  problem_clear(&problem);
  return status;
}
