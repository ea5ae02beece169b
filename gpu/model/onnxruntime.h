/*
 * ONNX Runtime, as far as models need it: the functions that are used of its table, and the loading of the library.
 *
 * Nothing links it. The library gives one table of function pointers, to which new versions only add, so that the position of
 * a function is all that has to be known of it. It is loaded when the first model is opened, and stays.
 *
 * Errors of the library are objects that whoever gets one must release: onnxruntime_check() turns them into struct gpu_error.
 */
#ifndef FRAMED_GPU_MODEL_ONNXRUNTIME_H
#define FRAMED_GPU_MODEL_ONNXRUNTIME_H

#include "gpu/gpu.h"

struct ort_status;
struct ort_env;
struct ort_session;
struct ort_options;     /* of a session */
struct ort_run_options; /* of one run */
struct ort_value;
struct ort_memory_info;
struct ort_type_info;
struct ort_tensor_info;
struct ort_allocator;
struct ort_binding;
struct ort_cuda_options;

typedef void ort_log(void *context, int severity, const char *category, const char *id, const char *place, const char *text);

/* Types of elements, as ONNX numbers them in files and the library in its calls. */
enum onnx_type { ONNX_FLOAT = 1, ONNX_UINT8 = 2, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_FLOAT16 = 10 };

enum {
  ORT_LOG_FATAL = 4,
  ORT_OPTIMIZE_NOTHING = 0,
  ORT_OPTIMIZE_ALL = 99,
  ORT_DEVICE = 0,
  ORT_ARENA = 1,
  ORT_MEMORY_DEFAULT = 0
};

/* FUNCTION(position, result, name, arguments) for each function that is used. */
#define ORT_FUNCTIONS(FUNCTION)                                                                                                \
  FUNCTION(2, const char *, error_text, (const struct ort_status *))                                                           \
  FUNCTION(4, struct ort_status *, create_env, (ort_log *, void *, int, const char *, struct ort_env **))                      \
  FUNCTION(6, struct ort_status *, disable_telemetry, (const struct ort_env *))                                                \
  FUNCTION(8, struct ort_status *, create_session,                                                                             \
           (const struct ort_env *, const void *, size_t, const struct ort_options *, struct ort_session **))                  \
  FUNCTION(9, struct ort_status *, run,                                                                                        \
           (struct ort_session *, const struct ort_run_options *, const char *const *, const struct ort_value *const *,        \
            size_t, const char *const *, size_t, struct ort_value **))                                                         \
  FUNCTION(10, struct ort_status *, create_options, (struct ort_options **))                                                   \
  FUNCTION(22, struct ort_status *, set_log_severity, (struct ort_options *, int))                                             \
  FUNCTION(23, struct ort_status *, set_optimization, (struct ort_options *, int))                                             \
  FUNCTION(24, struct ort_status *, set_threads, (struct ort_options *, int))                                                  \
  FUNCTION(31, struct ort_status *, output_count, (const struct ort_session *, size_t *))                                      \
  FUNCTION(34, struct ort_status *, output_type, (const struct ort_session *, size_t, struct ort_type_info **))                \
  FUNCTION(37, struct ort_status *, output_name, (const struct ort_session *, size_t, struct ort_allocator *, char **))        \
  FUNCTION(49, struct ort_status *, create_tensor,                                                                             \
           (const struct ort_memory_info *, void *, size_t, const int64_t *, size_t, int, struct ort_value **))                \
  FUNCTION(55, struct ort_status *, as_tensor, (const struct ort_type_info *, const struct ort_tensor_info **))                \
  FUNCTION(60, struct ort_status *, element_type, (const struct ort_tensor_info *, int *))                                     \
  FUNCTION(61, struct ort_status *, rank, (const struct ort_tensor_info *, size_t *))                                          \
  FUNCTION(62, struct ort_status *, shape, (const struct ort_tensor_info *, int64_t *, size_t))                                \
  FUNCTION(65, struct ort_status *, tensor_of, (const struct ort_value *, struct ort_tensor_info **))                          \
  FUNCTION(68, struct ort_status *, create_memory, (const char *, int, int, int, struct ort_memory_info **))                   \
  FUNCTION(69, struct ort_status *, create_host_memory, (int, int, struct ort_memory_info **))                                 \
  FUNCTION(76, struct ort_status *, give_back, (struct ort_allocator *, void *))                                               \
  FUNCTION(78, struct ort_status *, allocator, (struct ort_allocator **))                                                      \
  FUNCTION(93, void, release_status, (struct ort_status *))                                                                    \
  FUNCTION(94, void, release_memory, (struct ort_memory_info *))                                                               \
  FUNCTION(95, void, release_session, (struct ort_session *))                                                                  \
  FUNCTION(96, void, release_value, (struct ort_value *))                                                                      \
  FUNCTION(98, void, release_type, (struct ort_type_info *))                                                                   \
  FUNCTION(99, void, release_tensor, (struct ort_tensor_info *))                                                               \
  FUNCTION(100, void, release_options, (struct ort_options *))                                                                 \
  FUNCTION(124, struct ort_status *, set_dimension, (struct ort_options *, const char *, int64_t))                             \
  FUNCTION(130, struct ort_status *, configure, (struct ort_options *, const char *, const char *))                            \
  FUNCTION(133, struct ort_status *, run_bound,                                                                                \
           (struct ort_session *, const struct ort_run_options *, const struct ort_binding *))                                 \
  FUNCTION(134, struct ort_status *, create_binding, (struct ort_session *, struct ort_binding **))                            \
  FUNCTION(135, void, release_binding, (struct ort_binding *))                                                                 \
  FUNCTION(136, struct ort_status *, bind_input, (struct ort_binding *, const char *, const struct ort_value *))               \
  FUNCTION(137, struct ort_status *, bind_output, (struct ort_binding *, const char *, const struct ort_value *))              \
  FUNCTION(204, struct ort_status *, append_cuda, (struct ort_options *, const struct ort_cuda_options *))                     \
  FUNCTION(205, struct ort_status *, create_cuda_options, (struct ort_cuda_options **))                                        \
  FUNCTION(206, struct ort_status *, set_cuda_options,                                                                         \
           (struct ort_cuda_options *, const char *const *, const char *const *, size_t))                                      \
  FUNCTION(208, void, release_cuda_options, (struct ort_cuda_options *))                                                       \
  FUNCTION(263, struct ort_status *, set_cuda_pointer, (struct ort_cuda_options *, const char *, void *))                      \
  FUNCTION(279, struct ort_status *, add_external,                                                                             \
           (struct ort_options *, const char *const *, char *const *, const size_t *, size_t))

struct onnxruntime {
  char version[32];
  char path[512]; /* of the library */
  struct ort_env *env;
  struct ort_memory_info *host; /* says of a tensor that it lies in the machine's own memory */
#define ORT_MEMBER(position, result, name, arguments) result(*name) arguments;
  ORT_FUNCTIONS(ORT_MEMBER)
#undef ORT_MEMBER
};

/* The library, loaded with the first call that finds it; NULL with an error that says how to get it. Any thread. */
const struct onnxruntime *onnxruntime_load(struct gpu_error *error);

/* True if `status` is NULL. Otherwise releases it and puts what it says behind `what` ("" for nothing) into `error`. */
bool onnxruntime_check(const struct onnxruntime *runtime, struct ort_status *status, const char *what, struct gpu_error *error);

/* Takes out of a text of the library what says nothing to a user: places in its source, names of its functions and of the
 * machine. */
void onnxruntime_trim(char *text);

#endif
