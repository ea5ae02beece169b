/*
 * `framectl try`: runs one frame through a chain of stages without a daemon. framed computes it; this file reads and writes
 * pictures.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/picture.h"

enum { FORMAT_ROOM = 128, MOST_BYTES = 1 << 30 };

struct bytes {
  unsigned char *data;
  size_t size;
};

struct trial {
  const struct invocation *invocation;
  const char *input_name, *output_name;
  enum picture_kind input_kind;
  struct bytes input, result;
  char format[FORMAT_ROOM]; /* of the frame, as framed writes formats: "gray 640x480" or "float32[3,480,640]" */
};

/* -- bytes -------------------------------------------------------------------------------------------------------- */

static bool read_all(FILE *file, const char *name, struct bytes *bytes, struct problem *problem) {
  size_t room = 0, count = 1;
  for (*bytes = (struct bytes){0}; count > 0; bytes->size += count) {
    if (bytes->size == room) {
      room = room ? 2 * room : 1 << 16;
      unsigned char *grown = room <= MOST_BYTES ? realloc(bytes->data, room) : NULL;
      if (!grown) {
        return problem_set(problem, EXIT_STATUS_USAGE, NULL, "%s is larger than %d MiB", name, MOST_BYTES >> 20);
      }
      bytes->data = grown;
    }
    count = fread(bytes->data + bytes->size, 1, room - bytes->size, file);
  }
  return !ferror(file) || problem_set(problem, EXIT_STATUS_USAGE, NULL, "cannot read %s: %s", name, strerror(errno));
}

static bool read_input(struct trial *trial, struct problem *problem) {
  const char *path = trial->invocation->input;
  FILE *file = path ? fopen(path, "re") : stdin;
  if (!file) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "cannot read %s: %s", path, strerror(errno));
  }
  bool good = read_all(file, trial->input_name, &trial->input, problem);
  if (file != stdin) {
    fclose(file);
  }
  return good;
}

/* Replaces a picture by its pixels. */
static bool decode_input(struct trial *trial, struct problem *problem) {
  struct picture picture;
  if (trial->invocation->format) {
    snprintf(trial->format, sizeof trial->format, "%s", trial->invocation->format);
    return true;
  }
  trial->input_kind = picture_recognise(trial->input.data, trial->input.size);
  if (trial->input_kind == PICTURE_RAW) {
    return problem_set(problem, EXIT_STATUS_USAGE, "name its format: --format 'gray 640x480' or 'float32[3,480,640]'",
                       "%s is no PNG, PGM or PPM", trial->input_name);
  }
  if (!picture_decode(trial->input.data, trial->input.size, trial->input_name, &picture, problem)) {
    return false;
  }
  free(trial->input.data);
  trial->input = (struct bytes){picture.pixels, picture.bytes};
  snprintf(trial->format, sizeof trial->format, "%s %ux%u", picture.channels == 3 ? "rgb24" : "gray", picture.width,
           picture.height);
  return true;
}

/* -- the configuration -------------------------------------------------------------------------------------------- */

static bool write_format(FILE *out, const char *format, struct problem *problem) {
  char name[32];
  unsigned width, height;
  int end = 0;
  if (sscanf(format, "%31[a-z0-9] %ux%u%n", name, &width, &height, &end) == 3 && !format[end]) {
    fprintf(out, "{pixels: %s, width: %u, height: %u}", name, width, height);
    return true;
  }
  if (sscanf(format, "%31[a-z0-9]%n", name, &end) == 1 && format[end] == '[' && format[strlen(format) - 1] == ']') {
    fprintf(out, "{dtype: %s, shape: %s}", name, format + end);
    return true;
  }
  return problem_set(problem, EXIT_STATUS_USAGE, "write for example --format 'gray 640x480' or 'float32[3,480,640]'",
                     "'%s' is no format", format);
}

/* Writes a configuration, on the heap. Each stage of the command line becomes an item of its list. */
static char *write_config(const struct trial *trial, struct problem *problem) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the configuration");
    return NULL;
  }
  fprintf(out, "status: {socket: none}\ngpu: {backend: %s}\npipelines:\n  try:\n    source: {file: \"-\", format: ",
          trial->invocation->cpu ? "cpu" : "auto");
  bool good = write_format(out, trial->format, problem);
  fputs("}\n    slots: 1\n    sink: {file: \"-\"}\n    stages:\n", out);
  for (unsigned i = 0; i < trial->invocation->operand_count; i++) {
    fprintf(out, "    - %s\n", trial->invocation->operands[i]);
  }
  fclose(out);
  if (!good) {
    free(text);
    text = NULL;
  }
  return text;
}

/* -- framed ------------------------------------------------------------------------------------------------------- */

/* Runs in the child. */
static void become_framed(char *text, int input, int output) {
  char path[PATH_MAX];
  char *framed = (char *)command_find_framed(path);
  char *arguments[] = {framed, "--try", text, NULL};
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0) {
    execv(framed, arguments);
  }
  fprintf(stderr, "framectl: cannot run framed: %s\n  install framed, or put it beside framectl or into PATH\n",
          strerror(errno));
  _exit(EXIT_STATUS_INTERNAL);
}

