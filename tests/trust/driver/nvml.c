/* A libnvidia-ml.so.1 in disorder. What is wrong with it is said by FAKE_NVML: a word of those below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *word)
{
    const char *told = getenv("FAKE_NVML");
    return told && strcmp(told, word) == 0;
}

static int looks;

static void trouble_at(const char *where)
{
    char word[64];
    snprintf(word, sizeof word, "hangs in %s", where);
    if (is(word))
        for (;;)
            pause();
    snprintf(word, sizeof word, "crashes in %s", where);
    if (is(word))
        *(volatile int *)8 = 1;
    snprintf(word, sizeof word, "ends in %s", where);
    if (is(word))
        _exit(7);
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    trouble_at("init");
    if (is("mismatch"))
        return 18; /* NVML_ERROR_LIB_RM_VERSION_MISMATCH */
    if (is("no driver"))
        return 9;
    if (is("an unknown error"))
        return 123456;
    fprintf(stderr, "chatter of the driver\n");
    return 0;
}

int nvmlShutdown(void)
{
    trouble_at("shutdown");
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 18 ? "Driver/library version mismatch" : code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    memset(text, is("garbage") ? 0xff : 0, size);
    if (!is("garbage"))
        snprintf(text, size, "550.54.15");
    return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = is("garbage") ? -1 : 12040;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    trouble_at("count");
    *count = is("garbage") ? 0xfffffff0u : is("no cards") ? 0 : 1;
    return is("errors") ? 999 : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    *handle = (void *)(size_t)(index + 1);
    return is("lost") ? 15 /* NVML_ERROR_GPU_IS_LOST */ : 0;
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *memory)
{
    (void)handle;
    if (++looks == 3)
        trouble_at("the third look");
    if (is("garbage sizes")) {
        memory->total = 0x7ffffffffffffff0ull;
        memory->used = 0x7fffffffffffff00ull;
        memory->free = 0x7fffffffffffff10ull;
        memory->reserved = ~0ull;
        return 0;
    }
    memory->total = 24ull << 30;
    memory->used = 1ull << 30;
    memory->free = 23ull << 30;
    memory->reserved = 0;
    return is("no memory") ? 3 : 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory)
{
    (void)handle, (void)memory;
    return 3;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned size)
{
    (void)handle;
    snprintf(text, size, is("garbage sizes") ? "\xff\xfe\x1b[31m\n<b>card" : "card");
    return 0;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size)
{
    (void)handle;
    snprintf(text, size, "GPU-00000000-0000-0000-0000-000000000000");
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates)
{
    (void)handle;
    rates[0] = rates[1] = is("garbage sizes") ? 0xffffffffu : 7;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *table)
{
    (void)handle;
    if (is("garbage sizes") || is("countless processes")) {
        *count = 0x7ffffff0u;
        return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    }
    (void)table;
    *count = 0;
    return 0;
}
