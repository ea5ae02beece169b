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
    [OPTION_CREDENTIALS] = {"credentials", "FILE"},
    [OPTION_TERMINAL] = {"terminal", NULL},
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
     "Shows for each pipeline its state, what it waits for, frames and bytes per second, the latency of frames from first\n"
     "byte in to last byte out, and dropped frames with reasons. With PIPELINE it shows source, sink, the count of all\n"
     "frames, and the latency of each processing step over the last ten seconds.",
     command_status},
    {"health", NULL, TAKES(OPTION_JSON), "say whether all pipelines are healthy, also by the exit status",
     "Checks that every pipeline works, and that frames get through the GPU in time. Without frames a worker asks\n"
     "its device whether it answers (canaries). For each fault it prints the reason, the duration and the remedy. Exit status "
     "0: healthy (also\n"
     "idle, paused or blocked); 2: a fault; 1: the daemon does not answer.",
     command_health},
    {"watch", NULL, TAKES(OPTION_JSON), "print a line whenever health changes",
     "Prints the result of `health` as one line, and another line at each change: faults that begin or end, and a daemon that\n"
     "stops or starts to answer. Ends at Ctrl-C. With --json each line is an object with time, state, why (the daemon does\n"
     "not answer), began, ended and degraded.",
     command_watch},
    {"metrics", NULL, 0, "print the metrics that Prometheus reads", "Prints /metrics, in Prometheus' text format.",
     command_metrics},
    {"top", "[PIPELINE]", 0, "watch the pipelines live",
     "Shows the pipelines every second until q is pressed; ? lists the keys. Pipelines can be sorted, filtered, opened,\n"
     "paused and resumed. PIPELINE is selected at first.",
     command_top},
    {"reload", NULL, TAKES(OPTION_JSON), "apply the changed configuration",
     "Makes the daemon read its configuration again. If the file has an error, the old configuration stays in force, the\n"
     "error is printed, and the exit status is 1.",
     command_reload},
    {"upgrade", NULL, TAKES(OPTION_JSON), "replace the running program by the installed one",
     "Makes the daemon execute its program file again, which a newer version may have replaced. Waits until the new program\n"
     "has taken over all connections and frames. If it cannot, the running program continues, and the exit status is 1.",
     command_upgrade},
    {"drain", "PIPELINE", TAKES(OPTION_JSON), "stop taking frames and wait until none is in flight",
     "Answers when nothing is in flight, or with exit status 1 after `drain_timeout`. Clients stay connected.\n"
     "`framectl resume PIPELINE` ends it.",
     command_drain},
    {"pause", "PIPELINE", TAKES(OPTION_JSON), "stop taking frames",
     "Answers as soon as no more frames are taken. `framectl resume PIPELINE` ends it.", command_pause},
    {"resume", "PIPELINE", TAKES(OPTION_JSON), "take frames again", "Ends pause and drain.", command_resume},
    {"device", "N ACTION...", TAKES(OPTION_JSON), "free a GPU for other work, or bring it back",
     "  drain    moves its sessions, with all frames and connections, to the other devices of their pipelines, and frees the\n"
     "           device completely. Refused if a pipeline has no other device\n"
     "  resume   brings the device back, also after a permanent fault, and distributes the sessions again",
     command_device},
    {"record", "PIPELINE", TAKES(OPTION_JSON), "record the frames around this moment",
     "For a pipeline with `record: {when: event}` or `boxes`: acts as if something had been detected now. Records the frames\n"
     "of `before` that are still in memory, and those of `after`.",
     command_record},
    {"check", "[FILE]", 0, "check a configuration file without using it",
     "Runs `framed --check` on FILE (default: framed's own). Exit status 0: the file is valid; 78: it is not.", command_check},
    {"push", "PIPELINE", TAKES(OPTION_FORCE) | TAKES(OPTION_SHM), "send frames from standard input to a pipeline",
     "Copies standard input to the pipeline's source socket, and waits while the pipeline is busy. With a `reply` sink it\n"
     "writes the results to standard output. Prints the amount to standard error; an empty input is an error.\n"
     "  --shm          with `protocol: native`: through shared memory, if the daemon offers it\n"
     "  --force        also from a terminal",
     command_push},
    {"pull", "PIPELINE", TAKES(OPTION_FORCE) | TAKES(OPTION_FRAMES) | TAKES(OPTION_SHM),
     "write a pipeline's results to standard output",
     "Reads from the pipeline's sink socket until it ends, or until Ctrl-C. Prints the amount to standard error.\n"
     "  --frames N     stop after N whole results\n"
     "  --shm          with `protocol: native`: through shared memory, if the daemon offers it\n"
     "  --force        also to a terminal",
     command_pull},
    {"trace", NULL, TAKES(OPTION_OUTPUT) | TAKES(OPTION_SECONDS), "record the timeline of each frame for a trace viewer",
     "Records all frames of the next seconds: each step is a row, and arrows join the steps of a frame. Open the file at\n"
     "https://ui.perfetto.dev or in chrome://tracing.\n"
     "  -o, --output FILE   default: framed-trace.json; - is standard output\n"
     "  --seconds N         0.1 to 60 (default: 2)",
     command_trace},
    {"plan", NULL, TAKES(OPTION_JSON) | TAKES(OPTION_FRAMES) | TAKES_PLAN_TIMES,
     "predict the gain of slots from the times of copies and kernel",
     "Predicts how long frames take with so many slots, draws which engine serves which frame when, and names the limit for\n"
     "any number of slots. Each engine serves one frame at a time. A slot's next copy in waits for its last copy out.\n"
     "  --h2d TIME     copy in: 30ms, 7.5us; --kernel and --d2h (copy out) likewise\n"
     "  --chunks N     the times belong to one piece of work that is cut into N chunks\n"
     "  --frames N     the times belong to each of N frames (default: 1000)\n"
     "  --slots N      2 is ping-pong (the default), up to 64\n"
     "  --turnaround TIME   how long the host keeps a slot between its copy out and its next frame (default: 0us)\n"
     "  --host TIME         the host's own work on a frame, by one thread (default: 0us)\n"
     "  --from PIPELINE     take times and slots that a running daemon measured in the last ten seconds",
     command_plan},
    {"doctor", "[PIPELINE]", TAKES(OPTION_JSON), "name what limits the pipelines, and possible improvements",
     "Names for each pipeline its bottleneck, the one change that would help most, and its gain. The figures are those of the\n"
     "last ten seconds, so run it while frames pass. It also looks for refused clients and unread results, and checks the\n"
     "machine: reduced clocks, a slow PCIe link, persistence mode, the limit of locked memory, the processors' governor, and\n"
     "lanes or slots' memory far from the GPU. Exit status 0: nothing to do; 2: something could be better.",
     command_doctor},
    {"models", "[ACTION...]", TAKES(OPTION_CUDA), "list, install or remove ONNX Runtime, which runs models",
     "Lists the folders where framed looks for ONNX Runtime, and what they contain. Stages `model` need it. This command\n"
     "needs no daemon.\n"
     "  install           fetch it with python3's pip from the package index of this machine (19 MB). It goes to\n"
     "                    /var/lib/framed/onnxruntime for root, to ~/.local/share/framed/onnxruntime for other users, or\n"
     "                    to $FRAMED_ONNXRUNTIME. After a failure nothing is changed\n"
     "  install --cuda    the one that runs models on a GPU (250 MB), and missing CUDA libraries (1 GB)\n"
     "  install WHEEL...  the same from files that pip has downloaded elsewhere, without a network\n"
     "  remove            remove what was installed",
     command_models},
    {"stages", "[STAGE]", 0, "list the stages, or the parameters of one",
     "Lists the stages with a sentence each. With STAGE, its parameters with types, ranges and defaults.", command_stages},
    {"try", "STAGE...", TAKES(OPTION_INPUT) | TAKES(OPTION_OUTPUT) | TAKES(OPTION_FORMAT) | TAKES(OPTION_CPU),
     "run one frame through stages, without a daemon",
     "Runs a chain on one frame, on a GPU if there is one. Write STAGE as in the configuration: 'blur: {sigma: 3}'. Files of\n"
     "stages are relative to the working directory. The frame is a PNG, PGM or PPM, or raw with --format. The ending of the\n"
     "output file's name decides the result's format; on standard output it is that of the frame. The result's format is\n"
     "printed to standard error.\n"
     "  -i, --input FILE    default: standard input\n"
     "  -o, --output FILE   default: standard output\n"
     "  --format FORMAT     of a raw frame: 'nv12 640x480' or 'float32[3,480,640]'\n"
     "  --cpu               use the CPU backend",
     command_try},
    {"camera", "ACTION...",
     TAKES(OPTION_JSON) | TAKES(OPTION_OUTPUT) | TAKES(OPTION_CREDENTIALS) | TAKES(OPTION_TERMINAL) | TAKES(OPTION_SECONDS),
     "find network cameras, or test one",
     "Needs no daemon.\n"
     "  try URL             connect to URL (rtsp, rtsps, http, https, srt, v4l2, file) and watch it for two seconds. Prints\n"
     "                      codec, size, rate and bitrate, and a pipeline for it. Without a picture it prints the reason\n"
     "  find [ADDRESS]      list the cameras of the local networks, or at ADDRESS, that answer to ONVIF's WS-Discovery\n"
     "  --credentials FILE  try: a file with the user name and the password, one line USER:PASSWORD\n"
     "  -o, --output FILE   try: write the first picture, as PNG or PPM by the ending\n"
     "  --terminal          try: show the first picture on this terminal, in colours\n"
     "  --seconds N         find: how long to wait for answers (default: 3)",
     command_camera},
    {"replay", "RECORDING", TAKES(OPTION_CONFIG) | TAKES(OPTION_AGAINST),
     "compare the results of two configurations on recorded frames",
     "Runs each frame of RECORDING, a segment of `record`, through its pipeline in two configurations, without a daemon.\n"
     "Prints for each frame how the results differ: boxes that are missing or new, numbers, bytes. Exit status 0: no\n"
     "difference; 2: some frames differ.\n"
     "  --against FILE      the new configuration\n"
     "  --config FILE       the old one (default: framed's own)",
     command_replay},
    {"repair", "PATH", 0, "finish recordings that a killed daemon left unfinished",
     "PATH is a segment that ends in .part, its name without that, or a folder with such segments. Cuts off the bytes after\n"
     "the last whole result and renames the segment. Skips segments that a daemon is writing. Needs no daemon, since a daemon\n"
     "does this for its own recordings when it starts.",
     command_repair},
    {0},
};

