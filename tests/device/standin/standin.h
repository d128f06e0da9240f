/* The parts of the stand-in and what they share.
 *
 * One shared object answers for libcudart, libcuda.so.1 and libnvidia-ml.so.1, and (by generated stubs) for all other
 * libraries of NVIDIA that torch links to. No header of NVIDIA's is needed: the few layouts used are written out here
 * and where they are used.
 *
 *   cards.c      the cards: their memory, who holds how much of it, a file that processes share
 *   devices.c    which cards a process sees, their properties
 *   ranges.c     a table of address ranges
 *   memory.c     allocation: device, host, pool
 *   virtual.c    virtual memory management, which expandable segments use
 *   contents.c   what device memory contains: copies and fills
 *   streams.c    streams and events
 *   graphs.c     capture and graphs
 *   kernels.c    kernels: registered and launched, never run
 *   driver.c     contexts, and the driver's entry points by name
 *   libraries.c  cuBLAS, cuDNN and others, where a call must answer something
 *   nvml.c       NVML
 *   errors.c     error codes, names and texts
 *   stubs.h      what the generated rest is made of
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The major version of the CUDA runtime that torch was built for; the build sets it. Layouts differ by it. */
#ifndef CUDART_MAJOR
#define CUDART_MAJOR 13
#endif
#define CUDA_VERSION_NUMBER (CUDART_MAJOR >= 13 ? 13000 : CUDART_MAJOR * 1000 + 80)

#define API __attribute__((visibility("default")))
#define UNUSED __attribute__((unused))

#define MIB ((uint64_t)1 << 20)
#define GRANULARITY (2 * MIB) /* in which the driver hands out memory */

/* Codes of the runtime and of the driver are the same numbers as far as they are used here. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    NOT_FOUND = 500,
    NOT_READY = 600,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
};

/* errors.c */
int failed(int code); /* remembers `code` for cudaGetLastError and returns it */

/* cards.c; a card is counted as the machine counts it, whatever the process may see */
int card_count(void);
uint64_t card_total(int card);
uint64_t card_reserve(int card); /* what the driver keeps: in NVML's total, not in CUDA's */
uint64_t card_used(int card);
bool card_charge(int card, uint64_t bytes); /* false: not enough left; opens a context as well */
void card_uncharge(int card, uint64_t bytes);
bool card_open_context(int card); /* false: not enough left for it */
bool card_has_context(int card);
typedef struct {
    unsigned pid;
    uint64_t bytes;
} holder;
int card_holders(int card, holder *holders, int room); /* how many there are; fills at most `room` */
enum { MOST_CARDS = 16, MOST_HOLDERS = 128 };
uint64_t setting(const char *name, uint64_t otherwise); /* a number from the environment */
bool tracing(void);

/* devices.c; a device is counted as the process sees it */
int device_card(int device); /* the card behind it, -1 when there is none */
int current_device(void);
void set_current_device(int device);
int current_card(void);
bool enter_device(void); /* open the context of the current device */
void card_name(int card, char *text, size_t room);
void card_uuid(int card, unsigned char uuid[16]);
void card_uuid_text(int card, char *text, size_t room);

/* ranges.c */
enum range_kind { HOST_RANGE = 1, DEVICE_RANGE = 2 }; /* CUDA's own numbers for types of memory */
typedef struct {
    uintptr_t start;
    size_t size;
    uint64_t charged; /* what it cost the card */
    int card, device;
    enum range_kind kind;
    void *owner;
} range;
typedef struct ranges ranges;
extern ranges *const allocations; /* all memory that CUDA gave out in this process */
extern ranges *const mappings;    /* which parts of reserved addresses have memory behind them */
bool ranges_add(ranges *table, const range *entry);
bool ranges_take(ranges *table, uintptr_t start, range *taken);
bool ranges_find(ranges *table, uintptr_t address, range *found);
bool ranges_take_within(ranges *table, uintptr_t start, size_t size, range *taken);

/* memory.c */
void *reserve_addresses(size_t size, int protection); /* at a multiple of the granularity; takes no memory */

/* contents.c */
void contents_changed(void); /* a kernel was launched: nobody knows what the device holds now */

/* graphs.c */
typedef struct {
    unsigned long long id;
    bool active;
    void *graph;
} capture;

/* streams.c */
typedef struct {
    int device, priority;
    capture *captured; /* the last capture it took part in, if any */
    double busy_until; /* milliseconds of the monotonic clock */
} stream;
static inline capture *active_capture(const stream *one)
{
    return one->captured && one->captured->active ? one->captured : NULL;
}
stream *stream_of(void *handle); /* the default streams, which are small numbers, have an object too */
void stream_keep_busy(void *handle, double milliseconds);
void stream_wait(void *handle);
void all_streams_wait(void);

#endif
