/* Virtual memory management: addresses are reserved once, memory is made and mapped into them piece by piece. */
#define _GNU_SOURCE
#include "standin.h"

#include <stdlib.h>
#include <sys/mman.h>

/* What cuMemCreate makes. It lives until its handle is released and its last mapping is gone. */
typedef struct {
    size_t size;
    int card, users;
} piece;

static void drop(piece *memory)
{
    if (__atomic_sub_fetch(&memory->users, 1, __ATOMIC_ACQ_REL) == 0) {
        card_uncharge(memory->card, memory->size);
        free(memory);
    }
}

/* CUmemAllocationProp, as far as it is read: which device. */
typedef struct {
    int type, handle_types, location_type, device;
} piece_properties;

API int cuMemGetAllocationGranularity(size_t *size, const void *properties UNUSED, int option UNUSED)
{
    *size = GRANULARITY;
    return SUCCESS;
}

API int cuMemAddressReserve(uintptr_t *address, size_t size, size_t alignment UNUSED, uintptr_t hint UNUSED,
                            unsigned long long flags UNUSED)
{
    *address = (uintptr_t)reserve_addresses(size, PROT_NONE);
    range entry = {*address, size, 0, current_card(), current_device(), DEVICE_RANGE, NULL};
    return *address && ranges_add(allocations, &entry) ? SUCCESS : OUT_OF_MEMORY;
}

API int cuMemAddressFree(uintptr_t address, size_t size)
{
    range entry;
    if (!ranges_take(allocations, address, &entry))
        return INVALID_VALUE;
    munmap((void *)address, size);
    return SUCCESS;
}

API int cuMemCreate(piece **handle, size_t size, const piece_properties *properties, unsigned long long flags UNUSED)
{
    int card = device_card(properties->device);
    if (card < 0)
        return INVALID_DEVICE;
    if (!card_charge(card, size))
        return OUT_OF_MEMORY;
    piece *memory = malloc(sizeof *memory);
    if (!memory) {
        card_uncharge(card, size);
        return OUT_OF_MEMORY;
    }
    *memory = (piece){size, card, 1};
    *handle = memory;
    return SUCCESS;
}

API int cuMemRelease(piece *handle)
{
    drop(handle);
    return SUCCESS;
}

API int cuMemMap(uintptr_t address, size_t size, size_t offset UNUSED, piece *handle, unsigned long long flags UNUSED)
{
    range entry = {address, size, 0, handle->card, 0, DEVICE_RANGE, handle};
    __atomic_add_fetch(&handle->users, 1, __ATOMIC_ACQ_REL);
    if (ranges_add(mappings, &entry))
        return SUCCESS;
    drop(handle);
    return OUT_OF_MEMORY;
}

API int cuMemSetAccess(uintptr_t address, size_t size, const void *access UNUSED, size_t count UNUSED)
{
    return mprotect((void *)address, size, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}

API int cuMemUnmap(uintptr_t address, size_t size)
{
    range mapping;
    while (ranges_take_within(mappings, address, size, &mapping))
        drop(mapping.owner);
    /* mapped anew, without access: what was written is gone, the addresses stay taken */
    void *again = mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return again == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}
