/* cuBLAS, cuDNN and others: the calls that must answer something. Their computations are stubs.
 *
 * A handle of cuBLAS or cuDNN costs memory that comes straight from the driver, and fails when there is none left.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <stdlib.h>
#include <string.h>

enum { CUBLAS_ALLOC_FAILED = 3, CUDNN_ALLOC_FAILED = 2 };
#define HANDLE_BYTES (8 * MIB)

typedef struct {
    int card;
} handle;

static handle *make_handle(void)
{
    int card = current_card();
    if (card < 0 || !card_charge(card, HANDLE_BYTES))
        return NULL;
    handle *made = calloc(1, 64);
    if (made)
        made->card = card;
    return made;
}

static int destroy_handle(handle *gone)
{
    if (gone) {
        card_uncharge(gone->card, HANDLE_BYTES);
        free(gone);
    }
    return SUCCESS;
}

API int cublasCreate_v2(handle **made)
{
    return (*made = make_handle()) ? SUCCESS : CUBLAS_ALLOC_FAILED;
}

API int cublasDestroy_v2(handle *gone)
{
    return destroy_handle(gone);
}

API int cudnnCreate(handle **made)
{
    return (*made = make_handle()) ? SUCCESS : CUDNN_ALLOC_FAILED;
}

API int cudnnDestroy(handle *gone)
{
    return destroy_handle(gone);
}

/* Handles and descriptors that cost the device nothing: one object stands for all. */
static char anything[64];
#define MAKES(function) \
    API int function(void **made) \
    { \
        *made = anything; \
        return SUCCESS; \
    }
MAKES(cublasLtCreate)
MAKES(cublasLtMatmulDescCreate)
MAKES(cublasLtMatmulPreferenceCreate)
MAKES(cublasLtMatrixLayoutCreate)
MAKES(cudnnCreateTensorDescriptor)
MAKES(cudnnCreateFilterDescriptor)
MAKES(cudnnCreateConvolutionDescriptor)
MAKES(cudnnCreateActivationDescriptor)
MAKES(cudnnCreateDropoutDescriptor)
MAKES(cudnnCreateRNNDescriptor)
MAKES(cudnnCreateRNNDataDescriptor)
MAKES(cusparseCreate)
MAKES(cusolverDnCreate)

API int cublasGetMathMode(void *library UNUSED, int *mode)
{
    *mode = 0;
    return SUCCESS;
}

API int cublasGetPointerMode_v2(void *library UNUSED, int *mode)
{
    *mode = 0;
    return SUCCESS;
}

API int cublasGetVersion_v2(void *library UNUSED, int *version)
{
    *version = CUDART_MAJOR * 10000 + 100;
    return SUCCESS;
}

API size_t cublasLtGetVersion(void)
{
    return CUDART_MAJOR * 10000 + 100;
}

API const char *cublasGetStatusString(int status UNUSED)
{
    return "a status of the emulated cuBLAS";
}

/* One algorithm, without a workspace. */
API int cublasLtMatmulAlgoGetHeuristic(void *library UNUSED, void *operation UNUSED, void *a UNUSED, void *b UNUSED,
                                       void *c UNUSED, void *d UNUSED, void *preference UNUSED, int wanted,
                                       void *results, int *found)
{
    struct {
        uint64_t algorithm[8];
        size_t workspace;
        int state;
        float waves;
        int reserved[4];
    } result = {0};
    *found = wanted > 0;
    if (*found)
        memcpy(results, &result, sizeof result);
    return SUCCESS;
}

/* cuDNN's graph interface: every query finds one engine, which needs no workspace. */
API int cudnnBackendCreateDescriptor(int type UNUSED, void **made)
{
    *made = calloc(1, 64);
    return SUCCESS;
}

API int cudnnBackendDestroyDescriptor(void *gone)
{
    free(gone);
    return SUCCESS;
}

API int cudnnBackendGetAttribute(void *descriptor UNUSED, int attribute UNUSED, int type, int64_t wanted, int64_t *found,
                                 void *out)
{
    enum { AS_INT64 = 3, AS_DESCRIPTOR = 15 };
    if (found)
        *found = wanted > 0 || type == AS_DESCRIPTOR;
    if (out && wanted > 0 && type == AS_INT64)
        *(int64_t *)out = 0;
    return SUCCESS;
}

/* Workspaces: none. The size asked for is the last argument. */
API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *library UNUSED, int mode UNUSED,
                                                                 int operation UNUSED, void *x UNUSED, void *z UNUSED,
                                                                 void *y UNUSED, void *bn UNUSED, void *act UNUSED,
                                                                 size_t *size)
{
    *size = 0;
    return SUCCESS;
}

API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *library UNUSED, int mode UNUSED,
                                                             int operation UNUSED, void *act UNUSED, void *x UNUSED,
                                                             size_t *size)
{
    *size = 0;
    return SUCCESS;
}

API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *library UNUSED, int mode UNUSED, int operation UNUSED,
                                                          void *x UNUSED, void *y UNUSED, void *dy UNUSED,
                                                          void *dz UNUSED, void *dx UNUSED, void *bn UNUSED,
                                                          void *act UNUSED, size_t *size)
{
    *size = 0;
    return SUCCESS;
}

/* Versions. torch refuses a cuDNN of another major version, or older than the one it was built for; the build sets it. */
#ifndef CUDNN_MAJOR
#define CUDNN_MAJOR 9
#endif
#define CUDNN_VERSION_NUMBER (CUDNN_MAJOR >= 9 ? CUDNN_MAJOR * 10000 + 9900 : CUDNN_MAJOR * 1000 + 999)

API size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION_NUMBER;
}

API size_t cudnnGetCudartVersion(void)
{
    return CUDA_VERSION_NUMBER;
}

API int cudnnGetProperty(int which, int *value)
{
    *value = which == 0 ? CUDNN_MAJOR : which == 1 ? (CUDNN_MAJOR >= 9 ? 99 : 9) : 0;
    return SUCCESS;
}

API const char *cudnnGetErrorString(int status UNUSED)
{
    return "an error of the emulated cuDNN";
}

API int nvrtcVersion(int *major, int *minor)
{
    *major = CUDART_MAJOR;
    *minor = 0;
    return SUCCESS;
}

API int ncclGetVersion(int *version)
{
    *version = 22703;
    return SUCCESS;
}

API const char *ncclGetErrorString(int status UNUSED)
{
    return "an error of the emulated NCCL";
}
