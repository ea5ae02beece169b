#include "gpu/record/messages.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LABELS = 1 << 20, MOST_TRIES = 200 };

/* -- stages --------------------------------------------------------------------------------------------------------- */

void pack_stage(struct pack *pack, const struct stage_value *values, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    const struct stage_value *value = &values[i];
    pack_number(pack, value->given);
    pack_number(pack, value->count);
    pack_bytes(pack, value->numbers, sizeof value->numbers);
    pack_text(pack, value->text);
    pack_number(pack, value->setting_count);
    for (unsigned k = 0; k < value->setting_count; k++) {
      const struct stage_setting *setting = &value->settings[k];
      pack_text(pack, setting->name);
      pack_text(pack, setting->text);
      pack_number(pack, setting->count);
      pack_bytes(pack, setting->numbers, sizeof setting->numbers);
    }
  }
}

static bool unpack_settings(struct unpack *unpack, struct stage_value *value) {
  const size_t least = 3 * sizeof(int64_t);
  unsigned count = (unsigned)unpack_within(unpack, 0, (int64_t)(unpack->length / least));
  struct stage_setting *settings = count > 0 && !unpack->failed ? calloc(count, sizeof *settings) : NULL;
  if (count > 0 && !settings) {
    return false;
  }
  value->settings = settings;
  value->setting_count = count;
  for (unsigned k = 0; k < count && !unpack->failed; k++) {
    settings[k].name = unpack_text(unpack);
    settings[k].text = unpack_text(unpack);
    settings[k].count = (unsigned)unpack_within(unpack, 0, STAGE_MAX_NUMBERS);
    unpack_bytes(unpack, settings[k].numbers, sizeof settings[k].numbers);
    unpack->failed |= settings[k].name == NULL;
  }
  return !unpack->failed;
}

bool unpack_stage(struct unpack *unpack, struct stage_value *values, unsigned count) {
  memset(values, 0, count * sizeof *values);
  for (unsigned i = 0; i < count; i++) {
    struct stage_value *value = &values[i];
    value->given = unpack_within(unpack, 0, 1) != 0;
    value->count = (unsigned)unpack_within(unpack, 0, STAGE_MAX_NUMBERS);
    unpack_bytes(unpack, value->numbers, sizeof value->numbers);
    value->text = unpack_text(unpack);
    if (!unpack_settings(unpack, value)) {
      return false;
    }
  }
  return !unpack->failed;
}

void stage_values_free(struct stage_value *values, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    free((void *)(uintptr_t)values[i].settings);
  }
}

/* -- models --------------------------------------------------------------------------------------------------------- */

void pack_model(struct pack *pack, const struct model_settings *settings) {
  pack_text(pack, settings->file);
  pack_number(pack, settings->instances);
  pack_number(pack, (int64_t)settings->memory);
  pack_number(pack, (int64_t)settings->precision);
  pack_number(pack, settings->batch.most);
  pack_number(pack, settings->batch.wait_ns);
  pack_number(pack, settings->shape_count);
  for (unsigned i = 0; i < settings->shape_count; i++) {
    const struct model_shape *shape = &settings->shapes[i];
    pack_text(pack, shape->input);
    pack_number(pack, shape->rank);
    pack_bytes(pack, shape->sides, sizeof shape->sides);
  }
}

bool unpack_model(struct unpack *unpack, struct model_request *model) {
  struct model_settings *settings = &model->settings;
  *settings = (struct model_settings){.file = unpack_text(unpack), .shapes = model->shapes};
  settings->instances = (unsigned)unpack_within(unpack, 0, MODEL_MOST_INSTANCES);
  settings->memory = (size_t)unpack_within(unpack, 0, INT64_MAX);
  settings->precision = (enum model_precision)unpack_within(unpack, MODEL_TF32, MODEL_FLOAT32);
  settings->batch.most = (unsigned)unpack_within(unpack, 0, MODEL_MOST_BATCH);
  settings->batch.wait_ns = unpack_within(unpack, 0, INT64_MAX);
  settings->shape_count = (unsigned)unpack_within(unpack, 0, STAGE_MAX_PARAMETERS);
  for (unsigned i = 0; i < settings->shape_count; i++) {
    struct model_shape *shape = &model->shapes[i];
    shape->input = unpack_text(unpack);
    shape->rank = (unsigned)unpack_within(unpack, 0, MODEL_MOST_RANK);
    unpack_bytes(unpack, shape->sides, sizeof shape->sides);
    unpack->failed |= shape->input == NULL;
  }
  return !unpack->failed && settings->file;
}

/* -- formats -------------------------------------------------------------------------------------------------------- */

static void unpack_format(struct unpack *unpack, struct frame_format *format) {
  size_t bytes;
  unpack_bytes(unpack, format, sizeof *format);
  format->parts = NULL;
  unpack->failed |= format->pixels >= PIXELS_COUNT || format->dtype >= ELEMENT_COUNT || format->rank > FORMAT_MAX_RANK ||
                    format->meaning > MEANING_BOXES || !format_bytes(format, &bytes);
}

