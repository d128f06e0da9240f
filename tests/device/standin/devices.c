/* Which cards a process sees, under which numbers, and what their properties are.
 *
 * The cards say that they are of compute capability 8.0 (an A100): workspace sizes and the choice of kernels depend
 * on it.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MULTIPROCESSORS = 108, SHARED_PER_BLOCK = 48 << 10, SHARED_OPTIN = 163 << 10, REGISTERS = 65536 };

static __thread int current;
static int visible[MOST_CARDS], visible_count;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

void card_name(int card, char *text, size_t room)
{
    snprintf(text, room, "Emulated CUDA %llu MiB", (unsigned long long)(card_total(card) / MIB));
}

void card_uuid(int card, unsigned char uuid[16])
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(0xe0 + 7 * i + 31 * card);
}

void card_uuid_text(int card, char *text, size_t room)
{
    unsigned char u[16];
    card_uuid(card, u);
    snprintf(text, room, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
             u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

/* The card that one entry of CUDA_VISIBLE_DEVICES names: an index, or the start of a UUID. -1: none. */
static int named_card(const char *entry, size_t length)
{
    char *end;
    long index = strtol(entry, &end, 10);
    if (length && end == entry + length)
        return index >= 0 && index < card_count() ? (int)index : -1;
    for (int card = 0; card < card_count() && length >= 4; card++) {
        char uuid[48];
        card_uuid_text(card, uuid, sizeof uuid);
        if (strncmp(uuid, entry, length) == 0)
            return card;
    }
    return -1;
}

/* As the driver does, once in a process: entries up to the first that names no card; none at all when one is double. */
static void look(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (visible_count = 0; visible_count < card_count(); visible_count++)
            visible[visible_count] = visible_count;
        return;
    }
    while (visible_count < MOST_CARDS) {
        size_t length = strcspn(list, ",");
        int card = named_card(list, length);
        if (card < 0)
            break;
        for (int i = 0; i < visible_count; i++)
            if (visible[i] == card) {
                visible_count = 0;
                return;
            }
        visible[visible_count++] = card;
        if (!list[length])
            break;
        list += length + 1;
    }
}

int device_card(int device)
{
    pthread_once(&looked, look);
    return device >= 0 && device < visible_count ? visible[device] : -1;
}

int current_device(void)
{
    return current;
}

void set_current_device(int device)
{
    current = device;
}

int current_card(void)
{
    return device_card(current);
}

bool enter_device(void)
{
    int card = current_card();
    return card >= 0 && card_open_context(card);
}

API int cudaGetDeviceCount(int *count)
{
    pthread_once(&looked, look);
    *count = visible_count;
    return visible_count ? SUCCESS : failed(NO_DEVICE);
}

API int cudaGetDevice(int *device)
{
    *device = current;
    return SUCCESS;
}

API int cudaSetDevice(int device)
{
    if (device_card(device) < 0)
        return failed(INVALID_DEVICE);
    current = device;
    return enter_device() ? SUCCESS : failed(OUT_OF_MEMORY);
}

API int cudaDeviceSynchronize(void)
{
    if (!enter_device())
        return failed(OUT_OF_MEMORY);
    all_streams_wait();
    return SUCCESS;
}

API int cudaDriverGetVersion(int *version)
{
    *version = CUDA_VERSION_NUMBER;
    return SUCCESS;
}

API int cudaRuntimeGetVersion(int *version)
{
    *version = CUDA_VERSION_NUMBER;
    return SUCCESS;
}

API int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return SUCCESS;
}

API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return SUCCESS;
}

API int cudaDeviceGetPCIBusId(char *text, int room, int device)
{
    if (device_card(device) < 0)
        return failed(INVALID_DEVICE);
    snprintf(text, (size_t)room, "0000:%02X:00.0", device_card(device) + 1);
    return SUCCESS;
}

API int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    int card = current_card();
    if (card < 0)
        return failed(INVALID_DEVICE);
    if (!enter_device())
        return failed(OUT_OF_MEMORY);
    uint64_t used = card_used(card);
    *total = card_total(card);
    *free_bytes = *total > used ? *total - used : 0;
    return SUCCESS;
}

