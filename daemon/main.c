/*
 * framed: reads options, and does what they say. Errors of options and configuration are printed here; everything later
 * goes through the log.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/realtime.h"
#include "daemon/base/systemd.h"
#include "daemon/client/handshake.h"
#include "daemon/device/device.h"
#include "daemon/device/formats.h"
#include "daemon/frame/account.h"
#include "daemon/server/config_diff.h"
#include "daemon/server/config_files.h"
#include "daemon/server/footprint.h"
#include "daemon/server/replay.h"
#include "daemon/server/server.h"
#include "daemon/server/service_paths.h"
#include "daemon/server/try.h"
#include "daemon/session/session.h"
#include "daemon/sink/leases.h"
#include "daemon/sink/results.h"
#include "daemon/state/exec.h"
#include "daemon/state/state.h"
#include "gpu/kept.h"

#define DEFAULT_PATH "/etc/framed/framed.yaml"

static const char help[] =
    "usage: framed [-c FILE]                  run the daemon\n"
    "       framed [-c FILE] --check          say whether the configuration is valid and what it takes\n"
    "       framed [-c FILE] --check --state VERSION   and whether this program can take over from one of that state version\n"
    "       framed [-c FILE] --print-config   print it with all defaults\n"
    "       framed --print-schema             print its JSON schema, for editors\n"
    "       framed --print-stages[=STAGE]     print the stages, or the parameters of one\n"
    "       framed --try TEXT                 put one frame through the pipeline of that configuration (see framectl try)\n"
    "       framed [-c FILE] --replay RECORDING --against FILE   say what another configuration makes of its frames\n"
    "       framed --print-manual             print the keys as framed.yaml(5) has them, in man's markup\n"
    "\n"
    "  -c, --config FILE   the configuration, with the drop-ins of conf.d/ beside it [" DEFAULT_PATH "]\n"
    "      --version       print the version\n"
    "      --help          print this\n"
    "\n"
    "SIGTERM finishes what is in flight and ends; SIGHUP reloads; SIGUSR1 writes the state to the log;\n"
    "SIGUSR2 lets the installed program take over, with all connections and frames.\n"
    "Exit status: 0 ended when asked, 64 wrong options, 69 no usable GPU, 70 internal error, 71 device lost,\n"
    "78 wrong configuration.\n";

enum action {
  RUN,
  CHECK,
  PRINT_CONFIG,
  PRINT_SCHEMA,
  PRINT_MANUAL,
  PRINT_STAGES,
  TRY,
  REPLAY,
  PRINT_VERSION,
  PRINT_HELP,
  MISUSE
};

struct options {
  enum action action;
  const char *state; /* NULL: not asked for */
  const char *path;
  const char *text;    /* of TRY: a configuration; of PRINT_STAGES: a stage's name, or NULL; of REPLAY: a recording */
  const char *against; /* NULL: not given */
};

/* Many programs take their configuration as a bare argument. */
static void suggest_option(const char *argument) {
  static const char ending[] = ".yaml";
  size_t length = strlen(argument), tail = sizeof ending - 1;
  bool is_yaml = length > tail && strcmp(argument + length - tail, ending) == 0;
  if (is_yaml || access(argument, F_OK) == 0) {
    fprintf(stderr, "  if it is the configuration, write -c %s\n", argument);
  }
}

static struct options parse(int argc, char **argv) {
  static const struct option long_options[] = {{"config", required_argument, NULL, 'c'},
                                               {"check", no_argument, NULL, CHECK},
                                               {"state", required_argument, NULL, 's'},
                                               {"print-config", no_argument, NULL, PRINT_CONFIG},
                                               {"print-schema", no_argument, NULL, PRINT_SCHEMA},
                                               {"print-manual", no_argument, NULL, PRINT_MANUAL},
                                               {"print-stages", optional_argument, NULL, PRINT_STAGES},
                                               {"try", required_argument, NULL, TRY},
                                               {"replay", required_argument, NULL, REPLAY},
                                               {"against", required_argument, NULL, 'a'},
                                               {"version", no_argument, NULL, PRINT_VERSION},
                                               {"help", no_argument, NULL, PRINT_HELP},
                                               {0}};
  struct options options = {.action = RUN, .path = DEFAULT_PATH};
  int option;
  while ((option = getopt_long(argc, argv, "c:", long_options, NULL)) != -1) {
    if (option == 'c') {
      options.path = optarg;
    } else if (option == 's') {
      options.state = optarg;
    } else if (option == 'a') {
      options.against = optarg;
    } else {
      options.action = option == '?' ? MISUSE : (enum action)option;
      options.text = optarg;
    }
    if (options.action == MISUSE) {
      return options;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "framed: unexpected argument '%s'\n", argv[optind]);
    suggest_option(argv[optind]);
    options.action = MISUSE;
  } else if (options.state && options.action != CHECK) {
    fprintf(stderr, "framed: --state asks something only with --check\n");
    options.action = MISUSE;
  } else if ((options.against != NULL) != (options.action == REPLAY)) {
    fprintf(stderr, "framed: --replay and --against go together\n");
    options.action = MISUSE;
  }
  return options;
}

