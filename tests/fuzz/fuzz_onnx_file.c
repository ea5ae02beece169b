/*
 * A file of ONNX as anybody may give it: any bytes. Whatever they are, what is read lies within them, and the names of files
 * beside it are plain ones.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/onnx_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct onnx_text text, const char *bytes, size_t size) {
  assert(text.length == 0 || (text.text >= bytes && text.text + text.length <= bytes + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct onnx_file file;
  char problem[ONNX_PROBLEM] = "";
  char *bytes = malloc(size); /* alone, so that the sanitizer sees its end */
  if (size > 0) {
    memcpy(bytes, data, size);
  }
  if (!onnx_file_read(bytes, size, &file, problem)) {
    assert(*problem);
    free(bytes);
    return 0;
  }
  for (unsigned i = 0; i < file.input_count && i < ONNX_MOST_INPUTS; i++) {
    check_text(file.inputs[i].name, bytes, size);
    for (unsigned k = 0; k < file.inputs[i].rank; k++) {
      check_text(file.inputs[i].names[k], bytes, size);
      assert(file.inputs[i].shape[k] >= -1 && file.inputs[i].shape[k] != 0);
    }
  }
  for (unsigned i = 0; i < file.file_count; i++) {
    assert(*file.files[i] && !strchr(file.files[i], '/') && strcmp(file.files[i], "..") != 0);
  }
  free(bytes);
  return 0;
}
