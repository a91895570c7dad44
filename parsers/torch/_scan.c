/* Events as Kineto usually writes them, from JSON text into columns of numbers.
 *
 * Which fields of which category become which columns is said in Python (scanned.py). Distinct texts
 * are kept once and stand in the columns as codes. Whatever is not strictly as expected (broken JSON,
 * another category, a quoted number, a key twice) ends what scan() takes: the caller decodes those
 * bytes another way. So nothing here repairs, guesses or converts.
 *
 * All reading is between two pointers; no byte at or behind `end` is looked at.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef const uint8_t *Place;

/* ---------------------------------------------------------------------------------------------- */
/* Distinct keys (bytes), numbered in the order in which they first come. */

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

/* ---------------------------------------------------------------------------------------------- */
/* JSON, strictly. Each function returns the place behind what it passes over, or NULL. */

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

/* ---------------------------------------------------------------------------------------------- */
/* Layouts */

typedef struct {
    Place at;
    size_t size; /* 0: not given */
} Slice;

/* The code of the text that is not there. */
#define NOT_GIVEN 0

typedef enum { TIME, WHOLE, REAL, CODE } Kind;

typedef struct {
    Kind kind;
    int64_t absent; /* of WHOLE */
    int width;      /* how many fields; all but CODE have one */
    int *fields;
    void *values;
    Keys combinations; /* of CODE: for each code the codes of its texts */
} Column;

/* Fields of an event itself; those of its arguments follow. */
enum { NAME, PID, TID, TS, DUR, ARGUMENTS };
#define MOST_FIELDS 64

typedef struct {
    uint8_t *category;
    size_t category_size;
    int field_count, column_count;
    char *keys[MOST_FIELDS]; /* of the arguments, from ARGUMENTS on */
    size_t key_sizes[MOST_FIELDS];
    uint64_t key_lengths; /* a bit for each length, modulo 64 */
    Column *columns;
    size_t rows, room;
} Layout;

typedef struct {
    PyObject_HEAD
    int layout_count;
    Layout *layouts;
    Layout *last; /* of the event before */
    Keys texts;
    int no_memory;
    Slice found[MOST_FIELDS];
    int32_t codes[MOST_FIELDS]; /* of the texts found, -1 where not looked up */
} Scanner;

static size_t item_size(Kind kind)
{
    return kind == CODE ? sizeof(int32_t) : sizeof(int64_t);
}

static int more_rows(Layout *layout)
{
    size_t room = layout->room ? 2 * layout->room : 256;
    for (int i = 0; i < layout->column_count; i++) {
        Column *column = &layout->columns[i];
        void *moved = realloc(column->values, room * item_size(column->kind));
        if (!moved)
            return 0;
        column->values = moved;
    }
    layout->room = room;
    return 1;
}

/* ---------------------------------------------------------------------------------------------- */
/* Values, from slices that are JSON. Each returns 0 where the value is not of the usual kind. */

/* A number without exponent, in quotes or not, as digits, how many of them are decimals, and whether
 * it is negative. Decimals of zero at the end are left out. */
static int digits_of(Slice text, int64_t *digits, int *decimals, int *negative)
{
    Place at = text.at, end = at + text.size;
    if (*at == '"') { /* it is no number yet */
        at++;
        end--;
        if (at == end || pass_number(at, end) != end)
            return 0;
    }
    *negative = *at == '-';
    at += *negative;
    if (!is_digit(*at))
        return 0;
    int is_decimal = 0;
    int64_t value = 0;
    *decimals = 0;
    for (; at < end; at++) {
        if (*at == '.') {
            is_decimal = 1;
            while (end[-1] == '0')
                end--;
            continue;
        }
        int digit = *at - '0';
        if (!is_digit(*at) || value > (INT64_MAX - digit) / 10)
            return 0;
        value = 10 * value + digit;
        *decimals += is_decimal;
    }
    *digits = value;
    return 1;
}

/* Microseconds, with at most three decimals, as nanoseconds. */
static int time_of(Slice text, int64_t *time)
{
    static const int64_t scale[] = {1000, 100, 10, 1};
    int64_t digits;
    int decimals, negative;
    if (*text.at == '"' || !digits_of(text, &digits, &decimals, &negative) || decimals > 3 ||
        digits > INT64_MAX / scale[decimals])
        return 0;
    digits *= scale[decimals];
    *time = negative ? -digits : digits;
    return 1;
}

static int is_null(Slice text)
{
    return !text.size || *text.at == 'n';
}

