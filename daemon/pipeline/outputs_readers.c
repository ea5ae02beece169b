/*
 * The readers of a pipeline: admitting one, and its shared memory. That is the outputs of the pipeline's session, read-only,
 * and control memory of its own.
 *
 * Under `drop` a reader gets shared memory only if the session has enough slots to continue while one is leased; otherwise
 * results go over the socket. A dismissed reader may read its control memory until it notices the end of its connection. So
 * that memory stays valid for LINGER_MS, because zeros would look like an error.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/frame/flow.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"

void outputs_add(struct outputs *outputs, struct reader_entry *entry) {
  entry->next = outputs->entries;
  outputs->entries = entry;
  outputs->count++;
  fd_table_mark();
}

struct reader_entry *outputs_remove(struct outputs *outputs, const struct reader *reader) {
  struct reader_entry **link = &outputs->entries;
  while ((*link)->reader != reader) {
    link = &(*link)->next;
  }
  struct reader_entry *entry = *link;
  *link = entry->next;
  outputs->count--;
  return entry;
}

static bool may_share(const struct outputs *outputs, const struct client *client) {
  const struct config_pipeline *config = outputs->config;
  bool is_wanted = client->native && client->hello.transport == NATIVE_SHARED;
  unsigned depth = flow_depth(config->overload, config->slots, config->deadline_ns > 0);
  return is_wanted && (config->sink.overload == CONFIG_SINK_BLOCK || depth > 1);
}

/* Opens another descriptor of it for the reader. */
static int make_control(const struct outputs *outputs, struct reader_entry *entry, unsigned memory, struct failure *failure) {
  char name[96];
  snprintf(name, sizeof name, "framed:%s.reader:control", outputs->config->name);
  if (!arena_make(&entry->control, name, NATIVE_CONTROL, 1, NULL, failure)) {
    return -1;
  }
  int fd = arena_open(&entry->control, O_RDWR, failure);
  if (fd >= 0 && !reader_share(entry->reader, (struct native_control *)entry->control.base, memory)) {
    failure_set_memory(failure, "not enough memory for a reader");
    close(fd);
    fd = -1;
  }
  if (fd < 0) {
    arena_drop(&entry->control);
  }
  return fd;
}

static void welcome(const struct outputs *outputs, const struct client *client, const struct session_outputs *memory,
                    int control) {
  struct native_welcome shared = outputs->welcome;
  const int descriptors[] = {memory->output, control};
  shared.transport = NATIVE_SHARED;
  shared.output_stride = memory->stride;
  shared.control_bytes = NATIVE_CONTROL;
  client_welcome(client, &shared, descriptors, sizeof descriptors / sizeof *descriptors);
}

static bool share_with(struct outputs *outputs, struct reader_entry *entry, const struct client *client) {
  struct session_outputs memory;
  struct failure failure;
  if (!may_share(outputs, client)) {
    return false;
  }
  if (!outputs->share(outputs->context, &memory, &failure)) {
    log_event(LOG_CLIENT_ERROR, outputs->config->name, "%s; the reader gets its results over its socket instead", failure.text);
    return false;
  }
  int control = make_control(outputs, entry, memory.memory, &failure);
  if (control >= 0) {
    welcome(outputs, client, &memory, control);
    close(control);
  } else {
    log_event(LOG_CLIENT_ERROR, outputs->config->name, "%s; the reader gets its results over its socket instead", failure.text);
  }
  close(memory.output);
  return control >= 0;
}

/* Bytes charged to a reader's user: its control memory, or the buffer for the rest of a result. */
static uint64_t memory_of(const struct outputs *outputs, bool shares) {
  return shares ? NATIVE_CONTROL : sink_room_bytes(outputs->sink);
}

/* Readers that were taken over stay even if their user's quota is exceeded; that is only logged. */
void outputs_recharge(struct outputs *outputs) {
  char problem[QUOTA_PROBLEM];
  for (struct reader_entry *entry = outputs_is_socket(outputs) ? outputs->entries : NULL; entry; entry = entry->next) {
    uint64_t bytes = memory_of(outputs, entry->control.fd >= 0);
    if (!quota_charge(outputs->quota, entry->uid, QUOTA_READER, bytes, &entry->charge, problem)) {
      log_event(LOG_CLIENT_ERROR, outputs->config->name, "a reader stays connected although its user's quota is exceeded: %s",
                problem);
    }
  }
}

