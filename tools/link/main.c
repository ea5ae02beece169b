/*
 * framed-link stores results of pipelines in streams of NATS, and feeds pipelines from its work queues. It is a client of the
 * daemon like any other. framed-link(1) describes its use.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "tools/link/fleet.h"
#include "tools/link/mqtt_client.h"
#include "tools/link/reach.h"
#include "tools/link/report.h"

enum { STATUS_OK = 0, STATUS_USAGE = 64, STATUS_INTERNAL = 70, STATUS_CONFIG = 78, EVERY_MS = 1000, CLOSE_MS = 2000 };

#define DEFAULT_FILE "/etc/framed/link.yaml"

static const char usage[] = "usage: framed-link [-c FILE] [--check]\n\n"
                            "  -c, --config FILE   the configuration; default: " DEFAULT_FILE "\n"
                            "      --check         print its mistakes, or its links and the servers that cannot be reached\n"
                            "      --version\n"
                            "      --help\n";

/* -- metrics and notifications ---------------------------------------------------------------------------------------- */

static void write_link(FILE *out, const struct link *link) {
  char labels[256];
  snprintf(labels, sizeof labels, "pipeline=\"%s\",role=\"%s\"", link->settings->name, settings_role(link->settings));
  fprintf(out, "framed_link_broker_up{%s} %d\n", labels, atomic_load(&link->has_broker));
  fprintf(out, "framed_link_pipeline_up{%s} %d\n", labels, atomic_load(&link->has_daemon));
  fprintf(out, "framed_link_in_flight{%s} %u\n", labels, atomic_load(&link->in_flight));
  enum counter first = link->settings->is_mqtt ? COUNT_RESULTS : link->settings->is_source ? COUNT_ACKED : COUNT_STORED;
  enum counter behind = link->settings->is_mqtt ? COUNTERS : link->settings->is_source ? COUNT_RESULTS : COUNT_ACKED;
  for (enum counter counter = first; counter < behind; counter++) {
    fprintf(out, "framed_link_%s_total{%s} %" PRIu64 "\n", counter_names[counter], labels,
            atomic_load(&link->counters[counter]));
  }
}

/* Replaces the file atomically, so that readers find the old or the new one. False with errno. */
static bool write_file(const struct fleet *fleet, const char *name) {
  char path[4200];
  snprintf(path, sizeof path, "%s.new", name);
  FILE *out = fopen(path, "we");
  if (!out) {
    return false;
  }
  for (unsigned i = 0; i < fleet->count; i++) {
    if (fleet->links[i].settings) {
      write_link(out, &fleet->links[i]);
    }
  }
  if (fclose(out) == 0 && rename(path, name) == 0) {
    return true;
  }
  int error = errno;
  unlink(path);
  errno = error;
  return false;
}

/* Reports a failed write once; `silent` stores that. */
static void write_metrics(const struct fleet *fleet, bool *silent) {
  const char *name = fleet->settings->metrics;
  bool fine = !name || write_file(fleet, name);
  if (!fine && !*silent) {
    fprintf(stderr, "framed-link: cannot write metrics to %s: %s; it tries again each second\n", name, strerror(errno));
  }
  *silent = !fine;
}

/* Sets the line that systemctl status shows. */
static void notify(const struct fleet *fleet) {
  unsigned up = 0, count = 0;
  uint64_t stored = 0, acked = 0;
  for (unsigned i = 0; i < fleet->count; i++) {
    const struct link *link = &fleet->links[i];
    count += link->settings != NULL;
    up += link->settings && atomic_load(&link->has_broker) && atomic_load(&link->has_daemon);
    stored += atomic_load(&link->counters[COUNT_STORED]);
    acked += atomic_load(&link->counters[COUNT_ACKED]);
  }
  sd_notifyf(0, "STATUS=%u of %u links up, %" PRIu64 " results stored, %" PRIu64 " frames done", up, count, stored, acked);
}

/* Informs the service manager before links stop. A reload carries its time, as systemd requires. */
static void notify_manager(bool reloads) {
  if (reloads) {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, link_clock() / 1000);
  } else {
    sd_notify(0, "STOPPING=1");
  }
}

/* -- running ----------------------------------------------------------------------------------------------------------- */

static struct settings *load(const char *file) {
  struct config_errors *errors = config_errors_new();
  struct settings *settings = errors ? settings_load(file, errors) : NULL;
  if (!settings) {
    fputs(errors ? config_errors_text(errors) : "framed-link: no memory\n", stderr);
  }
  config_errors_free(errors);
  return settings;
}

/*
 * Loads the settings after a reload signal. NULL: no reload, or the file is wrong, which is reported. `ends` is set when the
 * program must end.
 */
static struct settings *take_signal(int signals, const char *file, bool *ends) {
  struct signalfd_siginfo signal;
  struct settings *next = NULL;
  while (!*ends && read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) {
    *ends = signal.ssi_signo != SIGHUP;
    settings_free(next);
    next = *ends ? NULL : load(file);
    if (!*ends && !next) {
      fprintf(stderr, "framed-link: reload refused: the file is wrong; the links keep running as before\n");
    }
  }
  return next;
}

/* Failures that were reported, and are reported again only after a success. */
struct reported {
  bool silent, unwritten;
};