static void unpack_tensor(struct unpack *unpack, struct model_tensor *tensor) {
  unpack_bytes(unpack, tensor, sizeof *tensor);
  tensor->name[sizeof tensor->name - 1] = '\0';
  tensor->format.parts = NULL;
  unpack->failed |= tensor->rank > MODEL_MOST_RANK || tensor->format.dtype >= ELEMENT_COUNT ||
                    tensor->format.pixels >= PIXELS_COUNT || tensor->format.rank > FORMAT_MAX_RANK;
}

static void unpack_error(struct unpack *unpack, struct gpu_error *error) {
  unpack_bytes(unpack, error, sizeof *error);
  error->text[sizeof error->text - 1] = '\0';
  error->remedy[sizeof error->remedy - 1] = '\0';
}

/* -- what a model is ------------------------------------------------------------------------------------------------ */

void pack_model_record(struct pack *pack, const struct model_record *record) {
  pack_bytes(pack, &record->summary, sizeof record->summary);
  pack_text(pack, record->summary.file);
  pack_text(pack, record->summary.runtime);
  pack_bytes(pack, &record->input, sizeof record->input);
  pack_number(pack, record->output_count);
  pack_bytes(pack, record->outputs, record->output_count * sizeof record->outputs[0]);
  pack_number(pack, record->counts);
}

/* What came from outside as a byte need be neither of the two. */
static void make_flag(bool *flag) {
  unsigned char byte;
  memcpy(&byte, flag, sizeof byte);
  *flag = byte != 0;
}

bool unpack_model_record(struct unpack *unpack, struct model_record *record) {
  unpack_bytes(unpack, &record->summary, sizeof record->summary);
  make_flag(&record->summary.is_single);
  make_flag(&record->summary.takes_rows);
  make_flag(&record->summary.is_padded);
  const char *file = unpack_text(unpack), *runtime = unpack_text(unpack);
  unpack_tensor(unpack, &record->input);
  record->output_count = (unsigned)unpack_within(unpack, 0, MODEL_MOST_OUTPUTS);
  for (unsigned i = 0; i < record->output_count; i++) {
    unpack_tensor(unpack, &record->outputs[i]);
  }
  record->counts = (unsigned)unpack_within(unpack, 0, WORKER_MODELS);
  const struct model_summary *summary = &record->summary;
  unpack->failed |= summary->instances > MODEL_MOST_INSTANCES || summary->batch.most > MODEL_MOST_BATCH;
  record->summary.file = strdup(file ? file : "");
  record->summary.runtime = strdup(runtime ? runtime : "");
  return !unpack->failed && record->summary.file && record->summary.runtime;
}

void model_record_free(struct model_record *record) {
  free((void *)(uintptr_t)record->summary.file);
  free((void *)(uintptr_t)record->summary.runtime);
  *record = (struct model_record){0};
}

/* -- what a chain is ------------------------------------------------------------------------------------------------ */

static void pack_verdict(struct pack *pack, const struct chain_verdict *verdict) {
  pack_number(pack, verdict->holds);
  pack_bytes(pack, &verdict->error, verdict->holds ? 0 : sizeof verdict->error);
}

static void unpack_verdict(struct unpack *unpack, struct chain_verdict *verdict) {
  verdict->holds = unpack_within(unpack, 0, 1) != 0;
  if (!verdict->holds) {
    unpack_error(unpack, &verdict->error);
  }
}

void pack_chain_record(struct pack *pack, const struct chain_record *record) {
  pack_bytes(pack, &record->input, sizeof record->input);
  pack_bytes(pack, &record->output, sizeof record->output);
  pack_bytes(pack, &record->parts, sizeof record->parts);
  pack_number(pack, (int64_t)record->slot_bytes);
  pack_number(pack, (int64_t)record->state_bytes);
  pack_number(pack, record->is_foreign);
  pack_verdict(pack, &record->runs);
  pack_verdict(pack, &record->resides);
  pack_verdict(pack, &record->spreads);
  pack_number(pack, record->has_model);
  if (record->has_model) {
    pack_model_record(pack, &record->model);
  }
  pack_number(pack, record->label_count);
  for (unsigned i = 0; i < record->label_count; i++) {
    pack_text(pack, record->labels[i]);
  }
}

static bool unpack_labels(struct unpack *unpack, struct chain_record *record) {
  unsigned count = (unsigned)unpack_within(unpack, 0, MOST_LABELS);
  record->labels = count > 0 && !unpack->failed ? calloc(count, sizeof *record->labels) : NULL;
  for (; record->labels && record->label_count < count && !unpack->failed; record->label_count++) {
    const char *label = unpack_text(unpack);
    record->labels[record->label_count] = strdup(label ? label : "");
    unpack->failed |= record->labels[record->label_count] == NULL;
  }
  return !unpack->failed && record->label_count == count;
}