/* Attaches a descriptor to the sink. On failure the caller keeps it, and the user's charge. */
bool outputs_attach(struct outputs *outputs, const struct client *client, const struct quota_charge *charge,
                    struct failure *failure) {
  struct reader_entry *entry = image_new(IMAGE_READER_ENTRY, sizeof *entry);
  if (!entry) {
    return failure_set_memory(failure, "not enough memory for one more reader");
  }
  entry->reader = reader_new(outputs->sink, client->fd, failure);
  if (!entry->reader || !reader_bring_room(entry->reader, failure)) {
    reader_free(entry->reader);
    image_free(entry);
    return false;
  }
  if (outputs->file.index >= 0) {
    reader_keep_index(entry->reader, outputs->file.index, outputs->file.count, &outputs->file.times);
  }
  entry->pid = client->pid;
  entry->uid = client->uid;
  entry->since = client->since;
  memcpy(entry->process, client->process, sizeof entry->process);
  entry->control = ARENA_NONE;
  entry->charge = *charge;
  outputs_add(outputs, entry);
  outputs->welcome.session += client->native;
  if (client->native && !share_with(outputs, entry, client)) {
    client_welcome(client, &outputs->welcome, NULL, 0);
  }
  sink_attach(outputs->sink, entry->reader);
  return true;
}

static void reader_refuse(struct outputs *outputs, const struct client *client, enum native_error_code code,
                          const char *problem) {
  client_send_error(client, code, "%s", problem);
  refusals_add(&outputs->refusals, LOG_REFUSED, outputs->config->name, refusals_remedy(code),
               "reader pid %d (user %u) was refused: %s", (int)client->pid, (unsigned)client->uid, problem);
  rights_close(client->fd);
}

void outputs_on_hello(void *context, const struct client *client) {
  struct outputs *outputs = context;
  struct failure failure;
  struct quota_charge charge = {0};
  char problem[QUOTA_PROBLEM];
  uint64_t bytes = memory_of(outputs, may_share(outputs, client));
  if (client->native && client->hello.role != NATIVE_CONSUMER) {
    reader_refuse(outputs, client, NATIVE_E_ROLE, "a sink takes clients of the role 'consumer' only");
  } else if (!quota_charge(outputs->quota, client->uid, QUOTA_READER, bytes, &charge, problem)) {
    reader_refuse(outputs, client, NATIVE_E_QUOTA, problem);
  } else if (!outputs_attach(outputs, client, &charge, &failure)) {
    quota_release(&charge);
    reader_refuse(outputs, client, NATIVE_E_INTERNAL, failure.text);
  } else {
    char name[CLIENT_NAME];
    log_event(LOG_CONNECTED, outputs->config->name, "reader pid %d (user %u) connected%s", (int)client->pid,
              (unsigned)client->uid, client_name(client, name));
  }
}

void outputs_on_accepted(void *context, int fd, const struct peer *peer) {
  struct outputs *outputs = context;
  if (outputs->handshakes) {
    handshakes_receive(outputs->handshakes, fd, peer);
  } else {
    const struct client client = client_of(fd, peer);
    outputs_on_hello(outputs, &client);
  }
}

/* -- departure ------------------------------------------------------------------------------------------------------ */

enum { LINGER_MS = 10000 };

/* Frees the entry of a reader. Its control memory, a few pages, stays only if the pipeline ends. */
static void reader_forget(struct reader_entry *entry, bool leaves_memory) {
  entry->linger = loop_timer_close(entry->linger);
  if (leaves_memory) {
    arena_drop(&entry->control);
  } else {
    arena_discard(&entry->control);
  }
  quota_release(&entry->charge);
  image_free(entry);
}

static void on_lingered(void *context) {
  struct reader_entry *entry = context;
  struct reader_entry **link = &entry->outputs->lingering;
  while (*link != entry) {
    link = &(*link)->next;
  }
  *link = entry->next;
  reader_forget(entry, false);
}

void outputs_free_entry(struct outputs *outputs, struct reader_entry *entry, bool was_dismissed) {
  bool lingers = entry->control.fd >= 0 && was_dismissed && !outputs->closed;
  entry->linger = lingers ? loop_timer_new(outputs->loop, on_lingered, entry) : NULL;
  if (!entry->linger) {
    reader_forget(entry, outputs->closed);
    return;
  }
  quota_leave(&entry->charge);
  entry->outputs = outputs;
  entry->next = outputs->lingering;
  outputs->lingering = entry;
  loop_timer_start(entry->linger, LINGER_MS, 0);
}

void outputs_leave_memory(struct outputs *outputs) {
  while (outputs->lingering) {
    struct reader_entry *entry = outputs->lingering;
    outputs->lingering = entry->next;
    reader_forget(entry, true);
  }
}
