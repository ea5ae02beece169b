/*
 * The clients of a pipeline: when they connected, and what each waits for. The pipeline waits for a reader with unread data in
 * its socket; any other reader waits for results.
 */
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/pipeline/private.h"
#include "daemon/sink/results.h"

static const char *const waits[] = {
    [WAITING_FOR_NOTHING] = "nothing", [WAITING_FOR_PRODUCER] = "nothing", [WAITING_FOR_FRAMES] = "nothing",
    [WAITING_FOR_GPU] = "gpu",         [WAITING_FOR_READER] = "reader",    [WAITING_FOR_RESUME] = "resume",
};

static struct pipeline_client list_producer(const struct producer *producer, uint64_t devices) {
  struct session_view view;
  session_read(producer->session, &view);
  uint64_t in = view.ledger.in, before = producer->frames_before;
  struct pipeline_client client = {.pid = producer->client.pid,
                                   .uid = producer->client.uid,
                                   .since = producer->client.since,
                                   .frames = in > before ? in - before : 0,
                                   .waiting = waits[view.waiting],
                                   .devices = devices};
  memcpy(client.process, producer->client.process, sizeof client.process);
  return client;
}

static struct pipeline_client list_reader(const struct reader_entry *entry) {
  int unread = 0;
  bool lags = ioctl(entry->reader->fd, SIOCOUTQ, &unread) == 0 && unread > 0;
  struct pipeline_client client = {
      .reads = true, .pid = entry->pid, .uid = entry->uid, .since = entry->since, .waiting = lags ? "nothing" : "results"};
  memcpy(client.process, entry->process, sizeof client.process);
  reader_read(entry->reader, &client.frames, &client.missed);
  return client;
}

/* A file is not a client. */
unsigned pipeline_list(const struct pipeline *pipeline, struct pipeline_client list[PIPELINE_LISTED]) {
  const struct inputs *inputs = pipeline->inputs;
  const struct outputs *outputs = pipeline->outputs;
  bool connects = pipeline->config->source.endpoint == CONFIG_SOCKET, reads = outputs && outputs_is_socket(outputs);
  unsigned count = 0;
  for (unsigned i = 0; connects && i < inputs->count && count < PIPELINE_LISTED; i++) {
    if (inputs->seats[i].client.fd >= 0) {
      list[count++] = list_producer(&inputs->seats[i], engine_placement_bits(&pipeline->placements[i]));
    }
  }
  for (const struct reader_entry *entry = reads ? outputs->entries : NULL; entry && count < PIPELINE_LISTED;
       entry = entry->next) {
    list[count++] = list_reader(entry);
  }
  return count;
}
