/* JSON, strictly: what is not JSON, or more than the decoder in Python can hold, is no value.
 *
 * Each function returns the place behind what it passes over, or NULL. No byte at or behind `end` is
 * looked at.
 */

#pragma once

#include "keys.h"

#define MOST_LEVELS 64
/* Longer whole parts of numbers, and longer exponents, do not fit into what Python makes of them. */
#define MOST_DIGITS 18
#define MOST_EXPONENT_DIGITS 2

static inline Place pass_space(Place at, Place end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

static int is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static int is_hex(uint8_t byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* One character of UTF-8 that is no ASCII. */
static Place pass_character(Place at, Place end)
{
    uint8_t first = at[0];
    int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || end - at <= more)
        return NULL;
    for (int i = 1; i <= more; i++)
        if ((at[i] & 0xC0) != 0x80)
            return NULL;
    uint8_t second = at[1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
        return NULL;
    return at + more + 1;
}

/* An escape but for surrogates, of which one alone is no text. */
static Place pass_escape(Place at, Place end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] && strchr("\"\\/bfnrt", at[1]))
        return at + 2;
    if (at[1] != 'u' || end - at < 6)
        return NULL;
    for (int i = 2; i < 6; i++)
        if (!is_hex(at[i]))
            return NULL;
    int surrogate = (at[2] == 'd' || at[2] == 'D') && at[3] >= '8';
    return surrogate ? NULL : at + 6;
}

/* To the first byte of a string that is no plain ASCII, or its closing quote. */
static inline Place pass_plain(Place at, Place end)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    while (end - at >= 8) {
        uint64_t bytes = word(at), quote = bytes ^ (ones * '"'), slash = bytes ^ (ones * '\\');
        /* A byte below 32, a quote, a backslash or no ASCII has its highest bit set here; above the
         * lowest of them others may, too. */
        uint64_t marks = ((bytes - ones * 32) | (quote - ones) | (slash - ones) | bytes) & high;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if (marks)
            return at + __builtin_ctzll(marks) / 8;
#else
        if (marks)
            break;
#endif
        at += 8;
    }
    while (at < end && *at >= 32 && *at < 0x80 && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* A string from its opening quote on. Clears `plain` where it holds an escape. */
static Place pass_string(Place at, Place end, int *plain)
{
    at++;
    while ((at = pass_plain(at, end)) < end) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\') {
            *plain = 0;
            at = pass_escape(at, end);
        } else {
            at = *at >= 0x80 ? pass_character(at, end) : NULL;
        }
        if (!at)
            return NULL;
    }
    return NULL;
}

static Place pass_number(Place at, Place end)
{
    if (at < end && *at == '-')
        at++;
    Place first = at;
    while (at < end && is_digit(*at))
        at++;
    if (at == first || at - first > MOST_DIGITS || (*first == '0' && at - first > 1))
        return NULL;
    if (at < end && *at == '.') {
        first = ++at;
        while (at < end && is_digit(*at))
            at++;
        if (at == first)
            return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        first = at;
        while (at < end && is_digit(*at))
            at++;
        if (at == first || at - first > MOST_EXPONENT_DIGITS)
            return NULL;
    }
    return at;
}

static Place pass_word(Place at, Place end, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(end - at) >= size && !memcmp(at, text, size) ? at + size : NULL;
}

/* The colon behind a key, and the space around it. */
static Place pass_colon(Place at, Place end)
{
    at = pass_space(at, end);
    if (at >= end || *at != ':')
        return NULL;
    at = pass_space(at + 1, end);
    return at < end ? at : NULL;
}

/* What stands behind a member: the start of the next one, or the closing bracket, told in `closed`. */
static Place pass_comma(Place at, Place end, uint8_t bracket, int *closed)
{
    at = pass_space(at, end);
    if (at >= end)
        return NULL;
    *closed = *at == bracket;
    if (*closed)
        return at + 1;
    if (*at != ',')
        return NULL;
    at = pass_space(at + 1, end);
    return at < end ? at : NULL;
}

static Place pass_value(Place at, Place end, int levels)
{
    int plain, closed = 0;
    if (at >= end)
        return NULL;
    switch (*at) {
    case '"':
        return pass_string(at, end, &plain);
    case 't':
        return pass_word(at, end, "true");
    case 'f':
        return pass_word(at, end, "false");
    case 'n':
        return pass_word(at, end, "null");
    case '{':
    case '[':
        break;
    default:
        return pass_number(at, end);
    }
    if (!levels)
        return NULL;
    int is_object = *at == '{';
    uint8_t bracket = is_object ? '}' : ']';
    at = pass_space(at + 1, end);
    if (at < end && *at == bracket)
        return at + 1;
    while (!closed) {
        if (is_object) {
            if (at >= end || *at != '"' || !(at = pass_string(at, end, &plain)) ||
                !(at = pass_colon(at, end)))
                return NULL;
        }
        if (!(at = pass_value(at, end, levels - 1)) ||
            !(at = pass_comma(at, end, bracket, &closed)))
            return NULL;
    }
    return at;
}
