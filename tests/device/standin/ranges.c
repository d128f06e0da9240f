/* A table of address ranges that do not overlap, sorted by address. */
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ranges {
    pthread_mutex_t lock;
    range *entries;
    size_t count, room;
};

static ranges allocation_table = {.lock = PTHREAD_MUTEX_INITIALIZER};
static ranges mapping_table = {.lock = PTHREAD_MUTEX_INITIALIZER};
ranges *const allocations = &allocation_table;
ranges *const mappings = &mapping_table;

/* How many entries start at or below `address`. */
static size_t rank(const ranges *table, uintptr_t address)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remove_at(ranges *table, size_t position)
{
    range *gone = &table->entries[position];
    memmove(gone, gone + 1, (--table->count - position) * sizeof *gone);
}

bool ranges_add(ranges *table, const range *entry)
{
    pthread_mutex_lock(&table->lock);
    if (table->count == table->room) {
        size_t room = table->room ? 2 * table->room : 256;
        range *larger = realloc(table->entries, room * sizeof *larger);
        if (!larger) {
            pthread_mutex_unlock(&table->lock);
            return false;
        }
        table->entries = larger;
        table->room = room;
    }
    size_t position = rank(table, entry->start);
    memmove(table->entries + position + 1, table->entries + position, (table->count++ - position) * sizeof *entry);
    table->entries[position] = *entry;
    pthread_mutex_unlock(&table->lock);
    return true;
}

/* Remove the entry that starts at exactly `start`. */
bool ranges_take(ranges *table, uintptr_t start, range *taken)
{
    pthread_mutex_lock(&table->lock);
    size_t position = rank(table, start);
    bool found = position && table->entries[position - 1].start == start;
    if (found) {
        *taken = table->entries[position - 1];
        remove_at(table, position - 1);
    }
    pthread_mutex_unlock(&table->lock);
    return found;
}

/* The entry that contains `address`. */
bool ranges_find(ranges *table, uintptr_t address, range *found)
{
    pthread_mutex_lock(&table->lock);
    size_t position = rank(table, address);
    const range *entry = position ? &table->entries[position - 1] : NULL;
    bool inside = entry && address - entry->start < entry->size;
    if (inside)
        *found = *entry;
    pthread_mutex_unlock(&table->lock);
    return inside;
}

/* Remove one entry that starts in the `size` bytes from `start`; false when there is none left. */
bool ranges_take_within(ranges *table, uintptr_t start, size_t size, range *taken)
{
    pthread_mutex_lock(&table->lock);
    size_t position = rank(table, start + size - 1);
    bool found = position && table->entries[position - 1].start >= start;
    if (found) {
        *taken = table->entries[position - 1];
        remove_at(table, position - 1);
    }
    pthread_mutex_unlock(&table->lock);
    return found;
}