static int whole_of(Slice text, int64_t absent, int64_t *whole)
{
    int64_t digits;
    int negative;
    *whole = absent;
    if (is_null(text))
        return 1;
    if (memchr(text.at, '.', text.size))
        return 0;
    int decimals;
    if (!digits_of(text, &digits, &decimals, &negative))
        return 0;
    *whole = negative ? -digits : digits;
    return 1;
}

/* Digits below 2^53 and powers of ten up to 10^15 are exact, so one division rounds once. */
static int real_of(Slice text, double *real)
{
    int64_t digits;
    int decimals, negative;
    *real = NAN;
    if (is_null(text))
        return 1;
    if (!digits_of(text, &digits, &decimals, &negative) || digits >= INT64_C(1) << 53 ||
        decimals > 15)
        return 0;
    double power = 1;
    for (int i = 0; i < decimals; i++)
        power *= 10;
    *real = (double)digits / power;
    if (negative)
        *real = -*real;
    return 1;
}

static int32_t combined(Scanner *scanner, Column *column)
{
    int32_t codes[MOST_FIELDS];
    for (int i = 0; i < column->width; i++) {
        int field = column->fields[i];
        Slice text = scanner->found[field];
        if (text.size && scanner->codes[field] < 0)
            scanner->codes[field] = code_of(&scanner->texts, text.at, text.size);
        codes[i] = text.size ? scanner->codes[field] : NOT_GIVEN;
        if (codes[i] < 0)
            return -1;
    }
    return code_of(&column->combinations, (Place)codes, column->width * sizeof(int32_t));
}

/* Append what was found of an event. */
static int take_row(Scanner *scanner, Layout *layout)
{
    if (layout->rows == layout->room && !more_rows(layout)) {
        scanner->no_memory = 1;
        return 0;
    }
    for (int i = 0; i < layout->field_count; i++)
        scanner->codes[i] = -1;
    for (int i = 0; i < layout->column_count; i++) {
        Column *column = &layout->columns[i];
        Slice text = scanner->found[column->fields[0]];
        int64_t *wholes = column->values;
        int done = 1;
        switch (column->kind) {
        case TIME:
            done = time_of(text, wholes + layout->rows);
            break;
        case WHOLE:
            done = whole_of(text, column->absent, wholes + layout->rows);
            break;
        case REAL:
            done = real_of(text, (double *)column->values + layout->rows);
            break;
        case CODE: {
            int32_t code = combined(scanner, column);
            ((int32_t *)column->values)[layout->rows] = code;
            if (code < 0)
                scanner->no_memory = 1;
            done = code >= 0;
        }
        }
        if (!done)
            return 0;
    }
    layout->rows++;
    return 1;
}

/* ---------------------------------------------------------------------------------------------- */
/* Events */

/* A key from its opening quote on, and the colon behind it; NULL for one with escapes. */
static Place pass_key(Place at, Place end, Slice *key)
{
    int plain = 1;
    if (at >= end || *at != '"')
        return NULL;
    key->at = at + 1;
    at = pass_string(at, end, &plain);
    if (!at || !plain)
        return NULL;
    key->size = (size_t)(at - 1 - key->at);
    return pass_colon(at, end);
}

static inline int is_text(Slice slice, const void *text, size_t size)
{
    return slice.size == size && same(slice.at, text, size);
}

/* Which field of the arguments a key is, beginning with the one expected; -1 for none. */
static int argument_of(const Layout *layout, Slice key, int expected)
{
    if (!(layout->key_lengths >> (key.size & 63) & 1))
        return -1;
    int count = layout->field_count;
    for (int i = ARGUMENTS; i < count; i++, expected++) {
        if (expected >= count)
            expected = ARGUMENTS;
        if (is_text(key, layout->keys[expected], layout->key_sizes[expected]))
            return expected;
    }
    return -1;
}

static Place pass_arguments(Scanner *scanner, const Layout *layout, Place at, Place end)
{
    int expected = ARGUMENTS, closed = 0;
    if (*at != '{')
        return pass_word(at, end, "null");
    at = pass_space(at + 1, end);
    if (at < end && *at == '}')
        return at + 1;
    while (!closed) {
        Slice key;
        if (!(at = pass_key(at, end, &key)))
            return NULL;
        Place value = at;
        if (!(at = pass_value(at, end, MOST_LEVELS)))
            return NULL;
        int field = argument_of(layout, key, expected);
        if (field >= 0) {
            if (scanner->found[field].size)
                return NULL;
            scanner->found[field] = (Slice){value, (size_t)(at - value)};
            expected = field + 1;
        }
        if (!(at = pass_comma(at, end, '}', &closed)))
            return NULL;
    }
    return at;
}

