/* SPDX-License-Identifier: MIT */
#include "util/base64.h"

#include <assert.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t bi_base64_encoded_size(size_t size)
{
    size_t groups = size / 3 + (size % 3 != 0);
    /* SIZE_MAX itself means overflow. */
    return groups > (SIZE_MAX - 1) / 4 ? SIZE_MAX : groups * 4;
}

/* Encodes up to three bytes as four letters. */
static void encode_group(const unsigned char *bytes, size_t count, char *text)
{
    assert(count >= 1 && count <= 3);
    uint32_t bits = (uint32_t)bytes[0] << 16;
    if (count > 1)
        bits |= (uint32_t)bytes[1] << 8;
    if (count > 2)
        bits |= bytes[2];

    text[0] = alphabet[bits >> 18];
    text[1] = alphabet[bits >> 12 & 63];
    text[2] = '=';
    text[3] = '=';
    if (count > 1)
        text[2] = alphabet[bits >> 6 & 63];
    if (count > 2)
        text[3] = alphabet[bits & 63];
}

void bi_base64_encode(const void *data, size_t size, char *text)
{
    const unsigned char *bytes = data;
    for (; size > 3; size -= 3, bytes += 3, text += 4)
        encode_group(bytes, 3, text);
    if (size > 0)
        encode_group(bytes, size, text);
}

bool bi_base64_decoded_size(const char *text, size_t length, size_t *size)
{
    if (length % 4 != 0)
        return false;

    *size = length / 4 * 3;
    if (length > 0 && text[length - 1] == '=')
        *size -= text[length - 2] == '=' ? 2 : 1;
    return true;
}

/* Returns 0 to 63; 64 for a character outside the alphabet. */
static uint32_t decode_letter(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return (uint32_t)(letter - 'A');
    if (letter >= 'a' && letter <= 'z')
        return (uint32_t)(letter - 'a') + 26;
    if (letter >= '0' && letter <= '9')
        return (uint32_t)(letter - '0') + 52;
    if (letter == '+')
        return 62;
    return letter == '/' ? 63 : 64;
}

/* Decodes four letters into up to three bytes; the letters that are left are padding. */
static bool decode_group(const char *text, size_t count, unsigned char *bytes)
{
    uint32_t bits = 0;
    assert(count >= 1 && count <= 3);
    for (size_t i = 0; i <= count; i++) {
        uint32_t value = decode_letter(text[i]);
        if (value == 64)
            return false;
        bits |= value << (18 - 6 * i);
    }

    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(bits >> (16 - 8 * i));

    /* Bits behind the last byte must be zero, or several texts would decode to the same bytes. */
    return count == 3 || (bits << (8 + 8 * count)) == 0;
}

bool bi_base64_decode(const char *text, size_t length, void *data)
{
    unsigned char *bytes = data;
    size_t size;
    if (!bi_base64_decoded_size(text, length, &size))
        return false;

    for (; size > 0; text += 4) {
        size_t count = size < 3 ? size : 3;
        if (!decode_group(text, count, bytes))
            return false;
        bytes += count;
        size -= count;
    }
    return true;
}
