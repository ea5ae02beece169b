#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/device/private.h"

struct device_model {
  struct pack request;        /* what was asked, */
  struct model_request asked; /* whose texts are there */
  struct model_record record;
  struct kept_file files[WORKER_MOST_FILES];
  unsigned file_count;
  struct process *process; /* that has it open */
  uint64_t id;
};

static bool model_ask(struct device_model *model, struct gpu_error *error) {
  struct worker_message answer;
  struct kept_file files[WORKER_MOST_FILES];
  int descriptors[WORKER_MOST_FILES];
  struct pack request = {.bytes = NULL};
  const unsigned count = kept_remembered(files, 0, WORKER_MOST_FILES);
  files_pack(&request, files, count, descriptors);
  pack_bytes(&request, model->request.bytes, model->request.length);
  bool opened = process_call(model->process, WORKER_MODEL, &request, descriptors, count, &answer, error);
  free(request.bytes);
  if (opened) {
    model->id = (uint64_t)unpack_number(&answer.unpack);
    opened = (unpack_model_record(&answer.unpack, &model->record) && files_take(&answer, model->files, &model->file_count)) ||
             device_no_memory(error);
  }
  worker_message_free(&answer);
  return opened;
}

struct device_model *device_model_open(const struct model_settings *settings, struct gpu_error *error) {
  struct device_model *model = calloc(1, sizeof *model);
  if (!model) {
    device_no_memory(error);
    return NULL;
  }
  pack_model(&model->request, settings);
  struct unpack unpack = {.bytes = model->request.bytes, .length = model->request.length};
  if (model->request.failed || !unpack_model(&unpack, &model->asked)) {
    device_no_memory(error);
    return device_model_free(model);
  }
  model->process = judge_hold(error);
  return model->process && model_ask(model, error) ? model : device_model_free(model);
}

void device_model_settle(struct device_model *model) {
  if (model->process && model->id != 0) {
    process_let_go(model->process, model->id);
  }
  model->process = process_release(model->process);
  model->id = 0;
}

bool device_model_same(const struct device_model *one, const struct device_model *other) {
  return one == other ||
         (one->record.summary.hash == other->record.summary.hash && one->request.length == other->request.length &&
          memcmp(one->request.bytes, other->request.bytes, one->request.length) == 0);
}

struct device_model *device_model_free(struct device_model *model) {
  if (!model) {
    return NULL;
  }
  device_model_settle(model);
  for (unsigned i = 0; i < model->file_count; i++) {
    kept_close(&model->files[i]);
  }
  model_record_free(&model->record);
  free(model->request.bytes);
  free(model);
  return NULL;
}

const struct model_record *device_model_record(const struct device_model *model) { return &model->record; }

const struct model_settings *device_model_settings(const struct device_model *model) { return &model->asked.settings; }

unsigned device_model_files(const struct device_model *model, struct kept_file *list, unsigned count, unsigned most) {
  for (unsigned i = 0; i < model->file_count; i++) {
    count = kept_list(&model->files[i], list, count, most);
  }
  return count;
}

int device_model_find_output(const struct device_model *model, const char *name) {
  for (unsigned i = 0; i < model->record.output_count; i++) {
    if (strcmp(model->record.outputs[i].name, name) == 0) {
      return (int)i;
    }
  }
  return MODEL_ALL;
}
