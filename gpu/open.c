/*
 * Which backend a device is opened with. The only file that knows both backends: whatever opens no device calls them through
 * the table of the device (backend.h).
 */
#include "gpu/backend.h"

#ifndef FRAMED_CUDA
static void cuda_expect(unsigned slots) { (void)slots; }

static bool cuda_usable(unsigned index, struct gpu_error *error) {
  gpu_error_set(error, 0, "build it again where nvcc (CUDA 12 or later) is installed, or set gpu.backend to cpu",
                "device %u cannot be used: this build of framed has no CUDA backend", index);
  error->no_device = true;
  return false;
}

static unsigned cuda_count(void) { return 0; }

static void cuda_find_lacks(struct gpu_lacks *lacks) { (void)lacks; }

static struct gpu_device *cuda_open(unsigned index, const struct gpu_calibration *known, struct gpu_error *error) {
  (void)known;
  (void)cuda_usable(index, error);
  return NULL;
}
#endif

void gpu_expect(unsigned slots) { cuda_expect(slots); }

static bool is_cuda(enum gpu_backend_choice choice) {
  return choice == GPU_BACKEND_CUDA || (choice == GPU_BACKEND_AUTO && gpu_nvidia_present("/dev"));
}

unsigned gpu_count(enum gpu_backend_choice choice, unsigned cpus) { return is_cuda(choice) ? cuda_count() : cpus; }

bool gpu_usable(enum gpu_backend_choice choice, unsigned index, struct gpu_error *error) {
  return !is_cuda(choice) || cuda_usable(index, error);
}

void gpu_find_lacks(enum gpu_backend_choice choice, struct gpu_lacks *lacks) {
  *lacks = (struct gpu_lacks){.shares = ""};
  if (is_cuda(choice)) {
    cuda_find_lacks(lacks);
  }
}

bool gpu_chain_runs(const struct gpu_chain *chain, enum gpu_backend_choice choice, struct gpu_error *error) {
  return chain_runs(chain, is_cuda(choice), error);
}

struct gpu_device *gpu_open_calibrated(enum gpu_backend_choice choice, unsigned index, unsigned workers,
                                       const struct gpu_calibration *known, struct gpu_error *error) {
  return is_cuda(choice) ? cuda_open(index, known, error) : cpu_open(index, workers, error);
}

struct gpu_device *gpu_open(enum gpu_backend_choice choice, unsigned index, unsigned workers, struct gpu_error *error) {
  return gpu_open_calibrated(choice, index, workers, NULL, error);
}
