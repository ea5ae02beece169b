/*
 * framebench: measures what this machine allows, and what framed makes of it.
 *
 * Only this file knows the list of subcommands; each reads the rest of its command line itself, since they have
 * little in common. A new one is a line in the table below and a declaration in command.h.
 */
#include "config/suggest.h"
#include "tools/framebench/command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
  const char *name, *operands;
  const char *summary; /* one line in the list */
  const char *help;    /* the rest of `framebench NAME --help` */
  command_run *run;
} commands[] = {
    {"limits", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "what this machine's link, launches and sockets allow",
     "Measures copies, launches, completion, sockets without a GPU, and frames back to back in a bare loop, with the\n"
     "engine of framed beside it. --quick takes small sizes and few rounds, to see that it works.",
     command_limits},
    {"overlap", "[--json] [--quick] [--backend cpu|cuda] [--device N] [--witness]",
     "the same work serially and with 1 to 8 slots",
     "Measures frames of 4 KiB to 24 MiB with kernels that take next to nothing, and half, as long and twice as long as\n"
     "a copy: serially, and with 1, 2, 3, 4 and 8 slots, told by spin or callback; each beside what its own copies and\n"
     "kernels allow. Then the programs that textbooks show.\n"
     "  --witness      compare the engine's times with those that CUPTI records",
     command_overlap},
    {"stages", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "every stage beside what memory allows",
     "Measures each stage on images of 640x480 to 7680x4320 beside its floor: the time in which memory gives the input\n"
     "and takes the output once, and reads and writes what the stage keeps from frame to frame. With a GPU on both\n"
     "backends. Where ffmpeg is installed, its filters beside the stages of the cpu backend, too.",
     command_stages},
    {"model", "[--json] [--quick] [--backend cpu|cuda] [--device N] FILE", "a model in the daemon, beside one process",
     "Starts daemons of its own and runs the model of this file (1x3xHEIGHTxWIDTH floats) in them: 3 and 8 instances in\n"
     "memory shared with the client, and one frame at a time, each beside the same in one process without a daemon. Where the\n"
     "first side is open, 64 cameras in batches beside a loop of such batches, too, and their latency at a third of that. With "
     "a\n"
     "GPU also 32 cameras of 1080p at 30 frames/s, and what 32 pipelines take on the device beside one.",
     command_model},
    {"daemon", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "the daemon from socket to socket, beside sockets alone",
     "Starts a daemon of its own (framed beside this program, or $FRAMED_BINARY) and measures 4 MiB frames through it\n"
     "beside a plain relay of sockets, one 4 KiB frame at a time beside device and sockets alone, and 64 pipelines\n"
     "beside one.",
     command_daemon},
    {"transport", "[--json] [--quick] [--backend cpu|cuda] [--device N]", "client to daemon to client in shared memory",
     "Starts a daemon of its own and sends frames through it by libframed, in memory that both share: 4 MiB and 64 KiB as\n"
     "fast as they go, and 4 KiB one at a time, each beside the same work in one process without a daemon; and 4 MiB\n"
     "beside the daemon's sockets.",
     command_transport},
    {"scale", "[--json] [--quick] [--backend cpu|cuda] [--devices N] [FILE]", "a pipeline on 1, 2, 4 and more devices",
     "Starts a daemon of its own and sends 4 MiB frames in shared memory through pipelines on 1, 2, 4 and more devices, with\n"
     "two sessions on each: affine, which the link bounds, and work, which the device bounds, or the model of FILE. Beside "
     "each:\n"
     "that many times the rate of one device, and loops without a daemon on all these devices at once.\n"
     "  --devices N    at most so many (default: all that there are; the cpu backend appears as 4)",
     command_scale},
    {"load",
     "[-s SOCKET] [--rate N|max] [--in-flight N] [--clients N] [--search GOAL] [--duration TIME] [--warm-up TIME] [--spin]\n"
     "                       [--transport shm|stream] [--json] [PIPELINE]...",
     "frames into a running daemon and results out of it",
     "Sends frames to the sockets of these pipelines (all of them if none is named) and reads their results. With a rate,\n"
     "frames are due by the clock and latency counts from then, so that a daemon that stalls cannot hide it. Nobody else\n"
     "should use these pipelines meanwhile.\n"
     "  -s, --socket SOCKET  the daemon's status socket (default: $FRAMED_SOCKET, or /run/framed/status.sock)\n"
     "  --rate N             frames a second, of all clients together; max (the default) is what back pressure lets through\n"
     "  --in-flight N        instead of a rate: each client sends as soon as fewer than N of its frames are under way\n"
     "  --clients N          producers of each pipeline, which must then reply (default: 1)\n"
     "  --search GOAL        the highest rate at which that holds: 'p99<5ms', 'p99.9<800us', 'max<20ms'\n"
     "  --duration TIME      of each measurement (default: 10s), after --warm-up (1s)\n"
     "  --spin               ask sockets and clock again and again instead of sleeping\n"
     "  --transport WHICH    of pipelines that are native at both ends: shm, memory shared with the daemon, or stream, the\n"
     "                       connection (default: what the daemon gives, which is shm wherever it can)",
     command_load},
    {"report", "FOLDER", "one table from the results in a folder",
     "Reads every .json file in FOLDER, as measure.sh writes them, and prints the figures that framed is held to as a\n"
     "table in Markdown, each beside its limit.",
     command_report},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(void) {
  printf("usage: framebench COMMAND [OPTION]...\n\nMeasures what this machine allows, and what framed makes of it.\n\n");
  for (const struct command *command = commands; command < commands + COMMAND_COUNT; command++) {
    printf("  %-10s  %s\n", command->name, command->summary);
  }
  printf("\n  -h, --help  this, or with a command what it does\n"
         "  --version   print the version\n\n"
         "Exit status: 0 fine, 1 it could not be measured, 64 usage, 69 no device or daemon, 70 internal error.\n");
}

static void print_command_help(const struct command *command) {
  printf("usage: framebench %s %s\n\n%s\n", command->name, command->operands, command->help);
}

/* NULL: there is none, said as a problem. */
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
