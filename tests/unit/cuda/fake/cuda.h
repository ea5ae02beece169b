/* As much of the driver's interface as the backend uses, for the fake driver, which stands in for it. */
#ifndef FRAMED_TESTS_FAKE_CUDA_H
#define FRAMED_TESTS_FAKE_CUDA_H

typedef enum { CUDA_SUCCESS = 0 } CUresult;
typedef int CUdevice;
typedef struct fake_stream *CUstream;
typedef struct fake_context *CUgreenCtx;
typedef struct fake_description *CUdevResourceDesc;
typedef enum { CU_DEV_RESOURCE_TYPE_SM = 1 } CUdevResourceType;

enum { CU_STREAM_NON_BLOCKING = 1, CU_GREEN_CTX_DEFAULT_STREAM = 1 };

typedef struct {
  CUdevResourceType type;
  struct {
    unsigned smCount, minSmPartitionSize;
  } sm;
  unsigned number; /* of the group */
} CUdevResource;

#endif
