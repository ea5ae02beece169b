/*
 * resize: kernel for floats, where no sample is made of more than three rows and three columns.
 *
 * What limits it is how much of the source is under way at a time. So a thread makes one column of ROWS rows, and reads all
 * samples of BATCH rows before it uses the first of them. It reads the same number of samples for each: those beyond a span's
 * end are its last one once more, and stay out of the sum, as even with a weight of 0 an infinite sample or -0 would change it.
 * Likewise rows beyond the last of the result are the last once more, so that nothing in the loop branches. Positions are
 * quotients, so each column's and each row's is worked out once for a block. Sums go down the columns first, then along the
 * row, each in the order of the samples, as resize.h has it.
 */
#include "gpu/stages/resize/resize_floats.cuh"
#include "gpu/stages/resize/resize_place.cuh"

namespace {

enum {
  THREADS_X = 128,
  THREADS_Y = 2,
  THREADS = THREADS_X * THREADS_Y,
  ROWS = 16,
  BATCH = 4,
  LINES = THREADS_Y * ROWS,
  POSITIONS = THREADS_X + LINES
};

static_assert(int(ROWS) % int(BATCH) == 0, "rows come in whole batches");

/* The samples first to last of a column or row of the source, and their weights. */
template <int Taps> struct alignas(16) position {
  uint32_t first, last;
  float weights[Taps];
};

/* Sample i of them, the last one again where there are fewer. */
template <int Taps> __device__ __forceinline__ uint32_t sample_at(const position<Taps> &at, uint32_t i) {
  return i == 0 ? at.first : i == Taps - 1 ? at.last : min(at.first + i, at.last);
}

/* A filter has TAPS samples at most on each axis; where it has ALL, it always has as many, and where it is DENSE, they
 * always stand side by side in a row. */
struct nearest {
  enum { TAPS = 1, ALL = true, DENSE = true };
  static __device__ position<TAPS> find(uint32_t x, uint32_t in, uint32_t out) {
    const uint32_t first = resize_nearest(x, in, out);
    return {first, first, {1}};
  }
};

/* Only where a row does not shrink, the second sample may be the first once more. */
template <bool Shrinks> struct bilinear {
  enum { TAPS = 2, ALL = true, DENSE = Shrinks };
  static __device__ position<TAPS> find(uint32_t x, uint32_t in, uint32_t out) {
    const resize_pair pair = resize_pair_at(x, in, out);
    const float weight = resize_weight_float(pair);
    return {pair.first, pair.second, {1.0F - weight, weight}};
  }
};

template <int Taps, bool All> struct area {
  enum { TAPS = Taps, ALL = All, DENSE = All };
  static __device__ position<Taps> find(uint32_t x, uint32_t in, uint32_t out) {
    const resize_span span = resize_span_at(x, in, out);
    position<Taps> result = {span.first, span.last, {}};
#pragma unroll
    for (uint32_t i = 0; i < Taps; i++) {
      result.weights[i] = resize_span_weight(&span, span.first + i);
    }
    return result;
  }
};

/* Positions of the columns of a block, then of its rows. */
template <typename Filter> __device__ __forceinline__ void find_all(position<Filter::TAPS> *found, const resize_plane &plane) {
#pragma unroll 1
  for (uint32_t i = threadIdx.y * THREADS_X + threadIdx.x; i < POSITIONS; i += THREADS) {
    const bool column = i < THREADS_X;
    const uint32_t index = column ? place(blockIdx.x * THREADS_X + i, plane.x, plane.width)
                                  : place(blockIdx.y * LINES + i - THREADS_X, plane.y, plane.height);
    found[i] = Filter::find(index, column ? plane.in_width : plane.in_height, column ? plane.width : plane.height);
  }
}

template <typename Filter>
__device__ __forceinline__ float sum(const float (&samples)[Filter::TAPS], const position<Filter::TAPS> &at) {
  float total = samples[0] * at.weights[0];
#pragma unroll
  for (uint32_t i = 1; i < Filter::TAPS; i++) {
    const float more = total + samples[i] * at.weights[i];
    total = Filter::ALL || at.first + i <= at.last ? more : total;
  }
  return Filter::TAPS == 1 && Filter::ALL ? samples[0] : total;
}

/* Where a thread's samples lie in the rows of the source. */
template <typename Filter> struct source {
  const char *column;
  uint32_t row;
  uint32_t steps[Filter::TAPS];
  __device__ source(const float *in, uint32_t in_width, const position<Filter::TAPS> &at)
      : column(reinterpret_cast<const char *>(in + at.first)), row(in_width * uint32_t(sizeof *in)) {
#pragma unroll
    for (uint32_t i = 0; i < Filter::TAPS; i++) {
      steps[i] = Filter::DENSE ? i : sample_at(at, i) - at.first;
    }
  }
  __device__ __forceinline__ void read(uint32_t y, float (&samples)[Filter::TAPS]) const {
    const auto *start = reinterpret_cast<const float *>(column + distance(y, row));
#pragma unroll
    for (uint32_t i = 0; i < Filter::TAPS; i++) {
      samples[i] = __ldg(start + steps[i]);
    }
  }
};

/* What a row of the result is made of. */
template <int Taps> struct square { float rows[Taps][Taps]; };

template <typename Filter>
__device__ __forceinline__ void read_square(const source<Filter> &from, const position<Filter::TAPS> &line,
                                            square<Filter::TAPS> &to) {
#pragma unroll
  for (uint32_t i = 0; i < Filter::TAPS; i++) {
    from.read(sample_at(line, i), to.rows[i]);
  }
}

template <typename Filter>
__device__ __forceinline__ float make(const square<Filter::TAPS> &from, const position<Filter::TAPS> &column,
                                      const position<Filter::TAPS> &row) {
  constexpr int taps = Filter::TAPS;
  float along[taps];
#pragma unroll
  for (uint32_t i = 0; i < taps; i++) {
    float down[taps];
#pragma unroll
    for (uint32_t j = 0; j < taps; j++) {
      down[j] = from.rows[j][i];
    }
    along[i] = sum<Filter>(down, row);
  }
  return sum<Filter>(along, column);
}

/* Where a thread's column of the result lies, and the rows of it that show the image. */
struct sink {
  char *column;
  uint32_t row, last, start, height;
  float fill;
  __device__ sink(float *out, const resize_plane &plane, uint32_t x)
      : column(reinterpret_cast<char *>(out + x)), row(plane.out_width * uint32_t(sizeof *out)), last(plane.out_height - 1),
        start(plane.y), height(x - plane.x < plane.width ? plane.height : 0), fill(plane.fill) {}
  __device__ __forceinline__ void write(uint32_t y, float value) const {
    const uint32_t place = min(y, last);
    auto *target = reinterpret_cast<float *>(column + distance(place, row));
    *target = place - start < height ? value : fill;
  }
};

/* Without the 1 the compiler saves registers and puts off half of the loads of a batch. */
template <typename Filter>
__global__ void __launch_bounds__(THREADS, 1)
    resize_floats_kernel(const float *__restrict__ in, float *__restrict__ out, const resize_plane plane) {
  constexpr int taps = Filter::TAPS;
  __shared__ position<taps> found[POSITIONS];
  find_all<Filter>(found, plane);
  __syncthreads();
  const uint32_t x = blockIdx.x * THREADS_X + threadIdx.x;
  const uint32_t first = blockIdx.y * LINES + threadIdx.y * ROWS;
  if (x >= plane.out_width || first >= plane.out_height) {
    return;
  }
  const position<taps> column = found[threadIdx.x];
  const position<taps> *line = found + THREADS_X + threadIdx.y * ROWS;
  const source<Filter> from(in, plane.in_width, column);
  const sink to(out, plane, x);
#pragma unroll 1
  for (uint32_t y = first; y < first + ROWS; y += BATCH, line += BATCH) {
    square<taps> squares[BATCH];
#pragma unroll
    for (uint32_t i = 0; i < BATCH; i++) {
      read_square(from, line[i], squares[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < BATCH; i++) {
      to.write(y + i, make<Filter>(squares[i], column, line[i]));
    }
  }
}

/* The most samples of a span, and the least: in lowest terms, spans begin at each part of a sample. */
struct lengths {
  uint32_t most, least;
};

lengths span_lengths(uint32_t in, uint32_t out) {
  uint32_t divisor = in;
  for (uint32_t rest = out; rest != 0;) {
    const uint32_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  in /= divisor;
  out /= divisor;
  return {(in + out - 2) / out + 1, (in - 1) / out + 1};
}

lengths plane_lengths(const resize_plane &plane) {
  const lengths across = span_lengths(plane.in_width, plane.width);
  const lengths down = span_lengths(plane.in_height, plane.height);
  return {across.most > down.most ? across.most : down.most, across.least < down.least ? across.least : down.least};
}

auto area_kernel_of(const resize_plane &plane) {
  const lengths spans = plane_lengths(plane);
  return spans.most > 2    ? resize_floats_kernel<area<3, false>>
         : spans.least < 2 ? resize_floats_kernel<area<2, false>>
                           : resize_floats_kernel<area<2, true>>;
}

auto kernel_of(const resize_constants &constants) {
  const resize_plane &plane = constants.plane[0];
  return constants.filter == RESIZE_NEAREST ? resize_floats_kernel<nearest>
         : constants.filter == RESIZE_AREA  ? area_kernel_of(plane)
         : plane.in_width > plane.width     ? resize_floats_kernel<bilinear<true>>
                                            : resize_floats_kernel<bilinear<false>>;
}

} // namespace

bool resize_floats_take(const resize_constants &constants) {
  return constants.filter != RESIZE_AREA || plane_lengths(constants.plane[0]).most <= 3;
}

int resize_floats(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  const resize_plane &plane = constants.plane[0];
  const dim3 threads(THREADS_X, THREADS_Y);
  const dim3 blocks((plane.out_width + THREADS_X - 1) / THREADS_X, (plane.out_height + LINES - 1) / LINES);
  kernel_of(constants)<<<blocks, threads, 0, stream>>>(static_cast<const float *>(call->input),
                                                       static_cast<float *>(call->output), plane);
  return cudaGetLastError();
}