/* cudaDeviceProp up to the fields that anybody reads; CUDA 13 left out those marked. */
#if CUDART_MAJOR < 13
#define UNTIL_12(field) int field;
#else
#define UNTIL_12(field)
#endif
typedef struct {
    char name[256];
    unsigned char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    UNTIL_12(clockRate)
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    UNTIL_12(deviceOverlap)
    int multiProcessorCount;
    UNTIL_12(kernelExecTimeoutEnabled)
    int integrated, canMapHostMemory;
    UNTIL_12(computeMode)
    int maxTexture1D, maxTexture1DMipmap;
    UNTIL_12(maxTexture1DLinear)
    int otherTextures[23], surfaces[14]; /* the sizes of textures and surfaces of all other kinds */
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
    int unifiedAddressing;
    UNTIL_12(memoryClockRate)
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported;
    int globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
    UNTIL_12(singleToDoublePrecisionPerfRatio)
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem;
    int cooperativeLaunch;
    UNTIL_12(cooperativeMultiDeviceLaunch)
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
} device_properties;

API int cudaGetDeviceProperties(device_properties *properties, int device)
{
    int card = device_card(device);
    if (card < 0)
        return failed(INVALID_DEVICE);
    *properties = (device_properties){
        .totalGlobalMem = card_total(card),
        .sharedMemPerBlock = SHARED_PER_BLOCK,
        .regsPerBlock = REGISTERS,
        .warpSize = 32,
        .memPitch = 0x7fffffff,
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {0x7fffffff, 65535, 65535},
        .totalConstMem = 65536,
        .major = 8,
        .minor = 0,
        .textureAlignment = 512,
        .texturePitchAlignment = 32,
        .multiProcessorCount = MULTIPROCESSORS,
        .canMapHostMemory = 1,
        .surfaceAlignment = 512,
        .concurrentKernels = 1,
        .pciBusID = card + 1,
        .asyncEngineCount = 3,
        .unifiedAddressing = 1,
        .memoryBusWidth = 5120,
        .l2CacheSize = 40 << 20,
        .maxThreadsPerMultiProcessor = 2048,
        .streamPrioritiesSupported = 1,
        .sharedMemPerMultiprocessor = 164 << 10,
        .regsPerMultiprocessor = REGISTERS,
        .managedMemory = 1,
        .concurrentManagedAccess = 1,
        .cooperativeLaunch = 1,
        .sharedMemPerBlockOptin = SHARED_OPTIN,
        .maxBlocksPerMultiProcessor = 32,
        .reservedSharedMemPerBlock = 1024,
    };
    card_name(card, properties->name, sizeof properties->name);
    card_uuid(card, properties->uuid);
    return SUCCESS;
}

API int cudaGetDeviceProperties_v2(device_properties *properties, int device)
{
    return cudaGetDeviceProperties(properties, device);
}

/* Attributes by cudaDeviceAttr's numbers; those not listed are 0. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, 1024},  {2, 1024},   {3, 1024},       {4, 64},              /* threads of a block, in all and by axis */
    {5, 0x7fffffff}, {6, 65535}, {7, 65535},                        /* blocks of a grid by axis */
    {8, SHARED_PER_BLOCK},   {81, 164 << 10}, {97, SHARED_OPTIN},   {111, 1024}, /* shared memory */
    {9, 65536}, {10, 32},    {12, REGISTERS}, {82, REGISTERS},      /* constant memory, a warp, registers */
    {13, 1410000},           {16, MULTIPROCESSORS}, {38, 40 << 20}, /* clock, multiprocessors, cache */
    {39, 2048}, {106, 32},   {75, 8},         {76, 0},              /* threads and blocks together; capability */
    {19, 1},    {31, 1},     {41, 1},         {78, 1},              /* mapping, concurrency, one address space */
    {83, 1},    {95, 1},     {102, 1},        {103, 1}, {115, 1},   /* managed, cooperative, virtual memory, pools */
};

API int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    if (device_card(device) < 0)
        return failed(INVALID_DEVICE);
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    return SUCCESS;
}
