/* Kernels: registered and launched, never run. Torch's spin kernel is known by name, so that a stream can be busy. */
#define _GNU_SOURCE
#include "standin.h"

#include <string.h>

typedef struct {
    unsigned x, y, z;
} extent;

enum { CLOCKS_PER_MILLISECOND = 1410000 }; /* what the device says of itself */
enum { MOST_SPIN_KERNELS = 8 };

static const void *spin_kernels[MOST_SPIN_KERNELS];
static int spin_kernel_count;

API void **__cudaRegisterFatBinary(void *binary UNUSED)
{
    static void *handle[8];
    return handle;
}

API void __cudaRegisterFatBinaryEnd(void **handle UNUSED)
{
}

API void __cudaUnregisterFatBinary(void **handle UNUSED)
{
}

API void __cudaRegisterFunction(void **handle UNUSED, const void *host_function, char *device_function UNUSED,
                                const char *name, ...)
{
    if (name && strstr(name, "spin_kernel") && spin_kernel_count < MOST_SPIN_KERNELS)
        spin_kernels[spin_kernel_count++] = host_function;
}

API void __cudaRegisterVar(void **handle UNUSED, ...)
{
}

API char __cudaInitModule(void **handle UNUSED)
{
    return 1;
}

/* The compiler writes `kernel<<<grid, block, shared, stream>>>()` as a push, and a pop in the kernel's host function. */
static __thread struct {
    extent grid, block;
    size_t shared;
    void *stream;
} configuration;

API unsigned __cudaPushCallConfiguration(extent grid, extent block, size_t shared, void *stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return SUCCESS;
}

API int __cudaPopCallConfiguration(extent *grid, extent *block, size_t *shared, void **stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *stream = configuration.stream;
    return SUCCESS;
}

API int __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return SUCCESS;
}

API int cudaLaunchKernel(const void *function, extent grid UNUSED, extent block UNUSED, void **arguments,
                         size_t shared UNUSED, void *stream)
{
    contents_changed();
    for (int i = 0; i < spin_kernel_count; i++)
        if (spin_kernels[i] == function && arguments)
            stream_keep_busy(stream, (double)*(int64_t *)arguments[0] / CLOCKS_PER_MILLISECOND);
    return SUCCESS;
}

API int __cudaLaunchKernel(const void *kernel, extent grid, extent block, void **arguments, size_t shared, void *stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

API int cudaLaunchKernelExC(const void *how UNUSED, const void *function UNUSED, void **arguments UNUSED)
{
    contents_changed();
    return SUCCESS;
}

API int cudaLaunchCooperativeKernel(const void *function UNUSED, ...)
{
    contents_changed();
    return SUCCESS;
}

API int cuLaunchKernel(void *function UNUSED, ...)
{
    contents_changed();
    return SUCCESS;
}

API int cudaFuncGetAttributes(void *out, const void *function UNUSED)
{
    struct {
        size_t shared, constant, local;
        int threads, registers, ptx, binary, cache, dynamic_shared, carveout;
    } about = {.threads = 1024, .registers = 32, .ptx = 80, .binary = 80, .dynamic_shared = 163 << 10};
    memcpy(out, &about, sizeof about);
    return SUCCESS;
}

/* Two blocks of any kernel fit a multiprocessor. */
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, ...)
{
    *blocks = 2;
    return SUCCESS;
}

API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, ...)
{
    *blocks = 2;
    return SUCCESS;
}

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, ...)
{
    *blocks = 2;
    return SUCCESS;
}
