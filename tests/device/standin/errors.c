/* Error codes, their names and their texts: the texts are the genuine ones, torch shows them. */
#include "standin.h"

static __thread int last_error;

int failed(int code)
{
    if (code != SUCCESS)
        last_error = code;
    return code;
}

static const struct {
    int code;
    const char *name, *text;
} known_errors[] = {
    {SUCCESS, "cudaSuccess", "no error"},
    {INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {NO_DEVICE, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {NOT_FOUND, "cudaErrorSymbolNotFound", "named symbol not found"},
    {NOT_READY, "cudaErrorNotReady", "device not ready"},
    {NOT_SUPPORTED, "cudaErrorNotSupported", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
};

API int cudaGetLastError(void)
{
    int code = last_error;
    last_error = SUCCESS;
    return code;
}

API int cudaPeekAtLastError(void)
{
    return last_error;
}

API const char *cudaGetErrorString(int code)
{
    for (size_t i = 0; i < sizeof known_errors / sizeof *known_errors; i++)
        if (known_errors[i].code == code)
            return known_errors[i].text;
    return "unrecognized error code";
}

API const char *cudaGetErrorName(int code)
{
    for (size_t i = 0; i < sizeof known_errors / sizeof *known_errors; i++)
        if (known_errors[i].code == code)
            return known_errors[i].name;
    return "unrecognized error code";
}

API int cuGetErrorString(int code, const char **text)
{
    *text = cudaGetErrorString(code);
    return SUCCESS;
}

API int cuGetErrorName(int code, const char **name)
{
    *name = cudaGetErrorName(code);
    return SUCCESS;
}
