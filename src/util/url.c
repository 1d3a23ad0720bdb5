/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memrchr, memmem */
#include "util/url.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool bi_url_decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from != 0; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }

        int high = hex_digit(from[1]);
        int low = high < 0 ? -1 : hex_digit(from[2]);
        /* A NUL would cut the text for every later reader. */
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high * 16 + low);
        from += 2;
    }

    *to = 0;
    return true;
}

static bool is_scheme(const char *scheme)
{
    if (*scheme == 0)
        return false;
    for (; *scheme != 0; scheme++)
        if (!((*scheme >= 'a' && *scheme <= 'z') || (*scheme >= '0' && *scheme <= '9') ||
              *scheme == '+' || *scheme == '-' || *scheme == '.'))
            return false;
    return true;
}

static bool add_param(struct bi_url *url, char *text, const char **reason)
{
    if (url->param_count == BI_URL_PARAMS) {
        *reason = "has too many parameters";
        return false;
    }

    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        *reason = "has a parameter that is not name=value";
        return false;
    }

    *equals = 0;
    if (!bi_url_decode(text) || !bi_url_decode(equals + 1)) {
        *reason = "has a percent sign without two hexadecimal digits, or %00";
        return false;
    }

    url->params[url->param_count++] = (struct bi_url_param){text, equals + 1};
    return true;
}

bool bi_url_parse(struct bi_url *url, const char *text, const char **reason)
{
    size_t size = strlen(text);
    url->param_count = 0;
    if (size >= BI_URL_MAX) {
        *reason = "is too long";
        return false;
    }

    /* The copy is split in place. */
    memcpy(url->text, text, size + 1);
    char *colon = strchr(url->text, ':');
    if (colon != NULL)
        *colon = 0;
    if (colon == NULL || !is_scheme(url->text)) {
        *reason = "does not begin with a scheme such as sqlite: or memory: (in small letters)";
        return false;
    }

    url->scheme = url->text;
    url->location = colon + 1;

    char *at = strchr(colon + 1, '?');
    while (at != NULL) {
        *at++ = 0;
        char *next = strchr(at, '&');
        if (next != NULL)
            *next = 0;
        /* An empty parameter, as in "?a=1&", is ignored. */
        if (*at != 0 && !add_param(url, at, reason))
            return false;
        at = next;
    }
    return true;
}

bool bi_url_from_path(char *url, const char *prefix, const char *path)
{
    size_t size = (size_t)snprintf(url, BI_URL_MAX, "%s", prefix);

    for (const char *at = path; *at != 0; at++) {
        bool special = strchr("?&%", *at) != NULL;
        /* An escape and the NUL. */
        if (size + 4 > BI_URL_MAX)
            return false;
        size += (size_t)snprintf(url + size, BI_URL_MAX - size, special ? "%%%02X" : "%c",
                                 (unsigned char)*at);
    }
    return true;
}

/* ---- secrets ---- */

/* Appends as much of the text as fits, and returns the new length. */
static size_t append(char *out, size_t used, const char *text, size_t size)
{
    size_t room = BI_URL_MAX - 1 - used;
    assert(used < BI_URL_MAX);
    if (size > room)
        size = room;
    memcpy(out + used, text, size);
    out[used + size] = 0;
    return used + size;
}

const char *bi_url_secret_end(const char *location, size_t size)
{
    static const char socket[] = "@unix:/";

    if (size > 0 && (location[0] == '/' || strncmp(location, "unix:/", strlen("unix:/")) == 0))
        return NULL;

    /* Only a path may contain an @ that is not escaped, so the secret ends before the first
     * "unix:/". Elsewhere it ends at the last @: a secret must not be shown in part. */
    const char *end = memmem(location, size, socket, strlen(socket));
    return end != NULL ? end : memrchr(location, '@', size);
}

/* Returns the start of the secret in "beanstalk://secret@host", and its end; NULL if there is none.
 * It is found in a wrong URL ("beanstalk::secret@host"), too: errors show such a URL. */
