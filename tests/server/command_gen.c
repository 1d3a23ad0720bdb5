/* SPDX-License-Identifier: MIT */
#include "command_gen.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPARED_NEXT  10000
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* %n a number, %d a duration, %i an id, %t a tube, %b a size, perhaps options, and a body, %m
 * several jobs; %c an op with its arguments; %l the token of a lease that was heard of, and %j its
 * job. */
static const char *const commands[] = {
    "put %n %d %d %b",
    "put %n 0 60 %b",
    "put 0 %d 1 %b",
    "put 1 0 0 %b",
    "use %t",
    "watch %t",
    "ignore %t",
    "reserve",
    "delete %i",
    "delete %i",
    "reserve-with-timeout 0",
    "reserve-with-timeout %d",
    "reserve-job %i",
    "release %i %n %d",
    "release %i 0 0",
    "bury %i %n",
    "touch %i",
    "peek %i",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "kick %n",
    "kick-job %i",
    "stats",
    "stats-job %i",
    "stats-tube %t",
    "list-tubes",
    "list-tube-used",
    "pause-tube %t 0",
    "pause-tube %t %d",
    "list-tubes-watched",
    "quit",
    "result %i",
    "reserve-many %n %d",
    "reserve-many 5 0",
    "put-many %n %b",
    "finish-and-put %i %n %b",
    "finish-and-put %i %m",
    "fail %i %b",
    "done %i %b",
    "lease %i delete %i",
    "lease %i touch %i",
    "result %i %d",
    "lease %i done %i %b",
    "lease %i bury %i %n",
    "lease %i fail %i %b",
    "cancel %i",
    "update %i pri=%n",
    "update %i delay=%d",
    "update %i tube=%t ttr=%d",
    "auth %t",
    "list-jobs %t any %n",
    "list-jobs * any 10",
    "list-jobs %t ready %n text=%t",
    "put-many %m",
    "lease %l delete %j",
    "lease %l done %j %b",
    "lease %l finish-and-put %j %m",
    "lease %l release %j 0 0",
    "put-many %m",
    "lease %l touch %j",
    "lease %l fail %j %b",
    "lease %l bury %j 1",
    "result %j",
    "result %j 1ms",
    "done %i 1 retain=9\r\nx",
    "lease %l done %j 1 retain=9\r\nx",
    "call %n %n %b",
    "call 1 %c",
    "call 2 %c",
    "call 3 %c",
    "call 4 %c",
    "call-cancel 1",
    "call-cancel 2",
    "purge-tube %t ready",
    "purge-tube %t buried",
    "call-cancel %n",
    "topic-set %t concurrency=%n rate=%n",
    "topic-set %t concurrency=none rate=none max-jobs=none",
    "topic-set %t max-jobs=%n retries=%n backoff=%d,1 ttr=%d expires=%d",
    "topic-set %t period=%d burst=%n retain=%d retries=unlimited",
    "topic-get %t",
    "schedule-set 78\r\n{\"name\":\"a\",\"when\":\"every 1s\",\"topic\":\"a\",\"misfire\":\"all\",\"overlap\":\"replace\"}",
    "schedule-set 83\r\n{\"name\":\"b\",\"when\":\"* * * * * *\",\"topic\":\"b\",\"ttr\":\"1s\",\"key\":\"k\",\"overlap\":\"skip\"}",
    "schedule-set 44\r\n{\"name\":\"c\",\"when\":\"61 * * * *\",\"topic\":\"b\"}",
    "schedule-set %b",
    "schedule-get a",
    "schedule-get %t",
    "schedule-list %n",
    "schedule-list 10 cursor=%t",
    "schedule-remove a",
    "schedule-remove b",
    "schedule-pause a",
    "schedule-resume a",
    "schedule-run a",
    "schedule-run b",
    "schedule-next a %n",
    "schedule-next b 3",
};

