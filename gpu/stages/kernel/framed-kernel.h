/*
 * framed-kernel.h: what a kernel of your own takes as a stage of framed's. CUDA C finds it by itself when framed compiles it.
 *
 *   #include <framed-kernel.h>
 *
 *   __global__ void invert(framed_in in, framed_out out, float gain) {
 *     int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
 *     if (x < out.width && y < out.height) {
 *       for (int c = 0; c < out.channels; c++) {
 *         *out.at<unsigned char>(x, y, c) = 255 - gain * *in.at<unsigned char>(x, y, c);
 *       }
 *     }
 *   }
 *
 *   - kernel: {source: invert.cu, name: invert, parameters: {gain: 0.5}}
 *
 * The first argument is the frame, the second the result, and each further one a parameter of the configuration, in the order
 * that they have there: a bool, an integer, float or double; a list of two to four numbers an intN or floatN of CUDA's. The
 * kernel is not extern "C", since its name tells the types of its arguments. Without `grid` there are so many blocks that each
 * (x, y) of the result has a thread. The kernel is captured into a graph, and replayed for each frame.
 */
#ifndef FRAMED_KERNEL_H
#define FRAMED_KERNEL_H

/* The type of one sample. */
enum framed_type { FRAMED_UINT8, FRAMED_FLOAT32, FRAMED_FLOAT16, FRAMED_INT32, FRAMED_INT64 };

/* What an image is; a tensor is 0. */
enum framed_pixels {
  FRAMED_TENSOR,
  FRAMED_GRAY,
  FRAMED_RGB24,
  FRAMED_BGR24,
  FRAMED_NV12,
  FRAMED_YUV420P,
  FRAMED_YUYV422,
  FRAMED_GRAYF32LE
};

#ifdef __CUDACC__
#define FRAMED_AT(qualifier)                                                                                                   \
  template <typename Sample> __device__ qualifier Sample *at(int x, int y, int channel = 0) const {                            \
    return reinterpret_cast<qualifier Sample *>(data + y * pitch + x * step + channel * plane);                                \
  }
#else
#define FRAMED_AT(qualifier)
#endif

/* Rows, samples and channels lie `pitch`, `step` and `plane` bytes apart. Of a tensor, width and height are the last two sizes,
 * and channels all others together. nv12 and yuv420p have the channel of brightness here; their colours follow it. */
struct framed_in {
  const unsigned char *data;
  long long pitch, step, plane;
  int width, height, channels;
  int type, pixels; /* enum framed_type, enum framed_pixels */
  FRAMED_AT(const)
};

struct framed_out {
  unsigned char *data;
  long long pitch, step, plane;
  int width, height, channels;
  int type, pixels;
  FRAMED_AT()
};

#undef FRAMED_AT

#endif
