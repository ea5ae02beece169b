/*
 * The parts of the stage `kernel`, which runs kernels of users: their files read (image.c), compiled (compiler.c), their
 * signatures (signature.c), and what lies on the device (device.c).
 */
#ifndef FRAMED_GPU_STAGES_KERNEL_PRIVATE_H
#define FRAMED_GPU_STAGES_KERNEL_PRIVATE_H

#include <pthread.h>

#include "gpu/record/parameters.h"
#include "gpu/stage.h"
#include "gpu/stages/kernel/framed-kernel.h"
#include "gpu/stages/library/library.h"

enum { KERNEL_SYMBOL = 512, KERNEL_DIMENSIONS = 3, KERNEL_ARCHITECTURES = 4, KERNEL_ARGUMENTS = 32, KERNEL_UNKNOWN = 0 };

/* -- files and code ------------------------------------------------------------------------------------------------ */

/* What a device runs, or what is compiled to that; a zero follows it. */
struct kernel_code {
  char *bytes;
  size_t size;
};

enum kernel_kind { KERNEL_SOURCE, KERNEL_CODE };

/* False: `problem` says why. The kind goes by what is in the file, of which a copy is kept. */
bool kernel_read(const char *file, struct kept_file *kept, struct kernel_code *code, enum kernel_kind *kind,
                 char problem[STAGE_TEXT]);
/* What was compiled of the file before a fault, for this architecture or, where that is KERNEL_UNKNOWN, for any, which it
 * becomes: what the source includes may be broken by now, and compiling takes time. False: there is none. */
bool kernel_find_compiled(const char *file, int *architecture, struct kernel_code *code);
void kernel_keep_compiled(const char *file, int architecture, const struct kernel_code *code, struct kept_file *kept);
/* The most threads that a block of the kernel may have, as its code says (a cubin's does), or KERNEL_UNKNOWN. */
unsigned kernel_most_threads(const struct kernel_code *code, const char *symbol);

/* -- the compiler --------------------------------------------------------------------------------------------------- */

bool kernel_has_compiler(void);
/* Compiles for compute capability `architecture` (90: 9.0), or KERNEL_UNKNOWN: the newest that the compiler knows. `problem`
 * has the compiler's first error with its line. */
bool kernel_compile(const char *file, const struct kernel_code *source, int architecture, struct kernel_code *code,
                    char problem[STAGE_TEXT]);

/* -- signatures ----------------------------------------------------------------------------------------------------- */

struct kernel_argument {
  char kind;      /* a letter of the C++ ABI: f is a float */
  unsigned count; /* of numbers */
  _Alignas(16) unsigned char bytes[32];
};

struct kernel_signature {
  char symbol[KERNEL_SYMBOL]; /* the name in the code, which tells the arguments */
  unsigned count;             /* of arguments after the frame and the result */
  struct kernel_argument arguments[KERNEL_ARGUMENTS];
};

/* Finds the kernel in the code and turns the settings into its arguments. */
bool kernel_match(const struct kernel_code *code, const char *file, const char *name, const struct stage_value *settings,
                  struct kernel_signature *signature, char problem[STAGE_TEXT]);

/* -- the stage ------------------------------------------------------------------------------------------------------ */

/* The kernel as it lies on devices of one architecture. */
struct kernel_loaded {
  int architecture;
  void *library, *function; /* CUlibrary, CUkernel */
};

struct kernel {
  char *file;
  struct kernel_code source; /* empty where the file is no source */
  struct kernel_code code;   /* empty where there was no compiler */
  int architecture;          /* that the code was compiled for, or KERNEL_UNKNOWN */
  struct library *cpu;       /* what stands in for it on the CPU backend, or NULL */
  struct framed_in in;       /* but for the data */
  struct framed_out out;     /* the same */
  unsigned grid[KERNEL_DIMENSIONS], block[KERNEL_DIMENSIONS], shared;
  pthread_mutex_t lock; /* guards what follows, which the first session on a device makes */
  struct kernel_loaded loaded[KERNEL_ARCHITECTURES];
  struct kernel_signature signature;
};

/* device.c, on the current device. NULL: `problem` says why. */
struct kernel_loaded *kernel_load(struct kernel *kernel, char problem[STAGE_TEXT]);
void kernel_unload(struct kernel *kernel);
int kernel_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