static const char *const numbers[] = {
    "0",          "1",          "2",          "10",  "1000", "4294967295",           "4294967296",
    "2147483648", "1000000000", "4294967294", "-1",  "",     "18446744073709551615", "007",
    "0x10",       "65535",      "65536",      "1e3", "+1",   "18446744073709551616", "abc",
};
static const char *const durations[] = {
    "0",  "0",        "0",      "1",  "1",  "10", "250ms",      "1ms",        "1.5", "0.001", "5m",
    "1h", "9999999d", "1.2345", "1x", "ms", ".5", "4294967295", "4294967296", "-1",  "",
};
static const char *const tubes[] = {
    "default", "a", "b",   "c",       "a", "b",    "c", "tube-with.a/long;name+()$_",
    "-bad",    "",  "a b", "default", "*", "\xff",
};
static const char *const options[] = {
    " key=k%d",
    " key=k%d conflict=replace",
    " key=k%d conflict=skip",
    " tube=b%d",
    " end=release",
    " retries=%d",
    " retries=none backoff=none",
    " retain=none expires=none",
    " backoff=%d,100",
    " expires=%dms",
    " retain=%d",
    " hold=retained",
    " at=%d",
    " key=%%41%%00%d",
    " key=%%zz%d",
    " conflict=maybe",
    " unknown=%d",
    " =",
    " retry=%d",
    " retries=-%d",
    " key=",
};

/* ---- commands ---- */

void command_gen_add(struct stream *stream, const void *data, size_t size)
{
    size_t room = COMMAND_GEN_MAX - stream->size;
    size = size < room ? size : room;
    if (size > 0)
        memcpy(stream->data + stream->size, data, size);
    stream->size += size;
}

static void add_text(struct stream *stream, const char *text)
{
    command_gen_add(stream, text, strlen(text));
}

static const char *any(struct stream *stream, const char *const *list, size_t count)
{
    return list[rng_below(&stream->rng, count)];
}

static void add_number(struct stream *stream, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    add_text(stream, text);
}

static void add_id(struct stream *stream)
{
    uint64_t id = stream->recent - rng_below(&stream->rng, 200);
    add_number(stream, rng_one_in(&stream->rng, 20) ? rng_next(&stream->rng) : id);
}

static void add_noise(struct stream *stream, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char byte = (char)rng_below(&stream->rng, 256);
        command_gen_add(stream, &byte, 1);
    }
}

/* One in eight says another size than the body has. */
static void add_body(struct stream *stream)
{
    char text[64];
    size_t size = rng_below(&stream->rng, rng_one_in(&stream->rng, 10) ? 6000 : 40);
    size_t said = rng_one_in(&stream->rng, 8) ? rng_below(&stream->rng, 80) : size;
    snprintf(text, sizeof text, "%zu", said);
    add_text(stream, rng_one_in(&stream->rng, 30) ? any(stream, numbers, COUNT(numbers)) : text);
    while (rng_one_in(&stream->rng, 4)) {
        const char *option = any(stream, options, COUNT(options));
        for (; *option; option++) {
            if (option[0] == '%' && option[1] == 'd') {
                snprintf(text, sizeof text, "%d", (int)rng_below(&stream->rng, 50));
                add_text(stream, text);
                option++;
            } else {
                command_gen_add(stream, option, 1);
            }
        }
    }
    add_text(stream, "\r\n");
    add_noise(stream, size);
}

/* As many as it says, mostly. */
static void add_many(struct stream *stream)
{
    char text[64];
    uint64_t count = rng_below(&stream->rng, 6) + 1;
    size_t start = stream->size;
    for (uint64_t i = 0; i < count; i++) {
        add_text(stream, "1 0 60 ");
        add_body(stream);
        add_text(stream, "\r\n");
    }
    size_t size = stream->size - start;
    int used = snprintf(text, sizeof text, "%" PRIu64 " %zu\r\n",
                        rng_one_in(&stream->rng, 20) ? count + 1 : count, size);
    if (stream->size + (size_t)used > COMMAND_GEN_MAX)
        return;
    memmove(stream->data + start + used, stream->data + start, size);
    memcpy(stream->data + start, text, (size_t)used);
    stream->size += (size_t)used;
}

static void add_argument(struct stream *stream, char kind)
{
    switch (kind) {
    case 'j':
        add_number(stream, stream->lease_id);
        break;
    case 'l':
        add_number(stream, stream->lease_token);
        break;
    case 'c':
        command_gen_rpc(stream);
        break;
    case 'm':
        add_many(stream);
        break;
    case 'n':
        add_text(stream, any(stream, numbers, COUNT(numbers)));
        break;
    case 'd':
        add_text(stream, any(stream, durations, COUNT(durations)));
        break;
    case 't':
        add_text(stream, any(stream, tubes, COUNT(tubes)));
        break;
    case 'b':
        add_body(stream);
        break;
    default:
        add_id(stream);
        break;
    }
}

static void add_command(struct stream *stream)
{
    const char *command = any(stream, commands, COUNT(commands));
    for (; *command; command++) {
        if (*command == '%')
            add_argument(stream, *++command);
        else
            command_gen_add(stream, command, 1);
    }
    add_text(stream, rng_one_in(&stream->rng, 50) ? "\n" : "\r\n");
}