/* Whoever started us may have closed these, and then the next descriptor made would be taken for one of them. */
static void fill_standard_descriptors(void) {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) {
    fd = open("/dev/null", O_RDWR);
  }
  if (fd >= 0) {
    close(fd);
  }
}

static enum exit_status run(const char *path, struct config *config, const struct left *left, bool reload) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a file at its size limit is an error of that write */
  umask(umask(022) | 022);  /* what it makes is never writable for others, unless the configuration says so */
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  return server_run(path, config, left, reload);
}

static bool takes_state(const char *version) {
  char own[STATE_VERSION_TEXT];
  if (strcmp(version, state_version(own)) == 0) {
    return true;
  }
  fprintf(stderr, "framed: this program takes over states of version %s, not %s\n", own, version);
  return false;
}

/* Whoever had it printed into a file goes by the status. */
static enum exit_status printed(void) {
  bool left = fflush(stdout) == 0;
  const char *why = left ? "not all of it was taken" : strerror(errno);
  if (left && !ferror(stdout)) {
    return EXIT_STATUS_OK;
  }
  fprintf(stderr, "framed: cannot write to standard output: %s\n", why);
  return EXIT_STATUS_INTERNAL;
}

/* For an upgrade it does not count which files there are: what runs has its own. */
static bool has_what_it_needs(const struct options *options, const struct config *config) {
  struct failure failure;
  if (options->action != CHECK ||
      (realtime_check(&config->realtime, &failure) && (options->state || config_files_distinct(config, &failure)))) {
    return true;
  }
  fprintf(stderr, "framed: %s\n  %s\n", failure.text, failure.remedy);
  return false;
}

static enum exit_status with_config(const struct options *options) {
  struct config_errors *errors = config_errors_new();
  struct config *config = errors ? footprint_load(options->path, errors) : NULL;
  if (!config) {
    bool passes = !errors || config_errors_pass(errors);
    fputs(errors ? config_errors_text(errors) : "framed: not enough memory\n", stderr);
    config_errors_free(errors);
    return passes ? EXIT_STATUS_INTERNAL : EXIT_STATUS_CONFIG;
  }
  config_errors_free(errors);
  if (options->action == RUN) {
    return run(options->path, config, NULL, false);
  }
  if (options->action == CHECK && options->state && !takes_state(options->state)) {
    config_free(config);
    return EXIT_STATUS_INTERNAL;
  }
  if (!has_what_it_needs(options, config)) {
    config_free(config);
    return EXIT_STATUS_CONFIG;
  }
  if (options->action == CHECK) {
    if (options->state) {
      printf(EXEC_ANSWER "%s\n", options->state);
    }
    footprint_print(stdout, options->path, config);
    config_files_print_missing(stdout, config);
    if (!options->state && strcmp(options->path, DEFAULT_PATH) == 0) { /* the service's own */
      service_paths_print(stdout, config);
    }
  } else {
    fputs(config->text, stdout);
  }
  config_free(config);
  return printed();
}

static enum exit_status with_vocabulary(void (*print)(FILE *out, const struct config_vocabulary *words)) {
  struct vocabulary *vocabulary = formats_new();
  if (!vocabulary) {
    fputs("framed: not enough memory\n", stderr);
    return EXIT_STATUS_INTERNAL;
  }
  print(stdout, formats_words(vocabulary));
  formats_free(vocabulary);
  return printed();
}

enum file_change { FILE_SAME, FILE_CHANGED, FILE_NEEDS_START };

/* What has become of the file since, which a restart of the service is expected to put in force. An invalid one is for the
 * reload to complain about. */
static enum file_change compare_file(const char *path, const struct config *config, char *keys, size_t size) {
  struct config_errors *errors = config_errors_new();
  struct config *file = errors ? footprint_load(path, errors) : NULL;
  enum file_change change = FILE_CHANGED;
  if (file && config_diff_fixed_keys(config, file, keys, size)) {
    change = FILE_NEEDS_START;
  } else if (file && strcmp(file->text, config->text) == 0) {
    change = FILE_SAME;
  }
  config_free(file);
  config_errors_free(errors);
  return change;
}

/* What was left is of no use. True: the process ends; else it begins anew, by another image of the program where what was left
 * came from one, whose descriptors this one is not rid of. */
