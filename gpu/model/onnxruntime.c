/*
 * Finds the library of ONNX Runtime and loads it. It is looked for in FRAMED_ONNXRUNTIME (a file or a folder), where framectl
 * installs it, where a package does, and where the linker looks.
 *
 * Versions from 1.29 on report to their maker. The daemon turns that off before it does anything else, other programs when they
 * load the library, and once more after.
 */
#include "gpu/model/onnxruntime.h"
#include "gpu/backend.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIBRARY "libonnxruntime.so"
#define INSTALL "run `framectl models install`, or name the library's folder in FRAMED_ONNXRUNTIME"

enum { OLDEST = 20, TABLE = 20, PATH_BYTES = 512 }; /* 1.20 has all that is used; so has its table */

struct ort_base {
  const void *const *(*table)(uint32_t version);
  const char *(*version)(void);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct onnxruntime loaded; /* under the lock until `env` is set */

/* -- texts -------------------------------------------------------------------------------------------------------- */

/* Where a function's name with its arguments ends, which stands behind the place in the source. */
static char *skip_signature(char *text) {
  char *at = strchr(text, '(');
  int depth = 0;
  for (; at && *at; at++) {
    depth += (*at == '(') - (*at == ')');
    if (depth == 0) {
      break;
    }
  }
  if (!at || !*at) {
    return text;
  }
  at++;
  at += strncmp(at, " const", 6) == 0 ? 6 : 0;
  char *template = strncmp(at, " [with ", 7) == 0 ? strchr(at, ']') : NULL;
  at = template ? template + 1 : at;
  return at + strspn(at, " :");
}

/* Cuts "/path/file.cc:12 function(arguments) " out; false if there is none. */
static bool cut_place(char *text) {
  static const char *const endings[] = {".cc:", ".h:", ".cpp:", ".cu:"};
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    char *ending = strstr(text, endings[i]);
    if (!ending) {
      continue;
    }
    char *begin = ending;
    while (begin > text && begin[-1] != ' ' && begin[-1] != ':') {
      begin--;
    }
    char *after = ending + strlen(endings[i]);
    after += strspn(after, "0123456789");
    after = *after == ' ' ? skip_signature(after + 1) : after;
    memmove(begin, after, strlen(after) + 1);
    return true;
  }
  return false;
}

void onnxruntime_trim(char *text) {
  static const char *const tails[] = {" ; hostname=", "; hostname=", " ; file=", "\n"};
  for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
    char *tail = strstr(text, tails[i]);
    if (tail) {
      *tail = '\0';
    }
  }
  while (cut_place(text)) {
  }
  /* "[ONNXRuntimeError] : 1 : FAIL : " */
  char *label = strstr(text, "[ONNXRuntimeError]"), *rest = label;
  for (int i = 0; i < 3 && rest; i++) {
    rest = strstr(rest, " : ");
    rest = rest ? rest + 3 : NULL;
  }
  if (rest) {
    memmove(label, rest, strlen(rest) + 1);
  }
  size_t length = strlen(text);
  while (length > 0 && strchr(" .:", text[length - 1])) {
    text[--length] = '\0';
  }
}

bool onnxruntime_check(const struct onnxruntime *runtime, struct ort_status *status, const char *what,
                       struct gpu_error *error) {
  if (!status) {
    return true;
  }
  char *text = strdup(runtime->error_text(status));
  runtime->release_status(status);
  if (text) {
    onnxruntime_trim(text);
  }
  gpu_error_set(error, 0, NULL, "%s%s%s", what, *what ? ": " : "", text ? text : "no memory");
  free(text);
  return false;
}

/* -- loading ------------------------------------------------------------------------------------------------------ */

static void ignore_log(void *context, int severity, const char *category, const char *id, const char *place, const char *text) {
  (void)context;
  (void)severity;
  (void)category;
  (void)id;
  (void)place;
  (void)text; /* what matters comes back as an error */
}

/* The newest library of a folder, or the file itself; false if there is none. */
static bool find_library(const char *place, char path[PATH_BYTES]) {
  struct stat file;
  if (stat(place, &file) != 0 || !S_ISDIR(file.st_mode)) {
    snprintf(path, PATH_BYTES, "%s", place);
    return stat(place, &file) == 0;
  }
  char best[NAME_MAX + 1] = "";
  DIR *folder = opendir(place);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    bool is_library = strncmp(entry->d_name, LIBRARY, strlen(LIBRARY)) == 0;
    if (is_library && (!*best || strverscmp(entry->d_name, best) > 0)) {
      snprintf(best, sizeof best, "%s", entry->d_name);
    }
  }
  if (folder) {
    closedir(folder);
  }
  return *best && snprintf(path, PATH_BYTES, "%s/%s", place, best) < PATH_BYTES;
}

