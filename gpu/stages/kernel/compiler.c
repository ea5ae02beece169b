/*
 * CUDA C to code for a device, by NVRTC, which is loaded when the first kernel needs it: it has 100 MB, and most
 * configurations have no kernel. It needs no device.
 */
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/stages/kernel/private.h"

/* The public header, as users' sources include it. */
extern const char kernel_header[];
__asm__(".section .rodata\n"
        ".global kernel_header\n"
        "kernel_header:\n"
        ".incbin \"gpu/stages/kernel/framed-kernel.h\"\n"
        ".byte 0\n"
        ".previous\n");

/* Functions of NVRTC, in the order of `names`; all give 0 where they did what they were asked to. */
typedef struct opaque *nvrtc_program;
static struct {
  int (*create)(nvrtc_program *program, const char *source, const char *name, int headers, const char *const *texts,
                const char *const *names);
  int (*destroy)(nvrtc_program *program);
  int (*compile)(nvrtc_program program, int count, const char *const *options);
  int (*log_size)(nvrtc_program program, size_t *size);
  int (*log)(nvrtc_program program, char *log);
  int (*code_size)(nvrtc_program program, size_t *size);
  int (*code)(nvrtc_program program, char *code);
  int (*architecture_count)(int *count);
  int (*architectures)(int *numbers);
} compiler;

static const char *const names[] = {"nvrtcCreateProgram",     "nvrtcDestroyProgram",       "nvrtcCompileProgram",
                                    "nvrtcGetProgramLogSize", "nvrtcGetProgramLog",        "nvrtcGetCUBINSize",
                                    "nvrtcGetCUBIN",          "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"};

_Static_assert(sizeof compiler == sizeof names, "each function has its name");

/* -- loading ------------------------------------------------------------------------------------------------------ */

/* Where FRAMED_NVRTC says, what the linker finds, the toolkit's, and those of NVIDIA's Python packages. */
static const char *const places[] = {"libnvrtc.so.13",
                                     "/usr/local/cuda/lib64/libnvrtc.so.1[23]",
                                     "/usr/local/cuda-1[23]*/lib64/libnvrtc.so.1[23]",
                                     "/var/lib/framed/*/libnvrtc.so.1[23]",
                                     "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.1[23]",
                                     "/usr/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.1[23]",
                                     "/opt/*/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23]",
                                     "libnvrtc.so.12"};

static bool take(void *library) {
  void *functions[sizeof names / sizeof *names];
  for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
    functions[i] = dlsym(library, names[i]);
    if (!functions[i]) {
      dlclose(library);
      library = NULL;
    }
  }
  if (library) {
    memcpy(&compiler, functions, sizeof compiler);
  }
  return library;
}

static bool take_from(const char *place) {
  glob_t files = {0};
  bool taken = strchr(place, '/') == NULL && take(dlopen(place, RTLD_NOW | RTLD_LOCAL));
  if (!taken && strchr(place, '/') && glob(place, 0, NULL, &files) == 0) {
    for (size_t i = files.gl_pathc; i > 0 && !taken; i--) { /* the newest is the last */
      taken = take(dlopen(files.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL));
    }
  }
  globfree(&files);
  return taken;
}

static void load(void) {
  const char *own = getenv("FRAMED_NVRTC");
  bool taken = own && *own && take_from(own);
  for (size_t i = 0; i < sizeof places / sizeof *places && !(own && *own) && !taken; i++) {
    taken = take_from(places[i]);
  }
}

bool kernel_has_compiler(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return compiler.create;
}

/* -- compiling ---------------------------------------------------------------------------------------------------- */

static int newest_architecture(void) {
  int count = 0, newest = 90;
  int *numbers = compiler.architecture_count(&count) == 0 && count > 0 ? calloc((size_t)count, sizeof *numbers) : NULL;
  if (numbers && compiler.architectures(numbers) == 0) {
    newest = numbers[count - 1];
  }
  free(numbers);
  return newest;
}

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

static int line_length(const char *line) { return (int)strcspn(line, "\n"); }

/* "FILE(12): error: WHAT" becomes "FILE:12: error: WHAT", and the line itself follows: the log has it next. */
static void say_error(const char *log, char problem[STAGE_TEXT]) {
  const char *line = log;
  while (*line && !memmem(line, (size_t)line_length(line), "error", strlen("error"))) {
    line = next_line(line);
  }
  line = *line ? line : log;
  const char *open = strstr(line, "("), *close = strstr(line, "): ");
  const char *quoted = next_line(line);
  quoted += strspn(quoted, " \t");
  bool has_place = open && close && close < line + line_length(line) && open < close;
  int length = line_length(line);
  if (has_place) {
    snprintf(problem, STAGE_TEXT, "%.*s:%.*s: %.*s, in `%.*s`", (int)(open - line), line, (int)(close - open - 1), open + 1,
             (int)(line + length - close - 3), close + 3, line_length(quoted), quoted);
  } else {
    snprintf(problem, STAGE_TEXT, "%.*s", length, line);
  }
}

static void say_log(nvrtc_program program, const char *file, char problem[STAGE_TEXT]) {
  size_t size = 0;
  char *log = compiler.log_size(program, &size) == 0 ? calloc(1, size + 1) : NULL;
  if (log && compiler.log(program, log) == 0 && *log) {
    say_error(log, problem);
  } else {
    snprintf(problem, STAGE_TEXT, "%s does not compile, and the compiler does not say why", file);
  }
  free(log);
}

static bool take_code(nvrtc_program program, struct kernel_code *code) {
  if (compiler.code_size(program, &code->size) != 0 || code->size == 0) {
    return false;
  }
  code->bytes = calloc(1, code->size + 1);
  return code->bytes && compiler.code(program, code->bytes) == 0;
}

static bool compile(nvrtc_program program, const char *file, int architecture, struct kernel_code *code,
                    char problem[STAGE_TEXT]) {
  char target[64], folder[4096 + 32], toolkit[] = "--include-path=/usr/local/cuda/include";
  const char *slash = strrchr(file, '/');
  snprintf(target, sizeof target, "--gpu-architecture=sm_%d", architecture);
  snprintf(folder, sizeof folder, "--include-path=%.*s", slash ? (int)(slash - file) + 1 : 1, slash ? file : ".");
  const char *const options[] = {target, "--std=c++17", folder, toolkit};
  if (compiler.compile(program, sizeof options / sizeof *options, options) != 0) {
    say_log(program, file, problem);
    return false;
  }
  if (!take_code(program, code)) {
    snprintf(problem, STAGE_TEXT, "%s gives no code for a device of compute capability %d.%d", file, architecture / 10,
             architecture % 10);
    return false;
  }
  return true;
}

bool kernel_compile(const char *file, const struct kernel_code *source, int architecture, struct kernel_code *code,
                    char problem[STAGE_TEXT]) {
  static const char *const header_names[] = {"framed-kernel.h"};
  const char *const headers[] = {kernel_header};
  nvrtc_program program = NULL;
  *code = (struct kernel_code){0};
  if (compiler.create(&program, source->bytes, file, 1, headers, header_names) != 0) {
    snprintf(problem, STAGE_TEXT, "the compiler does not take %s", file);
    return false;
  }
  bool good = compile(program, file, architecture != KERNEL_UNKNOWN ? architecture : newest_architecture(), code, problem);
  if (!good) {
    free(code->bytes);
    *code = (struct kernel_code){0};
  }
  compiler.destroy(&program);
  return good;
}
