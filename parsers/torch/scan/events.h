/* Events as rows of the columns of their category. */

#pragma once

#include <math.h>

#include "json.h"
#include "keys.h"

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
    int layout_count;
    Layout *layouts;
    Layout *last; /* of the event before */
    Keys texts;
    int no_memory;
    Slice found[MOST_FIELDS];
    int32_t codes[MOST_FIELDS]; /* of the texts found, -1 where not looked up */
} Scan;

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

static int32_t combined(Scan *scan, Column *column)
{
    int32_t codes[MOST_FIELDS];
    for (int i = 0; i < column->width; i++) {
        int field = column->fields[i];
        Slice text = scan->found[field];
        if (text.size && scan->codes[field] < 0)
            scan->codes[field] = code_of(&scan->texts, text.at, text.size);
        codes[i] = text.size ? scan->codes[field] : NOT_GIVEN;
        if (codes[i] < 0)
            return -1;
    }
    return code_of(&column->combinations, (Place)codes, column->width * sizeof(int32_t));
}

/* Append what was found of an event. */
static int take_row(Scan *scan, Layout *layout)
{
    if (layout->rows == layout->room && !more_rows(layout)) {
        scan->no_memory = 1;
        return 0;
    }
    for (int i = 0; i < layout->field_count; i++)
        scan->codes[i] = -1;
    for (int i = 0; i < layout->column_count; i++) {
        Column *column = &layout->columns[i];
        Slice text = scan->found[column->fields[0]];
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
            int32_t code = combined(scan, column);
            ((int32_t *)column->values)[layout->rows] = code;
            if (code < 0)
                scan->no_memory = 1;
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

static Place pass_arguments(Scan *scan, const Layout *layout, Place at, Place end)
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
            if (scan->found[field].size)
                return NULL;
            scan->found[field] = (Slice){value, (size_t)(at - value)};
            expected = field + 1;
        }
        if (!(at = pass_comma(at, end, '}', &closed)))
            return NULL;
    }
    return at;
}

static Layout *layout_of(Scan *scan, Slice category)
{
    Layout *last = scan->last;
    if (last && is_text(category, last->category, last->category_size))
        return last;
    for (int i = 0; i < scan->layout_count; i++) {
        Layout *one = &scan->layouts[i];
        if (is_text(category, one->category, one->category_size))
            return scan->last = one;
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

static Place pass_event(Scan *scan, Place at, Place end)
{
    Slice phase = {NULL, 0}, category = {NULL, 0}, arguments = {NULL, 0};
    Layout *layout = NULL;
    int closed = 0;
    if (*at != '{')
        return NULL;
    at = pass_space(at + 1, end);
    for (int i = NAME; i < ARGUMENTS; i++)
        scan->found[i].size = 0;
    while (!closed) {
        Slice key;
        if (!(at = pass_key(at, end, &key)))
            return NULL;
        int field = field_of(key);
        Place value = at;
        int wanted = field == ALL_ARGUMENTS && layout && layout->field_count > ARGUMENTS;
        if (wanted) {
            for (int i = ARGUMENTS; i < layout->field_count; i++)
                scan->found[i].size = 0;
            at = pass_arguments(scan, layout, at, end);
        } else {
            at = pass_value(at, end, MOST_LEVELS);
        }
        if (!at)
            return NULL;
        if (field >= 0) {
            Slice *slice = field == PHASE           ? &phase
                           : field == CATEGORY      ? &category
                           : field == ALL_ARGUMENTS ? &arguments
                                                    : &scan->found[field];
            if (slice->size)
                return NULL;
            *slice = (Slice){value, (size_t)(at - value)};
        }
        if (field == CATEGORY) {
            /* Arguments that come first are those of an unusual writer. */
            if (*value != '"' || category.size == 2 || arguments.size)
                return NULL;
            layout = layout_of(scan, (Slice){value + 1, category.size - 2});
            if (!layout)
                return NULL;
        }
        if (!(at = pass_comma(at, end, '}', &closed)))
            return NULL;
    }
    if (!category.size) /* metadata, flows and marks of old */
        layout = layout_of(scan, category);
    if (!layout || !phase.size || *phase.at != '"')
        return NULL;
    if (!layout->column_count) { /* nothing but how many there are is used */
        layout->rows++;
        return at;
    }
    const Slice *found = scan->found;
    if (!is_text(phase, "\"X\"", 3))
        return NULL;
    for (int i = NAME; i < ARGUMENTS; i++)
        if (!found[i].size)
            return NULL;
    if (*found[NAME].at != '"' || !is_name(found[PID]) || !is_name(found[TID]))
        return NULL;
    if (!arguments.size)
        for (int i = ARGUMENTS; i < layout->field_count; i++)
            scan->found[i].size = 0;
    return take_row(scan, layout) ? at : NULL;
}

/* Behind the last event that was taken, of those that begin at a place. */
static Place pass_events(Scan *scan, Place at, Place end)
{
    Place done = at;
    at = pass_space(at, end);
    while (at < end && (at = pass_event(scan, at, end))) {
        done = at;
        at = pass_space(at, end);
        if (at < end && *at != ',')
            break;
        at = pass_space(at + (at < end), end);
    }
    return done;
}

static void free_scan(Scan *scan)
{
    for (int i = 0; i < scan->layout_count; i++) {
        Layout *layout = &scan->layouts[i];
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
    free(scan->layouts);
    free_keys(&scan->texts);
}