/* The places in their order; false behind the last one. The last two are for the linker to find. */
static bool find_place(unsigned index, char path[PATH_BYTES]) {
  const char *given = getenv("FRAMED_ONNXRUNTIME"), *home = getenv("HOME");
  char place[PATH_BYTES];
  switch (index) {
  case 0:
    return given && *given && find_library(given, path);
  case 1:
    return find_library("/var/lib/framed/onnxruntime", path);
  case 2:
    return home && snprintf(place, sizeof place, "%s/.local/share/framed/onnxruntime", home) < PATH_BYTES &&
           find_library(place, path);
  case 3:
    return find_library("/usr/lib/framed/onnxruntime", path);
  default:
    snprintf(path, PATH_BYTES, "%s", index == 4 ? LIBRARY ".1" : LIBRARY);
    return true;
  }
}

/* The first library that there is must be the right one: a wrong one is said, not passed over. */
static void *open_library(char path[PATH_BYTES], struct gpu_error *error) {
  const char *given = getenv("FRAMED_ONNXRUNTIME");
  if (given && *given && !find_place(0, path)) {
    gpu_error_set(error, 0, INSTALL, "FRAMED_ONNXRUNTIME names %s, where no " LIBRARY " is", given);
    return NULL;
  }
  for (unsigned i = 0; i < 6; i++) {
    void *library = find_place(i, path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) {
      struct link_map *where;
      if (dlinfo(library, RTLD_DI_LINKMAP, &where) == 0) {
        snprintf(path, PATH_BYTES, "%s", where->l_name);
      }
      return library;
    }
    if (i < 4 && find_place(i, path)) {
      gpu_error_set(error, 0, INSTALL, "cannot load %s: %s", path, dlerror());
      return NULL;
    }
  }
  gpu_error_set(error, 0, INSTALL, "ONNX Runtime, which runs models, is not installed");
  return NULL;
}

static bool is_new_enough(const char *version) {
  unsigned major = 0, minor = 0;
  return sscanf(version, "%u.%u", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= OLDEST));
}

static const void *const *find_table(void *library, struct onnxruntime *runtime, struct gpu_error *error) {
  const struct ort_base *(*get_base)(void);
  *(void **)&get_base = dlsym(library, "OrtGetApiBase");
  const struct ort_base *base = get_base ? get_base() : NULL;
  if (!base) {
    gpu_error_set(error, 0, INSTALL, "%s is not ONNX Runtime", runtime->path);
    return NULL;
  }
  snprintf(runtime->version, sizeof runtime->version, "%s", base->version());
  const void *const *table = is_new_enough(runtime->version) ? base->table(TABLE) : NULL;
  if (!table) {
    gpu_error_set(error, 0, INSTALL, "%s is ONNX Runtime %s; 1.%d or a later 1.x is needed", runtime->path, runtime->version,
                  OLDEST);
  }
  return table;
}

static bool load(struct onnxruntime *runtime, struct gpu_error *error) {
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  void *library = open_library(runtime->path, error);
  const void *const *table = library ? find_table(library, runtime, error) : NULL;
  if (!table) {
    return false; /* the library stays: it may have begun threads */
  }
#define FILL(position, result, name, arguments) memcpy(&runtime->name, &table[position], sizeof runtime->name);
  ORT_FUNCTIONS(FILL)
#undef FILL
  struct ort_env *env = NULL;
  if (!onnxruntime_check(runtime, runtime->create_env(ignore_log, NULL, ORT_LOG_FATAL, "framed", &env), "ONNX Runtime",
                         error) ||
      !onnxruntime_check(runtime, runtime->disable_telemetry(env), "ONNX Runtime", error) ||
      !onnxruntime_check(runtime, runtime->create_host_memory(ORT_ARENA, ORT_MEMORY_DEFAULT, &runtime->host), "ONNX Runtime",
                         error)) {
    return false;
  }
  runtime->env = env;
  gpu_expect_library();
  return true;
}

/* Threads that the library begins take no signals: those belong to the threads of the daemon. */
const struct onnxruntime *onnxruntime_load(struct gpu_error *error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_lock(&lock);
  bool ready = loaded.env || load(&loaded, error);
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ready ? &loaded : NULL;
}
