/*
 * Loads the libraries that the CUDA part of ONNX Runtime needs, since it says nowhere where they are, and replaces functions
 * that it imports; see cuda_provider.h.
 *
 * Its capture is made one of the thread alone: with a capture in global mode, which it asks for, no other thread could ask for
 * an event, and all lanes do.
 */
#include "gpu/model/cuda_provider.h"

#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INSTALL  "run `framectl models install --cuda`"
#define PROVIDER "libonnxruntime_providers_cuda.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_replaced; /* under the lock */
static _Thread_local struct provider_capture *watched;

/* -- functions in place of CUDA's ---------------------------------------------------------------------------------------- */

static struct {
  cudaError_t (*begin)(cudaStream_t, enum cudaStreamCaptureMode);
  cudaError_t (*end)(cudaStream_t, cudaGraph_t *);
  cudaError_t (*clone)(cudaGraph_t *, cudaGraph_t);
  cudaError_t (*last_error)(void);
  cudaError_t (*instantiate)(cudaGraphExec_t *, cudaGraph_t, unsigned long long);
  int (*set_stream)(void *, cudaStream_t);
  int (*set_workspace)(void *, void *, size_t);
} real;

static cudaError_t begin(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  (void)mode;
  return real.begin(stream, cudaStreamCaptureModeThreadLocal);
}

static cudaError_t end(cudaStream_t stream, cudaGraph_t *graph) {
  cudaError_t status = real.end(stream, graph);
  if (status == cudaSuccess && watched && !watched->graph && real.clone(&watched->graph, *graph) != cudaSuccess) {
    watched->graph = NULL;
    (void)real.last_error(); /* it is ours */
  }
  return status;
}

static cudaError_t instantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
  cudaError_t status = real.instantiate(exec, graph, flags);
  if (status == cudaSuccess && watched) {
    watched->exec = *exec;
  }
  return status;
}

/* A stream that is set makes cuBLAS forget its workspace. */
static int set_stream(void *handle, cudaStream_t stream) {
  int status = real.set_stream(handle, stream);
  return status == 0 && watched && watched->workspace ? real.set_workspace(handle, watched->workspace, PROVIDER_WORKSPACE)
                                                      : status;
}

void provider_watch(struct provider_capture *capture) { watched = capture; }

/* -- replacing them ------------------------------------------------------------------------------------------------------- */

struct replacement {
  const char *name;
  uintptr_t function;
  bool done;
};

/* Writes into a table that the linker has made read-only. */
static bool write_entry(uintptr_t *entry, uintptr_t value) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *begin = (void *)((uintptr_t)entry & ~(uintptr_t)(page - 1));
  if (mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  *entry = value;
  return mprotect(begin, page, PROT_READ) == 0;
}

/* Where something of the library lies: the linker has added its base on most machines. */
static const void *place(const struct link_map *library, ElfW(Addr) address) {
  return (const void *)(address < library->l_addr ? address + library->l_addr : address);
}

static bool replace_all(const struct link_map *library, struct replacement *replacements, size_t count) {
  const ElfW(Rela) *imports = NULL;
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  size_t bytes = 0;
  for (const ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; entry++) {
    imports = entry->d_tag == DT_JMPREL ? place(library, entry->d_un.d_ptr) : imports;
    symbols = entry->d_tag == DT_SYMTAB ? place(library, entry->d_un.d_ptr) : symbols;
    names = entry->d_tag == DT_STRTAB ? place(library, entry->d_un.d_ptr) : names;
    bytes = entry->d_tag == DT_PLTRELSZ ? entry->d_un.d_val : bytes;
  }
  for (size_t i = 0; imports && symbols && names && i < bytes / sizeof *imports; i++) {
    const char *name = names + symbols[ELF64_R_SYM(imports[i].r_info)].st_name;
    for (size_t k = 0; k < count; k++) {
      if (strcmp(name, replacements[k].name) == 0) {
        uintptr_t *entry = (uintptr_t *)(library->l_addr + imports[i].r_offset);
        replacements[k].done = write_entry(entry, replacements[k].function);
      }
    }
  }
  for (size_t k = 0; k < count; k++) {
    if (!replacements[k].done) {
      return false;
    }
  }
  return true;
}

/* What the library itself would have called. */
static bool find_real(void *library) {
  *(void **)&real.begin = dlsym(library, "cudaStreamBeginCapture");
  *(void **)&real.end = dlsym(library, "cudaStreamEndCapture");
  *(void **)&real.clone = dlsym(library, "cudaGraphClone");
  *(void **)&real.last_error = dlsym(library, "cudaGetLastError");
  *(void **)&real.instantiate = dlsym(library, "cudaGraphInstantiate");
  *(void **)&real.set_stream = dlsym(library, "cublasSetStream_v2");
  *(void **)&real.set_workspace = dlsym(library, "cublasSetWorkspace_v2");
  return real.begin && real.end && real.clone && real.last_error && real.instantiate && real.set_stream && real.set_workspace;
}

