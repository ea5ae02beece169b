/*
 * framed-link: carries results of pipelines into streams of NATS, and frames from its work queues into pipelines. A client of
 * the daemon like any other; framed-link(1) says how it is used.
 */
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

#include "tools/link/tell.h"

enum { STATUS_OK = 0, STATUS_USAGE = 64, STATUS_INTERNAL = 70, STATUS_CONFIG = 78, EVERY_MS = 1000 };

#define DEFAULT_FILE "/etc/framed/link.yaml"

static const char usage[] = "usage: framed-link [-c FILE] [--check]\n\n"
                            "  -c, --config FILE   the configuration; " DEFAULT_FILE " if nothing is said\n"
                            "      --check         says what is wrong with it, or what it would do, and ends\n"
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

/* Whole or not at all: whoever reads it finds the file before or this one. */
static void write_metrics(const struct settings *settings, const struct link *links) {
  char path[4200];
  if (!settings->metrics) {
    return;
  }
  snprintf(path, sizeof path, "%s.new", settings->metrics);
  FILE *out = fopen(path, "we");
  if (!out) {
    return;
  }
  for (unsigned i = 0; i < settings->link_count; i++) {
    write_link(out, &links[i]);
  }
  if (fclose(out) != 0 || rename(path, settings->metrics) != 0) {
    unlink(path);
  }
}

/* What systemctl status shows. */
static void notify(const struct settings *settings, const struct link *links) {
  unsigned up = 0;
  uint64_t stored = 0, acked = 0;
  for (unsigned i = 0; i < settings->link_count; i++) {
    up += atomic_load(&links[i].has_broker) && atomic_load(&links[i].has_daemon);
    stored += atomic_load(&links[i].counters[COUNT_STORED]);
    acked += atomic_load(&links[i].counters[COUNT_ACKED]);
  }
  sd_notifyf(0, "STATUS=%u of %u links up, %" PRIu64 " results stored, %" PRIu64 " frames done", up, settings->link_count,
             stored, acked);
}

/* -- running ----------------------------------------------------------------------------------------------------------- */

/* Those of `sources`, or those of sinks. */
static void join_links(const struct settings *settings, struct link *links, bool sources) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    if (links[i].settings->is_source == sources) {
      link_join(&links[i]);
    }
  }
}

/* What came from queues has its results stored before sinks stop. */
static bool run_links(const struct settings *settings, struct link *links, int stop, int stop_sinks) {
  struct pollfd stopped = {.fd = stop, .events = POLLIN};
  bool silent = false;
  const uint64_t one = 1;
  for (unsigned i = 0; i < settings->link_count; i++) {
    const struct link_settings *which = &settings->links[i];
    const struct link_kind *kind = which->is_mqtt ? &mqtt_kind : which->is_source ? &source_kind : &sink_kind;
    if (!link_start(&links[i], kind, settings, which, which->is_source ? stop : stop_sinks)) {
      return false;
    }
  }
  sd_notify(0, "READY=1");
  do {
    notify(settings, links);
    write_metrics(settings, links);
    tell_links(settings, links, false, &silent);
  } while (poll(&stopped, 1, EVERY_MS) <= 0);
  sd_notify(0, "STOPPING=1");
  join_links(settings, links, true);
  (void)!write(stop_sinks, &one, sizeof one);
  join_links(settings, links, false);
  tell_links(settings, links, true, &silent);
  write_metrics(settings, links);
  return true;
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
  int stop = open_stop(), stop_sinks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct link *links = calloc(settings->link_count, sizeof *links);
  if (stop < 0 || stop_sinks < 0 || !links || nats_Open(-1) != NATS_OK || !run_links(settings, links, stop, stop_sinks)) {
    fprintf(stderr, "framed-link: not enough memory, threads or descriptors\n");
    return STATUS_INTERNAL;
  }
  nats_CloseAndWait(2000);
  for (unsigned i = 0; i < settings->link_count; i++) {
    link_free(&links[i]);
  }
  free(links);
  close(stop);
  close(stop_sinks);
  return STATUS_OK;
}

static void describe(const struct settings *settings) {
  for (unsigned i = 0; i < settings->link_count; i++) {
    const struct link_settings *link = &settings->links[i];
    if (link->is_mqtt) {
      printf("pipeline %s at %s -> framed/%s/%s, announced under %s\n", link->name, link->socket, settings->mqtt_node,
             link->name, settings->mqtt_prefix);
    } else if (link->is_source) {
      printf("stream %s (%s), consumer %s -> pipeline %s at %s\n", link->stream, link->subject, link->consumer, link->name,
             link->socket);
    } else {
      printf("pipeline %s at %s -> stream %s (%s), %s%s%s\n", link->name, link->socket, link->stream, link->subject,
             link->overload == LINK_DROP ? "drop" : "block", link->queue ? ", named by the frames of " : "",
             link->queue ? link->queue : "");
    }
  }
}

static int load_and_run(const char *file, bool check) {
  struct config_errors *errors = config_errors_new();
  struct settings *settings = errors ? settings_load(file, errors) : NULL;
  int status = STATUS_CONFIG;
  if (!settings) {
    fputs(errors ? config_errors_text(errors) : "framed-link: no memory\n", stderr);
  } else if (check) {
    describe(settings);
    status = fflush(stdout) == 0 ? STATUS_OK : STATUS_INTERNAL;
  } else {
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
