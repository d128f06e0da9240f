/* What device memory contains.
 *
 * What the host copied to a device reads back until a kernel is launched; from then on a device reads as zeros. Kernels
 * compute nothing, and a caching allocator hands out old blocks: a stale byte would be read as a result. (One print of
 * a tensor took such a byte for a count of elements and asked for 23 GB.) Zeros are harmless as sizes and as counts.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <pthread.h>
#include <string.h>

enum copy_kind { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };
enum { REMEMBERED = 64 };

static pthread_mutex_t contents_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uintptr_t start;
    size_t size;
} written[REMEMBERED];
static unsigned written_count;

void contents_changed(void)
{
    if (!__atomic_load_n(&written_count, __ATOMIC_RELAXED)) /* launches are many, copies few */
        return;
    pthread_mutex_lock(&contents_lock);
    written_count = 0;
    pthread_mutex_unlock(&contents_lock);
}

static void remember(const void *start, size_t size)
{
    pthread_mutex_lock(&contents_lock);
    unsigned place = written_count < REMEMBERED ? written_count++ : (unsigned)((uintptr_t)start >> 9) % REMEMBERED;
    written[place].start = (uintptr_t)start;
    written[place].size = size;
    pthread_mutex_unlock(&contents_lock);
}

static bool remembered(const void *start, size_t size)
{
    bool found = false;
    pthread_mutex_lock(&contents_lock);
    for (unsigned i = 0; i < written_count && !found; i++) {
        uintptr_t offset = (uintptr_t)start - written[i].start;
        found = offset <= written[i].size && size <= written[i].size - offset;
    }
    pthread_mutex_unlock(&contents_lock);
    return found;
}

/* Larger copies are not done: they would take memory of the host. */
static bool small(size_t size)
{
    static uint64_t limit;
    if (!limit)
        limit = setting("EMULATED_CUDA_COPY_LIMIT", 64 << 10) + 1;
    return size < limit;
}

static bool on_device(const void *address)
{
    range entry;
    return ranges_find(allocations, (uintptr_t)address, &entry) && entry.kind == DEVICE_RANGE;
}

static void copy(void *to, const void *from, size_t size, enum copy_kind kind)
{
    if (kind == BY_ADDRESS)
        kind = (on_device(from) ? 2u : 0u) + (on_device(to) ? 1u : 0u);
    switch (kind) {
    case HOST_TO_HOST:
        memmove(to, from, size);
        break;
    case DEVICE_TO_HOST:
        if (remembered(from, size))
            memcpy(to, from, size);
        else
            memset(to, 0, size);
        break;
    case DEVICE_TO_DEVICE:
        if (!remembered(from, size))
            break;
        /* fall through */
    default:
        if (small(size)) {
            memmove(to, from, size);
            remember(to, size);
        }
    }
}

API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream UNUSED)
{
    copy(to, from, size, (enum copy_kind)kind);
    return SUCCESS;
}

API int cudaMemcpy(void *to, const void *from, size_t size, int kind)
{
    all_streams_wait();
    copy(to, from, size, (enum copy_kind)kind);
    return SUCCESS;
}

API int cudaMemcpyPeerAsync(void *to, int to_device UNUSED, const void *from, int from_device UNUSED, size_t size,
                            void *stream UNUSED)
{
    copy(to, from, size, DEVICE_TO_DEVICE);
    return SUCCESS;
}

/* By rows: both sides are told by address. */
API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          int kind, void *stream UNUSED)
{
    for (size_t row = 0; row < height; row++)
        copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, (enum copy_kind)kind);
    return SUCCESS;
}

API int cudaMemsetAsync(void *start, int value, size_t size, void *stream UNUSED)
{
    if (small(size)) {
        memset(start, value, size);
        remember(start, size);
    }
    return SUCCESS;
}

API int cudaMemset(void *start, int value, size_t size)
{
    return cudaMemsetAsync(start, value, size, NULL);
}

API int cudaGetSymbolAddress(void **address, const void *symbol)
{
    *address = (void *)(uintptr_t)symbol; /* the host's shadow of it */
    return SUCCESS;
}
