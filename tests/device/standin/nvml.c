/* NVML: the driver's own view of all cards and of who is on them. CUDA_VISIBLE_DEVICES does not matter to it.
 *
 * A device handle is the card's number plus one, so that none is NULL.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    NVML_SUCCESS = 0,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_VERSION_MISMATCH = 25,
};

static int card_of(void *handle)
{
    int card = (int)(intptr_t)handle - 1;
    return card >= 0 && card < card_count() ? card : -1;
}

static int give_handle(int card, void **handle)
{
    *handle = (void *)(intptr_t)(card + 1);
    return NVML_SUCCESS;
}

#define NEEDS_CARD(card, handle) \
    int card = card_of(handle); \
    if (card < 0) \
    return NVML_INVALID_ARGUMENT

API int nvmlInit_v2(void)
{
    card_count();
    return NVML_SUCCESS;
}

API int nvmlInit(void)
{
    return nvmlInit_v2();
}

API int nvmlInitWithFlags(unsigned flags UNUSED)
{
    return nvmlInit_v2();
}

API int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

API const char *nvmlErrorString(int code)
{
    switch (code) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_NOT_FOUND:
        return "Not Found";
    case NVML_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_VERSION_MISMATCH:
        return "RM has detected an NVML/RM version mismatch.";
    default:
        return "Unknown Error";
    }
}

/* ---- the system ---- */

static int give_text(char *text, unsigned room, const char *value)
{
    if (strlen(value) >= room)
        return NVML_INSUFFICIENT_SIZE;
    strcpy(text, value);
    return NVML_SUCCESS;
}

API int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    return give_text(text, room, CUDART_MAJOR >= 13 ? "580.00.00" : "550.00.00");
}

API int nvmlSystemGetNVMLVersion(char *text, unsigned room)
{
    return give_text(text, room, CUDART_MAJOR >= 13 ? "13.580.00.00" : "12.550.00.00");
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = CUDA_VERSION_NUMBER;
    return NVML_SUCCESS;
}

API int nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

API int nvmlSystemGetProcessName(unsigned pid, char *text, unsigned room)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NVML_NOT_FOUND;
    ssize_t length = room ? read(file, text, room - 1) : 0;
    close(file);
    if (length <= 0)
        return NVML_NOT_FOUND;
    text[length] = 0; /* the arguments end in zeros: what is read as text is the first, the program */
    return NVML_SUCCESS;
}

/* ---- which card ---- */

API int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)card_count();
    return NVML_SUCCESS;
}

API int nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    return index < (unsigned)card_count() ? give_handle((int)index, handle) : NVML_INVALID_ARGUMENT;
}

API int nvmlDeviceGetHandleByIndex(unsigned index, void **handle)
{
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
    for (int card = 0; card < card_count(); card++) {
        char text[48];
        card_uuid_text(card, text, sizeof text);
        if (strcmp(text, uuid) == 0)
            return give_handle(card, handle);
    }
    return NVML_NOT_FOUND;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **handle)
{
    unsigned domain, bus;
    if (sscanf(text, "%x:%x", &domain, &bus) != 2 || bus < 1 || bus > (unsigned)card_count())
        return NVML_NOT_FOUND;
    return give_handle((int)bus - 1, handle);
}

API int nvmlDeviceGetHandleByPciBusId(const char *text, void **handle)
{
    return nvmlDeviceGetHandleByPciBusId_v2(text, handle);
}

API int nvmlDeviceGetIndex(void *handle, unsigned *index)
{
    NEEDS_CARD(card, handle);
    *index = (unsigned)card;
    return NVML_SUCCESS;
}

API int nvmlDeviceGetMinorNumber(void *handle, unsigned *number)
{
    return nvmlDeviceGetIndex(handle, number);
}

API int nvmlDeviceGetName(void *handle, char *text, unsigned room)
{
    NEEDS_CARD(card, handle);
    card_name(card, text, room);
    return NVML_SUCCESS;
}

API int nvmlDeviceGetUUID(void *handle, char *text, unsigned room)
{
    NEEDS_CARD(card, handle);
    card_uuid_text(card, text, room);
    return NVML_SUCCESS;
}

