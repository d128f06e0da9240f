/* Streams and events. Work takes no time, with one exception: torch's spin kernel (torch.cuda._sleep) keeps its stream
 * busy for as long as it says, and events recorded behind it are not ready before.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <stdlib.h>
#include <time.h>

static stream default_streams[3]; /* handles 0, 1 and 2: legacy (twice) and per thread */
static double latest;             /* when the last busy stream of all will be idle */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void sleep_until(double moment)
{
    for (double left; (left = moment - now()) > 0;) {
        struct timespec pause = {(time_t)(left / 1e3), (long)((left - 1e3 * (double)(long)(left / 1e3)) * 1e6)};
        nanosleep(&pause, NULL);
    }
}

stream *stream_of(void *handle)
{
    return (uintptr_t)handle < 3 ? &default_streams[(uintptr_t)handle] : handle;
}

void stream_keep_busy(void *handle, double milliseconds)
{
    stream *one = stream_of(handle);
    double begin = now();
    one->busy_until = (one->busy_until > begin ? one->busy_until : begin) + milliseconds;
    if (one->busy_until > latest)
        latest = one->busy_until;
}

void stream_wait(void *handle)
{
    sleep_until(stream_of(handle)->busy_until);
}

void all_streams_wait(void)
{
    sleep_until(latest);
}

API int cudaStreamCreateWithPriority(stream **made, unsigned flags UNUSED, int priority)
{
    if (!enter_device())
        return failed(OUT_OF_MEMORY);
    if (!(*made = calloc(1, sizeof **made)))
        return failed(OUT_OF_MEMORY);
    (*made)->device = current_device();
    (*made)->priority = priority;
    return SUCCESS;
}

API int cudaStreamCreateWithFlags(stream **made, unsigned flags)
{
    return cudaStreamCreateWithPriority(made, flags, 0);
}

API int cudaStreamCreate(stream **made)
{
    return cudaStreamCreateWithPriority(made, 0, 0);
}

API int cudaStreamDestroy(void *handle)
{
    if ((uintptr_t)handle >= 3)
        free(handle);
    return SUCCESS;
}

API int cudaStreamGetPriority(void *handle, int *priority)
{
    *priority = stream_of(handle)->priority;
    return SUCCESS;
}

API int cudaStreamSynchronize(void *handle)
{
    stream_wait(handle);
    return SUCCESS;
}

API int cudaStreamQuery(void *handle)
{
    return stream_of(handle)->busy_until > now() ? failed(NOT_READY) : SUCCESS;
}

API int cudaStreamAddCallback(void *handle, void (*call)(void *, int, void *), void *data, unsigned flags UNUSED)
{
    stream_wait(handle);
    call(handle, SUCCESS, data);
    return SUCCESS;
}

API int cudaLaunchHostFunc(void *handle, void (*call)(void *), void *data)
{
    stream_wait(handle);
    call(data);
    return SUCCESS;
}

typedef struct {
    double ready; /* when all that was before it on its stream is done */
    capture *captured; /* the capture it was recorded in, if any */
} event;

API int cudaEventCreateWithFlags(event **made, unsigned flags UNUSED)
{
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : failed(OUT_OF_MEMORY);
}

API int cudaEventCreate(event **made)
{
    return cudaEventCreateWithFlags(made, 0);
}

API int cudaEventDestroy(event *one)
{
    free(one);
    return SUCCESS;
}

API int cudaEventRecord(event *one, void *handle)
{
    double busy_until = stream_of(handle)->busy_until, moment = now();
    one->ready = busy_until > moment ? busy_until : moment;
    one->captured = active_capture(stream_of(handle));
    return SUCCESS;
}

API int cudaEventRecordWithFlags(event *one, void *handle, unsigned flags UNUSED)
{
    return cudaEventRecord(one, handle);
}

API int cudaEventQuery(event *one)
{
    return one->ready > now() ? failed(NOT_READY) : SUCCESS;
}

API int cudaEventSynchronize(event *one)
{
    sleep_until(one->ready);
    return SUCCESS;
}

API int cudaStreamWaitEvent(void *handle, event *one, unsigned flags UNUSED)
{
    stream *waiting = stream_of(handle);
    if (one->ready > waiting->busy_until)
        waiting->busy_until = one->ready;
    if (one->captured && one->captured->active) /* waiting for a captured event joins its capture */
        waiting->captured = one->captured;
    return SUCCESS;
}

API int cudaEventElapsedTime(float *milliseconds, event *begin, event *end)
{
    *milliseconds = (float)(end->ready - begin->ready);
    return SUCCESS;
}

API int cudaEventElapsedTime_v2(float *milliseconds, event *begin, event *end)
{
    return cudaEventElapsedTime(milliseconds, begin, end);
}

/* Handing memory or events to another process is refused, as on a system without the feature. */
API int cudaIpcGetMemHandle(void *handle UNUSED, void *address UNUSED)
{
    return failed(NOT_SUPPORTED);
}

API int cudaIpcOpenMemHandle(void **address, ...)
{
    *address = NULL;
    return failed(NOT_SUPPORTED);
}

API int cudaIpcGetEventHandle(void *handle UNUSED, void *one UNUSED)
{
    return failed(NOT_SUPPORTED);
}
