/*
 * framed-link: carries results of pipelines into streams of NATS, and frames from its work queues into pipelines. A client of
 * the daemon like any other; framed-link(1) says how it is used.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "tools/link/found.h"
#include "tools/link/mqtt_client.h"
#include "tools/link/reach.h"
#include "tools/link/tell.h"

enum { STATUS_OK = 0, STATUS_USAGE = 64, STATUS_INTERNAL = 70, STATUS_CONFIG = 78, EVERY_MS = 1000 };

#define DEFAULT_FILE "/etc/framed/link.yaml"

static const char usage[] = "usage: framed-link [-c FILE] [--check]\n\n"
                            "  -c, --config FILE   the configuration; " DEFAULT_FILE " if nothing is said\n"
                            "      --check         says what is wrong with it, or what it would do and cannot reach\n"
                            "      --version\n"
                            "      --help\n";

/* -- what is told ------------------------------------------------------------------------------------------------------ */

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

/* Whole or not at all: whoever reads it finds the file before or this one. False with errno. */
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

/* A failure to write is said when it begins; `silent` keeps that it was said. */
static void write_metrics(const struct fleet *fleet, bool *silent) {
  const char *name = fleet->settings->metrics;
  bool fine = !name || write_file(fleet, name);
  if (!fine && !*silent) {
    fprintf(stderr, "framed-link: cannot write metrics to %s: %s; it tries again each second\n", name, strerror(errno));
  }
  *silent = !fine;
}

/* What systemctl status shows. */
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

/* -- running ----------------------------------------------------------------------------------------------------------- */

/* The links of `sources`, or those of sinks. */
static void join_links(struct fleet *fleet, bool sources) {
  for (unsigned i = 0; i < fleet->settings->link_count; i++) {
    if (fleet->links[i].settings && fleet->links[i].settings->is_source == sources) {
      link_join(&fleet->links[i]);
    }
  }
}

/* The link of the same pipeline's source; NULL: there is none. */
static const struct link *source_of(const struct fleet *fleet, const struct link_settings *sink) {
  for (unsigned i = 0; sink->queue && i < fleet->settings->link_count; i++) {
    const struct link_settings *other = &fleet->settings->links[i];
    if (other->is_source && strcmp(other->name, sink->name) == 0) {
      return &fleet->links[i];
    }
  }
  return NULL;
}

static bool start_links(struct fleet *fleet, int stop, int stop_sinks) {
  for (unsigned i = 0; i < fleet->settings->link_count; i++) {
    const struct link_settings *which = &fleet->settings->links[i];
    const struct link_kind *kind = which->is_mqtt ? &mqtt_kind : which->is_source ? &source_kind : &sink_kind;
    fleet->links[i].source = source_of(fleet, which);
    if (!link_start(&fleet->links[i], kind, fleet->settings, which, which->is_source ? stop : stop_sinks)) {
      fleet->links[i].settings = NULL;
      return false;
    }
  }
  return true;
}

/* What came from queues has its results stored before sinks stop. */
static void run_links(struct fleet *fleet, int stop, int stop_sinks) {
  struct pollfd stopped = {.fd = stop, .events = POLLIN};
  bool silent = false, unwritten = false;
  const uint64_t one = 1;
  do {
    fleet_look(fleet);
    notify(fleet);
    write_metrics(fleet, &unwritten);
    tell_links(fleet->settings, fleet->links, fleet->count, false, &silent);
  } while (poll(&stopped, 1, EVERY_MS) <= 0);
  sd_notify(0, "STOPPING=1");
  join_links(fleet, true);
  (void)!write(stop_sinks, &one, sizeof one);
  join_links(fleet, false);
  tell_links(fleet->settings, fleet->links, fleet->count, true, &silent);
  write_metrics(fleet, &unwritten);
  fleet_end_found(fleet);
}

/* The signal is never read, so that every source finds it. */
static int open_stop(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(const struct settings *settings) {
  signal(SIGPIPE, SIG_IGN);
  mqtt_client_init();
  int stop = open_stop(), stop_sinks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct fleet *fleet = fleet_new(settings);
  bool fine = stop >= 0 && stop_sinks >= 0 && fleet && nats_Open(-1) == NATS_OK && start_links(fleet, stop, stop_sinks);
  if (!fine) {
    fprintf(stderr, "framed-link: not enough memory, threads or descriptors\n");
    _exit(STATUS_INTERNAL); /* those that have started use what a return would free */
  }
  sd_notify(0, "READY=1");
  run_links(fleet, stop, stop_sinks);
  if (nats_CloseAndWait(2000) == NATS_OK) { /* else threads of the library still have it */
    fleet_free(fleet);
  }
  close(stop);
  close(stop_sinks);
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

/* What is accepted, and should be written otherwise. */
static void say_old_forms(const struct settings *settings) {
  if (settings->mqtt_old) {
    fprintf(
        stderr,
        "framed-link: mqtt: no 'server' is named, so the MQTT port of the NATS server is used, %s. It speaks MQTT 3.1.1, which "
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
  struct config_errors *errors = config_errors_new();
  struct settings *settings = errors ? settings_load(file, errors) : NULL;
  int status = STATUS_CONFIG;
  if (!settings) {
    fputs(errors ? config_errors_text(errors) : "framed-link: no memory\n", stderr);
  } else if (check) {
    say_old_forms(settings);
    describe(settings);
    status = fflush(stdout) == 0 ? STATUS_OK : STATUS_INTERNAL;
    reach_all(settings);
  } else {
    say_old_forms(settings);
    status = run(settings);
  }
  settings_free(settings);
  config_errors_free(errors);
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
