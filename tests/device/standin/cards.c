/* The cards: how much memory each has and which process holds how much of it.
 *
 * The state lies in a file that all processes map. A process may die at any instant, also while it holds the lock: the
 * mutex is a robust one, and whoever counts what is used drops what dead processes held. A process is known by its id
 * and its start time, since ids are used again.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 0x0D0C7012 };

typedef struct {
    int pid; /* 0: this place is free */
    uint64_t start, bytes;
} place;

typedef struct {
    uint64_t total, reserve, context;
    place places[MOST_HOLDERS];
} card_state;

typedef struct {
    unsigned magic; /* written last: the rest is complete */
    int count;
    pthread_mutex_t lock;
    card_state cards[MOST_CARDS];
} shared_state;

static shared_state *shared;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static int own_pid;
static uint64_t own_start;

uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

bool tracing(void)
{
    static int answer = -1;
    if (answer < 0)
        answer = setting("EMULATED_CUDA_TRACE", 0) != 0;
    return answer;
}

static void give_up(const char *what)
{
    fprintf(stderr, "emulated CUDA: %s: %s\n", what, strerror(errno));
    abort();
}

static void fill(shared_state *state)
{
    const char *sizes = getenv("EMULATED_CUDA_MEMORY"); /* bytes; the last one counts for all cards that follow */
    uint64_t size = 24576 * MIB, reserve = setting("EMULATED_CUDA_RESERVE", 0);
    uint64_t context = setting("EMULATED_CUDA_CONTEXT", 0), count = setting("EMULATED_CUDA_DEVICES", 1);
    state->count = count < MOST_CARDS ? (int)count : MOST_CARDS;
    for (int i = 0; i < state->count; i++) {
        if (sizes && *sizes) {
            char *end;
            size = strtoull(sizes, &end, 10);
            sizes = *end == ',' ? end + 1 : NULL;
        }
        state->cards[i].total = size;
        state->cards[i].reserve = reserve;
        state->cards[i].context = context;
    }
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&state->lock, &attributes);
    state->magic = MAGIC;
}

static void open_cards(void)
{
    const char *path = getenv("EMULATED_CUDA_CARD");
    int sharing = MAP_SHARED, file = -1;
    if (path && *path) {
        struct stat about;
        if ((file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
            give_up(path);
        flock(file, LOCK_EX); /* against a second process that finds the file new */
        if (fstat(file, &about) || ((size_t)about.st_size < sizeof *shared && ftruncate(file, sizeof *shared)))
            give_up(path);
    } else {
        sharing |= MAP_ANONYMOUS;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, sharing, file, 0);
    if (shared == MAP_FAILED)
        give_up("mapping the card file");
    if (shared->magic != MAGIC)
        fill(shared);
    if (file >= 0) {
        flock(file, LOCK_UN); /* closing would not do: the mapping keeps the file, and with it the lock */
        close(file);
    }
}

/* When a process started, in the kernel's ticks; 0 when there is no such process or only its remains. */
static uint64_t start_of(int pid)
{
    char path[32], text[1024], *field;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return 0;
    text[length] = 0;
    /* the name, in parentheses, may hold spaces and parentheses; the fields after it do not */
    if (!(field = strrchr(text, ')')) || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    for (int i = 3; i <= 22; i++) /* the state is field 3, the start field 22 */
        if (!(field = strchr(field, ' ')) || !*++field)
            return 0;
    return strtoull(field, NULL, 10);
}

static void lock(void)
{
    pthread_once(&opened, open_cards);
    if (own_pid != getpid()) { /* also after a fork */
        own_start = start_of(getpid());
        own_pid = getpid();
    }
    if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&shared->lock); /* each change is a single store: nothing is half done */
}

static void unlock(void)
{
    pthread_mutex_unlock(&shared->lock);
}

static uint64_t used_locked(int card)
{
    uint64_t used = 0;
    for (int i = 0; i < MOST_HOLDERS; i++) {
        place *holder = &shared->cards[card].places[i];
        if (holder->pid && holder->pid != own_pid && start_of(holder->pid) != holder->start)
            holder->pid = 0;
        if (holder->pid)
            used += holder->bytes;
    }
    return used;
}

static place *own_place(int card)
{
    for (int i = 0; i < MOST_HOLDERS; i++) {
        place *holder = &shared->cards[card].places[i];
        if (holder->pid == own_pid && holder->start == own_start)
            return holder;
    }
    return NULL;
}

/* The place of this process on a card; its first touch costs a context. NULL when that does not fit any more. */
static place *entered(int card)
{
    card_state *state = &shared->cards[card];
    place *own = own_place(card);
    if (own)
        return own;
    if (used_locked(card) + state->context > state->total)
        return NULL;
    for (int i = 0; i < MOST_HOLDERS; i++) {
        place *free_place = &state->places[i];
        if (!free_place->pid) {
            free_place->start = own_start;
            free_place->bytes = state->context;
            free_place->pid = own_pid;
            return free_place;
        }
    }
    return NULL;
}

int card_count(void)
{
    pthread_once(&opened, open_cards);
    return shared->count;
}

uint64_t card_total(int card)
{
    return card_count() > card ? shared->cards[card].total : 0;
}

uint64_t card_reserve(int card)
{
    return card_count() > card ? shared->cards[card].reserve : 0;
}

uint64_t card_used(int card)
{
    lock();
    uint64_t used = used_locked(card);
    unlock();
    return used;
}

bool card_charge(int card, uint64_t bytes)
{
    lock();
    place *own = entered(card);
    bool fits = own && used_locked(card) + bytes <= shared->cards[card].total;
    if (fits)
        own->bytes += bytes;
    unlock();
    return fits;
}

void card_uncharge(int card, uint64_t bytes)
{
    lock();
    place *own = own_place(card);
    if (own)
        own->bytes -= bytes < own->bytes ? bytes : own->bytes;
    unlock();
}

bool card_open_context(int card)
{
    lock();
    bool open = entered(card) != NULL;
    unlock();
    return open;
}

bool card_has_context(int card)
{
    lock();
    bool open = own_place(card) != NULL;
    unlock();
    return open;
}

int card_holders(int card, holder *holders, int room)
{
    int count = 0;
    lock();
    used_locked(card);
    for (int i = 0; i < MOST_HOLDERS; i++) {
        place *one = &shared->cards[card].places[i];
        if (!one->pid)
            continue;
        if (count < room)
            holders[count] = (holder){(unsigned)one->pid, one->bytes};
        count++;
    }
    unlock();
    return count;
}

__attribute__((destructor)) static void leave(void)
{
    if (!shared || own_pid != getpid()) /* a forked child that never touched a card leaves its parent's places alone */
        return;
    lock();
    for (int card = 0; card < shared->count; card++) {
        place *own = own_place(card);
        if (own)
            own->pid = 0;
    }
    unlock();
}