static Layout *layout_of(Scanner *scanner, Slice category)
{
    Layout *last = scanner->last;
    if (last && is_text(category, last->category, last->category_size))
        return last;
    for (int i = 0; i < scanner->layout_count; i++) {
        Layout *one = &scanner->layouts[i];
        if (is_text(category, one->category, one->category_size))
            return scanner->last = one;
    }
    return NULL;
}

/* Which field of an event a key is; -1 for one that is passed over. */
enum { PHASE = MOST_FIELDS, CATEGORY, ALL_ARGUMENTS };
static int field_of(Slice key)
{
    Place text = key.at;
    switch (key.size) {
    case 2:
        return text[0] == 't' && text[1] == 's' ? TS : text[0] == 'p' && text[1] == 'h' ? PHASE : -1;
    case 3:
        return !memcmp(text, "tid", 3)   ? TID
               : !memcmp(text, "pid", 3) ? PID
               : !memcmp(text, "dur", 3) ? DUR
               : !memcmp(text, "cat", 3) ? CATEGORY
                                         : -1;
    case 4:
        return !memcmp(text, "name", 4) ? NAME : !memcmp(text, "args", 4) ? ALL_ARGUMENTS : -1;
    default:
        return -1;
    }
}

/* A whole number, or a text, as processes and threads are called. */
static int is_name(Slice text)
{
    return *text.at == '"' || (is_digit(text.at[text.size - 1]) && !memchr(text.at, '.', text.size) &&
                               !memchr(text.at, 'e', text.size) && !memchr(text.at, 'E', text.size));
}

static Place pass_event(Scanner *scanner, Place at, Place end)
{
    Slice phase = {NULL, 0}, category = {NULL, 0}, arguments = {NULL, 0};
    Layout *layout = NULL;
    int closed = 0;
    if (*at != '{')
        return NULL;
    at = pass_space(at + 1, end);
    for (int i = NAME; i < ARGUMENTS; i++)
        scanner->found[i].size = 0;
    while (!closed) {
        Slice key;
        if (!(at = pass_key(at, end, &key)))
            return NULL;
        int field = field_of(key);
        Place value = at;
        int wanted = field == ALL_ARGUMENTS && layout && layout->field_count > ARGUMENTS;
        if (wanted) {
            for (int i = ARGUMENTS; i < layout->field_count; i++)
                scanner->found[i].size = 0;
            at = pass_arguments(scanner, layout, at, end);
        } else {
            at = pass_value(at, end, MOST_LEVELS);
        }
        if (!at)
            return NULL;
        if (field >= 0) {
            Slice *slice = field == PHASE           ? &phase
                           : field == CATEGORY      ? &category
                           : field == ALL_ARGUMENTS ? &arguments
                                                    : &scanner->found[field];
            if (slice->size)
                return NULL;
            *slice = (Slice){value, (size_t)(at - value)};
        }
        if (field == CATEGORY) {
            /* Arguments that come first are those of an unusual writer. */
            if (*value != '"' || category.size == 2 || arguments.size)
                return NULL;
            layout = layout_of(scanner, (Slice){value + 1, category.size - 2});
            if (!layout)
                return NULL;
        }
        if (!(at = pass_comma(at, end, '}', &closed)))
            return NULL;
    }
    if (!category.size) /* metadata, flows and marks of old */
        layout = layout_of(scanner, category);
    if (!layout || !phase.size || *phase.at != '"')
        return NULL;
    if (!layout->column_count) { /* nothing but how many there are is used */
        layout->rows++;
        return at;
    }
    const Slice *found = scanner->found;
    if (!is_text(phase, "\"X\"", 3))
        return NULL;
    for (int i = NAME; i < ARGUMENTS; i++)
        if (!found[i].size)
            return NULL;
    if (*found[NAME].at != '"' || !is_name(found[PID]) || !is_name(found[TID]))
        return NULL;
    if (!arguments.size)
        for (int i = ARGUMENTS; i < layout->field_count; i++)
            scanner->found[i].size = 0;
    return take_row(scanner, layout) ? at : NULL;
}

/* ---------------------------------------------------------------------------------------------- */
/* The type */