bool unpack_chain_record(struct unpack *unpack, struct chain_record *record) {
  *record = (struct chain_record){0};
  unpack_format(unpack, &record->input);
  unpack_format(unpack, &record->output);
  unpack_bytes(unpack, &record->parts, sizeof record->parts);
  unpack->failed |= record->parts.count > PARTS_MOST;
  record->output.parts = record->parts.count > 0 ? &record->parts : NULL;
  record->slot_bytes = (uint64_t)unpack_within(unpack, 0, INT64_MAX / GPU_MAX_SLOTS);
  record->state_bytes = (uint64_t)unpack_within(unpack, 0, INT64_MAX / GPU_MAX_SLOTS);
  record->is_foreign = unpack_within(unpack, 0, 1) != 0;
  unpack_verdict(unpack, &record->runs);
  unpack_verdict(unpack, &record->resides);
  unpack_verdict(unpack, &record->spreads);
  record->has_model = unpack_within(unpack, 0, 1) != 0;
  return (!record->has_model || unpack_model_record(unpack, &record->model)) && unpack_labels(unpack, record);
}

void chain_record_free(struct chain_record *record) {
  for (unsigned i = 0; i < record->label_count; i++) {
    free(record->labels[i]);
  }
  free(record->labels);
  model_record_free(&record->model);
}

/* -- sending -------------------------------------------------------------------------------------------------------- */

struct head {
  uint64_t bytes, descriptors;
};

union ancillary {
  struct cmsghdr align;
  unsigned char bytes[CMSG_SPACE(WORKER_MOST_FILES * sizeof(int))];
};

bool worker_may_pass(int tries) {
  bool lacks = errno == ENOMEM || errno == ENOBUFS || errno == EAGAIN || errno == ETOOMANYREFS;
  if (lacks && tries < MOST_TRIES) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return errno == EINTR || (lacks && tries < MOST_TRIES);
}

static bool send_all(int socket, const unsigned char *bytes, size_t count) {
  while (count > 0) {
    ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return false;
    }
    bytes += sent > 0 ? sent : 0;
    count -= sent > 0 ? (size_t)sent : 0;
  }
  return true;
}

bool worker_send(int socket, const struct pack *pack, const int *descriptors, unsigned count) {
  if (pack->failed || count > WORKER_MOST_FILES) {
    errno = pack->failed ? ENOMEM : EMFILE;
    return false;
  }
  struct head head = {.bytes = pack->length, .descriptors = count};
  struct iovec part = {.iov_base = &head, .iov_len = sizeof head};
  union ancillary ancillary = {.bytes = {0}};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (count > 0) {
    message.msg_control = ancillary.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
    memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
  }
  ssize_t sent;
  for (int tries = 0; (sent = sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && worker_may_pass(tries); tries++) {
  }
  return sent == (ssize_t)sizeof head && send_all(socket, pack->bytes, pack->length);
}

static bool receive_all(int socket, unsigned char *bytes, size_t count) {
  while (count > 0) {
    ssize_t got = read(socket, bytes, count);
    if (got == 0) {
      errno = EPIPE;
    }
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    bytes += got > 0 ? got : 0;
    count -= got > 0 ? (size_t)got : 0;
  }
  return true;
}

static bool receive_head(int socket, struct head *head, struct worker_message *message) {
  union ancillary ancillary = {.bytes = {0}};
  struct iovec part = {.iov_base = head, .iov_len = sizeof *head};
  struct msghdr header = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes};
  ssize_t got;
  while ((got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_WAITALL)) < 0 && errno == EINTR) {
  }
  for (struct cmsghdr *each = CMSG_FIRSTHDR(&header); got > 0 && each; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
      message->count = (unsigned)((each->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      memcpy(message->descriptors, CMSG_DATA(each), message->count * sizeof(int));
    }
  }
  if (got == (ssize_t)sizeof *head) {
    return true;
  }
  errno = got == 0 ? EPIPE : got > 0 ? EBADMSG : errno;
  return false;
}

bool worker_receive(int socket, struct worker_message *message) {
  struct head head;
  *message = (struct worker_message){0};
  if (!receive_head(socket, &head, message)) {
    return false;
  }
  if (head.bytes > WORKER_MOST_MESSAGE || head.descriptors != message->count) {
    errno = EBADMSG;
    return false;
  }
  message->bytes = malloc(head.bytes + 1);
  if (!message->bytes || !receive_all(socket, message->bytes, head.bytes)) {
    return false;
  }
  message->unpack = (struct unpack){.bytes = message->bytes, .length = head.bytes};
  return true;
}

void worker_message_free(struct worker_message *message) {
  for (unsigned i = 0; i < message->count; i++) {
    if (message->descriptors[i] >= 0) {
      close(message->descriptors[i]);
    }
  }
  free(message->bytes);
  *message = (struct worker_message){0};
}