/* Lists the commands that accept an option, wrapped to the width of the help. */
static void print_commands_with(enum option_id option) {
  enum { LINE = 105, INDENT = 23 };
  size_t column = INDENT + sizeof "print JSON; for";
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
         "Sends requests and commands to a running framed.\n\n");
  for (const struct command *command = commands; command->name; command++) {
    char usage[32];
    snprintf(usage, sizeof usage, "%s %s", command->name, command->operand ? command->operand : "");
    printf("  %-18s  %s\n", usage, command->summary);
  }
  printf("  %-18s  %s\n", "help [COMMAND]", "print this help, or that of a command");
  printf("\n"
         "  -s, --socket SOCKET  the daemon's status socket (default: $FRAMED_SOCKET, or " DEFAULT_SOCKET ")\n"
         "  --json               print JSON; for");
  print_commands_with(OPTION_JSON);
  printf("\n"
         "  -h, --help           print this help, or that of a command\n"
         "  --version            print the version\n\n"
         "Exit status:\n"
         "  0   success\n"
         "  1   the daemon refused, or a connection ended early; nothing was installed; health: no daemon answers\n"
         "  2   health: a fault; doctor: something could be better; replay: results differ\n"
         "  64  wrong usage, or a file that cannot be read\n"
         "  69  no daemon answers, or no permission to connect\n"
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
