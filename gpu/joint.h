/* What the two ways to join devices share: joint.c deals frames over them, split.c the rows of each frame. */
#ifndef FRAMED_GPU_JOINT_H
#define FRAMED_GPU_JOINT_H

#include "gpu/backend.h"

enum { JOINT_MOST = 64 };

struct joint_device {
  struct gpu_device base;
  struct gpu_backend backend; /* with the name of theirs */
  unsigned count;
  struct gpu_device *members[];
};

/* Joins them for programs of that backend, which need neither close nor pin. NULL: no memory. */
struct gpu_device *joint_new(const struct gpu_backend *backend, struct gpu_device *const *devices, unsigned count,
                             struct gpu_error *error);

/* What the first of the programs that one consists of has found out holds for the others, as they are alike, and for the one.
 */
void joint_choose_alike(struct gpu_program *program, const struct gpu_program *first);
void joint_take_choices(struct gpu_program *program, const struct gpu_program *first);

#endif
