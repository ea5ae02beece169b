/*
 * resize: the choice of a way, and the kernel for frames that no faster way takes.
 *
 * Bytes that are averaged in squares have resize_squares.cu; those that are mixed where both sides shrink to no less than half,
 * resize_tiles.cu; other bytes that are picked or mixed where rows do so, resize_words.cu. Floats have resize_floats.cu, unless
 * they are averages of more than three rows or columns. All others come here: one kernel for all planes of a frame
 * (blockIdx.z). A block makes a tile of THREADS columns by ROWS rows. Positions are quotients of 64 bit numbers, so they are
 * worked out once: that of its column by each thread, those of the rows by the first threads for all. What lies outside the
 * window gets the bars' level.
 */
#include "gpu/stages/bytes.cuh"
#include "gpu/stages/resize/resize_floats.cuh"
#include "gpu/stages/resize/resize_squares.cuh"
#include "gpu/stages/resize/resize_tiles.cuh"
#include "gpu/stages/resize/resize_words.cuh"

namespace {

enum { THREADS = 128, ROWS = 16 };

/* A filter is a position, found once for each column and row, and a sample made at the two. */
struct nearest {
  using position = uint32_t;
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) { return resize_nearest(x, in, out); }
};

struct bilinear {
  struct position {
    uint32_t first, second, weight;
  };
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) {
    const resize_pair pair = resize_pair_at(x, in, out);
    return {pair.first, pair.second, resize_weight(pair)};
  }
};

struct area {
  using position = resize_span;
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) { return resize_span_at(x, in, out); }
};

/* The samples of one channel of a plane. */
template <typename Sample> struct source {
  const Sample *samples;
  uint64_t row;
  uint32_t step;
  __device__ Sample at(uint32_t x, uint32_t y) const { return samples[y * row + uint64_t(x) * step]; }
};

template <typename Sample> __device__ Sample make(const source<Sample> &in, uint32_t x, uint32_t y) { return in.at(x, y); }

__device__ uint8_t make(const source<uint8_t> &in, const bilinear::position &x, const bilinear::position &y) {
  return resize_mix_columns(resize_mix_rows(in.at(x.first, y.first), in.at(x.first, y.second), y.weight),
                            resize_mix_rows(in.at(x.second, y.first), in.at(x.second, y.second), y.weight), x.weight);
}

__device__ float round_to(float value, float) { return value; }
__device__ uint8_t round_to(float value, uint8_t) { return arithmetic_level(value); }

__device__ __forceinline__ float value(float sample) { return sample; }
__device__ __forceinline__ float value(uint8_t sample) { return __uint_as_float(0x4b000000U | sample) - bytes_bias; }

/* The weighted sum down a span, from its first sample on. */
template <typename Sample>
__device__ __forceinline__ float sum_down(const Sample *sample, uint64_t row, const resize_span &span) {
  float sum = value(*sample) * span.head;
  for (uint32_t y = span.first + 1; y < span.last; y++) {
    sample += row;
    sum += value(*sample) * span.body;
  }
  return span.first == span.last ? sum : sum + value(sample[row]) * span.tail;
}

template <typename Sample> __device__ Sample make(const source<Sample> &in, const resize_span &x, const resize_span &y) {
  const Sample *sample = in.samples + y.first * in.row + uint64_t(x.first) * in.step;
  float sum = sum_down(sample, in.row, y) * x.head;
  for (uint32_t column = x.first + 1; column < x.last; column++) {
    sample += in.step;
    sum += sum_down(sample, in.row, y) * x.body;
  }
  return round_to(x.first == x.last ? sum : sum + sum_down(sample + in.step, in.row, y) * x.tail, Sample());
}

__device__ float bar(float fill, float) { return fill; }
__device__ uint8_t bar(float fill, uint8_t) { return arithmetic_level(fill); }

template <typename Sample, typename Filter>
__global__ void __launch_bounds__(THREADS)
    resize_kernel(const Sample *__restrict__ in, Sample *__restrict__ out, resize_constants constants) {
  __shared__ typename Filter::position rows[ROWS];
  const resize_plane &plane = constants.plane[blockIdx.z];
  const uint32_t first = blockIdx.y * ROWS;
  const uint32_t x = blockIdx.x * THREADS + threadIdx.x;
  const auto inside = [&](uint32_t y) { return y >= plane.y && y - plane.y < plane.height; };
  if (threadIdx.x < ROWS && inside(first + threadIdx.x)) {
    rows[threadIdx.x] = Filter::find(first + threadIdx.x - plane.y, plane.in_height, plane.height);
  }
  __syncthreads();
  if (x >= plane.out_width) {
    return;
  }
  const bool in_window = x >= plane.x && x - plane.x < plane.width;
  const typename Filter::position column = Filter::find(in_window ? x - plane.x : 0, plane.in_width, plane.width);
  for (uint32_t y = first; y < first + ROWS && y < plane.out_height; y++) {
    Sample *target = out + plane.out_offset + (uint64_t(y) * plane.out_width + x) * plane.channels;
    for (uint32_t c = 0; c < plane.channels; c++) {
      const source<Sample> from = {in + plane.in_offset + c, uint64_t(plane.in_width) * plane.channels, plane.channels};
      target[c] = in_window && inside(y) ? make(from, column, rows[y - first]) : bar(plane.fill, Sample());
    }
  }
}

struct same {
  __device__ uint8_t operator()(uint8_t sample) const { return sample; }
};

template <typename Sample, typename Filter>
int launch(const resize_constants &constants, const stage_plan *plan, const stage_call *call, cudaStream_t stream) {
  const dim3 blocks((plan->output.width + THREADS - 1) / THREADS, (plan->output.height + ROWS - 1) / ROWS, constants.planes);
  resize_kernel<Sample, Filter><<<blocks, THREADS, 0, stream>>>(static_cast<const Sample *>(call->input),
                                                                static_cast<Sample *>(call->output), constants);
  return cudaGetLastError();
}

int launch_bytes(const resize_constants &constants, const stage_plan *plan, const stage_call *call, cudaStream_t stream) {
  return resize_squares_take(constants)        ? resize_squares(constants, call, stream)
         : resize_tiles_take(constants)        ? resize_tiles(constants, call, stream)
         : resize_words_take(constants)        ? resize_words(constants, call, stream)
         : constants.filter == RESIZE_NEAREST  ? launch<uint8_t, nearest>(constants, plan, call, stream)
         : constants.filter == RESIZE_BILINEAR ? launch<uint8_t, bilinear>(constants, plan, call, stream)
                                               : launch<uint8_t, area>(constants, plan, call, stream);
}

int launch_floats(const resize_constants &constants, const stage_plan *plan, const stage_call *call, cudaStream_t stream) {
  return resize_floats_take(constants) ? resize_floats(constants, call, stream)
                                       : launch<float, area>(constants, plan, call, stream);
}

} // namespace

extern "C" int resize_enqueue(const stage_plan *plan, const stage_call *call, void *on) {
  const auto stream = static_cast<cudaStream_t>(on);
  resize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  if (resize_keeps(&constants.plane[0])) {
    return launch_map<uint8_t, uint8_t>(call->input, call->output, plan->input_bytes, same(), stream);
  }
  const auto launch = plan->input.dtype == ELEMENT_FLOAT32 ? launch_floats : launch_bytes;
  return launch(constants, plan, call, stream);
}
