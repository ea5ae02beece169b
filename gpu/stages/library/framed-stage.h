/*
 * framed-stage.h: a stage of framed's in a shared library of your own. framed-stage(3) is its manual.
 *
 * The library exports framed_stage(), which gives a table. It runs within the daemon's process: whatever it breaks, it breaks
 * there. Build it with
 *
 *   cc -O3 -shared -fPIC -o mine.so mine.c
 *
 * and use it as `- library: {file: mine.so, settings: {strength: 3}}`.
 */
#ifndef FRAMED_STAGE_H
#define FRAMED_STAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FRAMED_STAGE_ABI 1

/* `pixels` of an image's format, whose rows are packed without padding; 0 is a tensor. */
enum framed_stage_pixels {
  FRAMED_STAGE_TENSOR,
  FRAMED_STAGE_GRAY,
  FRAMED_STAGE_RGB24,
  FRAMED_STAGE_BGR24,
  FRAMED_STAGE_NV12,
  FRAMED_STAGE_YUV420P,
  FRAMED_STAGE_YUYV422,
  FRAMED_STAGE_GRAYF32LE
};

/* `dtype`: the type of one sample, of images too. */
enum framed_stage_dtype {
  FRAMED_STAGE_UINT8,
  FRAMED_STAGE_FLOAT32,
  FRAMED_STAGE_FLOAT16,
  FRAMED_STAGE_INT32,
  FRAMED_STAGE_INT64
};

struct framed_stage_format {
  uint32_t pixels;        /* enum framed_stage_pixels */
  uint32_t width, height; /* of an image */
  uint32_t dtype;         /* enum framed_stage_dtype */
  uint32_t rank;          /* of a tensor: 1 to 4 */
  uint64_t shape[4];
};

struct framed_stage_setting {
  const char *name;
  const char *text;      /* NULL: numbers */
  const double *numbers; /* 1 to 4 of them */
  uint32_t count;
};

/* A stage of one pipeline. What is marked `out` prepare() may set, and nothing changes it afterwards. */
struct framed_stage_plan {
  uint32_t size; /* of this struct: more may follow in later versions */
  uint32_t setting_count;
  const struct framed_stage_setting *settings; /* of the configuration, in its order */
  struct framed_stage_format input;
  struct framed_stage_format output; /* out; at first the same as `input` */
  size_t state_bytes;   /* out: memory that a session's frames share, zero at its start; with it they come in order */
  size_t scratch_bytes; /* out: memory that run() or enqueue() may use during a frame */
  void *object;         /* out: yours, until release() */
  char *problem;        /* where prepare() says in one sentence why it refuses, and what would help */
  size_t problem_size;
};

/* The sequence of frames that warm a session up: they are nobody's. */
#define FRAMED_STAGE_WARM_UP UINT64_MAX

/* One frame. Memory is aligned to 256 bytes; with enqueue() it is the device's. */
struct framed_stage_call {
  uint32_t size;    /* of this struct */
  uint32_t restart; /* 1: the session's first frame: `state` is empty */
  const void *input;
  void *output;
  void *state;       /* NULL if the plan has no state_bytes */
  void *scratch;     /* the same */
  uint64_t sequence; /* the frame's number in its session */
};

struct framed_stage {
  uint32_t abi;  /* FRAMED_STAGE_ABI */
  uint32_t size; /* sizeof(struct framed_stage) */
  const char *name;

  /* Looks at input and settings; 0: fine, anything else: refused, and `problem` says why. No device need be there. */
  int (*prepare)(struct framed_stage_plan *plan);

  /* Computes one frame on the CPU backend; NULL: it runs on CUDA alone. Frames of several slots and sessions come at once, on
   * several threads, unless there is state. Anything but 0 is a fault: the process starts anew and runs the frame again. */
  int (*run)(const struct framed_stage_plan *plan, const struct framed_stage_call *call);

  /* Enqueues one frame on a stream (cudaStream_t) and gives a cudaError_t; NULL: it runs on the CPU backend alone. Enqueues
   * only: nothing allocated, nothing waited for, nothing on the default stream. It is captured into a graph that later frames
   * replay, so `sequence` may be that of another frame. */
  int (*enqueue)(const struct framed_stage_plan *plan, const struct framed_stage_call *call, void *stream);

  /* Frees what prepare() made; NULL: nothing. */
  void (*release)(struct framed_stage_plan *plan);
};

#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
const struct framed_stage *
framed_stage(void);

#ifdef __cplusplus
}
#endif

#endif