/* The provider is in the process by now: options for it were made. */
static bool replace(const struct model *model, struct gpu_error *error) {
  struct replacement replacements[] = {
      {"cudaStreamBeginCapture", (uintptr_t)begin, false},
      {"cudaStreamEndCapture", (uintptr_t)end, false},
      {"cudaGraphInstantiate", (uintptr_t)instantiate, false},
      {"cublasSetStream_v2", (uintptr_t)set_stream, false},
  };
  char path[sizeof model->runtime->path + sizeof PROVIDER];
  const char *slash = strrchr(model->runtime->path, '/');
  snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash + 1 - model->runtime->path) : 0, model->runtime->path, PROVIDER);
  struct link_map *library;
  void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &library) == 0 && find_real(handle) &&
      replace_all(library, replacements, sizeof replacements / sizeof replacements[0])) {
    return true;
  }
  return gpu_error_set(error, 0, INSTALL ", which brings a version that is known", "%s captures no graphs that could be used",
                       path);
}

/* -- libraries ------------------------------------------------------------------------------------------------------------ */

static bool load_from(const char *pattern, const char *name) {
  char path[768];
  glob_t found;
  void *library = NULL;
  snprintf(path, sizeof path, "%s/%s", pattern, name);
  if (glob(path, 0, NULL, &found) == 0) {
    library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
  }
  globfree(&found);
  return library != NULL;
}

/* Libraries from beside ONNX Runtime, of the toolkit, or where the linker looks. Those that are nowhere are missed by the
 * provider itself, whose error names them. */
static void load_libraries(const struct onnxruntime *runtime) {
  static const char *const names[] = {"libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10",
                                      "libcudnn.so.9"};
  char folder[sizeof runtime->path], wheels[sizeof runtime->path + 32];
  const char *slash = strrchr(runtime->path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - runtime->path) : 1, slash ? runtime->path : ".");
  snprintf(wheels, sizeof wheels, "%s/nvidia/*/lib", folder);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    (void)(load_from(folder, names[i]) || load_from(wheels, names[i]) || load_from("/usr/local/cuda/lib64", names[i]) ||
           dlopen(names[i], RTLD_NOW | RTLD_LOCAL));
  }
}

void provider_load(const struct onnxruntime *runtime) {
  pthread_mutex_lock(&lock);
  if (!is_replaced) {
    load_libraries(runtime);
  }
  pthread_mutex_unlock(&lock);
}

/* -- options -------------------------------------------------------------------------------------------------------------- */

static bool set_options(const struct model *model, struct ort_cuda_options *options, int device,
                        const struct model_choice *choice, struct gpu_error *error) {
  char index[16], memory[32];
  enum { ALWAYS = 6, MOST = 8 };
  const char *keys[MOST] = {"device_id",   "enable_cuda_graph",      "use_tf32",
                            "prefer_nhwc", "cudnn_conv_algo_search", "arena_extend_strategy"};
  const char *values[MOST] = {index,
                              "1",
                              model->precision == MODEL_TF32 ? "1" : "0",
                              choice->channels_last ? "1" : "0",
                              choice->exhaustive ? "EXHAUSTIVE" : "HEURISTIC",
                              "kSameAsRequested"};
  size_t count = ALWAYS;
  snprintf(index, sizeof index, "%d", device);
  snprintf(memory, sizeof memory, "%zu", model->memory);
  if (choice->adds_bias) {
    keys[count] = "fuse_conv_bias";
    values[count++] = "1";
  }
  if (model->memory > 0) {
    keys[count] = "gpu_mem_limit";
    values[count++] = memory;
  }
  return onnxruntime_check(model->runtime, model->runtime->set_cuda_options(options, keys, values, count), model->path, error);
}

/* Says how to get what is missing. */
static bool explain(struct gpu_error *error) {
  const char *library = strstr(error->text, "lib");
  bool is_missing = strstr(error->text, "cannot open shared object file") || strstr(error->text, "Failed to load library");
  if (strstr(error->text, "not enabled in this build")) {
    return gpu_error_set(error, 0, INSTALL, "this ONNX Runtime has no part for CUDA");
  }
  if (is_missing && library) {
    char text[GPU_TEXT];
    snprintf(text, sizeof text, "%.400s", error->text);
    return gpu_error_set(error, 0, INSTALL, "ONNX Runtime's part for CUDA, or a library that it needs, is missing: %s", text);
  }
  return false;
}

bool provider_append(const struct model *model, struct ort_options *options, int device, cudaStream_t stream,
                     const struct model_choice *choice, struct gpu_error *error) {
  const struct onnxruntime *runtime = model->runtime;
  struct ort_cuda_options *cuda = NULL;
  provider_load(runtime);
  pthread_mutex_lock(&lock);
  bool good =
      onnxruntime_check(runtime, runtime->create_cuda_options(&cuda), "ONNX Runtime", error) &&
      set_options(model, cuda, device, choice, error) &&
      onnxruntime_check(runtime, runtime->set_cuda_pointer(cuda, "user_compute_stream", stream), "ONNX Runtime", error) &&
      onnxruntime_check(runtime, runtime->append_cuda(options, cuda), "ONNX Runtime", error);
  if (!good) {
    (void)explain(error);
  } else if (!is_replaced) {
    good = is_replaced = replace(model, error);
  }
  pthread_mutex_unlock(&lock);
  if (cuda) {
    runtime->release_cuda_options(cuda);
  }
  return good;
}
