#include "tools/framectl/models/runtime.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_PLACE "/var/lib/framed/onnxruntime"
#define OWN_PLACE    ".local/share/framed/onnxruntime"
#define LIBRARY      "libonnxruntime.so."
#define CUDA_LIBRARY "libonnxruntime_providers_cuda.so"

static bool own_place(char place[PATH_MAX]) {
  const char *home = getenv("HOME");
  return home && *home && snprintf(place, PATH_MAX, "%s/" OWN_PLACE, home) < PATH_MAX;
}

bool runtime_place(unsigned index, char place[PATH_MAX]) {
  const char *given = getenv("FRAMED_ONNXRUNTIME");
  switch (index) {
  case 0:
    return given && *given && snprintf(place, PATH_MAX, "%s", given) < PATH_MAX;
  case 1:
    snprintf(place, PATH_MAX, SYSTEM_PLACE);
    return true;
  case 2:
    return own_place(place);
  default:
    snprintf(place, PATH_MAX, "/usr/lib/framed/onnxruntime");
    return true;
  }
}

bool runtime_target(char place[PATH_MAX]) {
  if (runtime_place(0, place)) {
    return true;
  }
  return geteuid() == 0 ? runtime_place(1, place) : own_place(place);
}

bool runtime_look(const char *place, struct runtime *runtime) {
  *runtime = (struct runtime){0};
  DIR *folder = opendir(place);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (strncmp(entry->d_name, LIBRARY, strlen(LIBRARY)) == 0) {
      snprintf(runtime->version, sizeof runtime->version, "%.23s", entry->d_name + strlen(LIBRARY));
    }
    runtime->cuda = runtime->cuda || strcmp(entry->d_name, CUDA_LIBRARY) == 0;
  }
  if (folder) {
    closedir(folder);
  }
  return runtime->version[0] != '\0';
}

struct base { /* the layout of OrtApiBase */
  const void *(*table)(unsigned version);
  const char *(*version)(void);
};

bool runtime_look_linked(struct runtime *runtime) {
  const struct base *(*get_base)(void) = NULL;
  *runtime = (struct runtime){0};
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  void *library = dlopen("libonnxruntime.so.1", RTLD_LAZY | RTLD_LOCAL);
  library = library ? library : dlopen("libonnxruntime.so", RTLD_LAZY | RTLD_LOCAL);
  if (library) {
    *(void **)&get_base = dlsym(library, "OrtGetApiBase");
  }
  if (get_base) {
    snprintf(runtime->version, sizeof runtime->version, "%s", get_base()->version());
  }
  return runtime->version[0] != '\0';
}

/* The processor that a program or library was built for; EM_NONE if the file is neither. */
static Elf64_Half machine_of(const char *path) {
  Elf64_Ehdr header = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool whole = fd >= 0 && read(fd, &header, sizeof header) == (ssize_t)sizeof header;
  if (fd >= 0) {
    close(fd);
  }
  return whole && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 ? header.e_machine : EM_NONE;
}

bool runtime_fits(const char *library) {
  Elf64_Half machine = machine_of(library);
  return machine != EM_NONE && machine == machine_of("/proc/self/exe");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at) {
  (void)status;
  (void)type;
  (void)at;
  return remove(path);
}

bool runtime_remove(const char *place) { return nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0; }

static double bytes_so_far;

static int add_bytes(const char *path, const struct stat *status, int type, struct FTW *at) {
  (void)path;
  (void)at;
  bytes_so_far += type == FTW_F ? (double)status->st_size : 0;
  return 0;
}

double runtime_bytes(const char *place) {
  bytes_so_far = 0;
  nftw(place, add_bytes, 16, FTW_PHYS);
  return bytes_so_far;
}