/* ---- changes ---- */

static void flip(struct stream *stream, size_t at, size_t length)
{
    (void)length;
    stream->data[at] ^= (char)(1 << rng_below(&stream->rng, 8));
}

static void scramble(struct stream *stream, size_t at, size_t length)
{
    for (size_t i = at; i < at + length; i++)
        stream->data[i] = (char)rng_below(&stream->rng, 256);
}

static void take_out(struct stream *stream, size_t at, size_t length)
{
    memmove(stream->data + at, stream->data + at + length, stream->size - at - length);
    stream->size -= length;
}

static void repeat(struct stream *stream, size_t at, size_t length)
{
    if (stream->size + length > COMMAND_GEN_MAX)
        return;
    memmove(stream->data + at + length, stream->data + at, stream->size - at);
    stream->size += length;
}

static void stretch(struct stream *stream, size_t at, size_t length)
{
    size_t more = length * 40;
    if (stream->size + more > COMMAND_GEN_MAX)
        return;
    memmove(stream->data + at + more, stream->data + at, stream->size - at);
    memset(stream->data + at, 'a', more);
    stream->size += more;
}

static void break_line(struct stream *stream, size_t at, size_t length)
{
    static const char *const breaks[] = {"\r\n", "\n", "\r", "\r\r\n", " \r\n", "\r\n\r\n"};
    const char *text = any(stream, breaks, COUNT(breaks));
    (void)length;
    if (at + strlen(text) <= stream->size)
        memcpy(stream->data + at, text, strlen(text));
}

static void cut_off(struct stream *stream, size_t at, size_t length)
{
    (void)length;
    stream->size = at + 1;
}

static void (*const changes[])(struct stream *, size_t, size_t) = {
    flip, flip, flip, scramble, take_out, repeat, stretch, break_line, cut_off,
};

static void change(struct stream *stream)
{
    size_t at = rng_below(&stream->rng, stream->size);
    size_t length = rng_below(&stream->rng, 40) + 1;
    if (length > stream->size - at)
        length = stream->size - at;
    changes[rng_below(&stream->rng, COUNT(changes))](stream, at, length);
    if (stream->size == 0)
        add_text(stream, "x");
}

/* ---- the filter ---- */

/* Those of jobs that stay, and those that the next jobs get. */
static bool is_spared(const struct stream *stream, uint64_t id)
{
    return (id >= stream->spared_first && id <= stream->spared_last) ||
           (id > stream->recent && id < stream->recent + SPARED_NEXT);
}

/* Zeros stand where a spared id stood. */
static void spare(struct stream *stream)
{
    for (size_t i = 0; i < stream->size; i++) {
        size_t first = i;
        uint64_t value = 0;
        while (i < stream->size && isdigit((unsigned char)stream->data[i]) && i - first < 18)
            value = value * 10 + (uint64_t)(stream->data[i++] - '0');
        if (i > first && is_spared(stream, value))
            memset(stream->data + first, '0', i - first);
    }
}

void command_gen_next(struct stream *stream)
{
    stream->size = 0;
    if (rng_one_in(&stream->rng, 10))
        add_noise(stream, rng_below(&stream->rng, 500) + 1);
    for (uint64_t i = rng_below(&stream->rng, 20) + 1; i > 0; i--)
        add_command(stream);
    if (rng_percent(&stream->rng, 75))
        for (uint64_t i = rng_below(&stream->rng, 8) + 1; i > 0; i--)
            change(stream);
    spare(stream);
}

/* ---- what was heard ---- */

/* The bytes behind a word, or NULL. */
static const char *behind(const char *data, const char *word)
{
    const char *found = strstr(data, word);
    return found ? found + strlen(word) : NULL;
}

void command_gen_learn(struct stream *stream, const char *data, size_t size)
{
    char text[4096];
    size = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    /* No job that comes later has an id as small as one that was given. */
    const char *number = behind(text, "INSERTED ");
    uint64_t id = number ? strtoull(number, NULL, 10) : 0;
    if (id > stream->recent)
        stream->recent = id;
    number = behind(text, "RESERVED_MANY ");
    const char *line = number ? behind(number, "\r\n") : NULL;
    char *rest = NULL;
    if (line) {
        stream->lease_id = strtoull(line, &rest, 10);
        stream->lease_token = strtoull(rest, NULL, 10);
    }
}
