#include "tools/framectl/table.h"

#include <stdio.h>
#include <string.h>

#define TAKES_PLAN_TIMES (((1U << PLAN_OPTIONS) - 1) << OPTION_PLAN)

const struct option_row option_table[OPTION_COUNT] = {
    [OPTION_JSON] = {"json", NULL},
    [OPTION_CUDA] = {"cuda", NULL},
    [OPTION_FORCE] = {"force", NULL},
    [OPTION_SHM] = {"shm", NULL},
    [OPTION_FRAMES] = {"frames", "N"},
    [OPTION_OUTPUT] = {"output", "FILE"},
    [OPTION_SECONDS] = {"seconds", "N"},
    [OPTION_INPUT] = {"input", "FILE"},
    [OPTION_FORMAT] = {"format", "FORMAT"},
    [OPTION_CPU] = {"cpu", NULL},
    [OPTION_CONFIG] = {"config", "FILE"},
    [OPTION_AGAINST] = {"against", "FILE"},
    [OPTION_PLAN + PLAN_H2D] = {"h2d", "TIME"},
    [OPTION_PLAN + PLAN_KERNEL] = {"kernel", "TIME"},
    [OPTION_PLAN + PLAN_D2H] = {"d2h", "TIME"},
    [OPTION_PLAN + PLAN_TURNAROUND] = {"turnaround", "TIME"},
    [OPTION_PLAN + PLAN_HOST] = {"host", "TIME"},
    [OPTION_PLAN + PLAN_SLOTS] = {"slots", "N"},
    [OPTION_PLAN + PLAN_CHUNKS] = {"chunks", "N"},
    [OPTION_PLAN + PLAN_FROM] = {"from", "PIPELINE"},
};