static void free_scanner(PyObject *self)
{
    Scanner *scanner = (Scanner *)self;
    for (int i = 0; i < scanner->layout_count; i++) {
        Layout *layout = &scanner->layouts[i];
        for (int j = 0; j < layout->column_count; j++) {
            free(layout->columns[j].fields);
            free(layout->columns[j].values);
            free_keys(&layout->columns[j].combinations);
        }
        for (int j = ARGUMENTS; j < layout->field_count; j++)
            free(layout->keys[j]);
        free(layout->columns);
        free(layout->category);
    }
    free(scanner->layouts);
    free_keys(&scanner->texts);
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static char *copied(PyObject *text, size_t *size)
{
    Py_ssize_t length;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length);
    if (!utf8)
        return NULL;
    char *copy = malloc((size_t)length + 1);
    if (!copy) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(copy, utf8, (size_t)length + 1);
    *size = (size_t)length;
    return copy;
}

/* The field of a key: of the event itself, or, behind "args.", of its arguments. */
static int field_named(Layout *layout, PyObject *name)
{
    size_t size;
    char *key = copied(name, &size);
    if (!key)
        return -1;
    if (strncmp(key, "args.", 5)) {
        int field = field_of((Slice){(Place)key, size});
        free(key);
        if (field < 0 || field >= ARGUMENTS)
            PyErr_SetString(PyExc_ValueError, "no such field of an event");
        return field < ARGUMENTS ? field : -1;
    }
    size -= 5;
    memmove(key, key + 5, size + 1);
    for (int i = ARGUMENTS; i < layout->field_count; i++) {
        if (size == layout->key_sizes[i] && !memcmp(key, layout->keys[i], size)) {
            free(key);
            return i;
        }
    }
    if (layout->field_count == MOST_FIELDS) {
        free(key);
        PyErr_SetString(PyExc_ValueError, "too many fields");
        return -1;
    }
    layout->keys[layout->field_count] = key;
    layout->key_sizes[layout->field_count] = size;
    layout->key_lengths |= UINT64_C(1) << (size & 63);
    return layout->field_count++;
}

static int set_column(Layout *layout, PyObject *given)
{
    int kind;
    long long absent;
    PyObject *names;
    if (!PyArg_ParseTuple(given, "iLO!", &kind, &absent, &PyTuple_Type, &names))
        return 0;
    Py_ssize_t width = PyTuple_Size(names);
    if (kind < TIME || kind > CODE || width < 1 || width > MOST_FIELDS ||
        (kind != CODE && width != 1)) {
        PyErr_SetString(PyExc_ValueError, "no such column");
        return 0;
    }
    Column *column = &layout->columns[layout->column_count];
    memset(column, 0, sizeof *column);
    column->fields = calloc((size_t)width, sizeof(int));
    if (!column->fields) {
        PyErr_NoMemory();
        return 0;
    }
    layout->column_count++;
    column->kind = (Kind)kind;
    column->absent = absent;
    column->width = (int)width;
    for (int i = 0; i < width; i++)
        if ((column->fields[i] = field_named(layout, PyTuple_GetItem(names, i))) < 0)
            return 0;
    return 1;
}

static int set_layout(Scanner *scanner, PyObject *given)
{
    PyObject *category, *columns;
    if (!PyArg_ParseTuple(given, "UO!", &category, &PyTuple_Type, &columns))
        return 0;
    Layout *layout = &scanner->layouts[scanner->layout_count++];
    layout->field_count = ARGUMENTS;
    layout->category = (uint8_t *)copied(category, &layout->category_size);
    size_t count = (size_t)PyTuple_Size(columns);
    if (!layout->category || !(layout->columns = calloc(count + 1, sizeof(Column))))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!set_column(layout, PyTuple_GetItem(columns, (Py_ssize_t)i)))
            return 0;
    return 1;
}

static PyObject *new_scanner(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *layouts;
    if (named && PyDict_Size(named)) {
        PyErr_SetString(PyExc_TypeError, "Scanner takes no named arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &layouts))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Scanner *scanner = (Scanner *)allocate(type, 0);
    if (!scanner)
        return NULL;
    Py_ssize_t count = PyTuple_Size(layouts);
    scanner->layouts = calloc((size_t)count + 1, sizeof(Layout));
    int done = scanner->layouts && code_of(&scanner->texts, (Place) "", 0) == NOT_GIVEN;
    for (Py_ssize_t i = 0; done && i < count; i++)
        done = set_layout(scanner, PyTuple_GetItem(layouts, i));
    if (!done) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_DECREF(scanner);
        return NULL;
    }
    return (PyObject *)scanner;
}

/* Behind the last event that was taken, of those that begin at a place. */
static Place pass_events(Scanner *scanner, Place at, Place end)
{
    Place done = at;
    at = pass_space(at, end);
    while (at < end && (at = pass_event(scanner, at, end))) {
        done = at;
        at = pass_space(at, end);
        if (at < end && *at != ',')
            break;
        at = pass_space(at + (at < end), end);
    }
    return done;
}

static PyObject *scan(PyObject *self, PyObject *args)
{
    Scanner *scanner = (Scanner *)self;
    PyObject *given;
    Py_ssize_t start, end;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "Onn", &given, &start, &end) ||
        PyObject_GetBuffer(given, &view, PyBUF_SIMPLE))
        return NULL;
    if (start < 0 || start > end || end > view.len) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "no such part of the buffer");
        return NULL;
    }
    Place bytes = view.buf;
    scanner->no_memory = 0;
    Place done = pass_events(scanner, bytes + start, bytes + end);
    PyBuffer_Release(&view);
    return scanner->no_memory ? PyErr_NoMemory() : PyLong_FromSsize_t(done - bytes);
}

