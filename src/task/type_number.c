/* SPDX-License-Identifier: MIT */
/*
 * type_number - converts between JSON numbers and number members of every size.
 *
 * In between an integer is a sign and a magnitude. That covers INT64_MIN to UINT64_MAX, so one
 * comparison checks the limits of any member.
 */
#include "task/type.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 9007199254740991.0 /* 2^53-1: larger doubles may have been rounded */

/* Where the low `size` bytes of a uint64_t are. */
static size_t low_offset(size_t size)
{
    assert(size == 1 || size == 2 || size == 4 || size == 8);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(uint64_t) - size;
}

static uint64_t sign_bit(size_t size)
{
    return UINT64_C(1) << (8 * size - 1);
}

struct integer bi_type_number_get(bide_kind kind, size_t size, const void *member)
{
    uint64_t bits = 0;
    memcpy((char *)&bits + low_offset(size), member, size);
    if (kind == BIDE_KIND_UINT || (bits & sign_bit(size)) == 0)
        return (struct integer){false, false, bits};

    /* Two's complement: magnitude = 2^(8*size) - bits. For size 8 the power does not fit, so it is
     * computed modulo 2^64. */
    return (struct integer){true, false, 2 * (sign_bit(size) - 1) + 2 - bits};
}

struct integer bi_type_number_limit(bide_kind kind, size_t size, bool least)
{
    uint64_t half = sign_bit(size);
    if (kind == BIDE_KIND_UINT)
        return (struct integer){false, false, least ? 0 : (half - 1) * 2 + 1};
    return least ? (struct integer){true, false, half} : (struct integer){false, false, half - 1};
}

int bi_type_number_set(bide_kind kind, size_t size, void *member, struct integer number)
{
    struct integer limit = bi_type_number_limit(kind, size, number.negative);
    if (number.overflow || number.magnitude > limit.magnitude)
        return number.negative ? -1 : 1;

    /* The limits were checked above: the low bytes are the whole number. */
    uint64_t bits = number.negative ? 0 - number.magnitude : number.magnitude;
    memcpy(member, (const char *)&bits + low_offset(size), size);
    return 0;
}

const char *bi_type_number_format(struct integer number, char text[BI_INTEGER_TEXT_SIZE])
{
    bool minus = number.negative && number.magnitude > 0;
    snprintf(text, BI_INTEGER_TEXT_SIZE, "%s%" PRIu64, minus ? "-" : "", number.magnitude);
    return text;
}

bool bi_type_number_parse(const char *text, size_t length, struct integer *number)
{
    *number = (struct integer){.negative = length > 1 && text[0] == '-'};
    size_t i = number->negative ? 1 : 0;
    if (length == 0)
        return false;

    for (; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        /* Continue after an overflow: other characters behind the digits must still be rejected. */
        number->overflow = number->overflow || number->magnitude > (UINT64_MAX - digit) / 10;
        number->magnitude = number->magnitude * 10 + digit;
    }

    return true;
}

bool bi_type_number_from_double(double real, struct integer *number)
{
    /* Written so that NaN fails; the cast is defined only within the range. */
    if (!(real >= -EXACT_MAX && real <= EXACT_MAX) || (double)(int64_t)real != real)
        return false;
    *number = (struct integer){real < 0, false, (uint64_t)(real < 0 ? -real : real)};
    return true;
}

double bi_type_number_shortest_double(float narrow)
{
    char text[40];
    double wide = (double)narrow;

    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)narrow);
        double shorter = strtod(text, NULL);
        if ((float)shorter == narrow)
            return shorter;
    }

    return wide;
}