const struct command commands[] = {
    {"status", "[PIPELINE]", TAKES(OPTION_JSON), "show all pipelines, or one with its ledger and latencies",
     "Shows for each pipeline its state, what it waits for, frames and bytes a second, the latency of frames from first\n"
     "byte in to last byte out, and how many were dropped for which reason. With PIPELINE: where its frames come from and\n"
     "go to, the account of all frames, and the latency of each step of their road over the last ten seconds.",
     command_status},
    {"health", NULL, TAKES(OPTION_JSON), "say whether all is well, also by the exit status",
     "Says whether frames, or where none come the daemon's canaries, get through the GPU in time, and whether every pipeline\n"
     "does its job; if not, which does not, why, since when, and what to do. Exit status 0: all is well (idle, paused and\n"
     "blocked are); 2: something is not; 1: no daemon says.",
     command_health},
    {"watch", NULL, TAKES(OPTION_JSON), "print a line whenever health changes",
     "Prints what `health` says as one line, and another whenever that changes: what began, what is over, that the daemon is\n"
     "away, that it is back; until Ctrl-C. With --json each line is an object with time, state, why (the daemon is away), "
     "began,\n"
     "ended and degraded.",
     command_watch},
    {"metrics", NULL, 0, "print the metrics that Prometheus reads", "Prints /metrics, in Prometheus' text format.",
     command_metrics},
    {"top", "[PIPELINE]", 0, "watch the pipelines live",
     "Shows the pipelines every second until q is pressed; ? lists the keys. Pipelines can be sorted, filtered, opened, "
     "paused\n"
     "and resumed. PIPELINE is the one selected at first.",
     command_top},
    {"reload", NULL, TAKES(OPTION_JSON), "put the changed configuration in force",
     "Makes the daemon read its configuration again. With an error in it the old one stays in force, the error is\n"
     "printed, and the exit status is 1.",
     command_reload},
    {"upgrade", NULL, TAKES(OPTION_JSON), "have the installed program take over from the running one",
     "Makes the daemon execute the file that it was started from, which a newer version may have replaced, and waits until\n"
     "that goes on with every connection and frame. A program that cannot take over is refused: the running one goes on, and\n"
     "the exit status is 1.",
     command_upgrade},
    {"drain", "PIPELINE", TAKES(OPTION_JSON), "stop taking frames and wait until none is in flight",
     "Answers when nothing is in flight, or with exit status 1 after `drain_timeout`. Clients stay connected.\n"
     "`framectl resume PIPELINE` ends it.",
     command_drain},
    {"pause", "PIPELINE", TAKES(OPTION_JSON), "stop taking frames",
     "Answers as soon as no frame begins any more. `framectl resume PIPELINE` ends it.", command_pause},
    {"resume", "PIPELINE", TAKES(OPTION_JSON), "take frames again", "Ends pause and drain.", command_resume},
    {"device", "N ACTION...", TAKES(OPTION_JSON), "free a GPU for other work, or bring it back",
     "  drain    its sessions move to the other devices of their pipelines, with every frame and connection, and nothing of\n"
     "           the daemon is left on it; refused where a pipeline has no other one\n"
     "  resume   brings it back, also one that was left out since it failed for good; sessions are placed anew",
     command_device},
    {"record", "PIPELINE", TAKES(OPTION_JSON), "record what comes in around this moment",
     "Of a pipeline with `record` and when: event or boxes, as if something had been seen now: frames of `before`, as far as\n"
     "they are in memory, and those that come within `after`.",
     command_record},
    {"check", "[FILE]", 0, "check a configuration file without using it",
     "Runs `framed --check` on FILE (default: framed's own), and exits as that does: 0 if the file is valid, 78 if not.",
     command_check},
    {"push", "PIPELINE", TAKES(OPTION_FORCE) | TAKES(OPTION_SHM), "send frames from standard input to a pipeline",
     "Copies standard input to the pipeline's source socket and waits where the pipeline pushes back. If its sink is\n"
     "`reply`, writes the results to standard output. Says on standard error how much it was; that it was nothing is an "
     "error.\n"
     "  --shm          with `protocol: native`: in memory shared with the daemon, if it lends some\n"
     "  --force        also with a terminal in place of a file or pipe",
     command_push},
    {"pull", "PIPELINE", TAKES(OPTION_FORCE) | TAKES(OPTION_FRAMES) | TAKES(OPTION_SHM),
     "write a pipeline's results to standard output",
     "Reads from the pipeline's sink socket until it ends, or until Ctrl-C. Says on standard error how much it was.\n"
     "  --frames N     stop after N whole results\n"
     "  --shm          with `protocol: native`: in memory shared with the daemon, if it lends some\n"
     "  --force        also to a terminal",
     command_pull},
    {"trace", NULL, TAKES(OPTION_OUTPUT) | TAKES(OPTION_SECONDS), "record when each frame was where, for a trace viewer",
     "Writes what became of every frame in the next seconds: each step of its road on a row, joined by arrows. Open the file\n"
     "at https://ui.perfetto.dev or in chrome://tracing.\n"
     "  -o, --output FILE   default: framed-trace.json; - is standard output\n"
     "  --seconds N         0.1 to 60 (default: 2)",
     command_trace},
    {"plan", NULL, TAKES(OPTION_JSON) | TAKES(OPTION_FRAMES) | TAKES_PLAN_TIMES,
     "say what slots would win, from the times of copies and kernel",
     "Says how long frames take on so many slots, draws when which engine serves which frame, and names the bound that no\n"
     "number of slots beats. Each engine serves one frame at a time, and a slot's next copy in waits for its last copy out.\n"
     "  --h2d TIME     copy in: 30ms, 7.5us; --kernel and --d2h (copy out) likewise\n"
     "  --chunks N     the times are of one piece of work that is cut into N chunks\n"
     "  --frames N     the times are of each of N frames (default: 1000)\n"
     "  --slots N      2 is ping-pong (the default), up to 64\n"
     "  --turnaround TIME   how long the host keeps a slot between its copy out and its next frame (default: 0us)\n"
     "  --host TIME         the host's own work on a frame, by one thread (default: 0us)\n"
     "  --from PIPELINE     take times and slots as a running daemon measured them in the last ten seconds",
     command_plan},
    {"doctor", "[PIPELINE]", TAKES(OPTION_JSON), "say what bounds the pipelines, and what could be better",
     "Names for each pipeline what everything else waits for, and the one change that would help most with what it would win,\n"
     "from the last ten seconds: ask while frames pass. Then looks for clients that were turned away, for results that nobody\n"
     "reads, and at the machine: clocks that are held down, a PCIe link below its best, persistence mode, the limit of locked\n"
     "memory, the processors' governor, lanes that may run far from the GPU, and memory of slots that lies far from it.\n"
     "Exit status 0: nothing to do; 2: something could be better.",
     command_doctor},
    {"models", "[ACTION...]", TAKES(OPTION_CUDA), "list, install or remove ONNX Runtime, which runs models",
     "Lists where framed looks for ONNX Runtime, without which it runs no stage `model`, and what is there. It asks no "
     "daemon.\n"
     "  install           fetch it with python3's pip from the package index of this machine (19 MB) and put it into\n"
     "                    /var/lib/framed/onnxruntime, as another user than root into ~/.local/share/framed/onnxruntime,\n"
     "                    or where FRAMED_ONNXRUNTIME says; all of it at once, or nothing\n"
     "  install --cuda    the one that runs models on a GPU (250 MB), and the libraries of CUDA that are missing (1 GB)\n"
     "  install WHEEL...  the same from files that pip has downloaded elsewhere, without a network\n"
     "  remove            remove what was installed",
     command_models},
    {"stages", "[STAGE]", 0, "list the stages, or the parameters of one",
     "Lists the stages with a sentence each. With STAGE, its parameters with types, ranges and defaults.", command_stages},
    {"try", "STAGE...", TAKES(OPTION_INPUT) | TAKES(OPTION_OUTPUT) | TAKES(OPTION_FORMAT) | TAKES(OPTION_CPU),
     "put one frame through stages, without a daemon",
     "Runs a chain on one frame, on a GPU if there is one. STAGE is written as in the configuration: 'blur: {sigma: 3}'; "
     "files\n"
     "of stages are relative to the working directory. The frame is a PNG, PGM or PPM, or raw with --format; so is the "
     "result,\n"
     "by the ending of its name, or on standard output as the frame was. Its format is said on standard error.\n"
     "  -i, --input FILE    default: standard input\n"
     "  -o, --output FILE   default: standard output\n"
     "  --format FORMAT     of a raw frame: 'nv12 640x480' or 'float32[3,480,640]'\n"
     "  --cpu               on the CPU backend in any case",
     command_try},
    {"replay", "RECORDING", TAKES(OPTION_CONFIG) | TAKES(OPTION_AGAINST),
     "say what a new configuration would make of frames that were recorded",
     "Runs each frame of RECORDING, a segment of `record`, through the pipeline of that name in two configurations, without a\n"
     "daemon, and says for each frame whose results differ how: boxes that are gone or new, numbers, bytes. Exit status 0: "
     "none\n"
     "differs; 2: some do.\n"
     "  --against FILE      the new configuration\n"
     "  --config FILE       the one before (default: framed's own)",
     command_replay},
    {"repair", "PATH", 0, "finish segments of recordings that a kill left",
     "PATH is a segment that ends in .part, its name without that, or a folder of them. What is behind the last whole result\n"
     "is cut off, and the segment gets its name. It asks no daemon, and leaves alone what one is writing; a daemon that "
     "starts\n"
     "does the same for its own.",
     command_repair},
    {0},
};

