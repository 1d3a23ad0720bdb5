/* SPDX-License-Identifier: MIT */
#include "task/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t bi_base64_text_size(size_t size)
{
    size_t groups = size / 3 + (size % 3 != 0);
    return groups > (SIZE_MAX - 1) / 4 ? SIZE_MAX : groups * 4;
}

/* Four letters for up to three bytes. */
static void write_group(const unsigned char *bytes, size_t count, char *text)
{
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

void bi_base64_write(const void *data, size_t size, char *text)
{
    const unsigned char *bytes = data;
    for (; size > 3; size -= 3, bytes += 3, text += 4)
        write_group(bytes, 3, text);
    if (size > 0)
        write_group(bytes, size, text);
}

bool bi_base64_size(const char *text, size_t length, size_t *size)
{
    if (length % 4 != 0)
        return false;
    *size = length / 4 * 3;
    if (length > 0 && text[length - 1] == '=')
        *size -= text[length - 2] == '=' ? 2 : 1;
    return true;
}

/* 0 to 63; 64 for what is no letter of the alphabet. */
static uint32_t value_of(char letter)
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

/* Up to three bytes of four letters, those behind the bytes being padding. */
static bool read_group(const char *text, size_t count, unsigned char *bytes)
{
    uint32_t bits = 0;
    for (size_t i = 0; i <= count; i++) {
        uint32_t value = value_of(text[i]);
        if (value == 64)
            return false;
        bits |= value << (18 - 6 * i);
    }
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(bits >> (16 - 8 * i));
    return count == 3 || (bits << (8 + 8 * count)) == 0;
}

bool bi_base64_read(const char *text, size_t length, void *data)
{
    unsigned char *bytes = data;
    size_t size;
    if (!bi_base64_size(text, length, &size))
        return false;
    for (; size > 0; text += 4) {
        size_t count = size < 3 ? size : 3;
        if (!read_group(text, count, bytes))
            return false;
        bytes += count;
        size -= count;
    }
    return true;
}