typedef struct {
    char short_text[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char text[32];
} pci_place;

API int nvmlDeviceGetPciInfo_v3(void *handle, pci_place *place)
{
    NEEDS_CARD(card, handle);
    *place = (pci_place){.bus = (unsigned)card + 1, .device_id = 0x20b010de, .subsystem_id = 0x134f10de};
    snprintf(place->short_text, sizeof place->short_text, "0000:%02X:00.0", (unsigned char)(card + 1));
    snprintf(place->text, sizeof place->text, "00000000:%02X:00.0", (unsigned char)(card + 1));
    return NVML_SUCCESS;
}

/* ---- what there is to know of it ---- */

API int nvmlDeviceGetMemoryInfo(void *handle, uint64_t *memory)
{
    NEEDS_CARD(card, handle);
    /* the first version counts what the driver keeps as used */
    memory[0] = card_total(card) + card_reserve(card);
    memory[2] = card_used(card) + card_reserve(card);
    memory[1] = memory[0] - memory[2];
    return NVML_SUCCESS;
}

typedef struct {
    unsigned version; /* its size and, from bit 24, the number 2 */
    uint64_t total, reserved, free_bytes, used;
} memory_v2;

API int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *memory)
{
    NEEDS_CARD(card, handle);
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_VERSION_MISMATCH;
    memory->reserved = card_reserve(card);
    memory->total = card_total(card) + memory->reserved;
    memory->used = card_used(card);
    memory->free_bytes = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

typedef struct {
    unsigned pid;
    uint64_t used;
} process_v1; /* what torch reads */

typedef struct {
    unsigned pid;
    uint64_t used;
    unsigned gpu_instance, compute_instance;
} process_v2; /* and the third version */

/* The table of processes in one of its layouts. Asked with too little room it says how much is needed. */
static int list_processes(void *handle, unsigned *count, void *out, int version)
{
    NEEDS_CARD(card, handle);
    holder holders[MOST_HOLDERS];
    unsigned room = *count, found = (unsigned)card_holders(card, holders, MOST_HOLDERS);
    *count = found;
    if (found > room)
        return NVML_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++) {
        if (version == 1)
            ((process_v1 *)out)[i] = (process_v1){holders[i].pid, holders[i].bytes};
        else
            ((process_v2 *)out)[i] = (process_v2){holders[i].pid, holders[i].bytes, ~0u, ~0u};
    }
    return NVML_SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses(void *handle, unsigned *count, void *out)
{
    return list_processes(handle, count, out, 1);
}

API int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, void *out)
{
    return list_processes(handle, count, out, 2);
}

API int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *out)
{
    return list_processes(handle, count, out, 3);
}

/* Nobody draws, and there is no multi-process service. */
#define LISTS_NOBODY(function) \
    API int function(void *handle UNUSED, unsigned *count, void *out UNUSED) \
    { \
        *count = 0; \
        return NVML_SUCCESS; \
    }
LISTS_NOBODY(nvmlDeviceGetGraphicsRunningProcesses)
LISTS_NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v2)
LISTS_NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v3)
LISTS_NOBODY(nvmlDeviceGetMPSComputeRunningProcesses)
LISTS_NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v2)
LISTS_NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* Kernels take no time: the cards are always idle. */
API int nvmlDeviceGetUtilizationRates(void *handle, unsigned rates[2])
{
    NEEDS_CARD(card, handle);
    (void)card;
    rates[0] = rates[1] = 0;
    return NVML_SUCCESS;
}

API int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *after_reset)
{
    NEEDS_CARD(card, handle);
    (void)card;
    *now = *after_reset = 0;
    return NVML_SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(void *handle UNUSED, unsigned *count)
{
    *count = 0;
    return NVML_SUCCESS;
}

API int nvmlDeviceGetComputeMode(void *handle, unsigned *mode)
{
    NEEDS_CARD(card, handle);
    (void)card;
    *mode = 0; /* any number of processes */
    return NVML_SUCCESS;
}

API int nvmlDeviceGetPersistenceMode(void *handle, unsigned *mode)
{
    NEEDS_CARD(card, handle);
    (void)card;
    *mode = 1;
    return NVML_SUCCESS;
}

API int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor)
{
    NEEDS_CARD(card, handle);
    (void)card;
    *major = 8;
    *minor = 0;
    return NVML_SUCCESS;
}

/* What these cards do not have. */
#define HAS_NOT(function) \
    API int function(void *handle UNUSED, ...) \
    { \
        return NVML_NOT_SUPPORTED; \
    }
HAS_NOT(nvmlDeviceGetNvLinkState)
HAS_NOT(nvmlDeviceGetNvLinkRemoteDeviceType)
HAS_NOT(nvmlDeviceGetNvLinkRemotePciInfo_v2)
HAS_NOT(nvmlDeviceGetGpuFabricInfoV)
HAS_NOT(nvmlDeviceGetMigDeviceHandleByIndex)
HAS_NOT(nvmlDeviceGetPowerUsage)
HAS_NOT(nvmlDeviceGetTemperature)
HAS_NOT(nvmlDeviceGetFanSpeed)
HAS_NOT(nvmlDeviceGetBAR1MemoryInfo)
