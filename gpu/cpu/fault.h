/* How the stage `fault` does to the CPU backend what a bad kernel does to a GPU. Test builds only. */
#ifndef FRAMED_GPU_CPU_FAULT_H
#define FRAMED_GPU_CPU_FAULT_H

/* Called on a worker, in a stage's run(); without effect elsewhere. */
void cpu_fault_illegal(void); /* the device is dead: no frame on it is ever done or told */
void cpu_fault_lost(void);    /* the same, if its device is to be broken: see gpu_fault_has_lost() */
void cpu_fault_hang(void);    /* the frame stays on its stream until its program is freed */

#endif
