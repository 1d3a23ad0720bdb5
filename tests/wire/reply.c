/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "reply.h"

#include <ctype.h>

#define LINES_MAX 4096

/* ---- taking ---- */

/* The size of what follows the first line, with its CRLF; 0: nothing does. */
static size_t following(const char *line)
{
    unsigned long long id = 0;
    unsigned long size = 0;
    if (sscanf(line, "OK %lu\r", &size) == 1 || sscanf(line, "FOUND %llu %lu\r", &id, &size) == 2 ||
        sscanf(line, "RESERVED %llu %lu\r", &id, &size) == 2 ||
        sscanf(line, "RESULT %llu %lu\r", &id, &size) == 2)
        return size + 2;
    return 0;
}

size_t reply_size(const char *data, size_t size)
{
    char line[256] = {0};
    const char *end = size > 0 ? memchr(data, '\n', size) : NULL;
    if (!end)
        return 0;
    size_t first = (size_t)(end - data) + 1;
    memcpy(line, data, first < sizeof line - 1 ? first : sizeof line - 1);
    size_t whole = first + following(line);
    return whole <= size ? whole : 0;
}

long reply_value(const char *data, size_t size, const char *key)
{
    char wanted[64];
    int wanted_size = snprintf(wanted, sizeof wanted, "\n%s: ", key);
    const char *found = memmem(data, size, wanted, (size_t)wanted_size);
    return found ? strtol(found + wanted_size, NULL, 10) : -1;
}

/* ---- writing plainly ---- */

static void add_job(struct bytes *out, const struct reply_names *names, uint64_t id)
{
    char text[32];
    for (size_t i = 0; i < names->count; i++) {
        if (names->ids[i] == id) {
            snprintf(text, sizeof text, "job%zu", i);
            bytes_text(out, text);
            return;
        }
    }
    snprintf(text, sizeof text, "id%llu", (unsigned long long)id);
    bytes_text(out, text);
}

static bool has_key(const char *line, size_t size, const char *key)
{
    size_t key_size = strlen(key);
    return size >= key_size && memcmp(line, key, key_size) == 0;
}

static bool has_one_of(const char *line, size_t size, const char *const *keys)
{
    for (; *keys; keys++)
        if (has_key(line, size, *keys))
            return true;
    return false;
}

static void add_without_quotes(struct bytes *out, const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != '"')
            bytes_add(out, line + i, 1);
}

/* One line of a YAML text, with its LF. is_job: in the figures of one job. */
static void add_yaml_line(struct bytes *out, const struct reply_names *names, const char *line,
                          size_t size, bool is_job)
{
    static const char *const own[] = {
        "pid: ",      "version: ", "rusage-",    "uptime: ",    "binlog-", "file: ",
        "hostname: ", "os: ",      "platform: ", "cmd-stats: ", NULL};
    if (has_key(line, size, "bide-version: "))
        return; /* beanstalkd has none */
    if (has_one_of(line, size, own)) {
        size_t key = (size_t)((const char *)memchr(line, ':', size) - line);
        bytes_add(out, line, key);
        bytes_text(out, ": (own)\n");
    } else if (has_key(line, size, "id: ")) {
        bytes_text(out, "id: ");
        if (is_job)
            add_job(out, names, strtoull(line + 4, NULL, 10));
        else
            bytes_text(out, "(own)");
        bytes_text(out, "\n");
    } else {
        add_without_quotes(out, line, size);
    }
}

static int by_line(const void *a, const void *b)
{
    const struct bytes *x = a;
    const struct bytes *y = b;
    size_t size = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->data, y->data, size);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

static void add_yaml(struct bytes *out, const struct reply_names *names, const char *data,
                     size_t size, char kind)
{
    static struct bytes lines[LINES_MAX];
    size_t count = 0;
    bool is_job = memmem(data, size, "\ntime-left: ", 12) != NULL;
    while (size > 0 && count < LINES_MAX) {
        const char *end = memchr(data, '\n', size);
        size_t line = end ? (size_t)(end - data) + 1 : size;
        add_yaml_line(&lines[count++], names, data, line, is_job);
        data += line;
        size -= line;
    }
    if (kind == 't' && count > 2)
        qsort(lines + 1, count - 2, sizeof lines[0], by_line);
    for (size_t i = 0; i < count; i++) {
        bytes_add(out, lines[i].data, lines[i].size);
        bytes_done(&lines[i]);
    }
}

void reply_plain(const char *data, size_t size, char kind, const struct reply_names *names,
                 struct bytes *out)
{
    const char *const numbered[] = {"INSERTED ", "RESERVED ", "FOUND ", NULL};
    size_t word = (size_t)((const char *)memchr(data, '\n', size) - data) + 1;
    size_t space = 0;
    while (space < word && data[space] != ' ')
        space++;
    if (has_key(data, size, "OK ")) {
        bytes_text(out, "OK\r\n");
        add_yaml(out, names, data + word, size - word, kind);
        return;
    }
    if (!has_one_of(data, size, numbered)) {
        bytes_add(out, data, size);
        return;
    }
    bytes_add(out, data, space + 1);
    add_job(out, names, strtoull(data + space + 1, NULL, 10));
    for (space++; isdigit((unsigned char)data[space]);)
        space++;
    bytes_add(out, data + space, size - space);
}

long reply_reserved(const struct bytes *plain)
{
    char text[64] = {0};
    long job = -1;
    memcpy(text, plain->data, plain->size < sizeof text - 1 ? plain->size : sizeof text - 1);
    return sscanf(text, "RESERVED job%ld ", &job) == 1 ? job : -1;
}

/* ---- comparing ---- */

static bool times_close(const char *left, const char *right, size_t key, uint64_t apart_s)
{
    long long x = strtoll(left + key, NULL, 10);
    long long y = strtoll(right + key, NULL, 10);
    return x <= y + (long long)apart_s && y <= x + (long long)apart_s;
}

static bool lines_same(const char *left, size_t left_size, const char *right, size_t right_size,
                       uint64_t apart_s)
{
    static const char *const times[] = {"age: ", "time-left: ", "pause-time-left: ", NULL};
    if (left_size == right_size && memcmp(left, right, left_size) == 0)
        return true;
    for (size_t i = 0; times[i]; i++)
        if (has_key(left, left_size, times[i]) && has_key(right, right_size, times[i]))
            return times_close(left, right, strlen(times[i]), apart_s);
    return false;
}

static size_t line_size(const struct bytes *bytes, size_t at)
{
    const char *end = memchr(bytes->data + at, '\n', bytes->size - at);
    return end ? (size_t)(end - bytes->data) + 1 - at : bytes->size - at;
}

bool reply_same(const struct bytes *left, const struct bytes *right, uint64_t apart_s)
{
    size_t at_left = 0;
    size_t at_right = 0;
    if (left->size == right->size && memcmp(left->data, right->data, left->size) == 0)
        return true;
    if (!has_key(left->data, left->size, "OK\r\n") || !has_key(right->data, right->size, "OK\r\n"))
        return false;
    while (at_left < left->size && at_right < right->size) {
        size_t size_left = line_size(left, at_left);
        size_t size_right = line_size(right, at_right);
        if (!lines_same(left->data + at_left, size_left, right->data + at_right, size_right,
                        apart_s))
            return false;
        at_left += size_left;
        at_right += size_right;
    }
    return at_left == left->size && at_right == right->size;
}