static bool give_up(const char *why, const char *keys, bool ends, enum exit_status *status) {
  bool begins_here = !ends && state_left()->by_manager;
  sigset_t held;
  signals_held(&held);
  pthread_sigmask(SIG_SETMASK, &held, NULL); /* the others have waited since exec */
  log_open(CONFIG_LOG_INFO);
  log_event(LOG_NOT_HANDED_OVER, NULL, "%s: the state that was left is of no use: %s%s", ends ? EXEC_ENDS : EXEC_BEGINS_ANEW,
            why, keys);
  *status = EXIT_STATUS_INTERNAL;
  if (!ends && !begins_here) {
    struct failure failure;
    log_flush();
    exec_start_over(&failure);
    log_event(LOG_FAILED, NULL, "%s", failure.text);
    log_flush();
  }
  return !begins_here;
}

/* Goes on with what a process before this one left, in the configuration that it had. False: there is nothing of use. */
static bool go_on(const struct options *options, enum exit_status *status) {
  struct failure failure;
  bool had_passed = systemd_has_passed();
  enum receipt receipt = exec_receive(&failure);
  if (receipt == RECEIPT_NONE) {
    return false;
  }
  struct config_errors *errors = receipt == RECEIPT_WHOLE ? config_errors_new() : NULL;
  const struct left *left = state_left();
  const char *text = errors ? server_take_config(left) : NULL;
  struct config *config = text ? footprint_parse("what was handed over", text, errors) : NULL;
  char keys[256] = "";
  enum file_change change = config && left->by_manager ? compare_file(options->path, config, keys, sizeof keys) : FILE_SAME;
  if (config && change != FILE_NEEDS_START) {
    config_errors_free(errors);
    *status = run(options->path, config, left, change == FILE_CHANGED);
    return true;
  }
  config_free(config);
  kept_forget();
  if (receipt == RECEIPT_WHOLE) {
    exec_discard(); /* its sockets would look like those of another daemon */
  }
  config_errors_free(errors);
  const char *why = change == FILE_NEEDS_START ? "these keys have changed: "
                    : receipt == RECEIPT_WHOLE ? "it holds no valid configuration"
                                               : failure.text;
  return give_up(why, keys, had_passed, status);
}

/* Each would end a process that does not handle it yet, also through a thread that a library starts while it is opened. */
static void hold_signals(void) {
  sigset_t held;
  signals_held(&held);
  pthread_sigmask(SIG_BLOCK, &held, NULL);
}

/* What lies in a state as it lies in memory: where one of these differs, a state is of another version. */
static void set_state_layout(void) {
  const size_t sizes[] = {sizeof(struct frame),
                          sizeof(struct session_view),
                          sizeof(struct frame_stamp),
                          sizeof(struct native_hello),
                          sizeof(struct gpu_calibration),
                          session_record_bytes(),
                          sizeof(struct sink),
                          sizeof(struct reader),
                          sizeof(struct shared_reader),
                          sizeof(void *),
                          NATIVE_RESULT_BYTES,
                          NATIVE_RING,
                          GPU_MAX_SLOTS,
                          FATE_COUNT};
  state_set_layout(sizes, sizeof sizes / sizeof *sizes);
}

static enum exit_status act(const struct options *options) {
  switch (options->action) {
  case RUN:
  case CHECK:
  case PRINT_CONFIG:
    return with_config(options);
  case PRINT_SCHEMA:
    return with_vocabulary(config_print_schema);
  case PRINT_MANUAL:
    return with_vocabulary(config_print_manual);
  case PRINT_STAGES: {
    enum exit_status status = try_print_stages(options->text);
    return status == EXIT_STATUS_OK ? printed() : status;
  }
  case TRY:
    return try_run(options->text);
  case REPLAY:
    return (enum exit_status)replay_run(options->text, options->path, options->against);
  case PRINT_VERSION:
    puts("framed " FRAMED_VERSION);
    return printed();
  case PRINT_HELP:
    fputs(help, stdout);
    return printed();
  case MISUSE:
    break;
  }
  fputs("Try 'framed --help'.\n", stderr);
  return EXIT_STATUS_USAGE;
}

int main(int argc, char **argv) {
  enum exit_status status;
  static char reports_nothing[] = "ORT_DISABLE_TELEMETRY=1";
  putenv(reports_nothing); /* of what runs models, before there is a thread or any library of it */
  exec_remember(argv);
  set_state_layout();
  fill_standard_descriptors();
  struct options options = parse(argc, argv);
  if (options.action == RUN) {
    hold_signals();
    if (go_on(&options, &status)) {
      device_end_all();
      return (int)status;
    }
  }
  status = act(&options);
  device_end_all(); /* that of judges, too */
  return (int)status;
}