/* The commands that take an option, in lines of the help. */
static void print_takers(enum option_id option) {
  enum { LINE = 105, INDENT = 23 };
  size_t column = INDENT + sizeof "print JSON; taken by";
  for (const struct command *command = commands; command->name; command++) {
    if (command->options & TAKES(option)) {
      size_t length = strlen(command->name) + 1;
      bool breaks = column + length > LINE;
      printf(breaks ? "\n%*s%s" : "%*s%s", breaks ? INDENT : 1, "", command->name);
      column = (breaks ? INDENT : column) + length;
    }
  }
}

void table_print_help(void) {
  printf("usage: framectl [-s SOCKET] COMMAND [ARGUMENT]\n\n"
         "Asks and commands a running framed.\n\n");
  for (const struct command *command = commands; command->name; command++) {
    char usage[32];
    snprintf(usage, sizeof usage, "%s %s", command->name, command->operand ? command->operand : "");
    printf("  %-18s  %s\n", usage, command->summary);
  }
  printf("  %-18s  %s\n", "help [COMMAND]", "say what a command does, or this");
  printf("\n"
         "  -s, --socket SOCKET  the daemon's status socket (default: $FRAMED_SOCKET, or " DEFAULT_SOCKET ")\n"
         "  --json               print JSON; taken by");
  print_takers(OPTION_JSON);
  printf("\n"
         "  -h, --help           this, or with a command what it does\n"
         "  --version            print the version\n\n"
         "Exit status:\n"
         "  0   fine\n"
         "  1   the daemon refused, or a connection ended early; nothing was installed; health: no daemon answers\n"
         "  2   health: something is wrong; doctor: something could be better; replay: results differ\n"
         "  64  wrong usage, or a file that cannot be read\n"
         "  69  no daemon answers, or no permission to ask it\n"
         "  70  internal error, or the output cannot be written\n"
         "  78  check, replay: the configuration is not valid\n");
}

void table_print_command_help(const struct command *command) {
  printf("usage: framectl [-s SOCKET] %s", command->name);
  for (int option = 0; option < OPTION_COUNT; option++) {
    if (command->options & TAKES(option)) {
      const char *value = option_table[option].value;
      printf(" [--%s%s%s]", option_table[option].name, value ? " " : "", value ? value : "");
    }
  }
  printf("%s%s\n\n%s\n", command->operand ? " " : "", command->operand ? command->operand : "", command->help);
}