static const char *find_server_secret(const char *url, size_t size, const char **end)
{
    const char *location = url + strlen("beanstalk:");
    for (int i = 0; i < 2 && *location == '/'; i++)
        location++;

    *end = bi_url_secret_end(location, size - (size_t)(location - url));
    return *end == NULL ? NULL : location;
}

/* Returns the start of the secret in "user:secret@host", and its end; NULL if there is none. */
static const char *find_secret(const char *url, size_t size, const char **end)
{
    if (strncasecmp(url, "beanstalk:", strlen("beanstalk:")) == 0)
        return find_server_secret(url, size, end);

    const char *host = strstr(url, "://");
    /* A "://" behind the question mark belongs to a parameter. */
    if (host == NULL || (size_t)(host - url) + 3 > size)
        return NULL;

    host += 3;
    size_t left = strcspn(host, "/?");
    *end = memrchr(host, '@', left);
    const char *colon = memchr(host, ':', left);
    return *end == NULL || colon == NULL || colon > *end ? NULL : colon + 1;
}

static bool is_secret(const char *param, size_t size)
{
    static const char *const names[] = {"secret=", "password="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (size > strlen(names[i]) && strncmp(param, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Copies a URL with *** for its secrets or, without stars, without them and what names them. True
 * if it has any. */
static bool copy_url(char *out, const char *url, bool stars)
{
    size_t size = strcspn(url, "?"), used = 0;
    const char *end = NULL, *secret = find_secret(url, size, &end), *rest = url;
    bool found = secret != NULL;
    char separator = '?';

    if (secret != NULL) {
        /* "user:secret@host" retains the user; "secret@host" loses the @ as well. */
        bool drop_colon = !stars && secret[-1] == ':', drop_at = !stars && secret[-1] == '/';
        used = append(out, used, url, (size_t)(secret - url) - drop_colon);
        used = append(out, used, "***", stars ? 3 : 0);
        rest = end + drop_at;
    }
    used = append(out, used, rest, size - (size_t)(rest - url));

    for (const char *at = url + size; *at != 0; at += size) {
        at++;
        size = strcspn(at, "&");
        bool hidden = is_secret(at, size);
        found = found || hidden;
        if (hidden && !stars)
            continue;

        /* The first parameter that is left gets the question mark. */
        used = append(out, used, &separator, 1);
        used = append(out, used, at, hidden ? strcspn(at, "=") + 1 : size);
        used = append(out, used, "***", hidden ? 3 : 0);
        separator = '&';
    }
    return found;
}

void bi_url_redact(char *out, const char *url)
{
    copy_url(out, url, true);
}

void bi_url_strip_secret(char *stripped, const char *url)
{
    copy_url(stripped, url, false);
}

bool bi_url_has_secret(const char *url)
{
    char stripped[BI_URL_MAX];
    const char *query = url + strcspn(url, "?");

    return copy_url(stripped, url, false) || strstr(query, "&secret_file=") != NULL ||
           strncmp(query, "?secret_file=", strlen("?secret_file=")) == 0;
}

/* Finds the URL in an argument: before "://" only the letters of the scheme belong to it, not
 * a flag such as --url= or -u. */
static char *find_url(char *text)
{
    char *beanstalk = strstr(text, "beanstalk:"), *at = strstr(text, "://");

    if (beanstalk != NULL && (at == NULL || beanstalk < at))
        return beanstalk;
    while (at != NULL && at > text && at[-1] >= 'a' && at[-1] <= 'z')
        at--;
    return at;
}

void bi_url_mask_secret(char *text)
{
    char *url = find_url(text);
    if (url == NULL)
        return;
    size_t size = strcspn(url, "?");
    const char *end = NULL, *secret = find_secret(url, size, &end);

    if (secret != NULL)
        memset(url + (secret - url), '*', (size_t)(end - secret));

    for (char *at = url + size; *at != 0; at += size) {
        at++;
        size = strcspn(at, "&");
        size_t name = strcspn(at, "=") + 1;
        if (is_secret(at, size))
            memset(at + name, '*', size - name);
    }
}