static void report_all(struct fleet *fleet, struct reported *reported) {
  notify(fleet);
  write_metrics(fleet, &reported->unwritten);
  report_links(fleet, &reported->silent);
}

/* Takes ownership of the settings. False: not enough memory, threads or descriptors. */
static bool change(struct fleet *fleet, struct settings *next, struct reported *reported) {
  if (fleet->settings) {
    notify_manager(true);
    unsigned count = fleet_stop(fleet, next);
    report_all(fleet, reported);
    fprintf(stderr, "framed-link: reload: %u links stopped, the others did not change\n", count);
  }
  bool fine = fleet_start(fleet, next);
  settings_free(next);
  sd_notify(0, "READY=1");
  return fine;
}

/* Runs until a signal ends it. Takes ownership of the settings. False: not enough memory, threads or descriptors. */
static bool run_links(struct fleet *fleet, struct settings *next, int signals, const char *file) {
  struct pollfd ready = {.fd = signals, .events = POLLIN};
  struct reported reported = {0};
  bool ends = false;
  while (!ends) {
    if (next && !change(fleet, next, &reported)) {
      return false;
    }
    fleet_look(fleet);
    report_all(fleet, &reported);
    next = poll(&ready, 1, EVERY_MS) > 0 ? take_signal(signals, file, &ends) : NULL;
  }
  notify_manager(false);
  fleet_stop(fleet, NULL);
  report_all(fleet, &reported);
  return true;
}

static int open_signals(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Takes ownership of the settings. */
static int run(struct settings *settings, const char *file) {
  int signals = open_signals();
  struct fleet *fleet = fleet_new();
  signal(SIGPIPE, SIG_IGN);
  mqtt_client_init();
  if (signals < 0 || !fleet || nats_Open(-1) != NATS_OK || !run_links(fleet, settings, signals, file)) {
    fprintf(stderr, "framed-link: not enough memory, threads or descriptors\n");
    _exit(STATUS_INTERNAL); /* running links use objects that a return would free */
  }
  nats_CloseAndWait(CLOSE_MS);
  fleet_free(fleet);
  close(signals);
  return STATUS_OK;
}

static void describe(const struct settings *settings) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    const struct link_settings *link = &settings->links[i];
    if (link->is_mqtt) {
      printf("pipeline %s at %s -> %s, %s/%s, announced under %s\n", link->name, link->socket, settings->mqtt_server,
             settings->mqtt_topic, link->name, settings->mqtt_prefix);
    } else if (link->is_source) {
      printf("stream %s (%s), consumer %s -> pipeline %s at %s\n", link->stream, link->subject, link->consumer, link->name,
             link->socket);
    } else {
      printf("pipeline %s at %s -> %s %s (%s), %s%s%s\n", link->name, link->socket, link->is_queue ? "queue" : "stream",
             link->stream, link->subject, link->overload == LINK_DROP ? "drop" : "block",
             link->queue ? ", named by the frames of " : "", link->queue ? link->queue : "");
    }
  }
  if (settings->mqtt_all) {
    printf("every pipeline of the daemon at %s whose sink has a socket and protocol: json -> %s, %s/PIPELINE, announced under "
           "%s\n",
           settings->status, settings->mqtt_server, settings->mqtt_topic, settings->mqtt_prefix);
  }
}

/* Reports forms that are accepted but deprecated. */
static void say_old_forms(const struct settings *settings) {
  if (settings->mqtt_old) {
    fprintf(
        stderr,
        "framed-link: mqtt: no 'server' is named, so it uses the MQTT port of the NATS server, %s. It speaks MQTT 3.1.1, which "
        "Home Assistant drops in 2027.1. Install a broker such as mosquitto, and write mqtt: {server: mqtt://HOST:1883}\n",
        settings->mqtt_server);
  }
  if (settings->mqtt_node) {
    fprintf(
        stderr,
        "framed-link: mqtt: 'node' is not used any more, so that a pipeline that moves to another box stays the same device. "
        "Remove it. Where boxes have different cameras of one name, write a 'topic' of its own for each\n");
  }
}

static int load_and_run(const char *file, bool check) {
  struct settings *settings = load(file);
  if (!settings) {
    return STATUS_CONFIG;
  }
  say_old_forms(settings);
  if (!check) {
    return run(settings, file);
  }
  describe(settings);
  int status = fflush(stdout) == 0 ? STATUS_OK : STATUS_INTERNAL;
  reach_all(settings);
  settings_free(settings);
  return status;
}

int main(int count, char **arguments) {
  enum { CHECK = 256, VERSION, HELP };
  static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                          {"check", no_argument, NULL, CHECK},
                                          {"version", no_argument, NULL, VERSION},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
  const char *file = DEFAULT_FILE;
  bool check = false;
  for (int option; (option = getopt_long(count, arguments, "c:", options, NULL)) >= 0;) {
    switch (option) {
    case 'c':
      file = optarg;
      break;
    case CHECK:
      check = true;
      break;
    case VERSION:
      printf("framed-link %s\n", FRAMED_VERSION);
      return STATUS_OK;
    case HELP:
      fputs(usage, stdout);
      return STATUS_OK;
    default:
      fputs(usage, stderr);
      return STATUS_USAGE;
    }
  }
  if (optind != count) {
    fputs(usage, stderr);
    return STATUS_USAGE;
  }
  return load_and_run(file, check);
}
