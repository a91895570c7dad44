/* Distinct byte strings, numbered in the order in which they first come. */

#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef const uint8_t *Place;

typedef struct {
    uint32_t hash;
    int32_t code;
} Slot;

typedef struct {
    uint8_t *bytes;
    size_t *ends; /* key i is bytes[ends[i - 1] : ends[i]] */
    size_t used, room, count, ends_room;
    Slot *slots;
    size_t slots_mask;
} Keys;

/* `memory` with room for `needed` items of a size, or NULL. */
static void *grown(void *memory, size_t *room, size_t needed, size_t size)
{
    size_t wanted = *room ? *room : 64;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2 / size)
            return NULL;
        wanted *= 2;
    }
    void *moved = realloc(memory, wanted * size);
    if (moved)
        *room = wanted;
    return moved;
}

static inline uint64_t word(Place at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static inline int same(Place one, Place other, size_t size)
{
    for (; size >= 8; one += 8, other += 8, size -= 8)
        if (word(one) != word(other))
            return 0;
    for (; size; size--)
        if (*one++ != *other++)
            return 0;
    return 1;
}

static uint32_t hash_of(Place key, size_t size)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t hash = size * odd, other = hash;
    for (; size >= 16; key += 16, size -= 16) { /* two sums at a time, as they wait for products */
        hash = (hash ^ word(key)) * odd;
        hash ^= hash >> 29;
        other = (other ^ word(key + 8)) * odd;
        other ^= other >> 31;
    }
    if (size >= 8) {
        hash = (hash ^ word(key)) * odd;
        hash ^= hash >> 29;
        key += 8;
        size -= 8;
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < size; i++)
        rest = rest << 8 | key[i];
    hash = (hash ^ rest ^ (other << 1)) * odd;
    return (uint32_t)(hash >> 32);
}

static void free_keys(Keys *keys)
{
    free(keys->bytes);
    free(keys->ends);
    free(keys->slots);
}

static int more_slots(Keys *keys)
{
    size_t mask = keys->slots ? 2 * keys->slots_mask + 1 : 63;
    Slot *slots = malloc((mask + 1) * sizeof(Slot));
    if (!slots)
        return 0;
    for (size_t i = 0; i <= mask; i++)
        slots[i].code = -1;
    for (size_t i = 0; keys->slots && i <= keys->slots_mask; i++) {
        Slot one = keys->slots[i];
        if (one.code < 0)
            continue;
        size_t at = one.hash & mask;
        while (slots[at].code >= 0)
            at = (at + 1) & mask;
        slots[at] = one;
    }
    free(keys->slots);
    keys->slots = slots;
    keys->slots_mask = mask;
    return 1;
}

/* The number of a key, which is added where it is new; -1 where there is no memory. */
static int32_t code_of(Keys *keys, Place key, size_t size)
{
    if (keys->count * 2 >= keys->slots_mask && !more_slots(keys))
        return -1;
    uint32_t hash = hash_of(key, size);
    size_t at = hash & keys->slots_mask;
    for (; keys->slots[at].code >= 0; at = (at + 1) & keys->slots_mask) {
        if (keys->slots[at].hash != hash)
            continue;
        int32_t code = keys->slots[at].code;
        size_t start = code ? keys->ends[code - 1] : 0;
        if (keys->ends[code] - start == size && same(keys->bytes + start, key, size))
            return code;
    }
    if (keys->count >= INT32_MAX)
        return -1;
    if (keys->used + size > keys->room || !keys->bytes) {
        void *moved = grown(keys->bytes, &keys->room, keys->used + size, 1);
        if (!moved)
            return -1;
        keys->bytes = moved;
    }
    if (keys->count == keys->ends_room) {
        void *moved = grown(keys->ends, &keys->ends_room, keys->count + 1, sizeof(size_t));
        if (!moved)
            return -1;
        keys->ends = moved;
    }
    if (size)
        memcpy(keys->bytes + keys->used, key, size);
    keys->used += size;
    keys->ends[keys->count] = keys->used;
    keys->slots[at].hash = hash;
    keys->slots[at].code = (int32_t)keys->count;
    return (int32_t)keys->count++;
}
