/* Capture and graphs. What is captured is nothing; that a stream is capturing is remembered, since the caching
 * allocator serves it from a private pool then.
 */
#include "standin.h"

#include <stdlib.h>

static unsigned long long captures;

API int cudaStreamIsCapturing(void *handle, int *status)
{
    *status = active_capture(stream_of(handle)) != NULL;
    return SUCCESS;
}

API int cudaStreamBeginCapture(void *handle, int mode UNUSED)
{
    capture *begun = calloc(1, sizeof *begun); /* never freed: streams and events may remember it */
    if ((uintptr_t)handle < 2) { /* the legacy stream cannot be captured */
        free(begun);
        return failed(CAPTURE_UNSUPPORTED);
    }
    if (!begun || !(begun->graph = calloc(1, 16)))
        return failed(OUT_OF_MEMORY);
    begun->id = __atomic_add_fetch(&captures, 1, __ATOMIC_RELAXED);
    begun->active = true;
    stream_of(handle)->captured = begun;
    return SUCCESS;
}

/* Ends it for all streams that joined. */
API int cudaStreamEndCapture(void *handle, void **graph)
{
    capture *ended = active_capture(stream_of(handle));
    if (!ended)
        return failed(CAPTURE_UNSUPPORTED);
    *graph = ended->graph;
    ended->graph = NULL;
    ended->active = false;
    return SUCCESS;
}

static int capture_info(void *handle, int *status, unsigned long long *id, void **graph, const void **dependencies,
                        const void **edges, size_t *count)
{
    capture *running = active_capture(stream_of(handle));
    if (status)
        *status = running != NULL;
    if (!running)
        return SUCCESS;
    if (id)
        *id = running->id;
    if (graph)
        *graph = running->graph;
    if (dependencies)
        *dependencies = NULL;
    if (edges)
        *edges = NULL;
    if (count)
        *count = 0;
    return SUCCESS;
}

/* The plain name got the arguments of its third version in CUDA 13. */
#if CUDART_MAJOR < 13
API int cudaStreamGetCaptureInfo(void *handle, int *status, unsigned long long *id)
{
    return capture_info(handle, status, id, NULL, NULL, NULL, NULL);
}

API int cudaStreamGetCaptureInfo_v2(void *handle, int *status, unsigned long long *id, void **graph,
                                    const void **dependencies, size_t *count)
{
    return capture_info(handle, status, id, graph, dependencies, NULL, count);
}

API int cudaStreamGetCaptureInfo_v3(void *handle, int *status, unsigned long long *id, void **graph,
                                    const void **dependencies, const void **edges, size_t *count)
{
    return capture_info(handle, status, id, graph, dependencies, edges, count);
}
#else
API int cudaStreamGetCaptureInfo(void *handle, int *status, unsigned long long *id, void **graph,
                                 const void **dependencies, const void **edges, size_t *count)
{
    return capture_info(handle, status, id, graph, dependencies, edges, count);
}
#endif

API int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    static __thread int current;
    int before = current;
    current = *mode;
    *mode = before;
    return SUCCESS;
}

API int cudaGraphInstantiate(void **made, void *graph UNUSED, unsigned long long flags UNUSED)
{
    *made = calloc(1, 16);
    return *made ? SUCCESS : failed(OUT_OF_MEMORY);
}

API int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags)
{
    return cudaGraphInstantiate(made, graph, flags);
}

API int cudaGraphLaunch(void *made UNUSED, void *handle UNUSED)
{
    contents_changed();
    return SUCCESS;
}

API int cudaGraphDestroy(void *graph)
{
    free(graph);
    return SUCCESS;
}

API int cudaGraphExecDestroy(void *made)
{
    free(made);
    return SUCCESS;
}

/* One node: torch warns of a graph without any. */
API int cudaGraphGetNodes(void *graph UNUSED, void **nodes, size_t *count)
{
    if (nodes && *count)
        nodes[0] = NULL;
    *count = 1;
    return SUCCESS;
}

API int cudaGraphNodeGetDependencies(void *node UNUSED, void **nodes UNUSED, void *edges UNUSED, size_t *count)
{
    *count = 0;
    return SUCCESS;
}

API int cudaUserObjectCreate(void **made, void *object UNUSED, void (*destroy)(void *) UNUSED, unsigned count UNUSED,
                             unsigned flags UNUSED)
{
    *made = calloc(1, 16);
    return *made ? SUCCESS : failed(OUT_OF_MEMORY);
}
