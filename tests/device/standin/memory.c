/* Allocation. Device memory is addresses without memory behind them, charged to the card; a page that a small copy
 * writes to is real. Host memory is real.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <sys/mman.h>

static size_t rounded(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

void *reserve_addresses(size_t size, int protection)
{
    char *mapped = mmap(NULL, size + GRANULARITY, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    char *aligned = (char *)rounded((uintptr_t)mapped, GRANULARITY), *end = mapped + size + GRANULARITY;
    if (aligned > mapped)
        munmap(mapped, (size_t)(aligned - mapped));
    if (end > aligned + size)
        munmap(aligned + size, (size_t)(end - (aligned + size)));
    madvise(aligned, size, MADV_NOHUGEPAGE); /* writing one byte must not take 2 MiB of the host */
    madvise(aligned, size, MADV_DONTDUMP);
    return aligned;
}

API int cudaMalloc(void **address, size_t size)
{
    size_t charged = rounded(size, GRANULARITY);
    int card = current_card();
    *address = NULL;
    if (!size)
        return SUCCESS;
    if (card < 0)
        return failed(INVALID_DEVICE);
    if (charged < size || !card_charge(card, charged))
        return failed(OUT_OF_MEMORY);
    *address = reserve_addresses(charged, PROT_READ | PROT_WRITE);
    range entry = {(uintptr_t)*address, charged, charged, card, current_device(), DEVICE_RANGE, NULL};
    if (*address && ranges_add(allocations, &entry))
        return SUCCESS;
    card_uncharge(card, charged);
    *address = NULL;
    return failed(OUT_OF_MEMORY);
}

API int cudaFree(void *address)
{
    range entry;
    if (!address) /* the usual way to ask for a context */
        return enter_device() ? SUCCESS : failed(OUT_OF_MEMORY);
    if (!ranges_take(allocations, (uintptr_t)address, &entry))
        return failed(INVALID_VALUE);
    munmap(address, entry.size);
    card_uncharge(entry.card, entry.charged);
    return SUCCESS;
}

API int cudaMallocManaged(void **address, size_t size, unsigned flags UNUSED)
{
    return cudaMalloc(address, size);
}

/* The driver's own pool (torch's backend cudaMallocAsync): gives memory back at once, so it holds what is in use. */
enum pool_attribute { POOL_RESERVED = 5, POOL_RESERVED_PEAK, POOL_USED, POOL_USED_PEAK };
static uint64_t pool_used[MOST_CARDS], pool_peak[MOST_CARDS];

API int cudaMallocAsync(void **address, size_t size, void *stream UNUSED)
{
    int code = cudaMalloc(address, size);
    if (code == SUCCESS && size) {
        int card = current_card();
        uint64_t used = __atomic_add_fetch(&pool_used[card], rounded(size, GRANULARITY), __ATOMIC_RELAXED);
        if (used > pool_peak[card])
            pool_peak[card] = used;
    }
    return code;
}

API int cudaFreeAsync(void *address, void *stream UNUSED)
{
    range entry;
    if (ranges_find(allocations, (uintptr_t)address, &entry))
        __atomic_sub_fetch(&pool_used[entry.card], entry.charged, __ATOMIC_RELAXED);
    return cudaFree(address);
}

API int cudaDeviceGetDefaultMemPool(void **pool, int device)
{
    if (device_card(device) < 0)
        return failed(INVALID_DEVICE);
    *pool = (void *)(intptr_t)(device_card(device) + 1);
    return SUCCESS;
}

API int cudaMemPoolGetAttribute(void *pool, int attribute, uint64_t *value)
{
    int card = (int)(intptr_t)pool - 1;
    switch (attribute) {
    case POOL_RESERVED:
    case POOL_USED:
        *value = pool_used[card];
        break;
    case POOL_RESERVED_PEAK:
    case POOL_USED_PEAK:
        *value = pool_peak[card];
        break;
    default:
        *value = 0;
    }
    return SUCCESS;
}

API int cudaMemPoolSetAttribute(void *pool, int attribute, const uint64_t *value)
{
    int card = (int)(intptr_t)pool - 1;
    if (*value == 0 && (attribute == POOL_RESERVED_PEAK || attribute == POOL_USED_PEAK))
        pool_peak[card] = pool_used[card]; /* all that can be set of a peak is to begin again */
    return SUCCESS;
}

API int cudaHostAlloc(void **address, size_t size, unsigned flags UNUSED)
{
    size_t pages = rounded(size ? size : 1, 4096);
    *address = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*address == MAP_FAILED) {
        *address = NULL;
        return failed(OUT_OF_MEMORY);
    }
    range entry = {(uintptr_t)*address, pages, 0, 0, 0, HOST_RANGE, NULL};
    return ranges_add(allocations, &entry) ? SUCCESS : failed(OUT_OF_MEMORY);
}

API int cudaMallocHost(void **address, size_t size)
{
    return cudaHostAlloc(address, size, 0);
}

API int cudaFreeHost(void *address)
{
    range entry;
    if (address && ranges_take(allocations, (uintptr_t)address, &entry))
        munmap(address, entry.size);
    return SUCCESS;
}

API int cudaPointerGetAttributes(void *out, const void *address)
{
    struct {
        int type, device;
        const void *device_pointer, *host_pointer;
    } *about = out;
    range entry;
    if (!ranges_find(allocations, (uintptr_t)address, &entry)) {
        about->type = 0; /* memory that CUDA does not know */
        about->device = -1;
        about->device_pointer = NULL;
        about->host_pointer = address;
        return SUCCESS;
    }
    about->type = entry.kind;
    about->device = entry.device;
    about->device_pointer = address;
    about->host_pointer = entry.kind == HOST_RANGE ? address : NULL;
    return SUCCESS;
}

API int cuPointerGetAttribute(void *value, int attribute, uintptr_t address)
{
    enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9 };
    range entry;
    if (!ranges_find(allocations, address, &entry))
        return INVALID_VALUE;
    switch (attribute) {
    case MEMORY_TYPE:
        *(unsigned *)value = entry.kind;
        break;
    case DEVICE_ORDINAL:
        *(int *)value = entry.device;
        break;
    default:
        *(uint64_t *)value = 0;
    }
    return SUCCESS;
}

API int cuMemGetAddressRange_v2(uintptr_t *start, size_t *size, uintptr_t address)
{
    range entry;
    if (!ranges_find(allocations, address, &entry))
        return INVALID_VALUE;
    if (start)
        *start = entry.start;
    if (size)
        *size = entry.size;
    return SUCCESS;
}

API int cuMemGetAddressRange(uintptr_t *start, size_t *size, uintptr_t address)
{
    return cuMemGetAddressRange_v2(start, size, address);
}
