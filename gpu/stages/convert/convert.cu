/*
 * convert: one kernel, an instance for each pair of formats, in which a thread turns one block of pixels (convert_block.cuh);
 * and the choice of it. From a plane of gray or luma to floats is a map instead.
 */
#include "gpu/stages/convert/convert_block.cuh"

namespace {

enum { THREADS_X = 32, THREADS_Y = 8 };

image image_of(const frame_format &format) {
  image result = {};
  result.width = format.width;
  result.height = format.height;
  result.half_width = (format.width + 1) / 2;
  result.half_height = (format.height + 1) / 2;
  result.aligned = format.width % ACROSS == 0;
  return result;
}

/* Alignment is settled once, and a row that is not there is written as the one above it again, so that no branch keeps the
 * loads of both rows from being under way together. */
template <pixel_format From, pixel_format To>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    convert_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, image size, convert_constants k) {
  const uint32_t x = (blockIdx.x * THREADS_X + threadIdx.x) * ACROSS;
  const uint32_t y = (blockIdx.y * THREADS_Y + threadIdx.y) * 2;
  if (x >= size.width || y >= size.height) {
    return;
  }
  const place at = {x, y, y + 1 < size.height ? 1U : 0U};
  if (size.aligned) {
    size.aligned = true;
    convert_block<From, To>(in, out, size, at, k);
  } else {
    size.aligned = false;
    convert_block<From, To>(in, out, size, at, k);
  }
}

using kernel = void (*)(const uint8_t *, uint8_t *, image, convert_constants);

template <pixel_format From> kernel kernel_to(pixel_format to) {
  switch (to) {
  case PIXELS_GRAY:
    return convert_kernel<From, PIXELS_GRAY>;
  case PIXELS_RGB24:
    return convert_kernel<From, PIXELS_RGB24>;
  case PIXELS_BGR24:
    return convert_kernel<From, PIXELS_BGR24>;
  case PIXELS_NV12:
    return convert_kernel<From, PIXELS_NV12>;
  case PIXELS_YUV420P:
    return convert_kernel<From, PIXELS_YUV420P>;
  case PIXELS_YUYV422:
    return convert_kernel<From, PIXELS_YUYV422>;
  default:
    return convert_kernel<From, PIXELS_GRAYF32LE>;
  }
}

kernel kernel_of(pixel_format from, pixel_format to) {
  switch (from) {
  case PIXELS_GRAY:
    return kernel_to<PIXELS_GRAY>(to);
  case PIXELS_RGB24:
    return kernel_to<PIXELS_RGB24>(to);
  case PIXELS_BGR24:
    return kernel_to<PIXELS_BGR24>(to);
  case PIXELS_NV12:
    return kernel_to<PIXELS_NV12>(to);
  case PIXELS_YUV420P:
    return kernel_to<PIXELS_YUV420P>(to);
  case PIXELS_YUYV422:
    return kernel_to<PIXELS_YUYV422>(to);
  default:
    return kernel_to<PIXELS_GRAYF32LE>(to);
  }
}

/* Floats of gray or luma, whose plane is the first: four at a time, so that neighbouring threads write neighbouring words. */
struct to_floats {
  convert_constants constants;
  bool luma;

  __device__ float operator()(uint8_t sample) const {
    return convert_gray_to_float(luma ? convert_luma_to_gray(&constants, sample) : convert_value(sample * CONVERT_ONE));
  }
};

bool is_plane(pixel_format pixels) { return pixels == PIXELS_GRAY || pixels == PIXELS_NV12 || pixels == PIXELS_YUV420P; }

} // namespace

extern "C" int convert_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  const cudaStream_t target = static_cast<cudaStream_t>(stream);
  if (plan->input.pixels == plan->output.pixels) {
    return cudaMemcpyAsync(call->output, call->input, plan->input_bytes, cudaMemcpyDeviceToDevice, target);
  }
  convert_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  if (plan->output.pixels == PIXELS_GRAYF32LE && is_plane(plan->input.pixels)) {
    const to_floats floats = {constants, plan->input.pixels != PIXELS_GRAY};
    return launch_map<uint8_t, float>(call->input, call->output, format_samples(&plan->output), floats, stream);
  }
  const dim3 threads(THREADS_X, THREADS_Y);
  const dim3 blocks((plan->input.width + THREADS_X * ACROSS - 1) / (THREADS_X * ACROSS),
                    (plan->input.height + THREADS_Y * 2 - 1) / (THREADS_Y * 2));
  kernel_of(plan->input.pixels, plan->output.pixels)<<<blocks, threads, 0, target>>>(
      static_cast<const uint8_t *>(call->input), static_cast<uint8_t *>(call->output), image_of(plan->input), constants);
  return cudaGetLastError();
}
