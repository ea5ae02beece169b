/* The CUDA backend, compiled against the fake runtime whether this machine has CUDA or not. */
#ifndef FRAMED_CUDA
#define FRAMED_CUDA
#endif
#include "gpu/backend.h"

#include "tests/unit/cuda/fake_cuda.h"
#define gpu_pci_node fake_pci_node
#include "gpu/cuda.c"
#include "gpu/cuda_clock.c"
#include "gpu/cuda_graph.c"
#include "gpu/cuda_order.c"
#include "gpu/cuda_overhead.c"
#include "gpu/cuda_sequence.c"

#define gpu_now fake_host_now
#include "gpu/cuda_costs.c"
#include "gpu/cuda_error.c"
#include "gpu/cuda_program.c"
#include "gpu/cuda_warm_up.c"