static bool put_into(int fd, const struct bytes *bytes) {
  size_t done = 0;
  for (ssize_t count = 1; done < bytes->size && count > 0; done += count > 0 ? (size_t)count : 0) {
    count = write(fd, bytes->data + done, bytes->size - done);
  }
  return done == bytes->size && lseek(fd, 0, SEEK_SET) == 0;
}

/* After a failure the problem is the last error of framed's standard error. */
static bool await(pid_t child, struct problem *problem) {
  int status;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, "a stage of your own may have crashed", "framed ended by itself");
  }
  if (WEXITSTATUS(status) != 0) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "framed refused");
    problem->is_said = true;
    return false;
  }
  return true;
}

static bool run_framed(struct trial *trial, char *text, struct problem *problem) {
  int ends[2];
  int input = memfd_create("framed-try", MFD_CLOEXEC);
  if (input < 0 || !put_into(input, &trial->input) || pipe2(ends, O_CLOEXEC) != 0) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot run framed: %s", strerror(errno));
  }
  pid_t child = fork();
  if (child == 0) {
    become_framed(text, input, ends[1]);
  }
  close(ends[1]);
  close(input);
  FILE *result = fdopen(ends[0], "re");
  bool good = child > 0 && result && read_all(result, "the result", &trial->result, problem);
  if (result) {
    fclose(result);
  }
  return child > 0 && await(child, problem) && good;
}

/* -- the result --------------------------------------------------------------------------------------------------- */

/* Returns whether the format is that of a picture. Picture files begin with red, so BGR is swapped. */
static bool as_picture(const char *format, struct bytes *pixels, struct picture *picture) {
  char name[32];
  *picture = (struct picture){.pixels = pixels->data, .bytes = pixels->size};
  if (sscanf(format, "%31[a-z0-9] %ux%u", name, &picture->width, &picture->height) != 3) {
    return false;
  }
  bool bgr = strcmp(name, "bgr24") == 0;
  picture->channels = bgr || strcmp(name, "rgb24") == 0 ? 3 : strcmp(name, "gray") == 0 ? 1 : 0;
  for (size_t i = 0; bgr && i + 2 < pixels->size; i += 3) {
    unsigned char first = pixels->data[i];
    pixels->data[i] = pixels->data[i + 2];
    pixels->data[i + 2] = first;
  }
  return picture->channels > 0;
}

static bool write_pixels(struct trial *trial, const char *format, struct bytes *pixels, struct problem *problem) {
  const char *path = trial->invocation->output;
  enum picture_kind kind = path ? picture_of_name(path) : trial->input_kind;
  struct picture picture = {.pixels = pixels->data, .bytes = pixels->size};
  if (kind != PICTURE_RAW && !as_picture(format, pixels, &picture)) {
    return problem_set(problem, EXIT_STATUS_USAGE,
                       "end with 'convert: {to: rgb24}', or write it into a file with another ending, such as -o result.raw",
                       "the result is %s, which no picture file holds", format);
  }
  FILE *file = path ? fopen(path, "we") : stdout;
  if (!file) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "cannot write %s: %s", path, strerror(errno));
  }
  bool good = picture_write(file, kind, &picture, trial->output_name, problem);
  if (file != stdout && fclose(file) != 0 && good) {
    good = problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write %s: %s", path, strerror(errno));
  }
  return good;
}

/* framed prints a line with the format before the result. */
static bool write_result(struct trial *trial, struct problem *problem) {
  unsigned char *end = trial->result.size > 0 ? memchr(trial->result.data, '\n', trial->result.size) : NULL;
  if (!end) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, "install framed and framectl of one version", "framed gave no result");
  }
  *end = '\0';
  const char *format = (const char *)trial->result.data;
  struct bytes pixels = {end + 1, trial->result.size - (size_t)(end + 1 - trial->result.data)};
  if (!write_pixels(trial, format, &pixels, problem)) {
    return false;
  }
  fprintf(stderr, "%s: %s\n", trial->output_name, format);
  return true;
}

static bool refuse_terminal(const struct invocation *invocation, struct problem *problem) {
  if (!invocation->input && isatty(STDIN_FILENO)) {
    return problem_set(problem, EXIT_STATUS_USAGE, "name a picture with -i, or give a frame by '<'", "there is no frame");
  }
  return invocation->output || !isatty(STDOUT_FILENO) ||
         problem_set(problem, EXIT_STATUS_USAGE, "name a file with -o, or use '>'", "the result would go to a terminal");
}

bool command_try(const struct invocation *invocation, struct problem *problem) {
  struct trial trial = {.invocation = invocation,
                        .input_name = invocation->input ? invocation->input : "standard input",
                        .output_name = invocation->output ? invocation->output : "result"};
  char *text = NULL;
  bool good = refuse_terminal(invocation, problem) && read_input(&trial, problem) && decode_input(&trial, problem) &&
              (text = write_config(&trial, problem)) && run_framed(&trial, text, problem) && write_result(&trial, problem);
  free(text);
  free(trial.input.data);
  free(trial.result.data);
  return good;
}
