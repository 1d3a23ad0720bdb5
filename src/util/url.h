/* SPDX-License-Identifier: MIT */
/*
 * url - "scheme:location?name=value&name=value", taken apart.
 *
 * Percent signs in names and values are decoded; the location is left as it is, because what it
 * means is the scheme's affair.
 */
#ifndef BI_URL_H
#define BI_URL_H

#include <stdbool.h>
#include <stddef.h>

#define BI_URL_MAX    4096
#define BI_URL_PARAMS 64

struct bi_url_param {
    const char *name;
    const char *value;
};

struct bi_url {
    char text[BI_URL_MAX]; /* everything below points in here */
    const char *scheme;
    const char *location;
    size_t param_count;
    struct bi_url_param params[BI_URL_PARAMS];
};

/* Decodes percent signs in place. False for one without two digits, or one that means NUL. */
bool bi_url_decode(char *text);

/* The URL of a path: the prefix, and the path with percent signs where it needs them. BI_URL_MAX
 * bytes; false when it is too long for that. */
bool bi_url_make(char *url, const char *prefix, const char *path);

/* A URL without its password or secret, for people and logs: BI_URL_MAX bytes. */
void bi_url_show(char *shown, const char *url);

/* Is there a password or secret in it, or a secret_file? */
bool bi_url_has_secret(const char *url);

/* A URL without its password or secret, which can still be opened where none is wanted: BI_URL_MAX
 * bytes. */
void bi_url_strip(char *stripped, const char *url);

/* Overwrites the password and the secret of every URL in a text, in place. */
void bi_url_blot(char *text);

/* False, with a reason that ends a sentence, if the text is no URL. */
bool bi_url_parse(struct bi_url *url, const char *text, const char **reason);

#endif
