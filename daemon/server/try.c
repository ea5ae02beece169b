#include "daemon/server/try.h"

#include <stdio.h>
#include <unistd.h>

#include "daemon/server/footprint.h"
#include "daemon/server/single.h"

static bool read_frame(const struct single *single, struct failure *failure) {
  size_t count = fread(single->input, 1, single->input_bytes, stdin);
  bool more = count == single->input_bytes && getchar() != EOF;
  if (count == single->input_bytes && !more) {
    return true;
  }
  return failure_set(failure, EXIT_STATUS_USAGE, "give one whole frame of the format that was named",
                     "standard input has %s the %zu bytes of the frame", more ? "more than" : "less than", single->input_bytes);
}

static bool write_result(const struct single *single, struct failure *failure) {
  char text[FORMAT_TEXT];
  printf("%s\n", format_describe(&device_chain_record(single->chain)->output, text));
  bool left = fwrite(single->output, 1, single->output_bytes, stdout) == single->output_bytes && fflush(stdout) == 0;
  return left || failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot write to standard output");
}

static enum exit_status run(const struct config *config) {
  struct single single;
  struct failure failure = {0};
  bool good = single_open(&single, config, &config->pipelines[0], NULL, &failure) && read_frame(&single, &failure) &&
              single_run(&single, true, &failure) && write_result(&single, &failure);
  if (!good) {
    fprintf(stderr, "framed: %s\n", failure.text);
    fprintf(stderr, failure.remedy[0] ? "  %s\n" : "%s", failure.remedy);
  }
  if (!single_close(&single)) {
    fflush(NULL);
    _exit(EXIT_STATUS_GPU_LOST);
  }
  return good ? EXIT_STATUS_OK : failure.status;
}

enum exit_status try_run(const char *text) {
  struct config_errors *errors = config_errors_new();
  struct config *config = errors ? footprint_parse("try", text, errors) : NULL;
  enum exit_status status = EXIT_STATUS_CONFIG;
  if (!config) {
    fputs(errors ? config_errors_text(errors) : "framed: not enough memory\n", stderr);
  } else if (config->pipeline_count != 1) {
    fputs("framed: --try takes a configuration with one pipeline\n", stderr);
  } else {
    status = run(config);
  }
  config_free(config);
  config_errors_free(errors);
  return status;
}
