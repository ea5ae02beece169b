/* Finds and opens plugins of frei0r; see frei0r.h. */
#include "gpu/stages/frei0r/frei0r.h"
#include "gpu/stages/library/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDING       ".so"
#define NOT_FOUND    "apt install frei0r-plugins, or name its folder in FREI0R_PATH; `framectl stages` lists what is there"
#define NOT_A_PLUGIN "`framectl stages` lists the filters that are there"

enum { KEY = PATH_MAX + 512 };

/* -- where they lie ----------------------------------------------------------------------------------------------- */

/* All files NAME.so in the usual folders, those of FREI0R_PATH before the others. */
static void find_files(const char *name, glob_t *files) {
  static const char *const folders[] = {"/usr/local/lib/frei0r-1", "/usr/lib/frei0r-1", "/usr/lib/*/frei0r-1",
                                        "/usr/local/lib/*/frei0r-1"};
  char pattern[PATH_MAX];
  const char *own = getenv("FREI0R_PATH");
  memset(files, 0, sizeof *files);
  for (const char *at = own ? own : ""; *at;) {
    size_t length = strcspn(at, ":");
    snprintf(pattern, sizeof pattern, "%.*s/%s" ENDING, (int)length, at, name);
    glob(pattern, files->gl_pathv ? GLOB_APPEND : 0, NULL, files);
    at += length + (at[length] == ':');
  }
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(pattern, sizeof pattern, "%s/%s" ENDING, folders[i], name);
    glob(pattern, files->gl_pathv ? GLOB_APPEND : 0, NULL, files);
  }
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The paths become names. */
static void cut_names(glob_t *files) {
  for (size_t i = 0; i < files->gl_pathc; i++) {
    char *slash = strrchr(files->gl_pathv[i], '/');
    memmove(files->gl_pathv[i], slash + 1, strlen(slash));
    files->gl_pathv[i][strlen(files->gl_pathv[i]) - strlen(ENDING)] = '\0';
  }
}

void frei0r_list(void (*found)(const char *name, void *context), void *context) {
  glob_t files;
  find_files("*", &files);
  cut_names(&files);
  if (files.gl_pathc > 0) {
    qsort(files.gl_pathv, files.gl_pathc, sizeof *files.gl_pathv, compare);
  }
  for (size_t i = 0; i < files.gl_pathc; i++) {
    if (i == 0 || strcmp(files.gl_pathv[i], files.gl_pathv[i - 1]) != 0) {
      found(files.gl_pathv[i], context);
    }
  }
  globfree(&files);
}

/* -- opening ------------------------------------------------------------------------------------------------------ */

/* f0r_init() is called once a process. The lock is for chains that are made at once. */
static void *load(const char *path) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!handle) {
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = handle ? dlsym(handle, "f0r_init") : NULL;
    int (*init)(void);
    memcpy(&init, &symbol, sizeof init);
    if (init) {
      init();
    }
  }
  pthread_mutex_unlock(&lock);
  return handle;
}

static bool find_function(const struct frei0r_plugin *plugin, const char *name, void *target) {
  void *symbol = dlsym(plugin->handle, name);
  memcpy(target, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool read_info(struct frei0r_plugin *plugin) {
  void (*info)(struct frei0r_info * info);
  if (!find_function(plugin, "f0r_get_plugin_info", &info)) {
    return false;
  }
  info(&plugin->info);
  return true;
}

static bool find_functions(struct frei0r_plugin *plugin) {
  return find_function(plugin, "f0r_get_param_info", &plugin->parameter_info) &&
         find_function(plugin, "f0r_construct", &plugin->construct) &&
         find_function(plugin, "f0r_destruct", &plugin->destruct) &&
         find_function(plugin, "f0r_set_param_value", &plugin->set) &&
         find_function(plugin, "f0r_get_param_value", &plugin->get) && find_function(plugin, "f0r_update", &plugin->update);
}

static bool refuse(struct frei0r_plugin *plugin, const char **remedy) {
  if (plugin->handle) {
    dlclose(plugin->handle);
  }
  *remedy = NOT_A_PLUGIN;
  return false;
}

/* Files of filters are kept by their names and where they lie. */
static void write_key(const char *name, const char *path, char key[KEY]) {
  snprintf(key, KEY, "frei0r/%s" ENDING "%s", name, path);
}

/* Where the filter lies, or lay when it was opened at first. False: nowhere. */
static bool find_file(const char *name, char path[PATH_MAX]) {
  char key[KEY];
  glob_t files;
  write_key(name, "", key);
  const struct kept_file *first = kept_find(key);
  find_files(name, &files);
  bool found = first || files.gl_pathc > 0;
  if (found) {
    snprintf(path, PATH_MAX, "%s", first ? first->path + strlen(key) : files.gl_pathv[0]);
  }
  globfree(&files);
  return found;
}

static void keep(const char *name, struct kept_file *kept, char path[PATH_MAX]) {
  char key[KEY];
  write_key(name, path, key);
  library_keep(kept, key, path, PATH_MAX);
}

bool frei0r_open(struct frei0r_plugin *plugin, const char *name, struct kept_file *kept, char problem[STAGE_TEXT],
                 const char **remedy) {
  static const char *const types[] = {"filter", "source of pictures", "mixer of two pictures", "mixer of three pictures"};
  char path[PATH_MAX];
  *plugin = (struct frei0r_plugin){0};
  if (strpbrk(name, "/*?[\\")) {
    snprintf(problem, STAGE_TEXT, "'%.80s' is no name of a filter", name);
    return refuse(plugin, remedy);
  }
  if (!find_file(name, path)) {
    snprintf(problem, STAGE_TEXT, "there is no frei0r filter '%.80s'", name);
    *remedy = NOT_FOUND;
    return false;
  }
  if (kept) {
    keep(name, kept, path);
  }
  plugin->handle = load(path);
  if (!plugin->handle) {
    const char *why = dlerror();
    snprintf(problem, STAGE_TEXT, "the filter '%.80s' cannot be loaded: %s", name, why ? why : "for an unknown reason");
    return refuse(plugin, remedy);
  }
  if (!read_info(plugin)) {
    snprintf(problem, STAGE_TEXT, "'%.80s' is no plugin of frei0r", name);
    return refuse(plugin, remedy);
  }
  if (plugin->info.type != FREI0R_FILTER || plugin->info.version != 1 || plugin->info.colours < FREI0R_BGRA ||
      plugin->info.colours > FREI0R_PACKED || !find_functions(plugin)) {
    bool known = plugin->info.type > FREI0R_FILTER && plugin->info.type <= FREI0R_MIXER3;
    snprintf(problem, STAGE_TEXT, "'%.80s' is a %s, not a filter of one picture", name,
             known ? types[plugin->info.type] : "plugin of another version of frei0r");
    return refuse(plugin, remedy);
  }
  return true;
}
