/* SPDX-License-Identifier: MIT */
/*
 * base64 - RFC 4648 with the standard alphabet and padding.
 *
 * Decoding is strict: it rejects line breaks, other alphabets, missing padding and bits behind the
 * last byte. So there is exactly one text for any bytes.
 */
#ifndef BI_BASE64_H
#define BI_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the text, without a NUL; SIZE_MAX on overflow. */
size_t bi_base64_encoded_size(size_t size);

/* Writes the text without a NUL. */
void bi_base64_encode(const void *data, size_t size, char *text);

/* The size of the bytes that the text encodes; false if its length is not that of base64. */
bool bi_base64_decoded_size(const char *text, size_t length, size_t *size);

/* Writes bi_base64_decoded_size() bytes; false if the text is not base64. */
bool bi_base64_decode(const char *text, size_t length, void *data);

#endif
