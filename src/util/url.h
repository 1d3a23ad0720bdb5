/* SPDX-License-Identifier: MIT */
/*
 * url - parses "scheme:location?name=value&name=value", and removes secrets from such a text.
 *
 * Percent escapes in names and values are decoded. The location is not: its meaning depends on the
 * scheme.
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
    char text[BI_URL_MAX]; /* the pointers below point into it */
    const char *scheme;
    const char *location;
    size_t param_count;
    struct bi_url_param params[BI_URL_PARAMS];
};

/* Decodes percent escapes in place. False for an escape without two digits, or for NUL. */
bool bi_url_decode(char *text);

/* Writes the URL of a path: the prefix and the escaped path. url has BI_URL_MAX bytes; false
 * if it is too long. */
bool bi_url_from_path(char *url, const char *prefix, const char *path);

/* Returns the @ behind the secret of a server's location ("secret@host", "secret@unix:/path"); NULL
 * if it has no secret. A location that begins with "/" or "unix:/" is a path and may contain @. */
const char *bi_url_secret_end(const char *location, size_t size);

/* Copies a URL with *** for its password or secret, for messages and logs. out has BI_URL_MAX
 * bytes. */
void bi_url_redact(char *out, const char *url);

/* Whether the URL contains a password, a secret, or a secret_file. */
bool bi_url_has_secret(const char *url);

/* Copies a URL without its password or secret; the copy can be opened where none is required.
 * stripped has BI_URL_MAX bytes. */
void bi_url_strip_secret(char *stripped, const char *url);

/* Overwrites the password and the secret of the URL in a text, in place. */
void bi_url_mask_secret(char *text);

/* False, with a reason that completes the sentence "the URL ...", if the text is not a URL. */
bool bi_url_parse(struct bi_url *url, const char *text, const char **reason);

#endif