static PyObject *columns_of(Layout *layout)
{
    PyObject *columns = PyList_New(layout->column_count);
    for (int i = 0; columns && i < layout->column_count; i++) {
        Column *column = &layout->columns[i];
        Py_ssize_t size = (Py_ssize_t)(layout->rows * item_size(column->kind));
        PyObject *values = PyBytes_FromStringAndSize(column->values, size);
        if (!values || PyList_SetItem(columns, i, values))
            Py_CLEAR(columns);
    }
    return columns;
}

static PyObject *take(PyObject *self, PyObject *Py_UNUSED(none))
{
    Scanner *scanner = (Scanner *)self;
    PyObject *found = PyList_New(0);
    for (int i = 0; found && i < scanner->layout_count; i++) {
        Layout *layout = &scanner->layouts[i];
        if (!layout->rows)
            continue;
        PyObject *columns = columns_of(layout);
        PyObject *one =
            columns ? Py_BuildValue("(inN)", i, (Py_ssize_t)layout->rows, columns) : NULL;
        if (!one || PyList_Append(found, one))
            Py_CLEAR(found);
        Py_XDECREF(one);
    }
    for (int i = 0; found && i < scanner->layout_count; i++)
        scanner->layouts[i].rows = 0;
    return found;
}

static PyObject *text_at(const Keys *keys, size_t code)
{
    size_t start = code ? keys->ends[code - 1] : 0;
    return PyBytes_FromStringAndSize((char *)keys->bytes + start,
                                     (Py_ssize_t)(keys->ends[code] - start));
}

static PyObject *texts(PyObject *self, PyObject *args)
{
    Scanner *scanner = (Scanner *)self;
    int layout, column;
    Py_ssize_t code;
    if (!PyArg_ParseTuple(args, "iin", &layout, &column, &code))
        return NULL;
    if (layout < 0 || layout >= scanner->layout_count || column < 0 ||
        column >= scanner->layouts[layout].column_count || code < 0 ||
        (size_t)code >= scanner->layouts[layout].columns[column].combinations.count) {
        PyErr_SetString(PyExc_IndexError, "no such code");
        return NULL;
    }
    const Column *of = &scanner->layouts[layout].columns[column];
    Place codes = of->combinations.bytes + (size_t)code * of->width * sizeof(int32_t);
    PyObject *found = PyTuple_New(of->width);
    for (int i = 0; found && i < of->width; i++) {
        int32_t one;
        memcpy(&one, codes + i * sizeof one, sizeof one);
        PyObject *text = text_at(&scanner->texts, (size_t)one);
        if (!text || PyTuple_SetItem(found, i, text))
            Py_CLEAR(found);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS,
     "scan(buffer, start, end): take the events in these bytes, separated by commas, up to the first\n"
     "about which anything is not as usual; the place behind the last one taken."},
    {"take", take, METH_NOARGS,
     "The rows since the last call: for each layout that has any its number, how many, and the\n"
     "columns as bytes (8-byte numbers, 4-byte codes)."},
    {"texts", texts, METH_VARARGS,
     "texts(layout, column, code): the JSON texts that a code stands for, empty where not given."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Scanner(layouts): each a category and its columns (kind, absent, fields)."},
    {Py_tp_new, new_scanner},
    {Py_tp_dealloc, free_scanner},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "traceroof.parsers.torch._scan.Scanner",
    .basicsize = sizeof(Scanner),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    if (!type || PyModule_AddObjectRef(module, "Scanner", type)) {
        Py_XDECREF(type);
        return -1;
    }
    Py_DECREF(type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_scan",
    .m_doc = "Usual events of torch.profiler traces as columns.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__scan(void)
{
    return PyModuleDef_Init(&definition);
}
