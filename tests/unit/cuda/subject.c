/* The CUDA backend, compiled against the fake runtime whether this machine has CUDA or not. */
#ifndef FRAMED_CUDA
#define FRAMED_CUDA
#endif
#include "gpu/backend.h"

#include "tests/unit/cuda/fake_cuda.h"
#define gpu_pci_node fake_pci_node
#include "gpu/cuda/clock.c"
#include "gpu/cuda/cuda.c"
#include "gpu/cuda/environment.c"
#include "gpu/cuda/graph.c"
#include "gpu/cuda/mailbox.c"
#include "gpu/cuda/order.c"
#include "gpu/cuda/overhead.c"
#include "gpu/cuda/sequence.c"
#include "gpu/cuda/share.c"
#include "gpu/cuda/stream.c"

#define gpu_now fake_host_now
#include "gpu/cuda/costs.c"
#include "gpu/cuda/error.c"
#include "gpu/cuda/program.c"
#include "gpu/cuda/warm_up.c"
