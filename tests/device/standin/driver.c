/* The driver's side: contexts, the device's figures, and its entry points by name.
 *
 * The runtime finds driver functions through cudaGetDriverEntryPoint rather than by linking. Every name that libc10_cuda
 * asks for must be found: one that is missing turns an out-of-memory error into an internal assertion.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>
#include <stdio.h>

/* A context is its device's number plus one. */
static void *context_of(int device)
{
    return (void *)(intptr_t)(device + 1);
}

API int cuInit(unsigned flags UNUSED)
{
    return card_count() ? SUCCESS : NO_DEVICE;
}

API int cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION_NUMBER;
    return SUCCESS;
}

int cudaGetDeviceCount(int *count);
int cudaDeviceGetAttribute(int *value, int attribute, int device);

API int cuDeviceGetCount(int *count)
{
    cudaGetDeviceCount(count);
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    return cudaDeviceGetAttribute(value, attribute, device);
}

API int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return device_card(ordinal) < 0 ? INVALID_DEVICE : SUCCESS;
}

API int cuDeviceGetName(char *text, int room, int device)
{
    if (device_card(device) < 0)
        return INVALID_DEVICE;
    card_name(device_card(device), text, (size_t)room);
    return SUCCESS;
}

API int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    if (device_card(device) < 0)
        return INVALID_DEVICE;
    card_uuid(device_card(device), uuid);
    return SUCCESS;
}

API int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    return cuDeviceGetUuid(uuid, device);
}

API int cuDeviceTotalMem_v2(size_t *total, int device)
{
    if (device_card(device) < 0)
        return INVALID_DEVICE;
    *total = card_total(device_card(device));
    return SUCCESS;
}

API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    if (device_card(device) < 0)
        return INVALID_DEVICE;
    if (flags)
        *flags = 0;
    *active = card_has_context(device_card(device));
    return SUCCESS;
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    if (device_card(device) < 0)
        return INVALID_DEVICE;
    if (!card_open_context(device_card(device)))
        return OUT_OF_MEMORY;
    *context = context_of(device);
    return SUCCESS;
}

API int cuCtxGetCurrent(void **context)
{
    *context = context_of(current_device());
    return SUCCESS;
}

API int cuCtxSetCurrent(void *context)
{
    if (context)
        set_current_device((int)(intptr_t)context - 1);
    return SUCCESS;
}

API int cuCtxGetDevice(int *device)
{
    *device = current_device();
    return SUCCESS;
}

API int cuCtxPushCurrent(void *context)
{
    return cuCtxSetCurrent(context);
}

API int cuCtxPopCurrent(void **context)
{
    return cuCtxGetCurrent(context);
}

/* What this object itself defines under `name`, stubs included; NULL when nothing. */
static void *own_symbol(const char *name)
{
    static void *self;
    Dl_info about;
    if (!self && dladdr((void *)own_symbol, &about))
        self = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return self ? dlsym(self, name) : NULL;
}

static int find_entry(const char *name, void **entry, int *status)
{
    enum { FOUND, NOT_THERE };
    *entry = own_symbol(name);
    if (status)
        *status = *entry ? FOUND : NOT_THERE;
    if (!*entry && tracing())
        fprintf(stderr, "emulated CUDA: no driver entry point %s\n", name);
    return SUCCESS;
}

API int cudaGetDriverEntryPoint(const char *name, void **entry, unsigned long long flags UNUSED, int *status)
{
    return find_entry(name, entry, status);
}

API int cudaGetDriverEntryPointByVersion(const char *name, void **entry, unsigned version UNUSED,
                                         unsigned long long flags UNUSED, int *status)
{
    return find_entry(name, entry, status);
}

API int cuGetProcAddress(const char *name, void **entry, int version UNUSED, unsigned long long flags UNUSED)
{
    return find_entry(name, entry, NULL);
}

API int cuGetProcAddress_v2(const char *name, void **entry, int version UNUSED, unsigned long long flags UNUSED,
                            int *status)
{
    return find_entry(name, entry, status);
}
