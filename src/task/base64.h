/* SPDX-License-Identifier: MIT */
/*
 * base64 - bytes as text and back, by RFC 4648: the standard alphabet, padded, and nothing else.
 *
 * Reading is strict: line breaks, other alphabets, missing padding and bits behind the last byte
 * are refused. So every run of bytes has one text, and every text that is read is that one.
 */
#ifndef BI_BASE64_H
#define BI_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* How long the text of so many bytes is, without a NUL; SIZE_MAX when that cannot be counted. */
size_t bi_base64_text_size(size_t size);

/* Writes the text, without a NUL. */
void bi_base64_write(const void *data, size_t size, char *text);

/* How many bytes a text has, judged by its length and its end; false when it cannot be one. */
bool bi_base64_size(const char *text, size_t length, size_t *size);

/* Writes the bytes of a text whose size was asked for; false when it is not base64. */
bool bi_base64_read(const char *text, size_t length, void *data);

#endif
